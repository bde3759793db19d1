/* Factors of matrices: what they are made of gives the matrix again, and they have the form that they should. */
#include "test.h"

#include <math.h>
#include "base/size.h"
#include "ops/common/ops_priv.h"
#include "ops/ops.h"

enum { LARGEST = 64 };

typedef struct matrix {
  int64_t rows, columns;
  double at[LARGEST * LARGEST];
} matrix;

static base_arena *arena;
static const ir_opset *set;

static void set_up(matrix *m, int64_t rows, int64_t columns, uint32_t seed, bool singular) {
  ir_case c = {.arena = arena};
  *m = (matrix){rows, columns, {0}};
  assert_true(ops_case_in(&c, TD_F64, 2, (int64_t[]){rows, columns}, OPS_NORMAL, seed));
  for (int64_t k = 0; k < rows * columns; k++) m->at[k] = base_load_f64(TD_F64, c.in[0].data, k);
  for (int64_t k = 0; singular && k < columns && rows > 1; k++) m->at[(rows - 1) * columns + k] = m->at[k];
}

static matrix product(const matrix *x, const matrix *y) {
  matrix p = {x->rows, y->columns, {0}};
  assert_int_equal(x->columns, y->rows);
  for (int64_t i = 0; i < p.rows; i++)
    for (int64_t j = 0; j < p.columns; j++)
      for (int64_t k = 0; k < x->columns; k++)
        p.at[i * p.columns + j] += x->at[i * x->columns + k] * y->at[k * y->columns + j];
  return p;
}
static matrix turned(const matrix *x) {
  matrix t = {x->columns, x->rows, {0}};
  for (int64_t i = 0; i < x->rows; i++)
    for (int64_t j = 0; j < x->columns; j++) t.at[j * x->rows + i] = x->at[i * x->columns + j];
  return t;
}
static matrix unit(int64_t n) {
  matrix u = {n, n, {0}};
  for (int64_t i = 0; i < n; i++) u.at[i * n + i] = 1;
  return u;
}
static void same(const matrix *x, const matrix *y, double tolerance, const char *what) {
  assert_int_equal(x->rows, y->rows);
  assert_int_equal(x->columns, y->columns);
  for (int64_t k = 0; k < x->rows * x->columns; k++)
    if (!(fabs(x->at[k] - y->at[k]) <= tolerance))
      fail_msg("%s of %lld by %lld: element %lld is %g, not %g", what, (long long)x->rows, (long long)x->columns,
               (long long)k, x->at[k], y->at[k]);
}

/* The outputs of an operator over matrices. */
static void run(const char *name, const matrix *const *in, uint32_t count, const base_arg *args, uint32_t arg_count,
                base_value *out, uint32_t out_count) {
  td_error err = {0};
  const base_attrs *attrs;
  base_value values[2];
  const base_value *at[2];
  const ir_op *op = ir_opset_find(set, name);
  assert_non_null(op);
  assert_int_equal(ir_make_attrs(arena, op, args, arg_count, &attrs, &err), TD_OK);
  for (uint32_t i = 0; i < count; i++) {
    values[i] = (base_value){.kind = BASE_TENSOR};
    values[i].tensor =
        base_tensor_of((void *)(uintptr_t)in[i]->at, TD_F64, 2, (int64_t[]){in[i]->rows, in[i]->columns});
    at[i] = &values[i];
  }
  if (ir_evaluate(op, attrs, at, count, arena, out, out_count, &err) != TD_OK) fail_msg("%s: %s", name, err.text);
}
static matrix matrix_of(const base_value *v) {
  const base_tensor *t = &v->tensor;
  matrix m = {t->rank > 1 ? t->dims[0] : 1, t->dims[t->rank - 1], {0}};
  for (int64_t k = 0; k < base_tensor_numel(t); k++) m.at[k] = base_load_f64(t->dtype, t->data, k);
  return m;
}

static const int64_t sizes[][2] = {{1, 1}, {3, 3}, {5, 2}, {2, 5}, {17, 17}, {33, 20}, {20, 33}, {48, 48}};
#define FOR_SIZES(i) for (uint32_t i = 0; i < 2 * OPS_COUNT(sizes); i++)

static void lu_gives_the_matrix(void **state) {
  (void)state;
  FOR_SIZES(i) {
    matrix a, l, u;
    base_value out[3];
    set_up(&a, sizes[i / 2][0], sizes[i / 2][1], i, i % 2);
    run("aten::linalg_lu_factor_ex", (const matrix *[]){&a}, 1, NULL, 0, out, 3);
    matrix f = matrix_of(&out[0]), pivots = matrix_of(&out[1]), kept = a;
    int64_t least = base_min_i64(a.rows, a.columns);
    l = (matrix){a.rows, least, {0}};
    u = (matrix){least, a.columns, {0}};
    for (int64_t r = 0; r < a.rows; r++)
      for (int64_t c = 0; c < a.columns; c++) {
        if (r > c) l.at[r * least + c] = f.at[r * a.columns + c];
        else u.at[r * a.columns + c] = f.at[r * a.columns + c];
        if (r > c) assert_true(fabs(f.at[r * a.columns + c]) <= 1);
      }
    for (int64_t k = 0; k < least; k++) {
      l.at[k * least + k] = 1;
      int64_t other = (int64_t)pivots.at[k] - 1;
      for (int64_t c = 0; c < a.columns; c++) {
        double held = kept.at[k * a.columns + c];
        kept.at[k * a.columns + c] = kept.at[other * a.columns + c];
        kept.at[other * a.columns + c] = held;
      }
    }
    matrix p = product(&l, &u);
    same(&p, &kept, 1e-12, "L U");
  }
}

static void reflections_give_the_matrix(void **state) {
  (void)state;
  FOR_SIZES(i) {
    matrix a;
    base_value out[2], q_out[1];
    set_up(&a, sizes[i / 2][0], sizes[i / 2][1], i, i % 2);
    run("aten::geqrf", (const matrix *[]){&a}, 1, NULL, 0, out, 2);
    matrix r = matrix_of(&out[0]), tau = matrix_of(&out[1]), v = {a.rows, a.rows, {0}};
    for (int64_t x = 0; x < a.rows; x++)
      for (int64_t c = 0; c < a.rows && c < a.columns; c++) v.at[x * a.rows + c] = r.at[x * a.columns + c];
    for (int64_t x = 0; x < a.rows; x++)
      for (int64_t c = 0; c < x && c < a.columns; c++) r.at[x * a.columns + c] = 0;
    td_error err = {0};
    base_value in[2] = {{.kind = BASE_TENSOR}, {.kind = BASE_TENSOR}};
    in[0].tensor = base_tensor_of(v.at, TD_F64, 2, (int64_t[]){v.rows, v.columns});
    in[1].tensor = base_tensor_of(tau.at, TD_F64, 1, (int64_t[]){tau.columns});
    const base_value *at[] = {&in[0], &in[1]};
    const base_attrs *attrs;
    const ir_op *op = ir_opset_find(set, "aten::linalg_householder_product");
    assert_int_equal(ir_make_attrs(arena, op, NULL, 0, &attrs, &err), TD_OK);
    assert_int_equal(ir_evaluate(op, attrs, at, 2, arena, q_out, 1, &err), TD_OK);
    matrix q = matrix_of(&q_out[0]), t = turned(&q), one = product(&t, &q), whole = unit(a.rows),
           back = product(&q, &r);
    same(&one, &whole, 1e-12, "Q^T Q");
    same(&back, &a, 1e-12, "Q R");
  }
}

static void cholesky_and_triangles(void **state) {
  (void)state;
  for (int64_t n = 1; n < 40; n += 6) {
    matrix b, right;
    base_value out[2], x_out[1];
    set_up(&b, n, n, (uint32_t)n, false);
    matrix t = turned(&b), a = product(&b, &t);
    for (int64_t k = 0; k < n; k++) a.at[k * n + k] += 1;
    run("aten::linalg_cholesky_ex", (const matrix *[]){&a}, 1, NULL, 0, out, 2);
    matrix l = matrix_of(&out[0]), lt = turned(&l), back = product(&l, &lt);
    same(&back, &a, 1e-10, "L L^T");
    set_up(&right, n, 3, 5, false);
    run("aten::linalg_solve_triangular", (const matrix *[]){&l, &right}, 2, NULL, 0, x_out, 1);
    matrix x = matrix_of(&x_out[0]), again = product(&l, &x);
    same(&again, &right, 1e-9, "L X");
    a.at[(n - 1) * n + n - 1] = -1; /* not positive: the last minor says so */
    run("aten::linalg_cholesky_ex", (const matrix *[]){&a}, 1, NULL, 0, out, 2);
    assert_int_equal(base_load_i64(TD_I32, out[1].tensor.data, 0), n);
  }
}

static void eigenvectors_are_turned_into_themselves(void **state) {
  (void)state;
  for (int64_t n = 1; n < 40; n += 6) {
    matrix b;
    base_value out[2];
    set_up(&b, n, n, (uint32_t)n, n % 4 == 3);
    matrix t = turned(&b), a = {n, n, {0}};
    for (int64_t k = 0; k < n * n; k++) a.at[k] = b.at[k] + t.at[k];
    run("aten::_linalg_eigh", (const matrix *[]){&a}, 1, NULL, 0, out, 2);
    matrix values = matrix_of(&out[0]), v = matrix_of(&out[1]), left = product(&a, &v), right = v, vt = turned(&v);
    for (int64_t k = 0; k < n * n; k++) right.at[k] *= values.at[k % n];
    for (int64_t k = 1; k < n; k++) assert_true(values.at[k - 1] <= values.at[k]);
    matrix one = product(&vt, &v), whole = unit(n);
    same(&left, &right, 1e-10, "A V");
    same(&one, &whole, 1e-12, "V^T V");
  }
}

static void singular_values(void **state) {
  (void)state;
  FOR_SIZES(i) {
    for (int full = 0; full < 2; full++) {
      matrix a;
      base_value out[3];
      set_up(&a, sizes[i / 2][0], sizes[i / 2][1], i, i % 2);
      run("aten::_linalg_svd", (const matrix *[]){&a}, 1, &ARG_BOOL("full_matrices", full), 1, out, 3);
      matrix u = matrix_of(&out[0]), s = matrix_of(&out[1]), vh = matrix_of(&out[2]),
             middle = {u.columns, vh.rows, {0}};
      for (int64_t k = 0; k < s.columns; k++) middle.at[k * vh.rows + k] = s.at[k];
      for (int64_t k = 1; k < s.columns; k++) assert_true(s.at[k - 1] >= s.at[k] && s.at[k] >= 0);
      matrix us = product(&u, &middle), back = product(&us, &vh), ut = turned(&u), v = turned(&vh);
      matrix one = product(&ut, &u), two = product(&vh, &v), left = unit(u.columns), right = unit(vh.rows);
      same(&back, &a, 1e-11, "U S V^T");
      same(&one, &left, 1e-11, "U^T U");
      same(&two, &right, 1e-11, "V^T V");
    }
  }
}

static void exponentials(void **state) {
  (void)state;
  matrix turn = {2, 2, {0, -1, 1, 0}}, a;
  base_value out[1];
  run("aten::linalg_matrix_exp", (const matrix *[]){&turn}, 1, NULL, 0, out, 1);
  matrix e = matrix_of(&out[0]), want = {2, 2, {cos(1), -sin(1), sin(1), cos(1)}};
  same(&e, &want, 1e-15, "a rotation");
  set_up(&a, 7, 7, 3, false);
  matrix minus = a;
  for (int64_t k = 0; k < 49; k++) minus.at[k] = -a.at[k];
  run("aten::linalg_matrix_exp", (const matrix *[]){&a}, 1, NULL, 0, out, 1);
  e = matrix_of(&out[0]);
  run("aten::linalg_matrix_exp", (const matrix *[]){&minus}, 1, NULL, 0, out, 1);
  matrix back = matrix_of(&out[0]), one = product(&e, &back), whole = unit(7);
  same(&one, &whole, 1e-8, "exp(A) exp(-A)");
}

/* Matrices behind further axes are each what they are alone. */
static void batches(void **state) {
  (void)state;
  enum { BATCH = 6, SIDE = 5, ELEMENTS = SIDE * SIDE };
  static const char *const names[] = {"aten::linalg_lu_factor_ex", "aten::geqrf", "aten::linalg_matrix_exp"};
  double data[BATCH * ELEMENTS];
  matrix one[BATCH];
  for (uint32_t i = 0; i < BATCH; i++) {
    set_up(&one[i], SIDE, SIDE, i, false);
    for (int k = 0; k < ELEMENTS; k++) data[i * ELEMENTS + (uint32_t)k] = one[i].at[k];
  }
  base_value all = {.kind = BASE_TENSOR, .tensor = base_tensor_of(data, TD_F64, 4, (int64_t[]){2, 3, SIDE, SIDE})};
  for (size_t n = 0; n < OPS_COUNT(names); n++) {
    base_value out[3], single[3];
    const base_attrs *attrs;
    td_error err = {0};
    const ir_op *op = ir_opset_find(set, names[n]);
    assert_non_null(op);
    const uint32_t count = op->out_count;
    assert_int_equal(ir_make_attrs(arena, op, NULL, 0, &attrs, &err), TD_OK);
    const base_value *in[] = {&all};
    if (ir_evaluate(op, attrs, in, 1, arena, out, count, &err) != TD_OK) fail_msg("%s: %s", names[n], err.text);
    assert_int_equal(base_tensor_numel(&out[0].tensor), BATCH * ELEMENTS);
    for (uint32_t i = 0; i < BATCH; i++) {
      run(names[n], (const matrix *[]){&one[i]}, 1, NULL, 0, single, count);
      const size_t bytes = base_tensor_bytes(&single[0].tensor);
      assert_memory_equal((const char *)out[0].tensor.data + i * bytes, single[0].tensor.data, bytes);
    }
  }
}

static int tear_down(void **state) {
  (void)state;
  base_arena_free(arena);
  return 0;
}

int main(void) {
  arena = base_arena_new(&base_libc_allocator);
  set = ops_set(arena);
  const struct CMUnitTest tests[] = {cmocka_unit_test(lu_gives_the_matrix),
                                     cmocka_unit_test(reflections_give_the_matrix),
                                     cmocka_unit_test(cholesky_and_triangles),
                                     cmocka_unit_test(eigenvectors_are_turned_into_themselves),
                                     cmocka_unit_test(singular_values),
                                     cmocka_unit_test(exponentials),
                                     cmocka_unit_test(batches)};
  return cmocka_run_group_tests(tests, NULL, tear_down);
}
