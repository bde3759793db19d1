/* elementwise.c -- the walk of elementwise_priv.h: what no level of instruction sets has a part in. */
#include "kernels/loops/elementwise_priv.h"
#include "kernels/tasks_priv.h"

#include <string.h>

enum { OPERANDS = ELEMENTWISE_OPERANDS, TASK = 16384 /* elements */, PIECE = 512 /* elements gathered at a time */ };
enum { WIDEST = 16 /* lanes */, SHORT = 64 /* elements of a row: the rest behind its vectors counts */ };

typedef struct space {
  float *out;
  const char *in[OPERANDS];
  bool is_bool[OPERANDS]; /* one byte an element; read as 0 and 1 */
  elementwise_space at;
  bool once[OPERANDS]; /* gathered once for all rows of a plane, which have the same elements */
  bool periodic;       /* see is_periodic */
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

void kern_elementwise_space(const base_call *call, uint32_t operands, elementwise_space *s) {
  const base_tensor *out = base_out(call, 0);
  int64_t dims[BASE_MAX_RANK + 2], strides[BASE_MAX_RANK + 2][OPERANDS];
  int32_t count = 0;
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
  *s = (elementwise_space){.length = dims[0], .rows = dims[1], .rank = count - 2, .planes = 1};
  for (int32_t i = 0; i < s->rank; i++) s->planes *= s->dims[i] = dims[i + 2];
  for (uint32_t k = 0; k < operands; k++) {
    s->step[k] = strides[0][k];
    s->pitch[k] = strides[1][k];
    for (int32_t i = 0; i < s->rank; i++) s->stride[k][i] = strides[i + 2][k];
  }
}

void kern_elementwise_offsets(const elementwise_space *s, uint32_t operands, int64_t plane, int64_t row,
                              int64_t *offset) {
  for (uint32_t k = 0; k < operands; k++) offset[k] = row * s->pitch[k];
  for (int32_t i = 0; i < s->rank; i++) {
    for (uint32_t k = 0; k < operands; k++) offset[k] += plane % s->dims[i] * s->stride[k][i];
    plane /= s->dims[i];
  }
}

static void space_of(const base_call *call, uint32_t operands, space *s) {
  memset(s, 0, sizeof *s);
  s->out = base_out(call, 0)->data;
  for (uint32_t k = 0; k < operands; k++) {
    s->in[k] = base_in(call, k)->data;
    s->is_bool[k] = base_in(call, k)->dtype == TD_BOOL;
  }
  kern_elementwise_space(call, operands, &s->at);
}

/* Rows that are the same one for a plane, and no dense one. */
static void find_repeated(space *s, uint32_t operands) {
  for (uint32_t k = 0; k < operands; k++)
    s->once[k] = s->at.rows > 1 && s->at.pitch[k] == 0 && s->at.length <= PIECE &&
                 (s->is_bool[k] || s->at.step[k] < 0 || s->at.step[k] > 1);
}

/* The form of `body` that takes the operands as they stand; NULL: gather them. */
static elementwise_rows form_of(const space *s, const elementwise_body *body) {
  uint32_t form = 0;
  for (uint32_t k = 0; k < body->operands; k++) {
    if (s->once[k]) continue;
    if (s->is_bool[k] || s->at.step[k] < 0 || s->at.step[k] > 1) return NULL;
    form |= (uint32_t)(s->at.step[k] == 0) << k;
  }
  return form < sizeof body->rows / sizeof *body->rows ? body->rows[form] : NULL;
}

/* `count` elements of operand `k` from element `offset` on, as a dense row of floats: its own, or in `buffer`. */
static const float *gather(const space *s, uint32_t k, int64_t offset, int64_t count, float *buffer) {
  int64_t step = s->at.step[k];
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

/* ---- rows of few elements, dense or the same one each time: some of them are one long row ---- */

/* Rows that end with a vector. */
static int64_t rows_of_vectors(int64_t length) {
  int64_t rows = WIDEST;
  for (; length % 2 == 0 && rows > 1; length /= 2) rows /= 2;
  return rows;
}

static bool is_periodic(const space *s, uint32_t operands) {
  bool fits = s->at.length < SHORT && s->at.length % WIDEST && s->at.rows > 1;
  for (uint32_t k = 0; k < operands; k++)
    fits = fits && (s->once[k] || s->at.step[k] == 1) && (s->at.pitch[k] == 0 || s->at.pitch[k] == s->at.length);
  return fits;
}

/* `times` times the row, by ever longer copies. */
static void repeat_row(float *to, const float *row, int64_t n, int64_t times) {
  memcpy(to, row, (size_t)n * sizeof *to);
  for (int64_t made = n; made < n * times; made *= 2)
    memcpy(to + made, to, (size_t)base_min_i64(made, n * times - made) * sizeof *to);
}

static void run_periodic(const space *s, const elementwise_body *body, float *out, const float **in, int64_t rows,
                         const float *p) {
  float repeated[OPERANDS][SHORT * WIDEST];
  const int64_t n = s->at.length, each = base_min_i64(rows_of_vectors(n), rows), left = rows % each;
  int64_t pitch[OPERANDS];
  for (uint32_t k = 0; k < body->operands; k++) {
    pitch[k] = s->at.pitch[k] * each;
    if (s->at.pitch[k]) continue;
    repeat_row(repeated[k], in[k], n, each);
    in[k] = repeated[k];
  }
  body->rows[0](out, in, pitch, rows / each, n * each, p);
  if (!left) return;
  for (uint32_t k = 0; k < body->operands; k++) in[k] += rows / each * pitch[k];
  body->rows[0](out + (rows - left) * n, in, pitch, 1, n * left, p);
}

/* Elements [from, from + n) of `rows` rows that lie behind one another from row `row` of plane `plane` on. */
static void run_rows(const space *s, const elementwise_body *body, elementwise_rows form, int64_t plane, int64_t row,
                     int64_t rows, int64_t from, int64_t n, const float *p) {
  static const int64_t none[OPERANDS];
  const float *in[OPERANDS];
  int64_t offset[OPERANDS];
  float *out = s->out + (plane * s->at.rows + row) * s->at.length + from;
  kern_elementwise_offsets(&s->at, body->operands, plane, row, offset);
  for (uint32_t k = 0; k < body->operands; k++) offset[k] += from * s->at.step[k];
  float buffer[OPERANDS][PIECE];
  if (form) {
    for (uint32_t k = 0; k < body->operands; k++)
      in[k] = s->once[k] ? gather(s, k, offset[k], n, buffer[k]) : (const float *)(const void *)s->in[k] + offset[k];
    if (s->periodic) run_periodic(s, body, out, in, rows, p);
    else form(out, in, s->at.pitch, rows, n, p);
    return;
  }
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < n; i += PIECE) {
      int64_t count = base_min_i64(PIECE, n - i);
      for (uint32_t k = 0; k < body->operands; k++)
        in[k] = gather(s, k, offset[k] + r * s->at.pitch[k] + i * s->at.step[k], count, buffer[k]);
      body->rows[0](out + r * s->at.length + i, in, none, 1, count, p);
    }
}

td_status kern_elementwise(const base_call *call, const elementwise_body *body, const float *p) {
  space s;
  space_of(call, body->operands, &s);
  if (s.at.planes * s.at.rows * s.at.length == 0) return TD_OK;
  find_repeated(&s, body->operands);
  elementwise_rows form = form_of(&s, body);
  s.periodic = form && is_periodic(&s, body->operands);
  const int64_t size = kern_task_size(TASK, call->workers);
  int64_t block = s.at.length < size ? size / s.at.length : 1, all = s.at.planes * s.at.rows;
  int64_t pieces = s.at.length < 2 * size ? 1 : (s.at.length + size - 1) / size;
  uint32_t total = (uint32_t)((all + block - 1) / block * pieces);
  for (int64_t task = base_call_first(call, total); task < total; task = base_call_next(call, task, total)) {
    int64_t first = task / pieces * block, end = base_min_i64(all, first + block);
    int64_t from = pieces > 1 ? task % pieces * size : 0;
    int64_t n = pieces > 1 ? base_min_i64(size, s.at.length - from) : s.at.length;
    for (int64_t row = first, rows; row < end; row += rows) {
      rows = base_min_i64(s.at.rows - row % s.at.rows, end - row);
      run_rows(&s, body, form, row / s.at.rows, row % s.at.rows, rows, from, n, p);
    }
  }
  return TD_OK;
}
