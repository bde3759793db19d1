/* elementwise.c -- the walk of elementwise_priv.h: what no level of instruction sets has a part in. */
#include "kernels/elementwise_priv.h"

#include <string.h>

enum { OPERANDS = 3, TASK = 16384 /* elements */, PIECE = 512 /* elements gathered at a time */ };

typedef struct space {
  float *out;
  const char *in[OPERANDS];
  bool is_bool[OPERANDS]; /* one byte an element; read as 0 and 1 */
  int32_t rank;           /* of the planes */
  int64_t dims[BASE_MAX_RANK], stride[OPERANDS][BASE_MAX_RANK];
  int64_t planes, rows, length;
  int64_t pitch[OPERANDS], step[OPERANDS];
} space;

/* Adds a dimension outside of the `count` found so far, or merges it into the last of them; gives the new count. */
static int32_t add_dim(uint32_t operands, int64_t length, const int64_t *stride, int32_t count, int64_t *dims,
                       int64_t strides[][OPERANDS]) {
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
static void space_of(const base_call *call, uint32_t operands, space *s) {
  const base_tensor *out = base_out(call, 0);
  int64_t dims[BASE_MAX_RANK + 2], strides[BASE_MAX_RANK + 2][OPERANDS];
  int32_t count = 0;
  memset(s, 0, sizeof *s);
  s->out = out->data;
  for (uint32_t k = 0; k < operands; k++) {
    s->in[k] = base_in(call, k)->data;
    s->is_bool[k] = base_in(call, k)->dtype == TD_BOOL;
  }
  for (int32_t i = out->rank; i-- > 0;) {
    int64_t stride[OPERANDS];
    for (uint32_t k = 0; k < operands; k++) {
      const base_tensor *t = base_in(call, k);
      int32_t at = i - out->rank + t->rank;
      stride[k] = at >= 0 && t->dims[at] != 1 ? t->strides[at] : 0;
    }
    count = add_dim(operands, out->dims[i], stride, count, dims, strides);
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
static elementwise_rows form_of(const space *s, const elementwise_body *body) {
  uint32_t form = 0;
  for (uint32_t k = 0; k < body->operands; k++) {
    if (s->is_bool[k] || s->step[k] < 0 || s->step[k] > 1) return NULL;
    form |= (uint32_t)(s->step[k] == 0) << k;
  }
  return form < sizeof body->rows / sizeof *body->rows ? body->rows[form] : NULL;
}

/* `count` elements of operand `k` from element `offset` on, as a dense row of floats: its own, or in `buffer`. */
static const float *gather(const space *s, uint32_t k, int64_t offset, int64_t count, float *buffer) {
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
static void run_rows(const space *s, const elementwise_body *body, elementwise_rows form, int64_t plane, int64_t row,
                     int64_t rows, int64_t from, int64_t n, const float *p) {
  static const int64_t none[OPERANDS];
  const float *in[OPERANDS];
  int64_t offset[OPERANDS], rest = plane;
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
  float buffer[OPERANDS][PIECE];
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i += PIECE) {
      int64_t count = base_min_i64(PIECE, n - i);
      for (uint32_t k = 0; k < body->operands; k++)
        in[k] = gather(s, k, offset[k] + r * s->pitch[k] + i * s->step[k], count, buffer[k]);
      body->rows[0](out + r * s->length + i, in, none, 1, count, p);
    }
}

td_status kern_elementwise(const base_call *call, const elementwise_body *body, const float *p) {
  space s;
  space_of(call, body->operands, &s);
  if (s.planes * s.rows * s.length == 0) return TD_OK;
  elementwise_rows form = form_of(&s, body);
  int64_t block = s.length < TASK ? TASK / s.length : 1, all = s.planes * s.rows;
  int64_t pieces = s.length < 2 * TASK ? 1 : (s.length + TASK - 1) / TASK;
  uint32_t total = (uint32_t)((all + block - 1) / block * pieces);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t first = task / pieces * block, end = base_min_i64(all, first + block);
    int64_t from = pieces > 1 ? task % pieces * TASK : 0;
    int64_t n = pieces > 1 ? base_min_i64(TASK, s.length - from) : s.length;
    for (int64_t row = first, rows; row < end; row += rows) {
      rows = base_min_i64(s.rows - row % s.rows, end - row);
      run_rows(&s, body, form, row / s.rows, row % s.rows, rows, from, n, p);
    }
  }
  return TD_OK;
}
