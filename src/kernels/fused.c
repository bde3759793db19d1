/* fused.c -- the space of a fused step, its tasks, and operands that are not dense elements of their type in a row.
 * Tasks are runs of rows or pieces of a long row, by shape alone. Where something has to be brought into form, they are
 * run in tiles of some rows: an operand that is dense across the rows is turned, a tile at a time. */
#include "kernels/index_priv.h"
#include "kernels/kernels_priv.h"

#include <string.h>

enum { PIECE = 512, TASK = 16384 /* elements of a row at a time; of a task */ };
enum { TURNED_ROWS = 16, FORMED_ROWS = 64 /* of a tile: where something is turned, at least, if there are; at most */ };
enum { FORMED = 2048 /* elements of a tile where nothing is turned */ };
enum { UNIT = 16, WIDEST = 8 /* bytes: of a copy, of an element */ };
enum { PROGRAM /* attribute */ };
enum { COLUMNS = BASE_PROGRAM_OPERANDS + BASE_PROGRAM_OUTS }; /* of strides: those of operands, then those of outputs */

typedef struct space {
  const base_call *call;
  const kern_fused_level *level;
  const base_program *p;
  const base_tensor *in[BASE_PROGRAM_OPERANDS];
  int32_t row_axes;                                            /* of the program; of a chain 1 at least */
  bool in_order;                                               /* rows are numbered as those of the result */
  int32_t rank;                                                /* of the planes */
  int64_t dims[BASE_MAX_RANK], stride[BASE_MAX_RANK][COLUMNS]; /* of the planes */
  int64_t planes, rows, length;
  int64_t pitch[COLUMNS];
  int32_t row_rank; /* dimensions of a row, innermost first; at least 1 */
  int64_t row_dims[BASE_MAX_RANK], step[BASE_MAX_RANK][COLUMNS];
  uint64_t scalars; /* bit k: operand k does not change along a row, and bodies know */
  uint64_t direct;  /* bit k: operand k, no scalar, is a dense row of its type's elements as it is */
  uint64_t turned;  /* bit k: operand k, elements of 4 bytes, is dense from row to row */
  uint64_t native;  /* bit k: operand k is of the element type that bodies read */
  uint64_t tellers; /* bit k: operand k tells another one's places, and no body sees it */
  bool gathers;     /* some operand is picked */
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  base_type type[COLUMNS];
  td_dtype out_dtype[BASE_PROGRAM_OUTS];
  bool out_row[BASE_PROGRAM_OUTS]; /* one number a row */
  bool aside[BASE_PROGRAM_OUTS];   /* made in a piece of memory first: of another element type, or nobody wants it */
  bool piecewise;                  /* something has to be brought into form */
  bool passes;                     /* a dense operand goes as it is into an output of another element type */
} space;

static size_t size_of(td_dtype dtype) { return base_dtype(dtype)->bits / 8u; }
/* Bytes of an element of column `k` as bodies see it. */
static size_t body_size(const space *s, uint32_t k) { return size_of(base_type_dtype(s->type[k])); }

/* ---- dimensions ---- */

typedef struct dim_list {
  int32_t count;
  int64_t dims[BASE_MAX_RANK], stride[BASE_MAX_RANK][COLUMNS];
} dim_list;

/* Adds a dimension outside of those in the list, or merges it into the last of them. */
static void add_dim(dim_list *list, int64_t length, const int64_t *stride) {
  if (length == 1) return;
  bool merges = list->count > 0;
  int32_t last = list->count - 1;
  for (uint32_t k = 0; merges && k < COLUMNS; k++) merges = stride[k] == list->stride[last][k] * list->dims[last];
  if (merges) {
    list->dims[last] *= length;
    return;
  }
  list->dims[list->count] = length;
  memcpy(list->stride[list->count++], stride, COLUMNS * sizeof *stride);
}

/* Length of axis `axis` of the space and the strides of operands and outputs along it. False: they do not broadcast. */
static bool axis_of(const space *s, int32_t axis, int64_t *length, int64_t *stride) {
  *length = 1;
  memset(stride, 0, COLUMNS * sizeof *stride);
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const base_tensor *t = s->in[k];
    const int32_t at = base_program_axis(s->p, &s->picks[k], t->rank, axis);
    const int64_t dim = at >= 0 ? t->dims[at] : 1;
    stride[k] = dim != 1 ? t->strides[at] : 0;
    if (dim != 1 && *length != 1 && *length != dim) return false;
    if (dim != 1) *length = dim;
  }
  const bool of_row = axis >= s->p->rank - s->row_axes;
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    const base_tensor *t = base_out(s->call, k);
    if (!t || (of_row && s->out_row[k])) continue;
    if (axis >= t->rank || t->dims[axis] != *length) return false;
    stride[BASE_PROGRAM_OPERANDS + k] = *length != 1 ? t->strides[axis] : 0;
  }
  return true;
}

/* Operand `k` is moved as it is, in elements of 4 bytes. */
static bool turns(const space *s, uint32_t k) { return s->native >> k & 1 && size_of(s->in[k]->dtype) == 4; }

/* The dimension whose neighbours are rows of one plane: that along which most operands are dense; else the innermost.
 */
static int32_t across(const space *s, const dim_list *rest, int32_t from) {
  int32_t best = from;
  uint32_t most = 0;
  for (int32_t i = from; i < rest->count; i++) {
    uint32_t dense = 0;
    for (uint32_t k = 0; k < s->p->in_count; k++) dense += rest->stride[i][k] == 1 && turns(s, k);
    if (dense > most) most = dense, best = i;
  }
  return best;
}

/* Is dimension `from` of `rest` to be the row's, which has `length` elements yet? Not where something can be turned. */
static bool goes_into_row(const space *s, const dim_list *rest, int32_t from, int64_t length) {
  if (from == 0) return true;
  if (s->gathers || length >= KERN_FUSED_SHORT || from + 1 >= rest->count || rest->dims[from] >= KERN_FUSED_FEW)
    return false;
  for (int32_t i = from; i < rest->count; i++)
    for (uint32_t k = 0; k < s->p->in_count; k++)
      if (rest->stride[i][k] == 1 && turns(s, k)) return false;
  return true;
}

static bool find_dims(space *s) {
  dim_list row = {0}, rest = {0};
  int64_t length, stride[COLUMNS];
  for (int32_t i = s->p->rank; i-- > 0;) {
    if (!axis_of(s, i, &length, stride)) return false;
    add_dim(i >= s->p->rank - s->row_axes ? &row : &rest, length, stride);
  }
  int32_t from = 0; /* of `rest`; where no axis is the row's, its innermost dimension is */
  for (length = 1; !s->row_axes && from < rest.count && goes_into_row(s, &rest, from, length); from++) {
    add_dim(&row, rest.dims[from], rest.stride[from]);
    length *= rest.dims[from];
  }
  s->row_rank = row.count > 0 ? row.count : 1;
  s->length = s->rows = s->planes = s->row_dims[0] = 1;
  for (int32_t i = 0; i < row.count; i++) {
    s->length *= row.dims[i];
    s->row_dims[i] = base_max_i64(row.dims[i], 1); /* numbers of rows without elements are written all the same */
    memcpy(s->step[i], row.stride[i], sizeof s->step[i]);
  }
  const int32_t rows = s->in_order ? from : across(s, &rest, from);
  if (from < rest.count) {
    s->rows = rest.dims[rows];
    memcpy(s->pitch, rest.stride[rows], sizeof s->pitch);
  }
  for (int32_t i = from; i < rest.count; i++) {
    if (i == rows) continue;
    s->planes *= s->dims[s->rank] = rest.dims[i];
    memcpy(s->stride[s->rank++], rest.stride[i], sizeof s->stride[0]);
  }
  return true;
}

/* A load and a store of it. */
static bool only_passes(const space *s) {
  return s->p->count == 2 && !s->p->row_axes && s->direct & 1 && s->aside[0] && base_out(s->call, 0);
}

/* The elements of a row of column `k` lie side by side, in their order. */
static bool is_dense(const space *s, uint32_t k) {
  int64_t next = 1;
  for (int32_t i = 0; i < s->row_rank && s->length != 1; next *= s->row_dims[i++])
    if (s->step[i][k] != next) return false;
  return true;
}

/* `code` (may be NULL) is taken where it fits: operands that it takes as rows may be single numbers after all. */
static void find_forms(space *s, const kern_fused_code **code) {
  uint64_t still = 0;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    bool moves = s->picks[k].picks || s->picks[k].tells;
    for (int32_t i = 0; i < s->row_rank; i++) moves |= s->step[i][k] != 0;
    if (!moves) still |= (uint64_t)1 << k;
  }
  if (*code && (*code)->scalars & ~still) *code = NULL;
  s->scalars = *code ? (*code)->scalars : still;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    if (s->picks[k].tells) s->tellers |= (uint64_t)1 << k;
    if (s->picks[k].tells) continue;
    const bool native = s->native >> k & 1, plain = native && !s->picks[k].picks;
    const bool dense = plain && is_dense(s, k), one = s->scalars >> k & 1;
    if (dense && !one) s->direct |= (uint64_t)1 << k;
    else if (!one && plain && s->row_rank == 1 && s->pitch[k] == 1 && s->rows > 1 && turns(s, k))
      s->turned |= (uint64_t)1 << k;
    s->piecewise |= one ? !native : !dense;
  }
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    const bool dense = s->out_row[k] || is_dense(s, BASE_PROGRAM_OPERANDS + k);
    const bool native = s->out_dtype[k] == base_type_dtype(s->type[BASE_PROGRAM_OPERANDS + k]);
    s->aside[k] = !native || !base_out(s->call, k) || !dense;
    s->piecewise |= s->aside[k];
  }
  s->passes = only_passes(s);
}

/* What the program loads and stores. */
static void find_types(space *s) {
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    s->type[k] = base_type_of(s->in[k]->dtype);
    if (base_type_dtype(s->type[k]) == s->in[k]->dtype) s->native |= (uint64_t)1 << k;
  }
  for (uint32_t i = 0; i < s->p->count; i++) {
    const base_program_op *op = &s->p->ops[i];
    if (op->kind != BASE_PROGRAM_STORE) continue;
    s->type[BASE_PROGRAM_OPERANDS + op->function] = (base_type)op->type;
    s->out_dtype[op->function] = (td_dtype)op->in[2];
    s->out_row[op->function] = op->row;
  }
}

/* ---- bringing operands into form ---- */

/* to[i] = element i of `from`, `step` elements apart, in the element type of bodies. */
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

/* The other way, into `to`, `step` elements apart. */
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
typedef void (*row_move)(const space *s, uint32_t k, int64_t at, int64_t step, int64_t run, char *piece);
static void walk_row(const space *s, uint32_t k, int64_t offset, int64_t from, int64_t count, char *piece,
                     row_move move) {
  const int64_t each = (int64_t)body_size(s, k);
  if (s->row_rank == 1) {
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

static void read_run(const space *s, uint32_t k, int64_t at, int64_t step, int64_t run, char *piece) {
  const base_tensor *t = s->in[k];
  const kern_fused_form *form = &s->level->forms[t->dtype];
  const char *from = (const char *)t->data + at * (int64_t)size_of(t->dtype);
  if (step == 1 && form->read) form->read(piece, from, run);
  else if (step == 1 && run >= KERN_FUSED_SHORT && s->native >> k & 1)
    memcpy(piece, from, (size_t)run * size_of(t->dtype));
  else readers[t->dtype](piece, from, step, run);
}

static void write_run(const space *s, uint32_t k, int64_t at, int64_t step, int64_t run, char *piece) {
  const base_tensor *t = base_out(s->call, k - BASE_PROGRAM_OPERANDS);
  char *to = (char *)t->data + at * (int64_t)size_of(t->dtype);
  const kern_fused_form *form = &s->level->forms[t->dtype];
  if (step == 1 && form->write) form->write(to, piece, run);
  else writers[t->dtype](to, step, piece, run);
}

/* Every output is large, of floats, and its rows begin where whole vectors may be written past the caches. */
static bool streams(const space *s) {
  bool all = !s->p->row_axes && s->length % 16 == 0 && (!s->piecewise || s->turned);
  for (uint32_t k = 0; all && k < s->p->out_count; k++) {
    const base_tensor *out = base_out(s->call, k);
    all = !s->aside[k] && s->out_dtype[k] == TD_F32 && (uintptr_t)out->data % 64 == 0 &&
          base_tensor_bytes(out) >= (size_t)KERN_FUSED_STREAMED && base_tensor_contiguous(out);
  }
  return all;
}

/* ---- running ---- */

typedef struct job {
  space s;
  kern_fused_body body;
  kern_fused_rows rows;
  int64_t tile_rows, tile_length, wide; /* rows of a tile, elements of them, and from one to the next in `in`, `out` */
  td_status status;                     /* of what is picked */
  float *sums; /* of a chain: operand 0 and output 0 of the tile, and elements from row to row; else NULL */
  int64_t sums_pitch;
  char *in[BASE_PROGRAM_OPERANDS], *out[BASE_PROGRAM_OUTS]; /* tiles */
} job;

/* Element offsets of the columns at row `row` of plane `plane`. */
static void offsets_of(const space *s, int64_t plane, int64_t row, int64_t *offset) {
  for (uint32_t k = 0; k < COLUMNS; k++) offset[k] = row * s->pitch[k];
  for (int32_t i = 0; i < s->rank; i++) {
    for (uint32_t k = 0; k < COLUMNS; k++) offset[k] += plane % s->dims[i] * s->stride[i][k];
    plane /= s->dims[i];
  }
}

/* Where operand `k` is read along its picked axis, as told at element `at` of its teller: an element offset. What is
 * outside of the axis is an error of the call, and element 0. */
static int64_t told(job *j, uint32_t k, int64_t at) {
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

/* n elements, each picked by an index of its own, and all evenly spaced. False: one is outside. */
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

/* A row of operand `k`, which is picked; as pick_row. False: it is none of that form, or an index is outside. */
static bool pick_words(const space *s, uint32_t k, int64_t offset, int64_t at, int64_t n, char *piece) {
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

/* A row of operand `k`, which is picked; `offset`, `at`: of the row in it and in its teller. */
static void pick_row(job *j, uint32_t k, int64_t offset, int64_t at, int64_t from, int64_t n, char *piece) {
  const space *s = &j->s;
  const uint32_t teller = s->picks[k].teller;
  const int64_t each = (int64_t)body_size(s, k);
  bool still = true;
  for (int32_t i = 0; i < s->row_rank; i++) still &= s->step[i][teller] == 0;
  if (still) {
    const int64_t begin = offset + told(j, k, at);
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
    element += told(j, k, tell);
    if (j->status == TD_OK) read_run(s, k, element, 1, 1, piece);
  }
}

/* A tile of operand `k`, which is picked. */
static void bring_picked(job *j, uint32_t k, const int64_t *offsets, int64_t rows, int64_t from, int64_t n) {
  const space *s = &j->s;
  const uint32_t teller = s->picks[k].teller;
  const int64_t each = (int64_t)body_size(s, k);
  const bool whole = s->row_rank == 1 && s->step[0][teller] == 0 && s->step[0][k] == 1 && s->native >> k & 1;
  char *to = j->in[k];
  for (int64_t r = 0; r < rows && j->status == TD_OK; r++, to += j->wide * each) {
    const int64_t begin = offsets[k] + r * s->pitch[k], tells = offsets[teller] + r * s->pitch[teller];
    const int64_t place = whole ? told(j, k, tells) : 0;
    if (!whole) pick_row(j, k, begin, tells, from, n, to);
    else if (j->status == TD_OK)
      memcpy(to, (const char *)s->in[k]->data + (begin + place + from) * each, (size_t)(n * each));
  }
}

/* Rows of short runs, all the same or each of one element, as memory of whole units; of others false. Up to a unit is
 * written behind the row. */
static bool spread_row(const space *s, uint32_t k, int64_t offset, char *piece) {
  const size_t each = body_size(s, k), run = (size_t)s->row_dims[0] * each;
  const bool one = s->step[0][k] == 0, same = s->step[1][k] == 0 && s->step[0][k] == 1;
  const char *from = (const char *)s->in[k]->data + offset * (int64_t)each;
  char unit[KERN_FUSED_SHORT * WIDEST];
  if (s->row_rank != 2 || s->row_dims[0] >= KERN_FUSED_SHORT || !(s->native >> k & 1) || !(one || same)) return false;
  if (same) memcpy(unit, from, run);
  for (int64_t i = 0; i < s->row_dims[1]; i++, from += s->step[1][k] * (int64_t)each, piece += run) {
    for (size_t at = 0; one && at < UNIT; at += each) memcpy(unit + at, from, each);
    for (size_t at = 0; at < run; at += UNIT) memcpy(piece + at, unit + (one ? 0 : at), UNIT);
  }
  return true;
}

/* A tile of operand `k`, whose first row begins at element `offset`. */
static void bring(job *j, uint32_t k, const int64_t *offsets, int64_t rows, int64_t from, int64_t n) {
  const space *s = &j->s;
  const int64_t offset = offsets[k];
  if (s->picks[k].picks) {
    bring_picked(j, k, offsets, rows, from, n);
    return;
  }
  if (s->turned >> k & 1) {
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

/* `rows` rows of a plane, of which elements [from, from + n); `offset`: of the columns at the first row. */
static void run_tile(job *j, const int64_t *offset, int64_t rows, int64_t from, int64_t n) {
  const space *s = &j->s;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const bool still = s->scalars >> k & 1, as_it_is = s->direct >> k & 1 || (still && s->native >> k & 1);
    const int64_t first = offset[k] + (still ? 0 : from);
    if (s->tellers >> k & 1) continue;
    const bool same = s->pitch[k] == 0 && !s->picks[k].picks; /* one row is all of them */
    if (!as_it_is) bring(j, k, offset, same ? 1 : rows, still ? 0 : from, still ? 1 : n);
    j->rows.in[k] = as_it_is ? (const char *)s->in[k]->data + first * (int64_t)body_size(s, k) : j->in[k];
    j->rows.pitch[k] = as_it_is || same ? s->pitch[k] : j->wide;
  }
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    const uint32_t column = BASE_PROGRAM_OPERANDS + k;
    const int64_t first = offset[column] + (s->out_row[k] ? 0 : from);
    j->rows.out[k] =
        s->aside[k] ? j->out[k] : (char *)base_out(s->call, k)->data + first * (int64_t)body_size(s, column);
    j->rows.out_pitch[k] = s->aside[k] ? j->wide : s->pitch[column];
  }
  if (j->sums) {
    j->rows.in[0] = j->rows.out[0] = j->sums;
    j->rows.pitch[0] = j->rows.out_pitch[0] = j->sums_pitch;
  }
  if (j->status != TD_OK) return;
  j->rows.rows = rows;
  j->rows.n = n;
  if (!s->passes) j->body(&j->rows);
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    if (!s->aside[k] || !base_out(s->call, k)) continue;
    const uint32_t column = BASE_PROGRAM_OPERANDS + k;
    const int64_t each = (int64_t)body_size(s, column), wide = s->passes ? s->pitch[0] : j->wide;
    char *made = s->passes ? (char *)s->in[0]->data + (offset[0] + from) * each : j->out[k];
    for (int64_t r = 0; r < rows; r++)
      walk_row(s, column, offset[column] + r * s->pitch[column], s->out_row[k] ? 0 : from, s->out_row[k] ? 1 : n,
               made + r * wide * each, write_run);
  }
}

/* `rows` rows from row `row` of `plane` on, of which elements [from, from + n). */
static void run_rows(job *j, int64_t plane, int64_t row, int64_t rows, int64_t from, int64_t n) {
  const space *s = &j->s;
  int64_t offset[COLUMNS];
  for (int64_t r = 0; r < rows; r += j->tile_rows) {
    offsets_of(s, plane, row + r, offset);
    for (int64_t i = 0; i == 0 || i < n; i += j->tile_length)
      run_tile(j, offset, base_min_i64(j->tile_rows, rows - r), from + i, base_min_i64(j->tile_length, n - i));
  }
}

/* How large tiles are: without anything to bring into form the rows and pieces that tasks have. */
static void find_tile(job *j) {
  const space *s = &j->s;
  const int64_t length = base_max_i64(s->length, 1);
  j->tile_rows = j->tile_length = INT64_MAX;
  if (!s->piecewise) return;
  j->tile_length = s->p->row_axes ? length : base_min_i64(length, s->rows > 1 ? PIECE : FORMED);
  j->tile_rows = base_min_i64(base_max_i64((s->turned ? TASK : FORMED) / j->tile_length, 1), FORMED_ROWS);
  if (s->turned && j->tile_rows > TURNED_ROWS) j->tile_rows -= j->tile_rows % TURNED_ROWS;
  j->wide = (j->tile_length + 15) / 16 * 16;
}

static void run_tasks(job *j) {
  const space *s = &j->s;
  const bool whole = s->p->row_axes > 0;
  const int64_t all = s->planes * s->rows, length = base_max_i64(s->length, 1);
  const int64_t fewest = s->turned ? base_min_i64(j->tile_rows, s->rows) : 1; /* rows of a task */
  const int64_t block = base_max_i64(length < TASK ? TASK / length / fewest * fewest : 1, fewest);
  const int64_t span = TASK / base_min_i64(fewest, TASK / PIECE) / PIECE * PIECE; /* elements of their rows */
  const int64_t pieces = whole || length < 2 * span ? 1 : (length + span - 1) / span;
  const int64_t total = (all + block - 1) / block * pieces;
  for (int64_t task = base_call_first(s->call, total); task < total; task = base_call_next(s->call, task, total)) {
    if (j->status != TD_OK) continue; /* the others take what is left */
    const int64_t first = task / pieces * block, end = base_min_i64(all, first + block);
    const int64_t from = pieces > 1 ? task % pieces * span : 0;
    const int64_t n = pieces > 1 ? base_min_i64(span, s->length - from) : s->length;
    for (int64_t row = first, rows; row < end; row += rows) {
      rows = base_min_i64(s->rows - row % s->rows, end - row);
      run_rows(j, row / s->rows, row % s->rows, rows, from, n);
    }
  }
}

/* A tile of column `k`, in bytes. */
static size_t tile_bytes(const job *j, uint32_t k) { return (size_t)(j->wide * j->tile_rows) * body_size(&j->s, k); }

/* Gives each tile its place in `at`, or, where that is NULL, counts. */
static size_t place_tiles(job *j, char *at) {
  const space *s = &j->s;
  size_t used = 0;
  for (uint32_t k = 0; s->piecewise && k < s->p->in_count; k++) {
    if ((s->direct | s->tellers) >> k & 1) continue;
    if (at) j->in[k] = at + used;
    used += tile_bytes(j, k) + UNIT;
  }
  for (uint32_t k = 0; s->piecewise && k < s->p->out_count; k++) {
    if (!s->aside[k]) continue;
    if (at) j->out[k] = at + used;
    used += tile_bytes(j, BASE_PROGRAM_OPERANDS + k);
  }
  return used;
}

/* Memory for what is brought into form, and for values that are kept along a row. */
static bool take_memory(job *j, uint32_t kept_words) {
  const space *s = &j->s;
  const size_t length = (size_t)(s->p->row_axes ? base_max_i64(s->length, 1) : PIECE), row = (length + 15) / 16 * 16;
  size_t most, bytes;
  if (length > SIZE_MAX / 4096 ||
      __builtin_mul_overflow(s->piecewise ? (size_t)j->wide * COLUMNS * 8 : 0, (size_t)j->tile_rows, &most) ||
      __builtin_mul_overflow(row * sizeof(float), kept_words, &bytes) ||
      __builtin_add_overflow(bytes, place_tiles(j, NULL), &bytes))
    return false;
  char *at = base_call_scratch(s->call, bytes, 1);
  if (!at) return false;
  j->rows.kept = (float *)(void *)at;
  place_tiles(j, at + row * sizeof(float) * kept_words);
  return true;
}

static td_status bad_program(const base_call *call, const char *what) {
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: %s", what);
}

static td_status find_space(const base_call *call, const base_program *p, const kern_fused_code **code, space *s) {
  s->call = call;
  s->p = p;
  s->gathers = base_program_picks(p, s->picks);
  s->row_axes = s->in_order && !p->row_axes ? 1 : p->row_axes;
  if (call->in_count != p->in_count || call->out_count > p->out_count)
    return bad_program(call, "the program has another number of operands");
  for (uint32_t k = 0; k < p->in_count; k++) {
    const base_program_pick *pick = &s->picks[k];
    s->in[k] = base_in(call, k);
    if (!s->in[k] || (s->in[k]->rank > p->rank && !pick->picks) || !readers[s->in[k]->dtype])
      return bad_program(call, "an operand is missing, or of a type or rank that the program does not take");
  }
  for (uint32_t k = 0; s->gathers && k < p->in_count; k++) {
    const base_program_pick *pick = &s->picks[k];
    if (pick->picks && (pick->axis >= s->in[k]->rank || pick->axes + 1 < s->in[k]->rank))
      return bad_program(call, "an operand is not picked that way");
    if (pick->tells && !base_is_int(s->in[k]->dtype)) return bad_program(call, "places are told by whole numbers");
  }
  find_types(s);
  if (!find_dims(s)) return bad_program(call, "the operands do not broadcast to the outputs");
  find_forms(s, code);
  for (uint32_t k = 0; k < p->out_count; k++)
    if (!writers[s->out_dtype[k]] || (base_out(call, k) && base_out(call, k)->dtype != s->out_dtype[k]))
      return bad_program(call, "an output has another type");
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD) continue;
    if (op->type != s->type[op->function]) return bad_program(call, "an operand has another type");
    if (op->row && !(s->scalars >> op->function & 1)) return bad_program(call, "an operand of rows changes along them");
  }
  return TD_OK;
}

/* 4 bytes each, of an element. */
static uint32_t words_of(uint8_t type) { return base_type_is_wide((base_type)type) ? 2 : 1; }

/* Slots for blocks of values: loads have one each, other values one until their last use. */
static void find_slots(kern_fused_program *f) {
  const base_program *p = &f->p;
  uint32_t last[BASE_PROGRAM_OPS] = {0}, kept = 0, used = 0;
  bool taken[BASE_PROGRAM_OPS] = {0};
  for (uint32_t i = 0; i < p->count; i++) {
    for (uint32_t k = 0; k < 3; k++)
      if (p->ops[i].in[k] < i) last[p->ops[i].in[k]] = i;
    if (p->ops[i].kind == BASE_PROGRAM_LOAD) f->slot[i] = (uint8_t)used, taken[used++] = true;
    if (p->ops[i].kind != BASE_PROGRAM_STORE) f->last_work = i;
    f->wide |= base_type_is_wide((base_type)p->ops[i].type);
  }
  for (uint32_t s = 0; s < f->stages; s++)
    for (uint32_t i = 0; i < p->count; i++) {
      const base_program_op *op = &p->ops[i];
      uint32_t slot = 0;
      if (f->stage[i] != s || !base_program_computes(op)) continue;
      if (f->kept[i]) {
        f->slot[i] = (uint8_t)kept;
        kept += words_of(op->type);
      } else {
        while (taken[slot]) slot++;
        taken[slot] = true;
        f->slot[i] = (uint8_t)slot;
      }
      for (uint32_t k = 0; k < 3; k++) {
        const uint32_t from = op->in[k];
        if (from >= i || last[from] != i) continue; /* what is no operand may be any number */
        if (base_program_computes(&p->ops[from]) && !f->kept[from]) taken[f->slot[from]] = false;
      }
    }
  f->kept_words = kept;
}

/* What runs the program, whose space is known, of tiles yet to come. */
static td_status prepare(job *j, kern_fused_program *f, const kern_fused_code *code) {
  j->body = code ? code->body : j->s.level->interpret;
  f->stages = base_program_stages(&f->p, f->stage);
  base_program_kept(&f->p, f->stage, f->kept);
  find_slots(f);
  j->rows.program = f;
  j->rows.scalars = j->s.scalars;
  find_tile(j);
  return take_memory(j, f->kept_words) ? TD_OK : base_no_memory(j->s.call->err, "scratch");
}

td_status kern_fused_run(const base_call *call, const kern_fused_level *level, const kern_fused_code *code) {
  kern_fused_program f = {0};
  uint32_t count;
  const int64_t *words = base_attr_ints(call->attrs, PROGRAM, &count);
  const char *wrong = base_program_read(words, count, &f.p);
  if (wrong) return bad_program(call, wrong);
  job j = {.s.level = level};
  TRY(find_space(call, &f.p, &code, &j.s));
  if (j.s.planes * j.s.rows == 0 || (!f.p.row_axes && j.s.length == 0)) return TD_OK;
  TRY(prepare(&j, &f, code));
  j.rows.stream = streams(&j.s);
  run_tasks(&j);
  return j.status;
}

/* ---- chains ---- */

struct kern_chain {
  base_call call; /* of the program: as if its operand 0 were the product's result */
  const base_value *in[BASE_PROGRAM_OPERANDS];
  kern_fused_program f;
  job j;
};

static bool is_sums(const base_program_op *op) { return op->kind == BASE_PROGRAM_LOAD && op->function == 0; }

const char *kern_chain_read(const int64_t *words, uint32_t count, base_program *p) {
  const char *wrong = base_program_read(words, count, p);
  if (wrong) return wrong;
  if (p->in_count < 1 || p->out_count < 1) return "it is no chain: results of at least one operand";
  base_program_pick picks[BASE_PROGRAM_OPERANDS];
  if (base_program_picks(p, picks)) return "it gathers, which may fail";
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    const bool of_result = is_sums(op);
    if (base_type_is_wide(op->type) || (of_result && op->type != BASE_TYPE_F32))
      return "it is of values that are no f32";
    if (op->kind == BASE_PROGRAM_STORE && (op->row || op->in[2] != TD_F32)) return "its result is no f32 of the space";
    if (of_result && op->row) return "the product's result is one of rows";
    if (op->kind == BASE_PROGRAM_STORE && is_sums(&p->ops[op->in[0]])) return "it stores the product's result as it is";
  }
  return p->row_axes ? "it reduces along rows" : NULL;
}

td_status kern_chain_of(const base_call *call, const kern_fused_level *level, kern_chain **chain) {
  uint32_t count;
  const int64_t *words = base_attr_ints(call->attrs, call->attrs->count - 1, &count);
  *chain = NULL;
  if (!count) return TD_OK;
  kern_chain *c = base_call_scratch(call, 1, sizeof *c);
  if (!c) return base_no_memory(call->err, "scratch");
  memset(c, 0, sizeof *c);
  const char *wrong = kern_chain_read(words, count, &c->f.p);
  const uint32_t others = c->f.p.in_count - 1u;
  if (wrong) return bad_program(call, wrong);
  if (call->in_count < others || c->f.p.rank != base_out(call, 0)->rank)
    return bad_program(call, "the chain is for other operands");
  c->in[0] = call->out[0];
  for (uint32_t k = 0; k < others; k++) c->in[1 + k] = call->in[call->in_count - others + k];
  c->call = *call;
  c->call.in = c->in;
  c->call.in_count = c->f.p.in_count;
  if (c->call.out_count > c->f.p.out_count) c->call.out_count = c->f.p.out_count;
  c->j.s.level = level;
  c->j.s.in_order = true;
  const kern_fused_code *code = call->code;
  TRY(find_space(&c->call, &c->f.p, &code, &c->j.s));
  *chain = c;
  return prepare(&c->j, &c->f, code);
}

void kern_chain_run(kern_chain *chain, const kern_chain_tile *t) {
  job *j = &chain->j;
  const space *s = &j->s;
  int64_t offset[COLUMNS] = {0};
  for (int64_t done = 0, rows; done < t->rows; done += rows) {
    const int64_t row = t->row + done * t->row_step, plane = s->planes == 1 ? 0 : row / s->rows;
    const int64_t at = row - plane * s->rows;
    rows = t->row_step == 1 ? base_min_i64(base_min_i64(t->rows - done, s->rows - at), j->tile_rows) : 1;
    /* Tiles are small: the common case does without what other operands' places ask for. */
    if (s->planes > 1) offsets_of(s, plane, at, offset);
    else {
      for (uint32_t k = 1; k < s->p->in_count; k++) offset[k] = at * s->pitch[k];
      for (uint32_t k = BASE_PROGRAM_OPERANDS + 1; k < BASE_PROGRAM_OPERANDS + (uint32_t)s->p->out_count; k++)
        offset[k] = at * s->pitch[k];
    }
    j->sums_pitch = t->pitch;
    for (int64_t i = 0; i < t->columns; i += j->tile_length) {
      j->sums = t->sums + done * t->pitch + i;
      run_tile(j, offset, rows, t->column + i, base_min_i64(j->tile_length, t->columns - i));
    }
  }
}

const kern_fused_level *kern_fused_level_of(uint32_t isa) {
  static const struct {
    uint32_t needs;
    const kern_fused_level *level;
  } levels[] = {{KERN_NEEDS_avx512, &kern_fused_level_avx512},
                {KERN_NEEDS_avx2, &kern_fused_level_avx2},
                {KERN_NEEDS_vector, &kern_fused_level_vector}};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if ((levels[i].needs & ~isa) == 0) return levels[i].level;
  return &kern_fused_level_scalar;
}
