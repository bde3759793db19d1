/* fused_forms.c -- operands that are not dense elements of their type in a row, brought into that form a tile at a
 * time: converted, gathered, or transposed; and outputs that are not, written from it. */
#include "kernels/loops/fused_priv.h"
#include "kernels/index_priv.h"

#include <string.h>

/* to[i] = element i of `from`, of stride `step`, in the element type of bodies. */
typedef void (*reader)(void *to, const void *from, int64_t step, int64_t n);
#define READER(name, to_type, from_type, value)                           \
  static void name(void *to, const void *from, int64_t step, int64_t n) { \
    const from_type *at = from;                                           \
    to_type *out = to;                                                    \
    for (int64_t i = 0; i < n; i++, at += step) out[i] = (value);         \
  }
READER(from_byte, uint8_t, uint8_t, *at)
READER(from_word, uint32_t, base_u32, *at)
READER(from_long, uint64_t, base_u64, *at)
READER(from_f16, float, base_u16, base_f16_to_f32(*at))
READER(from_bf16, float, base_u16, base_bf16_to_f32(*at))
READER(from_i16, int32_t, base_i16, *at)
READER(from_i8, int32_t, int8_t, (int32_t)base_load_i64(TD_I8, at, 0))
READER(from_u16, int32_t, base_u16, *at)
READER(from_u8, int32_t, uint8_t, *at)
READER(from_u32, int64_t, base_u32, *at)
static const reader readers[TD_DTYPE_COUNT] = {
    [TD_F64] = from_long, [TD_F32] = from_word, [TD_F16] = from_f16, [TD_BF16] = from_bf16,
    [TD_I64] = from_long, [TD_I32] = from_word, [TD_I16] = from_i16, [TD_I8] = from_i8,
    [TD_U32] = from_u32,  [TD_U16] = from_u16,  [TD_U8] = from_u8,   [TD_BOOL] = from_byte};

/* The other way, into `to`, of stride `step`. */
typedef void (*writer)(void *to, int64_t step, const void *from, int64_t n);
#define WRITER(name, to_type, from_type, value)                           \
  static void name(void *to, int64_t step, const void *from, int64_t n) { \
    const from_type *at = from;                                           \
    to_type *out = to;                                                    \
    for (int64_t i = 0; i < n; i++, at++) out[i * step] = (value);        \
  }
WRITER(into_byte, uint8_t, uint8_t, *at)
WRITER(into_word, base_u32, uint32_t, *at)
WRITER(into_long, base_u64, uint64_t, *at)
WRITER(into_f16, base_u16, float, base_f32_to_f16(*at))
WRITER(into_bf16, base_u16, float, base_f32_to_bf16(*at))
WRITER(short_from_word, base_u16, uint32_t, (uint16_t)*at)
WRITER(byte_from_word, uint8_t, uint32_t, (uint8_t)*at)
WRITER(word_from_long, base_u32, uint64_t, (uint32_t)*at)
static const writer writers[TD_DTYPE_COUNT] = {
    [TD_F64] = into_long,      [TD_F32] = into_word,       [TD_F16] = into_f16,        [TD_BF16] = into_bf16,
    [TD_I64] = into_long,      [TD_I32] = into_word,       [TD_I16] = short_from_word, [TD_I8] = byte_from_word,
    [TD_U32] = word_from_long, [TD_U16] = short_from_word, [TD_U8] = byte_from_word,   [TD_BOOL] = into_byte};

/* Elements [from, from + count) of a row of column `k` that begins at element `offset`: calls `move` with runs that are
 * evenly spaced in the tensor, `done` of them behind the first. */
typedef void (*row_move)(const kern_fused_space *s, uint32_t k, int64_t at, int64_t step, int64_t run, char *piece);
static void walk_row(const kern_fused_space *s, uint32_t k, int64_t offset, int64_t from, int64_t count, char *piece,
                     row_move move) {
  const int64_t each = (int64_t)body_size(s, k);
  if (is_even(s, k)) {
    if (count > 0) move(s, k, offset + from * s->step[0][k], s->step[0][k], count, piece);
    return;
  }
  int64_t at[BASE_MAX_RANK], element = offset;
  for (int32_t i = 0; i < s->row_rank; from /= s->row_dims[i++]) {
    at[i] = from % s->row_dims[i];
    element += at[i] * s->step[i][k];
  }
  while (count > 0) {
    const int64_t run = base_min_i64(count, s->row_dims[0] - at[0]);
    move(s, k, element, s->step[0][k], run, piece);
    piece += run * each, count -= run;
    element -= at[0] * s->step[0][k];
    at[0] = 0;
    for (int32_t i = 1; i < s->row_rank; i++) {
      element += s->step[i][k];
      if (++at[i] < s->row_dims[i]) break;
      element -= at[i] * s->step[i][k];
      at[i] = 0;
    }
  }
}

static void read_run(const kern_fused_space *s, uint32_t k, int64_t at, int64_t step, int64_t run, char *piece) {
  const base_tensor *t = s->in[k];
  const kern_fused_form *form = &s->level->forms[t->dtype];
  const char *from = (const char *)t->data + at * (int64_t)size_of(t->dtype);
  if (step == 1 && form->read) form->read(piece, from, run);
  else if (step == 1 && run >= KERN_FUSED_SHORT && s->native >> k & 1)
    memcpy(piece, from, (size_t)run * size_of(t->dtype));
  else readers[t->dtype](piece, from, step, run);
}

static void write_run(const kern_fused_space *s, uint32_t k, int64_t at, int64_t step, int64_t run, char *piece) {
  const base_tensor *t = base_out(s->call, k - BASE_PROGRAM_OPERANDS);
  char *to = (char *)t->data + at * (int64_t)size_of(t->dtype);
  const kern_fused_form *form = &s->level->forms[t->dtype];
  if (step == 1 && form->write) form->write(to, piece, run);
  else writers[t->dtype](to, step, piece, run);
}

bool kern_fused_reads(td_dtype dtype) { return readers[dtype]; }
bool kern_fused_writes(td_dtype dtype) { return writers[dtype]; }

int64_t kern_fused_told(kern_fused_job *j, uint32_t k, int64_t at) {
  const base_tensor *t = j->s.in[k], *teller = j->s.in[j->s.picks[k].teller];
  const int64_t size = t->dims[j->s.picks[k].axis], index = kern_index_at(teller, at);
  int64_t place;
  if (kern_index_place(index, size, &place)) return place * t->strides[j->s.picks[k].axis];
  uint32_t op = 0;
  while (j->s.p->ops[op].kind != BASE_PROGRAM_LOAD || j->s.p->ops[op].function != k) op++;
  j->status = base_fail(j->s.call->err, TD_BAD_ARGUMENT, NULL, op, "index %lld is outside of an axis of %lld",
                        (long long)index, (long long)size);
  return 0;
}

/* Gathers n elements, each by an index of its own, at even strides. False: an index is outside. */
typedef bool (*picker)(const void *x, int64_t step, int64_t size, int64_t axis_step, const void *told,
                       int64_t told_step, int64_t n, void *to);
#define PICKER(name, element, type)                                                                                   \
  static bool name(const void *x, int64_t step, int64_t size, int64_t axis_step, const void *told, int64_t told_step, \
                   int64_t n, void *to) {                                                                             \
    const element *from = x;                                                                                          \
    const type *at = told;                                                                                            \
    element *y = to;                                                                                                  \
    for (int64_t i = 0; i < n; i++, at += told_step) {                                                                \
      const int64_t index = *at < 0 ? *at + size : *at;                                                               \
      if (index < 0 || index >= size) return false;                                                                   \
      y[i] = from[i * step + index * axis_step];                                                                      \
    }                                                                                                                 \
    return true;                                                                                                      \
  }
PICKER(pick_4_by_i32, base_u32, base_i32)
PICKER(pick_4_by_i64, base_u32, base_i64)
PICKER(pick_8_by_i32, base_u64, base_i32)
PICKER(pick_8_by_i64, base_u64, base_i64)

/* A row of operand `k`, which is gathered; as pick_row. False: it is none of that form, or an index is outside. */
static bool pick_words(const kern_fused_space *s, uint32_t k, int64_t offset, int64_t at, int64_t n, char *piece) {
  static const picker by_i32[] = {pick_4_by_i32, pick_8_by_i32}, by_i64[] = {pick_4_by_i64, pick_8_by_i64};
  const uint32_t teller = s->picks[k].teller;
  const base_tensor *x = s->in[k], *told = s->in[teller];
  const size_t each = body_size(s, k);
  const picker *pick = told->dtype == TD_I64 ? by_i64 : told->dtype == TD_I32 ? by_i32 : NULL;
  if (!pick || s->row_rank != 1 || !(s->native >> k & 1) || (each != 4 && each != 8)) return false;
  return pick[each == 8]((const char *)x->data + offset * (int64_t)each, s->step[0][k], x->dims[s->picks[k].axis],
                         x->strides[s->picks[k].axis], (const char *)told->data + at * (int64_t)size_of(told->dtype),
                         s->step[0][teller], n, piece);
}

/* A row of operand `k`, which is gathered; `offset`, `at`: of the row in it and in its operand of indices. */
static void pick_row(kern_fused_job *j, uint32_t k, int64_t offset, int64_t at, int64_t from, int64_t n, char *piece) {
  const kern_fused_space *s = &j->s;
  const uint32_t teller = s->picks[k].teller;
  const int64_t each = (int64_t)body_size(s, k);
  bool still = true;
  for (int32_t i = 0; i < s->row_rank; i++) still &= s->step[i][teller] == 0;
  if (still) {
    const int64_t begin = offset + kern_fused_told(j, k, at);
    if (j->status == TD_OK) walk_row(s, k, begin, from, n, piece, read_run);
    return;
  }
  if (pick_words(s, k, offset + from * s->step[0][k], at + from * s->step[0][teller], n, piece)) return;
  for (int64_t i = from; i < from + n && j->status == TD_OK; i++, piece += each) {
    int64_t element = offset, tell = at, rest = i;
    for (int32_t d = 0; d < s->row_rank; d++) {
      element += rest % s->row_dims[d] * s->step[d][k];
      tell += rest % s->row_dims[d] * s->step[d][teller];
      rest /= s->row_dims[d];
    }
    element += kern_fused_told(j, k, tell);
    if (j->status == TD_OK) read_run(s, k, element, 1, 1, piece);
  }
}

/* A tile of operand `k`, which is gathered. */
static void bring_gathered(kern_fused_job *j, uint32_t k, const int64_t *offsets, int64_t rows, int64_t from,
                           int64_t n) {
  const kern_fused_space *s = &j->s;
  const uint32_t teller = s->picks[k].teller;
  const int64_t each = (int64_t)body_size(s, k);
  const bool whole = s->row_rank == 1 && s->step[0][teller] == 0 && s->step[0][k] == 1 && s->native >> k & 1;
  char *to = j->in[k];
  for (int64_t r = 0; r < rows && j->status == TD_OK; r++, to += j->wide * each) {
    const int64_t begin = offsets[k] + r * s->pitch[k], tells = offsets[teller] + r * s->pitch[teller];
    const int64_t place = whole ? kern_fused_told(j, k, tells) : 0;
    if (!whole) pick_row(j, k, begin, tells, from, n, to);
    else if (j->status == TD_OK)
      memcpy(to, (const char *)s->in[k]->data + (begin + place + from) * each, (size_t)(n * each));
  }
}

/* Rows of short runs, all the same or each of one element, as memory of whole units; of others false. Up to a unit is
 * written behind the row. */
static bool spread_row(const kern_fused_space *s, uint32_t k, int64_t offset, char *piece) {
  const size_t each = body_size(s, k), run = (size_t)s->row_dims[0] * each;
  const bool one = s->step[0][k] == 0, same = s->row_rank == 2 && s->step[1][k] == 0;
  const char *from = (const char *)s->in[k]->data + offset * (int64_t)each;
  char unit[KERN_FUSED_SHORT * WIDEST];
  if (s->row_rank != 2 || s->row_dims[0] >= KERN_FUSED_SHORT || !(s->native >> k & 1) || !(one || same)) return false;
  for (int64_t i = 0; !one && i < s->row_dims[0]; i++)
    memcpy(unit + (size_t)i * each, from + i * s->step[0][k] * (int64_t)each, each);
  for (int64_t i = 0; i < s->row_dims[1]; i++, from += s->step[1][k] * (int64_t)each, piece += run) {
    for (size_t at = 0; one && at < UNIT; at += each) memcpy(unit + at, from, each);
    for (size_t at = 0; at < run; at += UNIT) memcpy(piece + at, unit + (one ? 0 : at), UNIT);
  }
  return true;
}

void kern_fused_bring(kern_fused_job *j, uint32_t k, const int64_t *offsets, int64_t rows, int64_t from, int64_t n) {
  const kern_fused_space *s = &j->s;
  const int64_t offset = offsets[k];
  if (s->picks[k].picks) {
    bring_gathered(j, k, offsets, rows, from, n);
    return;
  }
  if (s->transposed >> k & 1) {
    const float *at = (const float *)s->in[k]->data + offset + from * s->step[0][k];
    s->level->turn((float *)(void *)j->in[k], j->wide, at, s->step[0][k], rows, n, n == s->length ? rows : 0);
    return;
  }
  for (int64_t r = 0; r < rows; r++) {
    const int64_t row = offset + r * s->pitch[k];
    char *piece = j->in[k] + r * j->wide * (int64_t)body_size(s, k);
    if (n != s->length || !spread_row(s, k, row, piece)) walk_row(s, k, row, from, n, piece, read_run);
  }
}

void kern_fused_put(const kern_fused_space *s, uint32_t k, int64_t offset, int64_t from, int64_t n, char *piece) {
  walk_row(s, k, offset, from, n, piece, write_run);
}

/* ---- across rows ---- */

/* The offset, from that of the row, of its element `at`. */
static int64_t element_offset(const kern_fused_space *s, uint32_t k, int64_t at) {
  int64_t offset = 0;
  for (int32_t i = 0; i < s->row_rank; at /= s->row_dims[i++]) offset += at % s->row_dims[i] * s->step[i][k];
  return offset;
}

/* Are rows of column `k` elements of 4 bytes, dense in memory, some to be transposed at a time? */
static bool transposes_rows(const kern_fused_space *s, uint32_t k, int64_t rows) {
  return s->row_rank == 1 && s->step[0][k] == 1 && s->pitch[k] >= s->length && rows > 1;
}

/* An element of 4 bytes for each of `rows` rows, and up to 15 more. */
static void fill_across(uint32_t *to, uint32_t value, int64_t rows) {
  for (int64_t r = 0; r < rows; r += UNIT)
    for (int64_t i = 0; i < UNIT; i++) to[r + i] = value;
}

void kern_fused_bring_across(kern_fused_job *j, uint32_t k, int64_t offset, int64_t rows) {
  const kern_fused_space *s = &j->s;
  const int64_t each = (int64_t)body_size(s, k) * j->wide, count = s->scalars >> k & 1 ? 1 : s->length;
  if (count > 1 && transposes(s, k) && transposes_rows(s, k, rows)) {
    const float *from = (const float *)s->in[k]->data + offset;
    s->level->turn((float *)(void *)j->in[k], j->wide, from, s->pitch[k], count, rows, 0);
    return;
  }
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = offset + element_offset(s, k, i);
    char *to = j->in[k] + i * each;
    if (s->pitch[k] == 0 && transposes(s, k))
      fill_across((uint32_t *)(void *)to, ((const base_u32 *)s->in[k]->data)[at], rows);
    else read_run(s, k, at, s->pitch[k], rows, to);
  }
}

void kern_fused_put_across(kern_fused_job *j, uint32_t k, int64_t offset, int64_t rows) {
  const kern_fused_space *s = &j->s;
  const uint32_t out = k - BASE_PROGRAM_OPERANDS;
  const int64_t each = (int64_t)body_size(s, k) * j->wide, count = s->out_row[out] ? 1 : s->length;
  const bool words = s->out_dtype[out] == base_type_dtype(s->type[k]) && size_of(s->out_dtype[out]) == 4;
  if (count > 1 && words && transposes_rows(s, k, rows)) {
    float *to = (float *)base_out(s->call, out)->data + offset;
    s->level->turn(to, s->pitch[k], (const float *)(const void *)j->out[out], j->wide, rows, count, 0);
    return;
  }
  for (int64_t i = 0; i < count; i++)
    write_run(s, k, offset + (s->out_row[out] ? 0 : element_offset(s, k, i)), s->pitch[k], rows,
              j->out[out] + i * each);
}
