/* ctest: threads */
/* KERN_LINEAR, KERN_MATMUL, KERN_GEMM and packed weights: what the operators' cases cannot reach. Rows do not see their
 * neighbours, workers change nothing, operands lie where they like. */
#include "kernels/run_kernel.h"

#include <math.h>

#include "kernels/products/pack.h"

enum { LINEAR_ATTRS = 11 };

typedef struct layer {
  run_kernel k;
  base_arena *arena;
  float *x, *w, *packed, *bias, *residual, *y;
} layer;

static layer make_layer(const kern_row *row, int64_t m, int64_t k, int64_t n, const char *act) {
  layer l = {.arena = base_arena_new(&base_libc_allocator)};
  const base_arg args[LINEAR_ATTRS] = {ARG_BOOL("trans_w", 0),  ARG_INT("n", n),           ARG_INT("panel", row->lanes),
                                       ARG_BOOL("strassen", 0), ARG_STR("act", act),       ARG_FLOAT("act_a", 0.5),
                                       ARG_FLOAT("act_b", 1),   ARG_BOOL("act_late", 1),   {.name = "result"},
                                       ARG_BOOL("in_front", 0), ARG_INTS("chain", NULL, 0)};
  const int64_t x[] = {m, k}, y[] = {m, n};
  size_t count;
  assert_true(kern_pack_count(k, n, row->lanes, &count));
  const int64_t packed = (int64_t)count;
  l.x = run_floats(m * k, 1);
  l.w = run_floats(k * n, 2);
  l.bias = run_floats(n, 3);
  l.residual = run_floats(m * n, 4);
  l.y = run_floats(m * n, 5);
  l.packed = run_floats(packed, 6);
  kern_pack(l.packed, &(kern_matrix){l.w, k, n, n, 1}, NULL, row->lanes, 0, (n + row->lanes - 1) / row->lanes);
  l.k = (run_kernel){
      .row = row, .attrs = base_attrs_make(l.arena, args, LINEAR_ATTRS), .out = base_tensor_of(l.y, TD_F32, 2, y)};
  l.k.in[0] = base_tensor_of(l.x, TD_F32, 2, x);
  l.k.in[1] = base_tensor_of(l.packed, TD_F32, 1, &packed);
  l.k.in[KERN_IN_BIAS] = base_tensor_of(l.bias, TD_F32, 1, &n);
  l.k.in[KERN_IN_RESIDUAL] = base_tensor_of(l.residual, TD_F32, 2, y);
  return l;
}

static void free_layer(layer *l) {
  base_arena_free(l->arena);
  float *const owned[] = {l->x, l->w, l->packed, l->bias, l->residual, l->y};
  for (size_t i = 0; i < sizeof owned / sizeof *owned; i++) free(owned[i]);
}

/* Around the tiles, and cut along k (the last). */
static const struct {
  int64_t k, n;
  const char *act;
} weights[] = {{3, 1, "none"},    {17, 24, "relu"},   {40, 100, "gelu"}, {96, 2, "gelu"},
               {160, 3, "clamp"}, {33, 257, "clamp"}, {2100, 70, "relu"}};
enum { WEIGHTS = sizeof weights / sizeof *weights, ROWS = 75 };

static void rows_do_not_see_their_neighbours(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels * WEIGHTS; i++) {
    const kern_row *row = run_row(KERN_LINEAR, i / WEIGHTS);
    if (!row) continue;
    int64_t k = weights[i % WEIGHTS].k, n = weights[i % WEIGHTS].n;
    layer l = make_layer(row, ROWS, k, n, weights[i % WEIGHTS].act);
    run_kernel_on(&l.k, 1);
    float *some = run_floats(ROWS * n, 7);
    for (int64_t m = 1; m <= 26; m++) { /* every number of rows a tile can have, from every place */
      int64_t first = m * 7 % (ROWS - m);
      run_kernel part = l.k;
      part.out.data = some;
      part.in[0].data = l.x + first * k;
      part.in[KERN_IN_RESIDUAL].data = l.residual + first * n;
      part.in[0].dims[0] = part.out.dims[0] = part.in[KERN_IN_RESIDUAL].dims[0] = m;
      run_kernel_on(&part, 1);
      if (memcmp(some, l.y + first * n, (size_t)(m * n) * sizeof *some) != 0)
        fail_msg("%s: %d rows of %d x %d differ", row->name, (int)m, (int)k, (int)n);
    }
    free(some);
    free_layer(&l);
  }
}

static void workers_change_nothing(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels; i++) {
    const kern_row *row = run_row(KERN_LINEAR, i);
    if (!row) continue;
    layer l = make_layer(row, 130, 96, 300, "silu");
    run_kernel_on(&l.k, 1);
    run_expect_any_workers(&l.k);
    free_layer(&l);
  }
}

/* Rows a pitch apart give the bits of dense ones, and nothing between rows of the output is touched. */
static void rows_can_have_a_pitch(void **state) {
  (void)state;
  enum { M = 29, K = 21, N = 37, PITCH = 50 };
  uint32_t levels;
  kern_levels(&levels);
  for (uint32_t i = 0; i < levels; i++) {
    const kern_row *row = run_row(KERN_LINEAR, i);
    if (!row) continue;
    layer l = make_layer(row, M, K, N, "relu");
    run_kernel_on(&l.k, 1);
    float *x = run_floats(M * PITCH, 9), *residual = run_floats(M * PITCH, 10), *y = run_floats(M * PITCH, 11);
    float *before = run_floats(M * PITCH, 11);
    for (int r = 0; r < M; r++) {
      memcpy(x + r * PITCH, l.x + r * K, K * sizeof *x);
      memcpy(residual + r * PITCH, l.residual + r * N, N * sizeof *x);
    }
    run_kernel pitched = l.k;
    pitched.in[0].data = x;
    pitched.in[KERN_IN_RESIDUAL].data = residual;
    pitched.out.data = y;
    pitched.in[0].strides[0] = pitched.in[KERN_IN_RESIDUAL].strides[0] = pitched.out.strides[0] = PITCH;
    run_kernel_on(&pitched, 1);
    for (int r = 0; r < M; r++) {
      assert_memory_equal(y + r * PITCH, l.y + r * N, N * sizeof *y);
      assert_memory_equal(y + r * PITCH + N, before + r * PITCH + N, (PITCH - N) * sizeof *y);
    }
    float *const owned[] = {x, residual, y, before};
    for (int f = 0; f < 4; f++) free(owned[f]);
    free_layer(&l);
  }
}

/* ---- products of operands at any strides ---- */

/* A [2, m, k] times B [2, k, n], each stored with the strides of a view. */
typedef struct view {
  int64_t strides[3], first;
} view;
enum { M = 37, K = 45, N = 53, ROOM = 2 * 64 * 64 * 2 };
static const view a_views[] = {
    {{M * K, K, 1}, 0}, {{M * K, 1, M}, 0}, {{0, K, 1}, 0}, {{M * K, 2 * K, 2}, 0}, {{-M * K, -K, 1}, 2 * M *K - K},
    {{K, 2 * K, 1}, 0}, {{0, 0, 1}, 5}};
static const view b_views[] = {{{K * N, N, 1}, 0}, {{K * N, 1, K}, 0},         {{0, N, 1}, 0},    {{0, 1, K}, 0},
                               {{N, 2 * N, 1}, 0}, {{K * N, -N, 1}, K *N - N}, {{K * N, 3, 0}, 0}};
enum { VIEWS = sizeof a_views / sizeof *a_views };
/* m, k, n: of tiles, and of products so little that they are not cut. */
static const int64_t product_sizes[][3] = {{M, K, N}, {5, 11, 7}, {13, 8, 1}, {2, K, 16}, {1, 3, 5}};
enum { SIZES = sizeof product_sizes / sizeof *product_sizes };

static double product(const float *a, const view *av, const float *b, const view *bv, int64_t count, int64_t g,
                      int64_t i, int64_t j) {
  double sum = 0;
  for (int64_t k = 0; k < count; k++)
    sum += (double)a[av->first + g * av->strides[0] + i * av->strides[1] + k * av->strides[2]] *
           (double)b[bv->first + g * bv->strides[0] + k * bv->strides[1] + j * bv->strides[2]];
  return sum;
}

static void matmul_takes_any_strides(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  float *a = run_floats(ROOM, 12), *b = run_floats(ROOM, 13);
  float *c = run_floats(2 * M * N, 14), *shared = run_floats(2 * M * N, 15);
  for (uint32_t i = 0; i < levels * SIZES * VIEWS * VIEWS; i++) {
    const kern_row *row = run_row(KERN_MATMUL, i / (SIZES * VIEWS * VIEWS));
    if (!row) continue;
    const view *av = &a_views[i / VIEWS % VIEWS], *bv = &b_views[i % VIEWS];
    const int64_t *size = product_sizes[i / (VIEWS * VIEWS) % SIZES], m = size[0], n = size[2];
    const int64_t a_dims[] = {2, m, size[1]}, b_dims[] = {2, size[1], n}, c_dims[] = {2, m, n};
    run_kernel k = {.row = row, .out = base_tensor_of(c, TD_F32, 3, c_dims)};
    k.in[0] = base_tensor_of(a + av->first, TD_F32, 3, a_dims);
    k.in[1] = base_tensor_of(b + bv->first, TD_F32, 3, b_dims);
    memcpy(k.in[0].strides, av->strides, sizeof av->strides);
    memcpy(k.in[1].strides, bv->strides, sizeof bv->strides);
    run_kernel_on(&k, 1);
    for (int64_t at = 0; at < 2 * m * n; at++) {
      double wanted = product(a, av, b, bv, size[1], at / (m * n), at / n % m, at % n);
      if (!(fabs((double)c[at] - wanted) <= 2e-5))
        fail_msg("%s: views %u: element %d is %g, not %g", row->name, i, (int)at, (double)c[at], wanted);
    }
    k.out.data = shared;
    run_kernel_on(&k, 3);
    assert_memory_equal(shared, c, sizeof *c * (size_t)(2 * m * n));
  }
  float *const owned[] = {a, b, c, shared};
  for (int f = 0; f < 4; f++) free(owned[f]);
}

/* A vector or a matrix on either side, each at its own strides: rows and columns of other matrices, and transposes. */
static void matmul_takes_vectors_and_matrices(void **state) {
  (void)state;
  enum { A_VIEWS = 4, B_VIEWS = 4 };
  static const struct {
    int32_t rank;
    int64_t strides[2]; /* of rows and columns */
  } as[A_VIEWS] = {{1, {0, 1}}, {1, {0, 3}}, {2, {K, 1}}, {2, {1, M}}},
    bs[B_VIEWS] = {{1, {1, 0}}, {1, {3, 0}}, {2, {N, 1}}, {2, {1, K}}};
  uint32_t levels;
  kern_levels(&levels);
  float *a = run_floats(M * K * 3, 12), *b = run_floats(K * N * 3, 13), *c = run_floats(M * N, 14);
  for (uint32_t i = 0; i < levels * A_VIEWS * B_VIEWS; i++) {
    const kern_row *row = run_row(KERN_MATMUL, i / (A_VIEWS * B_VIEWS));
    const uint32_t f = i / B_VIEWS % A_VIEWS, g = i % B_VIEWS;
    const int64_t m = as[f].rank == 2 ? M : 1, n = bs[g].rank == 2 ? N : 1, a_dims[] = {M, K}, b_dims[] = {K, N},
                  c_dims[] = {m, n};
    if (!row) continue;
    run_kernel k = {.row = row};
    k.out = base_tensor_of(c, TD_F32, (as[f].rank == 2) + (bs[g].rank == 2), as[f].rank == 2 ? c_dims : c_dims + 1);
    k.in[0] = base_tensor_of(a, TD_F32, as[f].rank, as[f].rank == 2 ? a_dims : a_dims + 1);
    k.in[1] = base_tensor_of(b, TD_F32, bs[g].rank, b_dims);
    memcpy(k.in[0].strides, as[f].strides + 2 - as[f].rank, (size_t)as[f].rank * sizeof *k.in[0].strides);
    memcpy(k.in[1].strides, bs[g].strides, (size_t)bs[g].rank * sizeof *k.in[1].strides);
    run_kernel_on(&k, 1);
    for (int64_t at = 0; at < m * n; at++) {
      double wanted = 0;
      for (int64_t d = 0; d < K; d++)
        wanted += (double)a[at / n * as[f].strides[0] + d * as[f].strides[1]] *
                  (double)b[d * bs[g].strides[0] + at % n * bs[g].strides[1]];
      if (!(fabs((double)c[at] - wanted) <= 2e-5))
        fail_msg("%s: views %u: element %d is %g, not %g", row->name, i, (int)at, (double)c[at], wanted);
    }
  }
  float *const owned[] = {a, b, c};
  for (int f = 0; f < 3; f++) free(owned[f]);
}

/* C of td::gemm: a row, a column, a matrix and its transpose, one number, rows with gaps and backwards; none. */
static const struct {
  int32_t rank;
  int64_t dims[2], strides[2];
} c_views[] = {{1, {N}, {1}}, {2, {M, 1}, {1, 1}}, {2, {M, N}, {N, 1}}, {2, {M, N}, {1, M}},
               {0, {0}, {0}}, {1, {N}, {2}},       {1, {N}, {-1}}};
enum { C_VIEWS = sizeof c_views / sizeof *c_views };

static void gemm_adds_what_broadcasts(void **state) {
  (void)state;
  uint32_t levels;
  kern_levels(&levels);
  base_arena *arena = base_arena_new(&base_libc_allocator);
  float *a = run_floats(ROOM, 16), *b = run_floats(ROOM, 17), *c = run_floats(ROOM + N, 18), *y = run_floats(M * N, 19);
  float *const first = c + N; /* of C */
  for (uint32_t i = 0; i < levels * 4 * (C_VIEWS + 1); i++) {
    const kern_row *row = run_row(KERN_GEMM, i / 4 / (C_VIEWS + 1));
    if (!row) continue;
    uint32_t form = i / 4 % (C_VIEWS + 1);
    bool ta = i & 1, tb = i & 2;
    const base_arg args[] = {ARG_FLOAT("alpha", 0.5), ARG_FLOAT("beta", 3), ARG_BOOL("trans_a", ta),
                             ARG_BOOL("trans_b", tb)};
    const int64_t a_dims[] = {ta ? K : M, ta ? M : K}, b_dims[] = {tb ? N : K, tb ? K : N}, y_dims[] = {M, N};
    run_kernel k = {.row = row, .attrs = base_attrs_make(arena, args, 4), .out = base_tensor_of(y, TD_F32, 2, y_dims)};
    k.in[0] = base_tensor_of(a, TD_F32, 2, a_dims);
    k.in[1] = base_tensor_of(b, TD_F32, 2, b_dims);
    int64_t step[2] = {0, 0};
    if (form < C_VIEWS) {
      int32_t rank = c_views[form].rank;
      k.in[2] = base_tensor_of(first, TD_F32, rank, c_views[form].dims);
      for (int32_t d = 0; d < rank; d++) {
        k.in[2].strides[d] = c_views[form].strides[d];
        if (c_views[form].dims[d] > 1) step[2 - rank + d] = c_views[form].strides[d];
      }
    }
    run_kernel_on(&k, 1);
    const view av = {{0, ta ? 1 : K, ta ? M : 1}, 0}, bv = {{0, tb ? 1 : N, tb ? K : 1}, 0};
    for (int64_t at = 0; at < M * N; at++) {
      double wanted = 0.5 * product(a, &av, b, &bv, K, 0, at / N, at % N);
      if (form < C_VIEWS) wanted += 3 * (double)first[at / N * step[0] + at % N * step[1]];
      if (!(fabs((double)y[at] - wanted) <= 2e-5))
        fail_msg("%s: C %u: element %d is %g, not %g", row->name, form, (int)at, (double)y[at], wanted);
    }
  }
  float *const owned[] = {a, b, c, y};
  for (int f = 0; f < 4; f++) free(owned[f]);
  base_arena_free(arena);
}

/* ---- packing ---- */

static void panels_hold_every_column_and_zeros(void **state) {
  (void)state;
  static const int64_t strides[][2] = {{N, 1}, {1, K}, {2, 2 * K}}, panels[] = {1, 3, 8, 16, KERN_MAX_PANEL};
  float *w = run_floats(2 * K * N + 2, 20);
  for (size_t s = 0; s < 3; s++)
    for (size_t p = 0; p < 5; p++) {
      size_t count;
      int64_t panel = panels[p], total = (N + panel - 1) / panel;
      assert_true(kern_pack_count(K, N, panel, &count));
      assert_int_equal(count, total * panel * K);
      float *to = run_floats((int64_t)count, 21);
      const kern_matrix m = {w, K, N, strides[s][0], strides[s][1]};
      kern_pack(to, &m, NULL, panel, total / 2, total); /* in two parts, as threads would */
      kern_pack(to, &m, NULL, panel, 0, total / 2);
      for (int64_t i = 0; i < (int64_t)count; i++) {
        int64_t column = i / panel / K * panel + i % panel, k = i / panel % K;
        float wanted = column < N ? w[k * strides[s][0] + column * strides[s][1]] : 0;
        if (to[i] != wanted) fail_msg("panel %d: element %d", (int)panel, (int)i);
      }
      free(to);
    }
  free(w);
  size_t count;
  assert_false(kern_pack_count(INT64_MAX, 2, 16, &count));
  assert_false(kern_pack_count(2, INT64_MAX, 16, &count));
  assert_false(kern_pack_count(1 << 30, (int64_t)1 << 32, 16, &count));
  assert_false(kern_pack_count(-1, 2, 16, &count));
  assert_true(kern_pack_count(0, 5, 16, &count));
  assert_int_equal(count, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rows_do_not_see_their_neighbours),
      cmocka_unit_test(workers_change_nothing),
      cmocka_unit_test(rows_can_have_a_pitch),
      cmocka_unit_test(matmul_takes_any_strides),
      cmocka_unit_test(matmul_takes_vectors_and_matrices),
      cmocka_unit_test(gemm_adds_what_broadcasts),
      cmocka_unit_test(panels_hold_every_column_and_zeros),
  };
  run_only_workers_under_tsan();
  return cmocka_run_group_tests(tests, NULL, NULL);
}
