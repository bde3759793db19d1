/* ctest: threads slow */
/* KERN_LSTM, KERN_GRU, KERN_RNN: what the operators' cases cannot reach. A sequence has the same bits alone, where its
 * inputs' sums are made in pieces, as in a batch of any size, and on any number of threads; whatever stands behind its
 * length.
 */
#include "kernels/run_kernel.h"

#include "kernels/products/recurrent.h"

#include <math.h>

/* What takes minutes under the thread sanitizer on more threads than cores: steps shared, and multiplications by r. */
enum { MANY_STEPS = 24, MUCH_WORK = 1 << 18 };
enum { BATCH = 8, X = 0, W = 1, R = 2, BIAS = 3, H0 = 4, LENGTHS = 6 };

typedef struct shape {
  int64_t time, input, hidden, directions;
  bool reverse, bias, lengths;
} shape;

/* Around the chunks of steps and the turns of inputs, whole and partial panels, odd numbers of them, k longer in
 * either product. */
static const shape shapes[] = {
    {15, 3, 5, 1, false, true, false},  {16, 16, 16, 1, true, true, false}, {17, 40, 33, 2, false, true, false},
    {23, 1, 64, 1, false, true, false}, {24, 64, 7, 1, true, false, false}, {33, 20, 70, 2, false, true, false},
    {40, 0, 24, 1, true, true, false},  {1, 9, 40, 1, false, true, false},  {23, 5, 20, 2, false, true, true},
    {37, 4, 33, 1, true, true, true},   {19, 3, 16, 1, false, true, true},  {70, 21, 130, 1, false, true, false},
    {83, 2, 150, 1, true, true, true},  {21, 6, 270, 1, false, true, false}};
enum { SHAPES = sizeof shapes / sizeof *shapes };

typedef struct layer {
  run_kernel k;
  base_arena *arena;
  float *x, *w, *r, *bias, *y;
  uint16_t *tiles;
  int64_t input, lengths[BATCH];
  int64_t x_each, y_each; /* floats of a sequence */
} layer;

static float *packed(layer *l, uint32_t operand, size_t count) {
  const int64_t elements = (int64_t)count;
  float *data = run_floats(elements, operand + 1);
  for (int64_t i = 0; i < elements; i++) data[i] *= 0.25f;
  l->k.in[operand] = base_tensor_of(data, TD_F32, 1, &elements);
  return data;
}

/* r as tiles. */
static void narrow_states(layer *l, const kern_recurrent *packing) {
  size_t count;
  assert_true(kern_recurrent_tile_count(packing, packing->hidden, &count));
  l->tiles = malloc(count * sizeof *l->tiles);
  assert_non_null(l->tiles);
  kern_recurrent_narrow(l->tiles, packing, packing->hidden, l->r);
  l->k.in[R] = base_tensor_of(l->tiles, TD_BF16, 1, &(int64_t){(int64_t)count});
}

/* Where r is tiles, x is the sums of its inputs. */
/* `option`: the relu of a plain layer, the form of a GRU, states of 8 bits of an LSTM. */
static layer make_layer(const kern_row *row, td_dtype r_type, const shape *s, int64_t gates, bool option) {
  const int64_t panel = row->lanes * (gates == 1 ? KERN_PLAIN_VECTORS : 1);
  const base_arg args[] = {ARG_INT("hidden", s->hidden),
                           ARG_INT("panel", panel),
                           ARG_INT("directions", s->directions),
                           ARG_BOOL("reverse", s->reverse),
                           ARG_BOOL("batch_first", true),
                           ARG_BOOL(gates == 1   ? "relu"
                                    : gates == 3 ? "linear_before_reset"
                                                 : "quantise",
                                    option)};
  const kern_recurrent packing = {s->directions, gates, s->hidden, panel};
  const bool tiles = r_type == TD_BF16;
  const int64_t input = tiles ? kern_recurrent_columns(&packing) : s->input;
  layer l = {.arena = base_arena_new(&base_libc_allocator),
             .input = input,
             .x_each = s->time * input,
             .y_each = s->time * s->directions * s->hidden};
  size_t w = 0, r = 0, bias = 0;
  assert_true(kern_recurrent_count(&packing, s->input, &w) && kern_recurrent_count(&packing, s->hidden, &r) &&
              kern_recurrent_bias_count(&packing, &bias));
  l.k = (run_kernel){.row = row, .attrs = base_attrs_make(l.arena, args, 6)};
  l.x = run_floats(BATCH * l.x_each, 7);
  l.y = run_floats(BATCH * l.y_each, 8);
  if (!tiles) l.w = packed(&l, W, w);
  l.r = packed(&l, R, r);
  if (tiles) narrow_states(&l, &packing);
  if (s->bias && (gates == 3 || !tiles)) l.bias = packed(&l, BIAS, bias);
  return l;
}

static void free_layer(layer *l) {
  base_arena_free(l->arena);
  float *const owned[] = {l->x, l->w, l->r, l->bias, l->y};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  free(l->tiles);
}

/* Some as long as the layer, one empty; what is behind them is no number. */
static void set_lengths(layer *l, const shape *s) {
  for (int64_t b = 0; b < BATCH; b++) {
    l->lengths[b] = b % 3 == 1 ? s->time : b * s->time / BATCH;
    for (int64_t i = l->lengths[b] * l->input; i < l->x_each; i++) l->x[b * l->x_each + i] = NAN;
  }
}

/* Sequences [first, first + count) into `y`. */
static void run_sequences(layer *l, const shape *s, int64_t first, int64_t count, float *y, uint32_t workers) {
  l->k.in[X] = base_tensor_of(l->x + first * l->x_each, TD_F32, 3, (int64_t[]){count, s->time, l->input});
  if (s->lengths) l->k.in[LENGTHS] = base_tensor_of(l->lengths + first, TD_I64, 1, &count);
  l->k.out = base_tensor_of(y, TD_F32, 4, (int64_t[]){count, s->time, s->directions, s->hidden});
  run_kernel_on(&l->k, workers);
}

/* The first `count` sequences into l->y on one thread; the bytes of a sequence. */
static size_t run_first(layer *l, const shape *s, int64_t count) {
  if (s->lengths) set_lengths(l, s);
  run_sequences(l, s, 0, count, l->y, 1);
  for (int64_t i = 0; i < count * l->y_each; i++) assert_true(l->y[i] == l->y[i]);
  return (size_t)l->y_each * sizeof *l->y;
}

static void check_neighbours(layer *l, const shape *s) {
  float *y = run_floats(BATCH * l->y_each, 9);
  const size_t each = run_first(l, s, BATCH);
  for (int64_t count = 1; count < BATCH; count++) {
    run_sequences(l, s, 1, count, y, 1);
    assert_memory_equal(l->y + l->y_each, y, (size_t)count * each);
  }
  free(y);
}

static void check_workers(layer *l, const shape *s) {
  float *y = run_floats(BATCH * l->y_each, 9);
  const bool few = s->time > MANY_STEPS || s->time * s->hidden * s->hidden > MUCH_WORK;
  const int64_t batch = few ? 2 : BATCH;
  const size_t each = run_first(l, s, batch);
  for (uint32_t workers = 2; workers <= (few ? 2 : RUN_WORKERS); workers++) {
    run_sequences(l, s, 0, batch, y, workers);
    assert_memory_equal(l->y, y, (size_t)batch * each);
    const int64_t count = workers - 1; /* fewer blocks than workers, who share their steps */
    run_sequences(l, s, 1, count, y, workers);
    assert_memory_equal(l->y + l->y_each, y, (size_t)count * each);
  }
  free(y);
}

typedef void (*check_fn)(layer *l, const shape *s);

static void check_family(kern_family family, td_dtype r_type, int64_t gates, bool option, check_fn check) {
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count * SHAPES; i++) {
    const bool here = run_row(family, i / SHAPES) != NULL;
    const kern_row *row = here ? kern_select(family, r_type, levels[i / SHAPES].isa) : NULL;
    if (!row) continue;
    const shape *s = &shapes[i % SHAPES];
    layer l = make_layer(row, r_type, s, gates, option);
    check(&l, s);
    free_layer(&l);
  }
}

static void check_families(check_fn check) {
  check_family(KERN_LSTM, TD_F32, 4, false, check);
  check_family(KERN_LSTM, TD_F32, 4, true, check);
  check_family(KERN_LSTM, TD_BF16, 4, false, check);
  check_family(KERN_GRU, TD_F32, 3, false, check);
  check_family(KERN_GRU, TD_F32, 3, true, check);
  check_family(KERN_GRU, TD_BF16, 3, true, check);
  check_family(KERN_RNN, TD_F32, 1, false, check);
  check_family(KERN_RNN, TD_F32, 1, true, check);
}

static void sequences_do_not_see_their_neighbours(void **state) {
  (void)state;
  check_families(check_neighbours);
}

static void workers_share_sequences_and_steps(void **state) {
  (void)state;
  check_families(check_workers);
}

/* Sums that are infinite make gates of 0 and 1: a state that is none of a unit is one again. */
static void infinite_states_become_finite(void **state) {
  (void)state;
  uint32_t count;
  const kern_level *levels = kern_levels(&count);
  const td_dtype types[] = {TD_F32, TD_BF16};
  const shape s = {.time = 3, .input = 5, .hidden = 40, .directions = 1};
  for (uint32_t i = 0; i < 2 * count; i++) {
    const kern_row *row = run_row(KERN_LSTM, i / 2) ? kern_select(KERN_LSTM, types[i % 2], levels[i / 2].isa) : NULL;
    if (!row) continue;
    layer l = make_layer(row, types[i % 2], &s, 4, false);
    float *h0 = run_floats(s.hidden, 11);
    h0[7] = INFINITY;
    l.k.in[H0] = base_tensor_of(h0, TD_F32, 3, (int64_t[]){1, 1, s.hidden});
    run_sequences(&l, &s, 0, 1, l.y, 1);
    for (int64_t k = 0; k < l.y_each; k++)
      if (!isfinite(l.y[k])) fail_msg("%s: state %d is %g", row->name, (int)k, (double)l.y[k]);
    free(h0);
    free_layer(&l);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sequences_do_not_see_their_neighbours),
      cmocka_unit_test(workers_share_sequences_and_steps),
      cmocka_unit_test(infinite_states_become_finite),
  };
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
