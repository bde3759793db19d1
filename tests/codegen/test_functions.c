/* ctest: slow */
/* test_functions.c -- functions that only loops have, against libm in double over the range of f32, those of f64
 * against long double: interpreted and compiled, on each level that the machine has. */
#include <math.h>

#include "codegen/chains.h"
#include "kernels/kernels.h"

enum { SAMPLES = 1 << 16, SETS = 4 };

static const struct {
  const char *name;
  double (*truth)(double);
  double ulps;
} functions[] = {{"sin", sin, 1.5},     {"cos", cos, 1.5},     {"expm1", expm1, 2},   {"log1p", log1p, 2},
                 {"log2", log2, 2.5},   {"log10", log10, 2.5}, {"atan", atan, 0.501}, {"asin", asin, 0.501},
                 {"acos", acos, 0.501}, {"sinh", sinh, 0.501}, {"cosh", cosh, 0.501}, {"erfc", erfc, 0.501}};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

/* One unit in the last place of the f32 nearest to x. */
static double ulp_of(double x) {
  int e;
  (void)frexp(x, &e);
  return fabs(x) < 0x1p-126 ? 0x1p-149 : ldexp(1, e - 24);
}

/* Every 2^16th float; from -20 to 20; from -9000 to 9000; and the floats nearest to multiples of pi/2. */
static void fill(float *x, int set) {
  for (uint32_t i = 0; i < SAMPLES; i++) {
    const uint32_t bits = (i << 16) + i % 65521 * 7 % 65536;
    const double at = i - SAMPLES / 2.0;
    if (set == 0) memcpy(&x[i], &bits, sizeof bits);
    else if (set < 3) x[i] = (float)(at * ((set == 1 ? 40.0 : 18000.0) / SAMPLES));
    else x[i] = (float)(at * 1.57079632679489661923);
  }
}

static void expect_close(size_t f, const char *how, const float *x, const float *y) {
  for (int64_t i = 0; i < SAMPLES; i++) {
    const double truth = functions[f].truth((double)x[i]);
    if (isnan(truth)          ? isnan(y[i])
        : isinf((float)truth) ? y[i] == (float)truth
                              : fabs((double)y[i] - truth) <= functions[f].ulps * ulp_of(truth))
      continue;
    fail_msg("%s, %s(%.9g) = %.9g; %.9g is right", how, functions[f].name, (double)x[i], (double)y[i], truth);
  }
}

/* One loop of the functions [first, last), whose results are as many outputs. */
static void open_functions(rig *r, const compile_setting *setting, uint32_t first, uint32_t last) {
  base_text text = {.allocator = &base_libc_allocator};
  base_text_print(&text, "input %%0 \"x\": f32[n]\n");
  for (uint32_t f = first; f < last; f++)
    base_text_print(
        &text, functions[f].truth == erfc ? "%%%u = td::special(%%0) {function = \"%s\"}\n" : "%%%u = aten::%s(%%0)\n",
        f - first + 1, functions[f].name);
  for (uint32_t f = first; f < last; f++)
    base_text_print(&text, "output \"%s\" %%%u\n", functions[f].name, f - first + 1);
  rig_open_as(r, text.at, NULL, setting);
  base_text_free(&text);
  assert_int_equal(r->plan->steps.count, 1);
}

static void expect_functions(const compile_setting *setting, const char *how) {
  static float x[SAMPLES];
  const int64_t count = SAMPLES;
  for (uint32_t first = 0, last; first < FUNCTIONS; first = last) {
    rig r;
    last = first + BASE_PROGRAM_OUTS < FUNCTIONS ? first + BASE_PROGRAM_OUTS : FUNCTIONS;
    open_functions(&r, setting, first, last);
    for (int set = 0; set < SETS; set++) {
      fill(x, set);
      const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, &count)};
      assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
      rig_run(&r);
      for (uint32_t f = first; f < last; f++) expect_close(f, how, x, rig_output(&r, f - first)->data);
    }
    rig_close(&r);
  }
}

/* ---- functions of two operands ---- */

static const struct {
  const char *name;
  double (*truth)(double, double);
} pairs[] = {{"pow", pow}, {"atan2", atan2}};
enum { PAIRS = sizeof pairs / sizeof *pairs, EDGES = 40, RANDOM = 1 << 16 };

/* Each of the edges with each, and what is drawn: small whole exponents among it, and bases near 1. */
static int64_t fill_pairs(float *x, float *y) {
  static const float edges[EDGES] = {0,
                                     -0.0f,
                                     1,
                                     -1,
                                     2,
                                     -2,
                                     0.5f,
                                     -0.5f,
                                     3,
                                     -3,
                                     INFINITY,
                                     -INFINITY,
                                     NAN,
                                     1.5f,
                                     -1.5f,
                                     1e-45f,
                                     -1e-45f,
                                     1e-38f,
                                     0x1p-126f,
                                     3.4e38f,
                                     -3.4e38f,
                                     16777216,
                                     16777218,
                                     -16777215,
                                     8388607.5f,
                                     1e10f,
                                     -1e10f,
                                     0x1.fffffep-1f,
                                     0x1.000002p0f,
                                     -0x1.fffffep-1f,
                                     33,
                                     -33,
                                     127,
                                     128,
                                     149,
                                     -149,
                                     0.1f,
                                     -0.1f,
                                     1.0f / 3,
                                     1e-20f};
  int64_t n = 0;
  uint64_t state = 1;
  for (; n < EDGES * EDGES; n++) x[n] = edges[n / EDGES], y[n] = edges[n % EDGES];
  for (; n < EDGES * EDGES + RANDOM; n++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const uint32_t a = (uint32_t)(state >> 32), b = (uint32_t)(state >> 11);
    const float unit = (float)(a >> 8) * 0x1p-24f, other = (float)(b >> 8) * 0x1p-24f;
    if (n % 4 == 0) memcpy(&x[n], &a, 4), memcpy(&y[n], &b, 4);
    else if (n % 4 == 1) x[n] = 1 + (unit - 0.5f) * 0x1p-8f, y[n] = (other - 0.5f) * 40000;
    else if (n % 4 == 2) x[n] = unit * 20 - 10, y[n] = (float)(int32_t)(other * 40) - 20;
    else x[n] = unit * 100, y[n] = other * 20 - 10;
  }
  return n;
}

static void expect_pairs(const compile_setting *setting, const char *how) {
  static const char text[] =
      "input %0 \"x\": f32[n]\ninput %1 \"y\": f32[n]\n%2 = aten::pow(%0, %1)\n%3 = aten::atan2(%0, %1)\n"
      "output \"pow\" %2\noutput \"atan2\" %3\n";
  static float x[EDGES * EDGES + RANDOM], y[EDGES * EDGES + RANDOM];
  const int64_t count = fill_pairs(x, y);
  const base_value in[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, &count)},
                           {.kind = BASE_TENSOR, .tensor = base_tensor_of(y, TD_F32, 1, &count)}};
  rig r;
  rig_open_as(&r, text, NULL, setting);
  assert_int_equal(r.plan->steps.count, 1);
  for (uint32_t k = 0; k < 2; k++) assert_int_equal(run_set_input(r.session, k, &in[k], &r.err), TD_OK);
  rig_run(&r);
  for (uint32_t f = 0; f < PAIRS; f++) {
    const float *z = rig_output(&r, f)->data;
    for (int64_t i = 0; i < count; i++) {
      const double truth = pairs[f].truth((double)x[i], (double)y[i]);
      const bool exact = truth == 0 || isinf((float)truth);
      if (isnan(truth) ? isnan(z[i])
          : exact      ? z[i] == (float)truth && !signbit(z[i]) == !signbit(truth)
                       : fabs((double)z[i] - truth) <= 0.501 * ulp_of(truth))
        continue;
      fail_msg("%s, %s(%.9g, %.9g) = %.9g; %.9g is right", how, pairs[f].name, (double)x[i], (double)y[i], (double)z[i],
               truth);
    }
  }
  rig_close(&r);
}

/* ---- quantisation ---- */

static const struct {
  float scale;
  const char *type;
  td_dtype dtype;
  int zero, least, most;
} quantised[] = {{0.1f, "i8", TD_I8, 0, -128, 127},
                 {0x1.7eb468p-8f, "u8", TD_U8, 130, 0, 255},
                 {0x1.fffffep+3f, "u8", TD_U8, 0, 0, 255},
                 {0x1.555556p-60f, "i16", TD_I16, -5, -32768, 32767}};
enum { QUANTISED = sizeof quantised / sizeof *quantised };

/* What is halfway between two whole numbers of a scale, and its neighbours; or any of the sets. */
static void fill_halves(float *x, int set) {
  fill(x, set % SETS);
  if (set < SETS) return;
  for (uint32_t i = 0; i < SAMPLES; i++) {
    x[i] = quantised[set - SETS].scale * ((float)(i / 5) - 6500.5f);
    for (uint32_t k = 0; k < 4; k++)
      if (i % 5 > k) x[i] = nextafterf(x[i], k < 2 ? INFINITY : -INFINITY);
  }
}

static void expect_stored(uint32_t q, const char *how, const float *x, const base_tensor *y, const float *back) {
  for (int64_t i = 0; i < SAMPLES; i++) {
    const float ratio = nearbyintf(x[i] / quantised[q].scale) + (float)quantised[q].zero;
    const double want = fmin(fmax((double)ratio, quantised[q].least), quantised[q].most);
    const float wide = (float)(want - quantised[q].zero) * quantised[q].scale;
    if (base_load_f64(y->dtype, y->data, i) == want && back[i] == wide && !signbit(back[i]) == !signbit(wide)) continue;
    fail_msg("%s, %.9g in units of %.9g is %g and %.9g back; %g and %.9g are right", how, (double)x[i],
             (double)quantised[q].scale, base_load_f64(y->dtype, y->data, i), (double)back[i], want, (double)wide);
  }
}

/* Bit by bit as a division, a rounding and limits give it. */
static void expect_quantised(const compile_setting *setting, const char *how) {
  static float x[SAMPLES];
  const int64_t count = SAMPLES;
  base_text text = {.allocator = &base_libc_allocator};
  rig r;
  base_text_print(&text, "input %%0 \"x\": f32[n]\n");
  for (uint32_t q = 0; q < QUANTISED; q++)
    base_text_print(&text,
                    "const %%%u: f32[] = {%.9g}\nconst %%%u: %s[] = {%d}\n%%%u = td::quantize_linear(%%0, %%%u, %%%u) "
                    "{dtype = %s}\n%%%u = td::dequantize_linear(%%%u, %%%u, %%%u) {dtype = f32}\n",
                    4 * q + 1, (double)quantised[q].scale, 4 * q + 2, quantised[q].type, quantised[q].zero, 4 * q + 3,
                    4 * q + 1, 4 * q + 2, quantised[q].type, 4 * q + 4, 4 * q + 3, 4 * q + 1, 4 * q + 2);
  for (uint32_t q = 0; q < 4 * QUANTISED; q += 4)
    base_text_print(&text, "output \"y%u\" %%%u\noutput \"x%u\" %%%u\n", q, q + 3, q, q + 4);
  rig_open_as(&r, text.at, NULL, setting);
  assert_int_equal(r.plan->steps.count, 1);
  for (int set = 0; set < SETS + QUANTISED; set++) {
    fill_halves(x, set);
    const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F32, 1, &count)};
    assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
    rig_run(&r);
    for (uint32_t q = 0; q < QUANTISED; q++)
      expect_stored(q, how, x, rig_output(&r, 2 * q), rig_output(&r, 2 * q + 1)->data);
  }
  rig_close(&r);
  base_text_free(&text);
}

/* ---- of f64 ---- */

static long double sigmoid_of(long double x) { return 1 / (1 + expl(-x)); }
static long double silu_of(long double x) { return x * sigmoid_of(x); }
static long double softplus_of(long double x) { return x > 50 ? x : log1pl(expl(x)); }
static long double gelu_of(long double x) { return x * erfcl(-x * 0.70710678118654752440084436210485L) / 2; }

/* `of_x`: the error is measured in units of x, as that of f32 is. */
static const struct {
  const char *name;
  long double (*truth)(long double);
  double ulps;
  bool of_x;
} doubles[] = {{"exp", expl, 1, false},       {"expm1", expm1l, 2, false},
               {"log", logl, 1, false},       {"log2", log2l, 2, false},
               {"log10", log10l, 2, false},   {"log1p", log1pl, 2, false},
               {"tanh", tanhl, 3, false},     {"sigmoid", sigmoid_of, 2, false},
               {"silu", silu_of, 3, false},   {"sin", sinl, 1, false},
               {"cos", cosl, 1, false},       {"erf", erfl, 2, false},
               {"sqrt", sqrtl, 0.501, false}, {"softplus", softplus_of, 2, false},
               {"gelu", gelu_of, 2, true},    {"floor", floorl, 0, false},
               {"ceil", ceill, 0, false},     {"round", nearbyintl, 0, false}};
enum { DOUBLES = sizeof doubles / sizeof *doubles };

/* One unit in the last place of the f64 nearest to x. */
static double wide_ulp_of(double x) {
  int e;
  (void)frexp(x, &e);
  return fabs(x) < 0x1p-1022 ? 0x1p-1074 : ldexp(1, e - 53);
}

/* Every 2^48th double; from -20 to 20; from -9000 to 9000; and the doubles nearest to multiples of pi/2. */
static void fill_doubles(double *x, int set) {
  for (uint64_t i = 0; i < SAMPLES; i++) {
    const uint64_t bits = (i << 48) + i * 0x9e3779b97f4aull % (1ull << 48);
    const double at = (double)i - SAMPLES / 2.0;
    if (set == 0) memcpy(&x[i], &bits, sizeof bits);
    else if (set < 3) x[i] = at * ((set == 1 ? 40.0 : 18000.0) / SAMPLES) * (1 + 0x1p-40 * (double)(i % 999));
    else x[i] = at * 1.57079632679489661923;
  }
  const double ends[] = {0, -0.0, INFINITY, -INFINITY, NAN, 1, -1, 0x1p-1074, -0x1p-1022, 0x1.fffffffffffffp1023};
  memcpy(x, ends, sizeof ends);
}

static void expect_close_double(uint32_t f, const char *how, const double *x, const double *y) {
  for (int64_t i = 0; i < SAMPLES; i++) {
    const long double truth = doubles[f].truth((long double)x[i]);
    const double near = (double)truth;
    const double lost = doubles[f].truth == silu_of ? 0x1p-1064 : 0; /* times x, of a factor that is no normal number */
    const double unit = fmax(wide_ulp_of(doubles[f].of_x ? x[i] : near), lost);
    if (isnan(near) && !isinf(x[i])  ? isnan(y[i])
        : isinf(near) || isinf(x[i]) ? y[i] == near || (isnan(y[i]) && isnan(near)) || (near != near && y[i] == 0)
                                     : (double)fabsl((long double)y[i] - truth) <= (doubles[f].ulps + 0.001) * unit)
      continue;
    fail_msg("%s, %s(%.17g) = %.17g; %.17g is right, %.2f units", how, doubles[f].name, x[i], y[i], near,
             (double)fabsl((long double)y[i] - truth) / unit);
  }
}

static void expect_doubles(const compile_setting *setting, const char *how) {
  static double x[SAMPLES];
  const int64_t count = SAMPLES;
  const base_value value = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F64, 1, &count)};
  for (uint32_t first = 0, last; first < DOUBLES; first = last) {
    base_text text = {.allocator = &base_libc_allocator};
    rig r;
    last = first + BASE_PROGRAM_OUTS < DOUBLES ? first + BASE_PROGRAM_OUTS : DOUBLES;
    base_text_print(&text, "input %%0 \"x\": f64[n]\n");
    for (uint32_t f = first; f < last; f++)
      base_text_print(&text, "%%%u = aten::%s(%%0)\n", f - first + 1, doubles[f].name);
    for (uint32_t f = first; f < last; f++)
      base_text_print(&text, "output \"%s\" %%%u\n", doubles[f].name, f - first + 1);
    rig_open_as(&r, text.at, NULL, setting);
    base_text_free(&text);
    assert_int_equal(r.plan->steps.count, 1);
    for (int set = 0; set < SETS; set++) {
      fill_doubles(x, set);
      assert_int_equal(run_set_input(r.session, 0, &value, &r.err), TD_OK);
      rig_run(&r);
      for (uint32_t f = first; f < last; f++) expect_close_double(f, how, x, rig_output(&r, f - first)->data);
    }
    rig_close(&r);
  }
}

/* Powers as fill_pairs draws them, of more bits than f32 has. */
static void expect_double_powers(const compile_setting *setting, const char *how) {
  static const char text[] =
      "input %0 \"x\": f64[n]\ninput %1 \"y\": f64[n]\n%2 = aten::pow(%0, %1)\noutput \"pow\" %2\n";
  static float narrow[2][EDGES * EDGES + RANDOM];
  static double x[EDGES * EDGES + RANDOM], y[EDGES * EDGES + RANDOM];
  const int64_t count = fill_pairs(narrow[0], narrow[1]);
  for (int64_t i = 0; i < count; i++) {
    const bool edge = i < EDGES * EDGES;
    x[i] = (double)narrow[0][i] * (edge ? 1 : 1 + 0x1p-30 * (double)(i % 1001));
    y[i] = (double)narrow[1][i] * (edge || i % 4 == 2 ? 1 : 1 + 0x1p-31 * (double)(i % 1003));
  }
  const base_value in[] = {{.kind = BASE_TENSOR, .tensor = base_tensor_of(x, TD_F64, 1, &count)},
                           {.kind = BASE_TENSOR, .tensor = base_tensor_of(y, TD_F64, 1, &count)}};
  rig r;
  rig_open_as(&r, text, NULL, setting);
  for (uint32_t k = 0; k < 2; k++) assert_int_equal(run_set_input(r.session, k, &in[k], &r.err), TD_OK);
  rig_run(&r);
  const double *z = rig_output(&r, 0)->data;
  for (int64_t i = 0; i < count; i++) {
    const long double truth = powl((long double)x[i], (long double)y[i]);
    const double near = (double)truth;
    if (isnan(near)                ? isnan(z[i])
        : near == 0 || isinf(near) ? z[i] == near && !signbit(z[i]) == !signbit(near)
                                   : (double)fabsl((long double)z[i] - truth) <= 1.5 * wide_ulp_of(near))
      continue;
    fail_msg("%s, pow(%.17g, %.17g) = %.17g; %.17g is right", how, x[i], y[i], z[i], near);
  }
  rig_close(&r);
}

/* ---- scans ---- */

enum { LONGEST = 70, SCANNED = 5 };
static const td_dtype scanned[SCANNED] = {TD_F32, TD_F64, TD_I32, TD_I64, TD_BOOL};

/* Row 0 is plain; in row 1 a NaN or the end of the type stands somewhere. */
static void fill_scanned(base_tensor *t, int64_t length, uint64_t state) {
  for (int64_t i = 0; i < 2 * length; i++) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const double small = (double)(state >> 60) - 7.5;
    if (!base_is_float(t->dtype))
      base_store_i64(t->dtype, t->data, i, t->dtype == TD_BOOL ? small < -6 : (int64_t)small);
    else base_store_f64(t->dtype, t->data, i, i >= length && state >> 55 == 0 ? NAN : small * 0.25);
  }
}

static void run_scans(const compile_setting *setting, const char *text, const base_value *x, uint32_t outs,
                      base_tensor *got) {
  rig r;
  rig_open_as(&r, text, NULL, setting);
  assert_int_equal(run_set_input(r.session, 0, x, &r.err), TD_OK);
  rig_run(&r);
  for (uint32_t f = 0; f < outs; f++)
    for (int64_t i = 0; i < base_tensor_numel(&x->tensor); i++) {
      const base_tensor *from = rig_output(&r, f);
      if (base_is_float(from->dtype)) base_store_f64(TD_F64, got[f].data, i, base_load_f64(from->dtype, from->data, i));
      else base_store_i64(TD_I64, got[f].data, i, base_load_i64(from->dtype, from->data, i));
    }
  rig_close(&r);
}

/* Rounded to f32 once, or in another order: of f64 some bits. */
static void expect_like_eager(const compile_setting *setting, const char *how, const char *text, td_dtype dtype,
                              uint32_t outs) {
  static double x[2 * LONGEST], room[2][4][2 * LONGEST];
  const compile_setting eager = {.backend = compile_find_backend("aot_eager"), .isa = setting->isa};
  base_tensor got[2][4];
  for (int64_t length = 0; length <= LONGEST; length += length < 3 ? 1 : 1 + length / 2) {
    const int64_t dims[] = {2, length};
    base_value in = {.kind = BASE_TENSOR, .tensor = base_tensor_of(x, dtype, 2, dims)};
    fill_scanned(&in.tensor, length, (uint64_t)length + 1);
    for (uint32_t k = 0; k < 8; k++) got[k / 4][k % 4] = base_tensor_of(room[k / 4][k % 4], TD_F64, 2, dims);
    run_scans(&eager, text, &in, outs, got[0]);
    run_scans(setting, text, &in, outs, got[1]);
    for (uint32_t f = 0; f < outs; f++)
      for (int64_t i = 0; i < 2 * length; i++) {
        const double want = room[0][f][i], is = room[1][f][i];
        if ((want == is && !signbit(want) == !signbit(is)) || (isnan(want) && isnan(is))) continue;
        if (base_is_float(dtype) && fabs(want - is) <= (dtype == TD_F32 ? 2e-7 : 1e-14) * (fabs(want) + 16)) continue;
        fail_msg("%s, scan %u of %s, %lld elements: element %lld is %.17g, not %.17g", how, f, td_dtype_name(dtype),
                 (long long)length, (long long)i, is, want);
      }
  }
}

/* Sums, products, and the largest and least so far, each with something in front of it and behind it, against the same
 * an operator at a time. */
static void expect_scans(const compile_setting *setting, const char *how) {
  static const char *const types[SCANNED] = {"f32", "f64", "i32", "i64", "bool"};
  for (uint32_t k = 0; k < SCANNED; k++) {
    base_text text = {.allocator = &base_libc_allocator};
    const bool truth = scanned[k] == TD_BOOL;
    base_text_print(&text, "input %%0 \"x\": %s[2, n]\nconst %%1: i64[] = {-1}\n%%2 = aten::%s(%%0)\n", types[k],
                    truth ? "logical_not" : "neg");
    base_text_print(&text, "%%3, %%4 = aten::cummax(%%2)\n%%5, %%6 = aten::cummin(%%2)\n");
    if (!truth)
      base_text_print(&text,
                      "%%7 = aten::cumsum(%%2, %%1)\n%%8 = aten::cumprod(%%2, %%1)\n%%9 = aten::sub(%%7, %%2)\n");
    base_text_print(&text, "output \"a\" %%3\noutput \"b\" %%5\n");
    if (!truth) base_text_print(&text, "output \"c\" %%9\noutput \"d\" %%8\n");
    expect_like_eager(setting, how, text.at, scanned[k], truth ? 2 : 4);
    base_text_free(&text);
  }
}

static void functions_keep_their_bounds(void **state) {
  (void)state;
  sys_machine machine;
  uint32_t count;
  sys_cpu_read(&machine);
  char *cache = chains_cache();
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++) {
    if (base_isa_lacks(machine.isa, levels[i].isa)) continue;
    compile_setting setting = {.backend = compile_find_backend("interp"), .isa = levels[i].isa};
    expect_functions(&setting, levels[i].name);
    expect_pairs(&setting, levels[i].name);
    expect_quantised(&setting, levels[i].name);
    expect_scans(&setting, levels[i].name);
    setting.options.disabled_kernels = "kern_fused_scalar,kern_fused_vector,kern_fused_avx2,kern_fused_avx512";
    expect_scans(&setting, "by the plain loops");
    setting.options.disabled_kernels = NULL;
    setting.backend = compile_find_backend("native");
    setting.options.cc = chains_compiler();
    setting.options.cache = cache;
    setting.options.strict = true;
    char how[64];
    snprintf(how, sizeof how, "%s, compiled", levels[i].name);
    if (!setting.options.cc) continue;
    expect_functions(&setting, how);
    expect_pairs(&setting, how);
    expect_quantised(&setting, how);
    expect_doubles(&setting, how);
    expect_double_powers(&setting, how);
    expect_scans(&setting, how);
  }
  chains_remove(cache);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions_keep_their_bounds)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
