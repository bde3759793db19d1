/* kern_packing: what each level packs is bit by bit what the plain functions do, of weights at odd addresses. */
#include "kernels/products/packing.h"
#include "kernels/run_kernel.h"

enum { GUARD = 64 };

/* Noise at an odd address, within *owner, which is to be freed. */
static const float *odd_floats(int64_t count, char **owner) {
  float *plain = run_floats(count + 1, 7);
  *owner = malloc((size_t)count * sizeof *plain + 1);
  assert_non_null(*owner);
  for (int64_t i = 0; i < count; i += 5) plain[i] *= 0x1p-130F; /* subnormal, which no packed weight is */
  memcpy(*owner + 1, plain, (size_t)count * sizeof *plain);
  free(plain);
  return (const float *)(const void *)(*owner + 1);
}

/* Two results of `count` floats that begin alike, aligned, with a guard behind them. */
typedef struct pair {
  float *wanted, *given;
  size_t bytes;
} pair;

static pair make_pair(int64_t count) {
  pair p = {.bytes = ((size_t)count * sizeof(float) + GUARD + 63) / 64 * 64};
  p.wanted = aligned_alloc(64, p.bytes);
  p.given = aligned_alloc(64, p.bytes);
  assert_true(p.wanted && p.given);
  memset(p.wanted, 0x5a, p.bytes);
  memset(p.given, 0x5a, p.bytes);
  return p;
}

static void compare(pair *p, const char *level, const char *what, int64_t number) {
  if (memcmp(p->wanted, p->given, p->bytes) != 0) fail_msg("%s: %s %d differs", level, what, (int)number);
  free(p->wanted);
  free(p->given);
}

typedef void check_level(const kern_packing *by, const char *level, int64_t panel);

static void on_levels(check_level *check) {
  sys_machine machine;
  uint32_t count;
  sys_cpu_read(&machine);
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++) {
    if (base_isa_lacks(machine.isa, levels[i].isa)) continue;
    const kern_row *row = kern_select(KERN_LINEAR, TD_F32, levels[i].isa);
    check(kern_packing_of(levels[i].isa), levels[i].name, row ? row->lanes : 1);
    check(kern_packing_of(levels[i].isa), levels[i].name, 5); /* another level's */
  }
}

/* ---- matrices ---- */

static void check_matrices(const kern_packing *by, const char *level, int64_t panel) {
  static const int64_t sizes[][2] = {{1, 1}, {3, 7}, {16, 16}, {17, 33}, {31, 8}, {64, 47}, {600, 449}, {0, 9}};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int64_t form = 0; form < 6; form++) {
      const int64_t k = sizes[s][0], n = sizes[s][1], strides[][2] = {{n + 2, 1}, {1, k + 3}, {2, 2 * k + 1}};
      char *owner, *scale_owner;
      size_t count;
      const float *w = odd_floats(3 * (k + 3) * (n + 3), &owner), *scale = odd_floats(n, &scale_owner);
      const kern_matrix m = {w, k, n, strides[form % 3][0], strides[form % 3][1]};
      const int64_t panels = (n + panel - 1) / panel;
      assert_true(kern_pack_count(k, n, panel, &count));
      pair p = make_pair((int64_t)count);
      kern_pack(p.wanted, &m, form < 3 ? NULL : scale, panel, 0, panels);
      by->matrix(p.given, &m, form < 3 ? NULL : scale, panel, panels / 2, panels);
      by->matrix(p.given, &m, form < 3 ? NULL : scale, panel, 0, panels / 2);
      compare(&p, level, "matrix", (int64_t)s * 10 + form);
      free(owner);
      free(scale_owner);
    }
}

static void matrices(void **state) {
  (void)state;
  on_levels(check_matrices);
}

/* ---- convolutions ---- */

typedef struct window {
  int64_t groups, out, in, kernel[2];
  bool transposed, channels_last;
} window;

/* [channels, channels in, height, width], dense or with the channels in last. */
static base_tensor weights_of(const float *data, const int64_t *dims, bool channels_last) {
  base_tensor w = base_tensor_of((void *)(uintptr_t)data, TD_F32, 4, dims);
  if (!channels_last) return w;
  w.strides[1] = 1;
  w.strides[3] = dims[1];
  w.strides[2] = dims[1] * dims[3];
  return w;
}

static void check_windows(const kern_packing *by, const char *level, int64_t panel) {
  static const window windows[] = {{1, 1, 1, {1, 1}, 0, 0},    {1, 16, 16, {1, 1}, 0, 0}, {1, 33, 19, {1, 1}, 0, 0},
                                   {1, 24, 5, {3, 3}, 0, 0},   {1, 47, 18, {3, 3}, 0, 0}, {3, 51, 4, {1, 5}, 0, 0},
                                   {4, 8, 2, {3, 3}, 0, 0},    {16, 64, 4, {3, 3}, 0, 0}, {1, 20, 12, {3, 3}, 0, 1},
                                   {1, 40, 3, {7, 7}, 0, 0},   {2, 26, 6, {2, 2}, 1, 0},  {8, 8, 1, {3, 3}, 0, 0},
                                   {1, 16, 100, {1, 1}, 0, 1}, {2, 34, 17, {1, 3}, 0, 0}};
  for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
    const window *v = &windows[i];
    const int64_t dims[] = {v->transposed ? v->in * v->groups : v->out, v->transposed ? v->out / v->groups : v->in,
                            v->kernel[0], v->kernel[1]};
    const int64_t taps = v->kernel[0] * v->kernel[1];
    char *owner, *scale_owner;
    int64_t count;
    const float *data = odd_floats(dims[0] * dims[1] * taps, &owner), *scale = odd_floats(v->out, &scale_owner);
    const base_tensor w = weights_of(data, dims, v->channels_last);
    assert_true(kern_conv_packed_size(v->transposed, v->groups, v->out / v->groups, taps, v->in, panel, &count));
    for (int scaled = 0; scaled < 2 - v->transposed; scaled++) {
      pair p = make_pair(count);
      kern_pack_conv(&w, scaled ? scale : NULL, v->transposed, v->groups, panel, p.wanted);
      by->conv(&w, scaled ? scale : NULL, v->transposed, v->groups, panel, p.given);
      compare(&p, level, "convolution", (int64_t)i);
    }
    free(owner);
    free(scale_owner);
  }
}

static void convolutions(void **state) {
  (void)state;
  on_levels(check_windows);
}

static void check_winograd(const kern_packing *by, const char *level, int64_t panel) {
  static const int64_t sizes[][4] = {{1, 1, 1},     {16, 16, 1},    {19, 17, 1},    {40, 33, 1},
                                     {17, 5, 3},    {32, 16, 2},    {48, 16, 1, 3}, {60, 7, 1, 3},
                                     {42, 3, 2, 2}, {64, 4, 1, 16}, {64, 2, 2, 8}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int64_t form = 0; form < 4; form++) {
      const int64_t out = sizes[i][0], in = sizes[i][1], depth = sizes[i][2], tile = form % 2 ? 4 : 2;
      const int64_t groups = base_max_i64(sizes[i][3], 1);
      const int64_t volume[] = {out, in, depth, 3, 3}, image[] = {out, in, 3, 3};
      char *owner, *scale_owner;
      int64_t count;
      const float *data = odd_floats(out * in * depth * 9, &owner), *scale = odd_floats(out, &scale_owner);
      base_tensor w = weights_of(data, image, false);
      if (depth > 1) w = base_tensor_of((void *)(uintptr_t)data, TD_F32, 5, volume);
      assert_true(kern_winograd_packed_size(tile, groups, out / groups, in * depth, panel, &count));
      pair p = make_pair(count);
      kern_pack_winograd(&w, form < 2 ? NULL : scale, groups, tile, panel, p.wanted);
      by->winograd(&w, form < 2 ? NULL : scale, groups, tile, panel, p.given);
      compare(&p, level, "Winograd's", (int64_t)i * 10 + form);
      free(owner);
      free(scale_owner);
    }
}

static void winograd(void **state) {
  (void)state;
  on_levels(check_winograd);
}

/* Panels are whole; of nothing there are none. */
static void counts(void **state) {
  (void)state;
  static const struct {
    int64_t k, n;
    bool fits;
    size_t count;
  } cases[] = {{3, 16, true, 48}, {3, 17, true, 96}, {0, 5, true, 0},          {5, 0, true, 0},
               {-1, 5, false, 0}, {5, -1, false, 0}, {1, INT64_MAX, false, 0}, {INT64_MAX, 1, false, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t count = SIZE_MAX;
    assert_int_equal(kern_pack_count(cases[i].k, cases[i].n, 16, &count), cases[i].fits);
    if (cases[i].fits) assert_int_equal(count, cases[i].count);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(matrices), cmocka_unit_test(convolutions),
                                     cmocka_unit_test(winograd), cmocka_unit_test(counts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
