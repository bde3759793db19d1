/* KERN_CONV on bf16, and with that the sizes of its tiles: small whole numbers, whose sums are exact in any order, so
 * that a result is the one of the definition, rounded once where it is bf16. */
#include "kernels/run_kernel.h"

#include "kernels/products/conv.h"
#include "kernels/products/pack.h"

typedef struct problem {
  int64_t height, width, in, out, kernel;
} problem;

/* Of operands and results; f32 where not. */
typedef struct narrow {
  bool x, residual, y, late;
} narrow;

static const problem problems[] = {
    {1, 1, 32, 16, 1},   {1, 2, 32, 48, 1},  {1, 3, 33, 64, 1},   {2, 2, 32, 80, 1},  {1, 5, 32, 64, 1},
    {1, 7, 32, 48, 1},   {3, 3, 40, 40, 1},  {2, 11, 32, 24, 1},  {5, 5, 32, 72, 1},  {4, 9, 34, 104, 1},
    {7, 7, 32, 130, 1},  {6, 13, 20, 16, 3}, {9, 8, 16, 12, 3},   {14, 14, 8, 33, 5}, {1, 90, 48, 64, 1},
    {5, 6, 1100, 64, 3}, {1, 40, 300, 8, 1}, {12, 12, 64, 200, 1}}; /* one is deep enough for slices of its taps */
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* A whole number from -limit to limit. */
static float whole(int64_t i, int64_t step, int64_t limit) { return (float)(i * step % (2 * limit + 1) - limit); }

/* Whole numbers as bf16, or as they are. */
static void *numbers(int64_t count, int64_t step, int64_t limit, bool halved) {
  uint16_t *halves = malloc((size_t)count * sizeof(float) + 1);
  float *floats = (float *)(void *)halves;
  assert_non_null(halves);
  for (int64_t i = 0; i < count; i++) {
    if (halved) halves[i] = base_f32_to_bf16(whole(i, step, limit));
    else floats[i] = whole(i, step, limit);
  }
  return halves;
}

static float number_at(const void *from, int64_t i, bool halved) {
  return halved ? base_bf16_to_f32(((const uint16_t *)from)[i]) : ((const float *)from)[i];
}

/* Panels of all taps, of each some pairs of channels. */
static uint16_t *packed_weights(const problem *p, int64_t lanes, int64_t *count) {
  const int64_t taps = p->kernel * p->kernel, stored = kern_pairs_depth(p->in), panels = (p->out + lanes - 1) / lanes;
  *count = panels * taps * stored * lanes;
  uint16_t *to = calloc((size_t)*count, sizeof *to);
  assert_non_null(to);
  for (int64_t m = 0; m < p->out; m++)
    for (int64_t tap = 0; tap < taps; tap++)
      for (int64_t k = 0; k < p->in; k++) {
        const int64_t pair = (m / lanes * taps + tap) * stored / 2 + k / 2;
        to[(pair * lanes + m % lanes) * 2 + k % 2] = base_f32_to_bf16(whole((m * p->in + k) * taps + tap, 5, 3));
      }
  return to;
}

/* Without the residual and the activation. */
static float sum_of(const problem *p, const void *x, bool halved, int64_t pixel, int64_t m) {
  const int64_t taps = p->kernel * p->kernel, before = p->kernel / 2;
  float sum = whole(m, 1, 4);
  for (int64_t tap = 0; tap < taps; tap++) {
    const int64_t row = pixel / p->width + tap / p->kernel - before,
                  column = pixel % p->width + tap % p->kernel - before;
    if (row < 0 || row >= p->height || column < 0 || column >= p->width) continue;
    for (int64_t k = 0; k < p->in; k++)
      sum += number_at(x, (row * p->width + column) * p->in + k, halved) * whole((m * p->in + k) * taps + tap, 5, 3);
  }
  return sum;
}

static float relu(float x) { return x > 0 ? x : 0; }

static void check(const kern_row *row, const problem *p, narrow n) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const int64_t pixels = p->height * p->width, sizes[] = {p->kernel, p->kernel}, before = p->kernel / 2;
  const int64_t padding[] = {before, before, before, before}, x_dims[] = {1, p->height, p->width, p->in},
                y_dims[] = {1, p->height, p->width, p->out}, ones[] = {1, 1};
  const base_arg args[] = {ARG_INTS("kernel", sizes, 2),
                           ARG_INTS("stride", ones, 2),
                           ARG_INTS("padding", padding, 4),
                           ARG_INTS("dilation", ones, 2),
                           ARG_INT("groups", 1),
                           ARG_INT("channels", p->out),
                           ARG_INT("panel", row->lanes),
                           ARG_BOOL("channels_first", false),
                           ARG_STR("act", "relu"),
                           ARG_FLOAT("act_a", 0),
                           ARG_FLOAT("act_b", 0),
                           ARG_BOOL("act_late", n.late),
                           {.name = "result"},
                           ARG_BOOL("in_front", 0),
                           ARG_INTS("chain", NULL, 0)};
  int64_t count;
  void *x = numbers(pixels * p->in, 7, 4, n.x), *residual = numbers(pixels * p->out, 3, 50, n.residual);
  void *bias = numbers(p->out, 1, 4, false), *y = numbers(pixels * p->out, 1, 1, n.y);
  uint16_t *w = packed_weights(p, row->lanes, &count);
  run_kernel k = {.row = row, .attrs = base_attrs_make(arena, args, 15)};
  k.out = base_tensor_of(y, n.y ? TD_BF16 : TD_F32, 4, y_dims);
  k.in[0] = base_tensor_of(x, n.x ? TD_BF16 : TD_F32, 4, x_dims);
  k.in[1] = base_tensor_of(w, TD_BF16, 1, &count);
  k.in[KERN_IN_BIAS] = base_tensor_of(bias, TD_F32, 1, &p->out);
  k.in[KERN_IN_RESIDUAL] = base_tensor_of(residual, n.residual ? TD_BF16 : TD_F32, 4, y_dims);
  run_kernel_on(&k, 1);
  for (int64_t i = 0; i < pixels * p->out; i++) {
    const float sum = sum_of(p, x, n.x, i / p->out, i % p->out), more = number_at(residual, i, n.residual);
    const float exact = n.late ? relu(sum + more) : relu(sum) + more;
    const float expected = n.y ? base_bf16_to_f32(base_f32_to_bf16(exact)) : exact, got = number_at(y, i, n.y);
    if (got != expected)
      fail_msg("%s, %d: [%d] is %g, not %g", row->name, (int)(p - problems), (int)i, (double)got, (double)expected);
  }
  void *const owned[] = {x, residual, bias, y, w};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
  base_arena_free(arena);
}

static void results_are_those_of_the_definition(void **state) {
  static const narrow forms[] = {
      {false, false, false, false}, {true, false, true, true}, {true, true, true, false}, {true, true, false, true}};
  sys_machine machine;
  uint32_t levels;
  const kern_level *level = kern_levels(&levels);
  (void)state;
  sys_machine_read(&machine);
  for (uint32_t i = 0; i < levels; i++) {
    const bool runs = !base_isa_lacks(machine.isa, level[i].isa);
    const kern_row *row = runs ? kern_select(KERN_CONV, TD_BF16, level[i].isa) : NULL;
    if (!row || kern_takes_tiles(row)) continue;
    for (size_t p = 0; p < PROBLEMS; p++)
      for (size_t f = 0; f < sizeof forms / sizeof *forms; f++) check(row, &problems[p], forms[f]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results_are_those_of_the_definition)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
