/* Elementwise kernels at every level that the machine has: vector functions against libm in double over the range of
 * f32, and the walk over operands of any strides against plain indexing. */
/* ctest: threads */
#include "test.h"

#include <pthread.h>
#include <math.h>

#include "kernels/kernels.h"
#include "sys/sys.h"

enum { SAMPLES = 1 << 16 };

static double sigmoid(double x) { return x >= 0 ? 1 / (1 + exp(-x)) : exp(x) / (1 + exp(x)); }
static double silu(double x) { return x * sigmoid(x); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double mish(double x) { return x * tanh(softplus(x)); }
static double gelu(double x) { return 0.5 * x * erfc(-x * 0.70710678118654752440); }
static double gelu_by_tanh(double x) { return x * sigmoid(2 * 0.79788456080286535588 * (x + 0.044715 * x * x * x)); }

/* What a result may be off: units in its last place, units of |x| 2^-23, and an absolute bound where it flushes. */
static const struct {
  const char *name;
  kern_family family;
  double (*truth)(double);
  double ulps, of_x, flushes;
} functions[] = {
    {"exp", KERN_EXP, exp, 1.5, 0, 0},
    {"log", KERN_LOG, log, 1.5, 0, 0},
    {"tanh", KERN_TANH, tanh, 5, 0, 0},
    {"sigmoid", KERN_SIGMOID, sigmoid, 2, 0, 0x1p-126},
    {"erf", KERN_ERF, erf, 8, 0, 0},
    {"gelu", KERN_GELU, gelu, 0, 2.5, 0},
    {"gelu_tanh", KERN_GELU_TANH, gelu_by_tanh, 0, 2, 1e-34},
    {"silu", KERN_SILU, silu, 4, 0, 1e-15}, /* above -20 */
    {"silu", KERN_SILU, silu, 7, 0, 1e-35},
    {"softplus", KERN_SOFTPLUS, softplus, 3, 0, 0x1p-126},
    {"mish", KERN_MISH, mish, 6, 0, 1e-35},
};

/* One unit in the last place of the f32 nearest to x. */
static double ulp_of(double x) {
  int e;
  (void)frexp(x, &e);
  return fabs(x) < 0x1p-126 ? 0x1p-149 : ldexp(1, e - 24);
}

static td_status run(const kern_row *row, uint32_t operands, const base_tensor *in, base_tensor *out) {
  base_value values[3], result = {.kind = BASE_TENSOR, .tensor = *out};
  const base_value *at[3];
  base_value *to[] = {&result};
  static const base_attrs none;
  for (uint32_t i = 0; i < operands; i++) {
    values[i] = (base_value){.kind = BASE_TENSOR, .tensor = in[i]};
    at[i] = &values[i];
  }
  const base_call call = {.attrs = &none, .in = at, .out = to, .in_count = operands, .out_count = 1};
  return row->run(&call);
}

typedef void (*level_test)(const kern_level *level);

/* One lane has no functions of its own: the plain loops do. */
static void at_every_level(level_test test) {
  sys_machine machine;
  uint32_t count;
  sys_cpu_read(&machine);
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++)
    if (levels[i].isa && !base_isa_lacks(machine.isa, levels[i].isa)) test(&levels[i]);
}

static bool agrees(size_t f, float x, float y) {
  double truth = functions[f].truth((double)x);
  if (isnan(truth)) return isnan(y);
  if (isinf((float)truth)) return y == (float)truth;
  double allowed = functions[f].ulps * ulp_of(truth) + functions[f].of_x * 0x1p-23 * fabs((double)x) +
                   functions[f].flushes + 0x1p-149;
  return fabs((double)y - truth) <= allowed;
}

static void expect_function(const kern_level *level, size_t f, const float *x, float *y, int64_t n) {
  const base_tensor in = base_tensor_of((void *)(uintptr_t)x, TD_F32, 1, &n);
  base_tensor out = base_tensor_of(y, TD_F32, 1, &n);
  assert_int_equal(run(kern_select(functions[f].family, TD_F32, level->isa), 1, &in, &out), TD_OK);
  for (int64_t i = 0; i < n; i++)
    if (!agrees(f, x[i], y[i]))
      fail_msg("%s, %s(%.9g) = %.9g; %.9g is right", level->name, functions[f].name, (double)x[i], (double)y[i],
               functions[f].truth((double)x[i]));
}

/* A sample of every 2^16 neighbours among all floats, and finely from -20 to 20. */
static void functions_at(const kern_level *level) {
  static float x[SAMPLES], y[SAMPLES];
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++) {
    int64_t n = 0;
    for (uint32_t i = 0; i < SAMPLES; i++) {
      uint32_t bits = (i << 16) + i % 65521 * 7 % 65536;
      memcpy(&x[n], &bits, sizeof bits);
      n += isfinite(x[n]) != 0;
    }
    expect_function(level, f, x, y, n);
    for (uint32_t i = 0; i < SAMPLES; i++) x[i] = (float)((i - SAMPLES / 2.0) * (40.0 / SAMPLES));
    expect_function(level, f, x, y, SAMPLES);
  }
}
static void functions_keep_their_bounds(void **state) {
  (void)state;
  at_every_level(functions_at);
}

static void special_at(const kern_level *level) {
  static const struct {
    kern_family family;
    float at_minus_infinity, at_infinity;
  } cases[] = {{KERN_EXP, 0, INFINITY},
               {KERN_LOG, NAN, INFINITY},
               {KERN_TANH, -1, 1},
               {KERN_SIGMOID, 0, 1},
               {KERN_ERF, -1, 1},
               {KERN_GELU, NAN, INFINITY},
               {KERN_SOFTPLUS, 0, INFINITY},
               {KERN_MISH, NAN, INFINITY},
               {KERN_RELU, 0, INFINITY},
               {KERN_HARDSWISH, NAN, INFINITY},
               {KERN_SILU, NAN, INFINITY},
               {KERN_GELU_TANH, NAN, INFINITY}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    const int64_t three = 3;
    float x[] = {-INFINITY, INFINITY, NAN}, y[3];
    const base_tensor in = base_tensor_of(x, TD_F32, 1, &three);
    base_tensor out = base_tensor_of(y, TD_F32, 1, &three);
    assert_int_equal(run(kern_select(cases[i].family, TD_F32, level->isa), 1, &in, &out), TD_OK);
    assert_true(y[0] == cases[i].at_minus_infinity || (isnan(y[0]) && isnan(cases[i].at_minus_infinity)));
    assert_true(y[1] == cases[i].at_infinity);
    assert_true(isnan(y[2]));
  }
}
static void ends_of_the_range(void **state) {
  (void)state;
  at_every_level(special_at);
}

/* tanh, a quotient that rounding could take beyond 1: odd to the bit, within 1, and exact at 0 and both ends. */
static void tanh_at(const kern_level *level) {
  static float x[SAMPLES], y[SAMPLES], negative[SAMPLES];
  const int64_t n = SAMPLES;
  const base_tensor in = base_tensor_of(x, TD_F32, 1, &n);
  base_tensor out = base_tensor_of(y, TD_F32, 1, &n), mirrored = base_tensor_of(negative, TD_F32, 1, &n);
  const kern_row *row = kern_select(KERN_TANH, TD_F32, level->isa);
  for (int64_t i = 0; i < n; i++) x[i] = (float)i * (12.0f / SAMPLES);
  x[1] = 0x1p-149f, x[2] = 0x1p-126f, x[3] = 3.4e38f;
  assert_int_equal(run(row, 1, &in, &out), TD_OK);
  for (int64_t i = 0; i < n; i++) x[i] = -x[i];
  assert_int_equal(run(row, 1, &in, &mirrored), TD_OK);
  for (int64_t i = 0; i < n; i++) {
    const float opposite = -negative[i];
    assert_memory_equal(&y[i], &opposite, sizeof opposite);
    assert_true(y[i] <= 1 && (x[i] > -8.9f || y[i] == 1));
  }
  assert_true(y[0] == 0 && y[1] == 0x1p-149f && y[2] == 0x1p-126f);
}
static void tanh_is_odd_and_bounded(void **state) {
  (void)state;
  at_every_level(tanh_at);
}

/* ---- the walk ---- */

enum { ROOM = 1 << 16 };
static float room[2][ROOM];

static void fill_room(void) {
  for (int64_t i = 0; i < ROOM; i++) {
    room[0][i] = (float)(i % 1021) - 500;
    room[1][i] = (float)(i % 773) * 0.5f;
  }
}

/* Operands of dims [a, b, c]: strides and where the first element lies. */
static const struct {
  int64_t dims[3], strides[2][3], first[2];
} views[] = {
    {{5, 7, 37}, {{259, 37, 1}, {259, 37, 1}}, {0, 0}},      /* dense */
    {{5, 7, 37}, {{259, 37, 1}, {0, 0, 1}}, {0, 0}},         /* a row */
    {{5, 7, 37}, {{37, 0, 1}, {259, 37, 1}}, {0, 0}},        /* planes */
    {{5, 7, 37}, {{259, 37, 1}, {7, 1, 0}}, {0, 0}},         /* a column */
    {{5, 7, 37}, {{0, 0, 0}, {259, 37, 1}}, {0, 0}},         /* a scalar */
    {{5, 7, 37}, {{1, 5, 35}, {259, 37, 1}}, {0, 0}},        /* transposed */
    {{5, 7, 37}, {{259, 37, -1}, {259, -37, 1}}, {36, 222}}, /* reversed */
    {{5, 7, 37}, {{500, 70, 2}, {0, 1, 0}}, {0, 0}},         /* with gaps, and repeated */
    {{1, 1, 1}, {{1, 1, 1}, {0, 0, 0}}, {0, 0}},
    {{3, 1, 20011}, {{20011, 0, 1}, {1, 0, 0}}, {0, 0}}, /* rows of more than one task */
    {{2, 2, 1300}, {{1, 2, 4}, {1, 2, 4}}, {0, 0}},      /* pieces of a gathered row */
    {{5, 26, 10}, {{10, 0, 1}, {260, 10, 1}}, {0, 0}},   /* short rows, one again and again; 26 are no whole vectors */
    {{5, 3, 7}, {{21, 7, 1}, {7, 0, 1}}, {0, 0}},        /* fewer than end with a vector */
    {{64, 16, 63}, {{0, 0, 1}, {1008, 63, 1}}, {0, 0}},  /* the longest */
    {{3, 33, 5}, {{5, 0, 1}, {0, 0, 1}}, {0, 0}},        /* of both */
    {{5, 26, 10}, {{1, 0, 5}, {260, 10, 1}}, {0, 0}},    /* gathered for a plane */
    {{5, 26, 10}, {{1, 0, 5}, {26, 1, 0}}, {0, 0}},      /* and a column */
    {{5, 26, 10}, {{500, 20, 2}, {10, 0, -1}}, {0, 9}},  /* beside one that is gathered row by row */
};

static void walks_at(const kern_level *level) {
  static float y[ROOM];
  const kern_row *row = kern_select(KERN_SUB, TD_F32, level->isa);
  for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
    base_tensor in[2], out = base_tensor_of(y, TD_F32, 3, views[v].dims);
    for (uint32_t k = 0; k < 2; k++) {
      in[k] = base_tensor_of(room[k] + views[v].first[k], TD_F32, 3, views[v].dims);
      memcpy(in[k].strides, views[v].strides[k], sizeof views[v].strides[k]);
    }
    assert_int_equal(run(row, 2, in, &out), TD_OK);
    for (int64_t i = 0; i < base_tensor_numel(&out); i++) {
      const int64_t *d = views[v].dims, at[] = {i / (d[1] * d[2]), i / d[2] % d[1], i % d[2]};
      float wanted[2];
      for (uint32_t k = 0; k < 2; k++) {
        const int64_t *s = views[v].strides[k];
        wanted[k] = room[k][views[v].first[k] + at[0] * s[0] + at[1] * s[1] + at[2] * s[2]];
      }
      if (y[i] != wanted[0] - wanted[1]) fail_msg("%s, view %zu, element %lld", level->name, v, (long long)i);
    }
  }
}
static void operands_of_any_strides(void **state) {
  (void)state;
  fill_room();
  at_every_level(walks_at);
}

/* A mask for all rows, of rows that end with a vector and of others. */
static void mask_at(const kern_level *level) {
  static float y[ROOM];
  static bool mask[ROOM];
  for (int64_t n = 1; n < 70; n++) {
    const int64_t dims[] = {19, n};
    for (int64_t i = 0; i < n; i++) mask[i] = i * i % 3 == 1;
    base_tensor out = base_tensor_of(y, TD_F32, 2, dims);
    const base_tensor in[] = {base_tensor_of(mask, TD_BOOL, 1, &n), base_tensor_of(room[0], TD_F32, 2, dims),
                              base_tensor_of(room[1], TD_F32, 1, &n)};
    assert_int_equal(run(kern_select(KERN_WHERE, TD_F32, level->isa), 3, in, &out), TD_OK);
    for (int64_t i = 0; i < 19 * n; i++) assert_true(y[i] == (mask[i % n] ? room[0][i] : room[1][i % n]));
  }
}
static void a_mask_of_all_rows(void **state) {
  (void)state;
  fill_room();
  at_every_level(mask_at);
}

static void in_place_at(const kern_level *level) {
  static const int64_t sizes[][2] = {{37, 101}, {37, 10}};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    static float y[ROOM];
    const int64_t *dims = sizes[i];
    memcpy(y, room[0], sizeof y);
    base_tensor out = base_tensor_of(y, TD_F32, 2, dims);
    const base_tensor in[] = {base_tensor_of(room[1], TD_F32, 1, &dims[1]), out};
    assert_int_equal(run(kern_select(KERN_MUL, TD_F32, level->isa), 2, in, &out), TD_OK);
    for (int64_t k = 0; k < dims[0] * dims[1]; k++) assert_true(y[k] == room[1][k % dims[1]] * room[0][k]);
  }
}
static void the_output_may_be_an_operand(void **state) {
  (void)state;
  fill_room();
  at_every_level(in_place_at);
}

/* ---- threads ---- */

/* What a thread runs: a call of its own on the shared count of tasks. */
typedef struct job {
  const kern_row *row;
  base_call call;
  td_status status;
} job;

static void *work(void *arg) {
  job *j = arg;
  j->status = j->row->run(&j->call);
  return NULL;
}

static void tasks_are_shared_out(void **state) {
  (void)state;
  enum { COUNT = 100003 };
  static float x[COUNT], alone[COUNT], shared[COUNT];
  const int64_t count = COUNT;
  for (int64_t i = 0; i < COUNT; i++) x[i] = (float)i / COUNT;
  base_value in = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, &count)},
             out = {.kind = BASE_TENSOR, .tensor = base_tensor_of(shared, TD_F32, 1, &count)};
  base_tensor once = base_tensor_of(alone, TD_F32, 1, &count);
  const base_value *ins[] = {&in};
  base_value *outs[] = {&out};
  static const base_attrs none;
  base_lane lanes[2] = {0};
  sys_machine machine;
  sys_cpu_read(&machine);
  const kern_row *row = kern_select(KERN_TANH, TD_F32, machine.isa | BASE_ISA_VECTOR);
  job jobs[2];
  pthread_t thread;
  for (uint32_t k = 0; k < 2; k++)
    jobs[k] = (job){row,
                    {.attrs = &none,
                     .in = ins,
                     .out = outs,
                     .in_count = 1,
                     .out_count = 1,
                     .worker = k,
                     .workers = 2,
                     .job = 1,
                     .lanes = lanes},
                    TD_INTERNAL};
  assert_int_equal(pthread_create(&thread, NULL, work, &jobs[1]), 0);
  work(&jobs[0]);
  pthread_join(thread, NULL);
  for (uint32_t k = 0; k < 2; k++) assert_int_equal(jobs[k].status, TD_OK);
  assert_int_equal(run(row, 1, &in.tensor, &once), TD_OK);
  assert_memory_equal(alone, shared, sizeof alone);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions_keep_their_bounds), cmocka_unit_test(ends_of_the_range),
      cmocka_unit_test(tanh_is_odd_and_bounded),     cmocka_unit_test(operands_of_any_strides),
      cmocka_unit_test(a_mask_of_all_rows),          cmocka_unit_test(the_output_may_be_an_operand),
      cmocka_unit_test(tasks_are_shared_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
