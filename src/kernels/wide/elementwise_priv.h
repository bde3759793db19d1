/* elementwise_priv.h -- how a kernel walks the elements of its output, which is dense, and of one to three operands
 * broadcast to it, of any strides. The output may be the memory of an operand that has its layout.
 *
 * Dimensions that all operands run through alike are merged; what is left is planes of rows of elements. A body
 * computes some rows of one plane, and sees operands of steps 1 and, where it has a form for that, 0 from element to
 * element; other operands are gathered in front of it, a piece of a row at a time. Tasks are runs of whole rows, or
 * pieces of a long row, by shape alone. */
#ifndef KERNELS_WIDE_ELEMENTWISE_PRIV_H
#define KERNELS_WIDE_ELEMENTWISE_PRIV_H
#include "kernels/math_priv.h"

enum { WIDE_OPERANDS = 3, WIDE_TASK = 16384 /* elements */, WIDE_PIECE = 512 /* elements gathered at a time */ };

/* out[r * n + i] = f(in[k][r * pitch[k] + i or, a scalar, r * pitch[k]] ...) for `rows` rows of `n` elements. `p`: the
 * parameters of the function. */
typedef void (*wide_rows)(float *out, const float *const *in, const int64_t *pitch, int64_t rows, int64_t n,
                          const float *p);

/* The forms of a body: which operands are scalars, bit k for operand k; NULL: none. rows[0] takes vectors alone. */
typedef struct wide_body {
  uint32_t operands;
  wide_rows rows[4];
} wide_body;

typedef struct wide_space {
  float *out;
  const char *in[WIDE_OPERANDS];
  bool is_bool[WIDE_OPERANDS]; /* one byte an element; read as 0 and 1 */
  int32_t rank;                /* of the planes */
  int64_t dims[BASE_MAX_RANK], stride[WIDE_OPERANDS][BASE_MAX_RANK];
  int64_t planes, rows, length;
  int64_t pitch[WIDE_OPERANDS], step[WIDE_OPERANDS];
} wide_space;

/* Adds a dimension outside of the `count` found so far, or merges it into the last of them; gives the new count. */
static int32_t wide_add_dim(uint32_t operands, int64_t length, const int64_t *stride, int32_t count, int64_t *dims,
                            int64_t strides[][WIDE_OPERANDS]) {
  bool merges = count > 0;
  if (length == 1) return count;
  for (uint32_t k = 0; merges && k < operands; k++) merges = stride[k] == strides[count - 1][k] * dims[count - 1];
  if (merges) {
    dims[count - 1] *= length;
    return count;
  }
  dims[count] = length;
  for (uint32_t k = 0; k < operands; k++) strides[count][k] = stride[k];
  return count + 1;
}

/* The space of out[0] and the first `operands` operands. */
static void wide_space_of(const base_call *call, uint32_t operands, wide_space *s) {
  const base_tensor *out = base_out(call, 0);
  int64_t dims[BASE_MAX_RANK + 2], strides[BASE_MAX_RANK + 2][WIDE_OPERANDS];
  int32_t count = 0;
  memset(s, 0, sizeof *s);
  s->out = out->data;
  for (uint32_t k = 0; k < operands; k++) {
    s->in[k] = base_in(call, k)->data;
    s->is_bool[k] = base_in(call, k)->dtype == TD_BOOL;
  }
  for (int32_t i = out->rank; i-- > 0;) {
    int64_t stride[WIDE_OPERANDS];
    for (uint32_t k = 0; k < operands; k++) {
      const base_tensor *t = base_in(call, k);
      int32_t at = i - out->rank + t->rank;
      stride[k] = at >= 0 && t->dims[at] != 1 ? t->strides[at] : 0;
    }
    count = wide_add_dim(operands, out->dims[i], stride, count, dims, strides);
  }
  while (count < 2) { /* a row, and rows of it */
    dims[count] = 1;
    for (uint32_t k = 0; k < operands; k++) strides[count][k] = count ? 0 : 1;
    count++;
  }
  s->length = dims[0];
  s->rows = dims[1];
  s->rank = count - 2;
  s->planes = 1;
  for (int32_t i = 0; i < s->rank; i++) s->planes *= s->dims[i] = dims[i + 2];
  for (uint32_t k = 0; k < operands; k++) {
    s->step[k] = strides[0][k];
    s->pitch[k] = strides[1][k];
    for (int32_t i = 0; i < s->rank; i++) s->stride[k][i] = strides[i + 2][k];
  }
}

/* The form of `body` that takes the operands as they stand; NULL: gather them. */
static wide_rows wide_form(const wide_space *s, const wide_body *body) {
  uint32_t form = 0;
  for (uint32_t k = 0; k < body->operands; k++) {
    if (s->is_bool[k] || s->step[k] < 0 || s->step[k] > 1) return NULL;
    form |= (uint32_t)(s->step[k] == 0) << k;
  }
  return form < sizeof body->rows / sizeof *body->rows ? body->rows[form] : NULL;
}

/* `count` elements of operand `k` from element `offset` on, as a dense row of floats: its own, or in `buffer`. */
static const float *wide_gather(const wide_space *s, uint32_t k, int64_t offset, int64_t count, float *buffer) {
  int64_t step = s->step[k];
  if (s->is_bool[k]) {
    const uint8_t *from = (const uint8_t *)s->in[k] + offset;
    for (int64_t i = 0; i < count; i++) buffer[i] = from[i * step];
    return buffer;
  }
  const float *from = (const float *)(const void *)s->in[k] + offset;
  if (step == 1) return from;
  for (int64_t i = 0; i < count; i++) buffer[i] = from[i * step];
  return buffer;
}

/* Elements [from, from + n) of `rows` rows that lie behind one another from row `row` of plane `plane` on. */
static void wide_run(const wide_space *s, const wide_body *body, wide_rows form, int64_t plane, int64_t row,
                     int64_t rows, int64_t from, int64_t n, const float *p) {
  static const int64_t none[WIDE_OPERANDS];
  const float *in[WIDE_OPERANDS];
  int64_t offset[WIDE_OPERANDS], rest = plane;
  float *out = s->out + (plane * s->rows + row) * s->length + from;
  for (uint32_t k = 0; k < body->operands; k++) offset[k] = row * s->pitch[k] + from * s->step[k];
  for (int32_t i = 0; i < s->rank; i++) {
    for (uint32_t k = 0; k < body->operands; k++) offset[k] += rest % s->dims[i] * s->stride[k][i];
    rest /= s->dims[i];
  }
  if (form) {
    for (uint32_t k = 0; k < body->operands; k++) in[k] = (const float *)(const void *)s->in[k] + offset[k];
    form(out, in, s->pitch, rows, n, p);
    return;
  }
  float buffer[WIDE_OPERANDS][WIDE_PIECE];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i += WIDE_PIECE) {
      int64_t count = base_min_i64(WIDE_PIECE, n - i);
      for (uint32_t k = 0; k < body->operands; k++)
        in[k] = wide_gather(s, k, offset[k] + r * s->pitch[k] + i * s->step[k], count, buffer[k]);
      body->rows[0](out + r * s->length + i, in, none, 1, count, p);
    }
}

/* out[0] = the body over the call's first operands. */
static td_status wide_elementwise(const base_call *call, const wide_body *body, const float *p) {
  wide_space s;
  wide_space_of(call, body->operands, &s);
  if (s.planes * s.rows * s.length == 0) return TD_OK;
  wide_rows form = wide_form(&s, body);
  int64_t block = s.length < WIDE_TASK ? WIDE_TASK / s.length : 1, all = s.planes * s.rows;
  int64_t pieces = s.length < 2 * WIDE_TASK ? 1 : (s.length + WIDE_TASK - 1) / WIDE_TASK;
  uint32_t total = (uint32_t)((all + block - 1) / block * pieces);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t first = task / pieces * block, end = base_min_i64(all, first + block);
    int64_t from = pieces > 1 ? task % pieces * WIDE_TASK : 0;
    int64_t n = pieces > 1 ? base_min_i64(WIDE_TASK, s.length - from) : s.length;
    for (int64_t row = first, rows; row < end; row += rows) {
      rows = base_min_i64(s.rows - row % s.rows, end - row);
      wide_run(&s, body, form, row / s.rows, row % s.rows, rows, from, n, p);
    }
  }
  return TD_OK;
}
#endif
