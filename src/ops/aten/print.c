/* print.c -- what programs print. The text has places for operands (PLACE_TENSOR, PLACE_NUMBER), which are written as
 * PyTorch's C++ streams write them. The run's caller hears of it (base_call.print), or nobody.
 *
 * No mathematics: TorchScript's prim::Print. */
#include "ops/common/ops_priv.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT };
enum { PLACE_TENSOR = 1, PLACE_NUMBER = 2, LINE = 80 };

static const ir_attr print_attrs[] = {ATTR_STR("text", "")};

static td_status infer_print(ir_infer *ctx) { return ir_out(ctx, 0, TD_BOOL, 0, NULL); }

/* How the numbers of a tensor are written: all in one width, divided by `scale`. */
typedef struct number_format {
  char kind; /* of printf: f, e or g */
  int precision, width;
  double scale;
} number_format;

static number_format format_of(const double *x, int64_t count) {
  bool whole = true, any = false;
  double low = 1, high = 1;
  for (int64_t i = 0; i < count; i++) {
    if (!isfinite(x[i])) continue;
    const double size = fabs(x[i]);
    whole = whole && x[i] == ceil(x[i]);
    low = any ? fmin(low, size) : size;
    high = any ? fmax(high, size) : size;
    any = true;
  }
  low = any && low != 0 ? floor(log10(low)) + 1 : 1;
  high = any && high != 0 ? floor(log10(high)) + 1 : 1;
  if (whole && high <= 9) return (number_format){'g', 6, (int)high + 1, 1};
  if (whole) return (number_format){'e', 4, 11, 1};
  if (high - low > 4) return (number_format){'e', 4, fabs(high) > 99 || fabs(low) > 99 ? 12 : 11, 1};
  if (high > 5 || high < 0) return (number_format){'f', 4, 7, pow(10, high - 1)};
  return (number_format){'f', 4, high == 0 ? 7 : (int)high + 6, 1};
}

static void write_number(base_text *text, const number_format *f, double x) {
  const char *pattern = f->kind == 'f' ? "%*.*f" : f->kind == 'e' ? "%*.*e" : "%*.*g";
  char buffer[64];
  x /= f->scale;
  snprintf(buffer, sizeof buffer, pattern, f->width, f->precision, x);
  base_text_print(text, "%s", buffer);
}

static void write_scale(base_text *text, const number_format *f, const char *indent) {
  if (f->scale == 1) return;
  base_text_print(text, f->scale > 1 && f->scale < 1e16 ? "%.0f" : "%.15g", f->scale);
  base_text_print(text, " *\n%s", indent);
}

static void write_matrix(base_text *text, const double *x, int64_t rows, int64_t columns, const char *indent) {
  const number_format f = format_of(x, rows * columns);
  const int64_t per_line = (LINE - (int64_t)strlen(indent)) / (f.width + 1);
  for (int64_t first = 0; first < columns; first += per_line) {
    const int64_t end = base_min_i64(first + per_line, columns);
    if (per_line < columns)
      base_text_print(text, "%sColumns %lld to %lld%s", first ? "\n" : "", (long long)first + 1, (long long)end,
                      indent);
    write_scale(text, &f, indent);
    for (int64_t r = 0; r < rows; r++)
      for (int64_t c = first; c < end; c++) {
        write_number(text, &f, x[r * columns + c]);
        base_text_print(text, "%s", c + 1 < end ? " " : "\n");
        if (c + 1 == end && r + 1 < rows) base_text_print(text, "%s%s", indent, f.scale != 1 ? " " : "");
      }
  }
}

/* Matrices, each under its place along the other axes, of which the first moves fastest. */
static void write_matrices(base_text *text, const double *x, const base_tensor *t) {
  const int32_t outer = t->rank - 2;
  const int64_t rows = t->dims[outer], columns = t->dims[outer + 1];
  int64_t at[BASE_MAX_RANK] = {0}, count = 1;
  for (int32_t i = 0; i < outer; i++) count *= t->dims[i];
  for (int64_t n = 0; n < count && !text->failed; n++) {
    int64_t index = 0;
    base_text_print(text, "%s(", n ? "\n" : "");
    for (int32_t i = 0; i < outer; i++) {
      index = index * t->dims[i] + at[i];
      base_text_print(text, "%lld,", (long long)at[i] + 1);
    }
    base_text_print(text, ".,.) = \n");
    write_matrix(text, x + index * rows * columns, rows, columns, " ");
    for (int32_t i = 0; i < outer && ++at[i] == t->dims[i]; i++) at[i] = 0;
  }
}

static const char *type_name(td_dtype dtype) {
  static const char *const names[TD_DTYPE_COUNT] = {
      [TD_F32] = "Float", [TD_F64] = "Double", [TD_F16] = "Half", [TD_BF16] = "BFloat16", [TD_I64] = "Long",
      [TD_I32] = "Int",   [TD_I16] = "Short",  [TD_I8] = "Char",  [TD_U8] = "Byte",       [TD_BOOL] = "Bool"};
  return names[dtype] ? names[dtype] : base_dtype(dtype)->name;
}

static td_status write_tensor(const base_call *call, const base_tensor *t, base_text *text) {
  const int64_t count = base_tensor_numel(t);
  double *x = base_call_scratch(call, (size_t)count, sizeof *x);
  size_t bytes;
  char *dense = base_dtype_bytes(t->dtype, count, &bytes) ? base_call_scratch(call, bytes, 1) : NULL;
  if (!x || !dense) return base_no_memory(call->err, "scratch");
  base_tensor_pack(dense, t);
  for (int64_t i = 0; i < count; i++) x[i] = base_load_f64(t->dtype, dense, i);
  if (t->rank == 0) base_text_print(text, "%g\n", x[0]);
  else if (count && t->rank == 1) {
    const number_format f = format_of(x, count);
    write_scale(text, &f, "");
    for (int64_t i = 0; i < count; i++) {
      write_number(text, &f, x[i]);
      base_text_print(text, "\n");
    }
  } else if (count && t->rank == 2) write_matrix(text, x, t->dims[0], t->dims[1], "");
  else if (count) write_matrices(text, x, t);
  base_text_print(text, "[ CPU%sType{", type_name(t->dtype));
  for (int32_t i = 0; i < t->rank; i++) base_text_print(text, "%s%lld", i ? "," : "", (long long)t->dims[i]);
  base_text_print(text, "} ]");
  return TD_OK;
}

static void write_scalar(base_text *text, const base_tensor *t) {
  const double x = base_load_f64(t->dtype, t->data, 0);
  if (t->dtype == TD_BOOL) base_text_print(text, "%s", x != 0 ? "True" : "False");
  else if (!base_is_float(t->dtype)) base_text_print(text, "%lld", (long long)base_load_i64(t->dtype, t->data, 0));
  else if (fabs(x) < 1e10 && x == (double)(int64_t)x) base_text_print(text, "%lld.", (long long)x);
  else base_text_print(text, "%.17g", x);
}

static td_status write_operand(const base_call *call, uint32_t index, char place, base_text *text) {
  const base_tensor *t = base_in(call, index);
  if (!t || base_dtype(t->dtype)->bits < 8 || t->dtype == TD_STRING)
    return ops_fail(call, "operand %u cannot be printed", index);
  if (place == PLACE_TENSOR) return write_tensor(call, t, text);
  write_scalar(text, t);
  return TD_OK;
}

static td_status print_reference(const base_call *call) {
  base_text text = {.allocator = &base_libc_allocator};
  td_status status = TD_OK;
  uint32_t operand = 0;
  const char *at = base_attr_str(call->attrs, TEXT);
  if (base_out(call, 0)) base_store_i64(TD_BOOL, base_out(call, 0)->data, 0, 0);
  if (!call->print) return TD_OK;
  while (*at && status == TD_OK) {
    const size_t plain = strcspn(at, (const char[]){PLACE_TENSOR, PLACE_NUMBER, 0});
    base_text_add(&text, at, plain);
    at += plain;
    if (*at) status = write_operand(call, operand++, *at++, &text);
  }
  if (status == TD_OK && text.failed) status = base_no_memory(call->err, "what the model prints");
  if (status == TD_OK && text.length) call->print(call, text.at, text.length);
  base_text_free(&text);
  return status;
}

OPS_DECLARE(print);
const ir_op ops_print[] = {
    /* (tensors and numbers in the order of their places in the text): gives nothing worth having (false) */
    {.id = OPERATOR(prim, Print),
     .max_in = IR_VARIADIC,
     .out_count = 1,
     .flags = IR_OP_EFFECT | IR_OP_HOST,
     .attrs = print_attrs,
     .attr_count = OPS_COUNT(print_attrs),
     .infer = infer_print,
     .reference = print_reference},
};
OPS_TABLE(print);
OPS_CASES(print) = {{0}}; /* HOST operators and regions have none */
