/* test_own_answer.c -- rows and samples get their own answer, on every level of kernels: a row of zeros gives exactly
 * what it gives alone (products: the bias), what is not finite stays in its row, equal rows give equal bits, and a row
 * times a power of two gives exactly its result times that power where all that is done to it is linear. */
#include "runtime/harness.h"

#include <math.h>

#include "kernels/kernels.h"

enum {
  NOISE = 1 << 19, /* floats that constants are cut from */
  LINEAR = 1,      /* every result is a sum of multiples of one row's elements */
  ZERO_EXACT = 2   /* of a row of zeros the reference computes the same bits */
};

/* Rows are the first `in_dims` dims of the input, and the first `out_dims` of the output: as many. */
typedef struct subject {
  const char *name;
  uint32_t flags;
  int32_t in_dims, out_dims;
  const char *text;
} subject;

#define X(dims) "input %0 \"x\": f32[" dims "]\n"
#define W(id, dims, offset) "const %" #id ": f32[" dims "] = @0+" #offset "\n"
#define Y(id) "output \"y\" %" #id "\n"
#define CONVOLVE(operands, rest) "%9 = aten::convolution(" operands ") {" rest "}\n"

static const subject subjects[] = {
    /* products: tiles, thin rows, few columns, a part of a panel, several blocks of k, Strassen's sizes */
    {"linear", ZERO_EXACT, 2, 2,
     X("2, 67, 192") W(1, "192, 256", 0) W(2, "256", 196612) "%9 = td::linear(%0, %1, %2) {n = 256}\n" Y(9)},
    {"linear without bias", LINEAR | ZERO_EXACT, 2, 2,
     X("2, 67, 192") W(1, "192, 256", 0) "%9 = td::linear(%0, %1) {n = 256}\n" Y(9)},
    {"linear, blocks of k", LINEAR | ZERO_EXACT, 1, 1,
     X("27, 2200") W(1, "2200, 70", 0) "%9 = td::linear(%0, %1) {n = 70}\n" Y(9)},
    {"linear, relu", LINEAR | ZERO_EXACT, 1, 1,
     X("31, 33") W(1, "33, 17", 0) "%8 = td::linear(%0, %1) {n = 17}\n%9 = aten::relu(%8)\n" Y(9)},
    {"linear, gelu", 0, 1, 1,
     X("31, 64") W(1, "64, 40", 0) W(2, "40", 8192) "%8 = td::linear(%0, %1, %2) {n = 40}\n%9 = aten::gelu(%8)\n" Y(9)},
    {"linear, few columns", LINEAR | ZERO_EXACT, 1, 1,
     X("21, 160") W(1, "160, 3", 0) "%9 = td::linear(%0, %1) {n = 3}\n" Y(9)},
    {"linear, one row a sample", ZERO_EXACT, 1, 1,
     X("5, 300") W(1, "300, 130", 0) W(2, "130", 65536) "%9 = td::linear(%0, %1, %2) {n = 130}\n" Y(9)},
    {"linear, residual", 0, 1, 1,
     X("19, 48") W(1, "48, 48", 0) "%8 = td::linear(%0, %1) {n = 48}\n%9 = aten::add(%8, %0)\n" Y(9)},
    {"matmul", LINEAR | ZERO_EXACT, 2, 2, X("3, 29, 40") W(1, "3, 40, 50", 0) "%9 = aten::matmul(%0, %1)\n" Y(9)},
    {"matmul of one row", LINEAR | ZERO_EXACT, 2, 2,
     X("7, 1, 40") W(1, "7, 40, 50", 0) "%9 = aten::matmul(%0, %1)\n" Y(9)},
    /* convolutions */
    {"conv 1x1", ZERO_EXACT, 1, 1,
     X("4, 200, 9, 9") W(1, "136, 200, 1, 1", 0) W(2, "136", 65536) CONVOLVE("%0, %1, %2", "") Y(9)},
    {"conv 1x1, strided", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 24, 9, 9") W(1, "36, 24, 1, 1", 0) CONVOLVE("%0, %1", "stride = [2, 2]") Y(9)},
    {"conv 3x3", ZERO_EXACT, 1, 1,
     X("4, 12, 9, 7") W(1, "20, 12, 3, 3", 0) W(2, "20", 8192)
         CONVOLVE("%0, %1, %2", "padding = [1, 1, 1, 1], stride = [2, 2]") Y(9)},
    {"conv 5x3, dilated", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 20, 12, 11") W(1, "18, 20, 5, 3", 0) CONVOLVE("%0, %1", "padding = [4, 1, 4, 1], dilation = [2, 1]") Y(9)},
    {"conv, groups", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 32, 8, 8") W(1, "32, 8, 3, 3", 0) CONVOLVE("%0, %1", "padding = [1, 1, 1, 1], groups = 4") Y(9)},
    {"conv, many groups", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 64, 8, 8") W(1, "64, 2, 3, 3", 0) CONVOLVE("%0, %1", "padding = [1, 1, 1, 1], groups = 32") Y(9)},
    {"conv of three dims", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 8, 5, 6, 7") W(1, "12, 8, 3, 3, 3", 0) CONVOLVE("%0, %1", "padding = [1, 1, 1, 1, 1, 1]") Y(9)},
    {"conv of one dim", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 24, 40") W(1, "24, 24, 3", 0) CONVOLVE("%0, %1", "padding = [4, 4], dilation = [4]") Y(9)},
    {"first layer", ZERO_EXACT, 1, 1,
     X("4, 3, 18, 18") W(1, "32, 3, 7, 7", 0) W(2, "32", 32768)
         CONVOLVE("%0, %1, %2", "padding = [3, 3, 3, 3], stride = [2, 2]") Y(9)},
    {"winograd", ZERO_EXACT, 1, 1,
     X("4, 64, 18, 21") W(1, "70, 64, 3, 3", 0) W(2, "70", 262144) CONVOLVE("%0, %1, %2", "padding = [1, 1, 1, 1]")
         Y(9)},
    {"winograd in groups", ZERO_EXACT, 1, 1,
     X("4, 96, 14, 14") W(1, "96, 48, 3, 3", 0) W(2, "96", 262144)
         CONVOLVE("%0, %1, %2", "padding = [1, 1, 1, 1], groups = 2") Y(9)},
    {"winograd in small groups", LINEAR | ZERO_EXACT, 1, 1,
     X("2, 128, 28, 28") W(1, "128, 8, 3, 3", 0) CONVOLVE("%0, %1", "padding = [1, 1, 1, 1], groups = 16") Y(9)},
    {"winograd without bias", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 96, 14, 14") W(1, "64, 96, 3, 3", 0) CONVOLVE("%0, %1", "padding = [1, 1, 1, 1]") Y(9)},
    {"depthwise 3x3", ZERO_EXACT, 1, 1,
     X("4, 40, 9, 9") W(1, "40, 1, 3, 3", 0) W(2, "40", 8192)
         CONVOLVE("%0, %1, %2", "padding = [1, 1, 1, 1], groups = 40") Y(9)},
    {"depthwise 5x5, strided", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 33, 11, 11") W(1, "33, 1, 5, 5", 0)
         CONVOLVE("%0, %1", "padding = [2, 2, 2, 2], stride = [2, 2], groups = 33") Y(9)},
    {"depthwise 1x7, dilated", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 33, 9, 30") W(1, "33, 1, 1, 7", 0)
         CONVOLVE("%0, %1", "padding = [0, 6, 0, 6], dilation = [1, 2], groups = 33") Y(9)},
    {"depthwise of one dim", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 32, 40") W(1, "32, 1, 5", 0) CONVOLVE("%0, %1", "padding = [2, 2], groups = 32") Y(9)},
    {"expanded depthwise", LINEAR | ZERO_EXACT, 1, 1,
     X("2, 16, 56, 56") W(1, "96, 16, 1, 1", 0)
         W(2, "96, 1, 3, 3", 4096) "%7 = aten::convolution(%0, %1) {}\n%8 = aten::relu(%7)\n" CONVOLVE(
             "%8, %2", "padding = [1, 1, 1, 1], stride = [2, 2], groups = 96") Y(9)},
    {"transposed conv", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 24, 7, 7") W(1, "24, 20, 4, 4", 0)
         CONVOLVE("%0, %1", "padding = [1, 1, 1, 1], stride = [2, 2], transposed = true") Y(9)},
    /* attention: queries against constants, and a sample's own keys and values */
    {"attention, queries", 0, 3, 3,
     X("2, 3, 37, 32") W(1, "2, 3, 41, 32", 0)
         W(2, "2, 3, 41, 32", 16384) "%9 = aten::scaled_dot_product_attention(%0, %1, %2) {}\n" Y(9)},
    {"attention, samples", 0, 2, 2, X("3, 4, 33, 16") "%9 = aten::scaled_dot_product_attention(%0, %0, %0) {}\n" Y(9)},
    {"attention, heads side by side", 0, 1, 1,
     X("4, 50, 64") "%9 = aten::scaled_dot_product_attention(%0, %0, %0) {heads = 4, kv_heads = 4}\n" Y(9)},
    /* norms, softmax */
    {"layer norm", 0, 2, 2,
     X("3, 11, 100") W(1, "100", 0) W(2, "100", 4096) "%9 = aten::native_layer_norm(%0, %1, %2) {axis = -1}\n" Y(9)},
    {"layer norm of a sum", 0, 2, 2,
     X("3, 11, 64") W(1, "64", 0) W(2, "64", 4096)
         W(3, "3, 11, 64", 8192) "%8 = aten::add(%0, %3)\n%9 = aten::native_layer_norm(%8, %1, %2) {axis = -1}\n" Y(9)},
    {"rms norm", ZERO_EXACT, 2, 2, X("3, 11, 72") W(1, "72", 0) "%9 = aten::rms_norm(%0, %1) {axis = -1}\n" Y(9)},
    {"group norm", 0, 1, 1,
     X("4, 24, 6, 5") W(1, "24", 0)
         W(2, "24", 4096) "%9 = aten::native_group_norm(%0, %1, %2) {num_groups = 6}\n" Y(9)},
    {"softmax", 0, 2, 2, X("3, 11, 50") "%9 = aten::_softmax(%0) {dim = -1}\n" Y(9)},
    {"softmax across", 0, 1, 1, X("4, 11, 50") "%9 = aten::_softmax(%0) {dim = 1}\n" Y(9)},
    {"log softmax", 0, 2, 2, X("3, 11, 50") "%9 = aten::_log_softmax(%0) {dim = -1}\n" Y(9)},
    /* pools and sums */
    {"max pool", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 9, 9, 24") "%9 = td::max_pool(%0) {kernel_size = [3, 3], stride = [2, 2], padding = [1, 1, 1, 1], "
                      "channels_last = true}\n" Y(9)},
    {"average pool", LINEAR | ZERO_EXACT, 1, 1,
     X("4, 9, 9, 24") "%9 = td::avg_pool(%0) {kernel_size = [2, 2], stride = [2, 2], channels_last = true}\n" Y(9)},
    {"plane mean", LINEAR | ZERO_EXACT, 2, 2, X("4, 25, 8, 8") "%9 = td::avg_pool(%0) {kernel_size = [8, 8]}\n" Y(9)},
    {"sum", LINEAR | ZERO_EXACT, 2, 2, X("4, 25, 77") "%9 = aten::sum(%0) {dim = [-1]}\n" Y(9)},
    {"mean across", LINEAR | ZERO_EXACT, 1, 1, X("4, 64, 40") "%9 = aten::mean(%0) {dim = [1]}\n" Y(9)},
    {"maximum", LINEAR | ZERO_EXACT, 2, 2, X("4, 25, 77") "%9 = aten::amax(%0) {dim = [-1]}\n" Y(9)},
    /* elementwise */
    {"gate", LINEAR | ZERO_EXACT, 1, 1, X("4, 7, 40") W(1, "7, 1", 0) "%9 = aten::mul(%0, %1)\n" Y(9)},
    {"silu", 0, 1, 1, X("4, 300") "%9 = aten::silu(%0)\n" Y(9)},
    /* recurrent: samples */
    {"lstm", 0, 1, 1,
     X("5, 6, 20") W(1, "2, 96, 20", 0)
         W(2, "2, 96, 24",
           8192) "%9, %4, %5 = td::lstm(%0, %1, %2) {direction = \"bidirectional\", batch_first = true}\n" Y(9)},
    {"gru", 0, 1, 1,
     X("5, 6, 20") W(1, "1, 96, 20", 0)
         W(2, "1, 96, 32", 8192) "%9, %4 = td::gru(%0, %1, %2) {batch_first = true}\n" Y(9)},
    {"rnn", 0, 1, 1,
     X("5, 6, 20") W(1, "1, 96, 20", 0)
         W(2, "1, 96, 96", 8192) "%9, %4 = td::rnn(%0, %1, %2) {batch_first = true}\n" Y(9)},
};
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static float *noise(int64_t count, uint32_t seed) {
  float *x = aligned_alloc(64, (size_t)(count * (int64_t)sizeof *x + 63) / 64 * 64);
  assert_non_null(x);
  for (int64_t i = 0; i < count; i++) {
    seed = seed * 1664525u + 1013904223u;
    x[i] = (float)(seed >> 8) * 0x1p-23f - 1;
  }
  return x;
}

/* A subject on one level. */
typedef struct bench {
  const subject *of;
  const char *level;
  rig r;
  ir_segment constants;
  float *x, *y, *base; /* input; output, of noise, before */
  base_tensor in;
  int64_t rows, row_in, row_out;
} bench;

static void run(bench *b) {
  base_value value = {.kind = BASE_TENSOR, .tensor = b->in};
  value.tensor.data = b->x;
  if (run_set_input(b->r.session, 0, &value, &b->r.err) != TD_OK) fail_msg("%s: %s", b->of->name, b->r.err.text);
  rig_run(&b->r);
  const base_tensor *y = rig_output(&b->r, 0);
  b->row_out = base_tensor_numel(y) / b->rows;
  b->y = y->data;
}

static void open_bench(bench *b, const subject *of, const kern_level *level, const char *backend) {
  *b = (bench){.of = of, .level = level->name};
  float *values = noise(NOISE, 1);
  b->constants = (ir_segment){.name = "noise", .base = values, .bytes = NOISE * sizeof *values};
  rig_open_at(&b->r, of->text, &b->constants, backend, NULL, level->isa);
  const plan_slot *x = &b->r.plan->slots.at[b->r.plan->inputs.at[0].slot];
  int64_t dims[BASE_MAX_RANK];
  for (int32_t i = 0; i < x->rank; i++) dims[i] = x->dims[i];
  b->in = base_tensor_of(NULL, TD_F32, x->rank, dims);
  b->rows = 1;
  for (int32_t i = 0; i < of->in_dims; i++) b->rows *= dims[i];
  b->row_in = base_tensor_numel(&b->in) / b->rows;
  b->x = noise(b->rows * b->row_in, 2);
}

static void close_bench(bench *b) {
  rig_close(&b->r);
  free(b->x);
  free(b->base);
  free((void *)(uintptr_t)b->constants.base);
}

static void fresh(bench *b) {
  float *x = noise(b->rows * b->row_in, 2);
  memcpy(b->x, x, (size_t)(b->rows * b->row_in) * sizeof *x);
  free(x);
}

static void expect_bits(const bench *b, int64_t row, const float *wanted, const char *what) {
  for (int64_t i = 0; i < b->row_out; i++)
    if (memcmp((const void *)&b->y[row * b->row_out + i], (const void *)&wanted[i], sizeof *wanted) != 0)
      fail_msg("%s on %s: %s: row %d, element %d is %g, not %g", b->of->name, b->level, what, (int)row, (int)i,
               (double)b->y[row * b->row_out + i], (double)wanted[i]);
}

static const float *base_row(const bench *b, int64_t row) { return b->base + row * b->row_out; }

/* Rows of zeros, NaN, infinities and noise side by side. `zero`: what a row of zeros gives. */
static void mixed_rows(bench *b, const float *zero) {
  static const float odd[] = {0, NAN, INFINITY, -INFINITY};
  fresh(b);
  for (int64_t r = 0; r < b->rows; r++)
    for (int64_t i = 0; i < b->row_in && r % 5 < 4; i++)
      if (r % 5 == 0 || i % 3 == 0) b->x[r * b->row_in + i] = odd[r % 5];
  run(b);
  for (int64_t r = 0; r < b->rows; r++)
    if (r % 5 == 0 && zero) expect_bits(b, r, zero + (b->of->flags & ZERO_EXACT ? r * b->row_out : 0), "zeros");
    else if (r % 5 == 4) expect_bits(b, r, base_row(b, r), "a neighbour that is not finite");
}

static void equal_rows(bench *b) {
  fresh(b);
  for (int64_t r = 1; r < b->rows; r += 2) memcpy(b->x + r * b->row_in, b->x, (size_t)b->row_in * sizeof *b->x);
  run(b);
  for (int64_t r = 0; r < b->rows; r++) expect_bits(b, r, base_row(b, r % 2 ? 0 : r), "equal rows");
}

static void scaled_rows(bench *b) {
  static const float factors[] = {1, 32, 0.125f};
  float *wanted = malloc((size_t)b->row_out * sizeof *wanted);
  assert_non_null(wanted);
  fresh(b);
  for (int64_t i = 0; i < b->rows * b->row_in; i++) b->x[i] *= factors[i / b->row_in % 3];
  run(b);
  for (int64_t r = 0; r < b->rows; r++) {
    for (int64_t i = 0; i < b->row_out; i++) wanted[i] = base_row(b, r)[i] * factors[r % 3];
    expect_bits(b, r, wanted, "scaled");
  }
  free(wanted);
}

/* All rows zero, on the reference. */
static float *zeros_on_reference(const subject *of, const kern_level *level) {
  bench b;
  open_bench(&b, of, level, "eager");
  memset(b.x, 0, (size_t)(b.rows * b.row_in) * sizeof *b.x);
  run(&b);
  float *zero = malloc((size_t)(b.rows * b.row_out) * sizeof *zero);
  assert_non_null(zero);
  memcpy(zero, b.y, (size_t)(b.rows * b.row_out) * sizeof *zero);
  close_bench(&b);
  return zero;
}

/* Where rows meet constants that differ from row to row, or copies of them, equal rows are no equal problems. */
static bool rows_are_alike(const subject *of) {
  return !strstr(of->name, "matmul") && !strstr(of->name, "of a sum") && !strstr(of->name, "queries");
}

static void check(const subject *of, const kern_level *level) {
  float *zero = of->flags & ZERO_EXACT ? zeros_on_reference(of, level) : NULL;
  bench b;
  open_bench(&b, of, level, "native");
  run(&b);
  b.base = malloc((size_t)(b.rows * b.row_out) * sizeof *b.base);
  assert_non_null(b.base);
  memcpy(b.base, b.y, (size_t)(b.rows * b.row_out) * sizeof *b.base);
  mixed_rows(&b, zero);
  if (rows_are_alike(of)) equal_rows(&b);
  if (of->flags & LINEAR) scaled_rows(&b);
  close_bench(&b);
  free(zero);
}

static void every_row_has_its_own_answer(void **state) {
  (void)state;
  sys_machine machine;
  uint32_t count;
  sys_cpu_read(&machine);
  const kern_level *levels = kern_levels(&count);
  for (uint32_t i = 0; i < count; i++)
    for (uint32_t s = 0; s < SUBJECTS && !base_isa_lacks(machine.isa, levels[i].isa); s++)
      check(&subjects[s], &levels[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_row_has_its_own_answer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
