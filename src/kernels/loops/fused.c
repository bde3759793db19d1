/* fused.c -- the space of a fused step, its tasks, and operands that are not dense elements of their type in a row.
 * Tasks are runs of rows, even for many workers, or pieces of a long row, by shape alone. Where something has to be
 * brought into form, they are run in tiles of some rows: an operand that is dense across the rows is transposed, a tile
 * at a time. */
#include "kernels/loops/fused_priv.h"
#include "kernels/tasks_priv.h"

#include <stddef.h>
#include <string.h>

enum { PIECE = 512, TASK = 16384 /* elements of a row at a time; of a task */ };
enum { TRANSPOSED_ROWS = 16, FORMED_ROWS = 64 /* rows per tile: minimum when transposing; maximum */ };
enum { FORMED = 2048 /* elements per tile when nothing is transposed */ };
enum { REPEATED = 64 /* rows that are one, most of which are the same for some operand */ };
enum {
  ACROSS = 4096,
  ACROSS_ROWS = 512,
  FULL = 16 /* of a tile across rows: elements; rows at most, and so that it pays */
};

/* ---- dimensions ---- */

typedef struct dim_list {
  int32_t count;
  int64_t dims[BASE_MAX_RANK], stride[BASE_MAX_RANK][COLUMNS];
} dim_list;

/* Adds a dimension outside of those in the list, or merges it into the last of them. */
static void add_dim(dim_list *list, int64_t length, const int64_t *stride) {
  if (length == 1) return;
  const int32_t last = list->count - 1;
  int64_t differs = last < 0;
  for (uint32_t k = 0; last >= 0 && k < COLUMNS; k++) differs |= stride[k] ^ list->stride[last][k] * list->dims[last];
  if (!differs) {
    list->dims[last] *= length;
    return;
  }
  list->dims[list->count] = length;
  memcpy(list->stride[list->count++], stride, COLUMNS * sizeof *stride);
}

/* Is axis `axis` one of the row? */
static bool in_row(const kern_fused_space *s, int32_t axis) {
  const int32_t end = s->p->rank - s->behind;
  return axis < end && axis >= end - s->row_axes;
}

/* Length of axis `axis` of the space and the strides of operands and outputs along it. False: they do not broadcast. */
static bool axis_of(const kern_fused_space *s, int32_t axis, int64_t *length, int64_t *stride) {
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
  const bool of_row = in_row(s, axis);
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    const base_tensor *t = base_out(s->call, k);
    if (!t || (of_row && s->out_row[k])) continue;
    const int32_t at = axis - (s->drops[k] && axis >= s->p->rank - s->behind ? s->row_axes : 0);
    if (at >= t->rank || t->dims[at] != *length) return false;
    stride[BASE_PROGRAM_OPERANDS + k] = *length != 1 ? t->strides[at] : 0;
  }
  return true;
}

/* The dimension whose neighbours are rows of one plane: that along which most operands are dense; else the innermost.
 * Of a program across rows the longest, where that would leave most lanes of a vector empty. */
static int32_t neighbours(const kern_fused_space *s, const dim_list *rest, int32_t from) {
  int32_t best = from;
  uint32_t most = 0;
  for (int32_t i = from; i < rest->count; i++) {
    uint32_t dense = 0;
    for (uint32_t k = 0; k < s->p->in_count; k++) dense += rest->stride[i][k] == 1 && transposes(s, k);
    if (dense > most) most = dense, best = i;
  }
  if (s->p->across && best < rest->count && rest->dims[best] < FULL)
    for (int32_t i = from; i < rest->count; i++)
      if (rest->dims[i] > rest->dims[best]) best = i;
  return best;
}

/* Along dimension `from` of `rest` results go on behind a row of `length` elements, and operands do so, too, or have
 * the same row again: a long row costs one such row to bring into form. */
static bool goes_on(const kern_fused_space *s, const dim_list *row, const dim_list *rest, int32_t from,
                    int64_t length) {
  bool on = row->count == 1;
  for (uint32_t k = 0, outs = BASE_PROGRAM_OPERANDS; on && k < outs + s->p->out_count; k++) {
    const int64_t next = rest->stride[from][k];
    const bool same = next == 0 && k < outs;
    on = same || (next == length && row->stride[0][k] == 1);
  }
  return on;
}

/* The largest part of a dimension of `length` elements that is repeated and leaves nothing over; 1: none. */
static int64_t repeated(int64_t length) {
  int64_t part = base_min_i64(REPEATED, length) - 1;
  while (part > 1 && length % part) part--;
  return base_max_i64(part, 1);
}

/* How much of dimension `from`, not the first, of `rest` is to be the row's, which has `length` elements yet; 1:
 * nothing. Not where something can be transposed. A few elements, such as the colours of a pixel, are brought together
 * even out of one long dimension. */
static int64_t goes_into_row(const kern_fused_space *s, const dim_list *row, const dim_list *rest, int32_t from,
                             int64_t length) {
  const int64_t all = rest->dims[from];
  const bool last = from + 1 >= rest->count;
  if (s->gathers || length >= KERN_FUSED_SHORT) return 1;
  if (goes_on(s, row, rest, from, length)) return last || all >= REPEATED ? repeated(all) : all;
  if (last || all >= KERN_FUSED_FEW) return 1;
  for (int32_t i = from; i < rest->count; i++)
    for (uint32_t k = 0; k < s->p->in_count; k++)
      if (rest->stride[i][k] == 1 && transposes(s, k)) return 1;
  return all;
}

/* Moves `part` of dimension `from` of `rest` into the row. Gives the first dimension that is left. */
static int32_t take_into_row(dim_list *row, dim_list *rest, int32_t from, int64_t part) {
  add_dim(row, part, rest->stride[from]);
  if (part == rest->dims[from]) return from + 1;
  rest->dims[from] /= part;
  for (uint32_t k = 0; k < COLUMNS; k++) rest->stride[from][k] *= part;
  return from;
}

static bool find_dims(kern_fused_space *s) {
  dim_list row, rest;
  int64_t length, stride[COLUMNS];
  row.count = rest.count = 0;
  for (int32_t i = s->p->rank; i-- > 0;) {
    if (!axis_of(s, i, &length, stride)) return false;
    add_dim(in_row(s, i) ? &row : &rest, length, stride);
  }
  int32_t from = 0; /* of `rest`; where no axis is the row's, its innermost dimension is */
  int64_t part = 2;
  for (length = 1; !s->row_axes && from < rest.count && part > 1; length *= part) {
    part = from == 0 ? rest.dims[0] : goes_into_row(s, &row, &rest, from, length);
    if (part > 1 || from == 0) from = take_into_row(&row, &rest, from, part);
  }
  s->row_rank = row.count > 0 ? row.count : 1;
  s->length = s->rows = s->planes = s->row_dims[0] = 1;
  memset(s->step[0], 0, sizeof s->step[0]);
  for (int32_t i = 0; i < row.count; i++) {
    s->length *= row.dims[i];
    s->row_dims[i] = base_max_i64(row.dims[i], 1); /* numbers of rows without elements are written all the same */
    memcpy(s->step[i], row.stride[i], sizeof s->step[i]);
  }
  const int32_t rows = s->in_order ? from : neighbours(s, &rest, from);
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
static bool only_passes(const kern_fused_space *s) {
  return s->p->count == 2 && !s->p->row_axes && s->direct & 1 && s->aside[0] && base_out(s->call, 0);
}

/* The elements of a row of column `k` lie side by side, in their order. */
static bool is_dense(const kern_fused_space *s, uint32_t k) {
  return s->length == 1 || (s->step[0][k] == 1 && is_even(s, k));
}

/* The same element of neighbouring rows of column `k` lies side by side; `one`: there is one of a row. */
static bool is_dense_across(const kern_fused_space *s, uint32_t k, bool one) {
  return (s->rows == 1 || s->pitch[k] == 1) && (one || s->row_rank == 1);
}

static void find_forms_across(kern_fused_space *s) {
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const bool direct = s->native >> k & 1 && is_dense_across(s, k, s->scalars >> k & 1);
    s->direct |= (uint64_t)direct << k;
    s->piecewise |= !direct;
  }
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    const uint32_t column = BASE_PROGRAM_OPERANDS + k;
    const bool native = s->out_dtype[k] == base_type_dtype(s->type[column]);
    s->aside[k] = !base_out(s->call, k) || !native || !is_dense_across(s, column, s->out_row[k]);
    s->piecewise |= s->aside[k];
  }
}

/* Are rows of operand `k`, which is gathered, dense, with one index for a whole row? A table that stays in its
 * file may lie at any address. */
static bool lies_as_told(const kern_fused_space *s, uint32_t k) {
  const uint32_t teller = s->picks[k].teller;
  for (int32_t i = 0; i < s->row_rank; i++)
    if (s->step[i][teller] != 0) return false;
  const bool aligned = (uintptr_t)s->in[k]->data % size_of(s->in[k]->dtype) == 0;
  return aligned && s->native >> k & 1 && s->pitch[teller] == 0 && is_dense(s, k);
}

/* `code` (may be NULL) is taken where it fits: operands that it takes as rows may be single numbers after all. */
static void find_forms(kern_fused_space *s, const kern_fused_code **code) {
  uint64_t still = 0;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    bool moves = s->picks[k].picks || s->picks[k].tells || (s->in_order && k == 0);
    for (int32_t i = 0; i < s->row_rank; i++) moves |= s->step[i][k] != 0;
    if (!moves) still |= (uint64_t)1 << k;
  }
  if (*code && (*code)->scalars & ~still) *code = NULL;
  s->scalars = *code ? (*code)->scalars : still;
  if (s->p->across) {
    find_forms_across(s);
    return;
  }
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    if (s->picks[k].tells) s->tellers |= (uint64_t)1 << k;
    if (s->picks[k].tells) continue;
    const bool native = s->native >> k & 1, plain = native && !s->picks[k].picks;
    const bool dense = plain && is_dense(s, k), one = s->scalars >> k & 1;
    if (dense && !one) s->direct |= (uint64_t)1 << k;
    else if (!one && s->picks[k].picks && lies_as_told(s, k)) s->found |= (uint64_t)1 << k;
    else if (!one && plain && s->row_rank == 1 && s->pitch[k] == 1 && s->rows > 1 && transposes(s, k))
      s->transposed |= (uint64_t)1 << k;
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
static void find_types(kern_fused_space *s) {
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
    s->drops[op->function] = op->row && op->in[1];
  }
}

/* Every output is large, of floats, and its rows begin where whole vectors may be written past the caches. */
static bool streams(const kern_fused_space *s) {
  bool all = !s->p->row_axes && s->length % 16 == 0 && (!s->piecewise || s->transposed);
  for (uint32_t k = 0; all && k < s->p->out_count; k++) {
    const base_tensor *out = base_out(s->call, k);
    all = !s->aside[k] && s->out_dtype[k] == TD_F32 && (uintptr_t)out->data % 64 == 0 &&
          base_tensor_bytes(out) >= (size_t)KERN_FUSED_STREAMED && base_tensor_contiguous(out);
  }
  return all;
}

/* ---- running ---- */

/* Element offsets of the columns at row `row` of plane `plane`. */
static void offsets_of(const kern_fused_space *s, int64_t plane, int64_t row, int64_t *offset) {
  const uint32_t outs = BASE_PROGRAM_OPERANDS, end = outs + s->p->out_count; /* those in between are nobody's */
  for (uint32_t k = 0; k < s->p->in_count; k++) offset[k] = row * s->pitch[k];
  for (uint32_t k = outs; k < end; k++) offset[k] = row * s->pitch[k];
  for (int32_t i = 0; i < s->rank; i++) {
    const int64_t at = plane % s->dims[i];
    for (uint32_t k = 0; k < s->p->in_count; k++) offset[k] += at * s->stride[i][k];
    for (uint32_t k = outs; k < end; k++) offset[k] += at * s->stride[i][k];
    plane /= s->dims[i];
  }
}

/* `rows` rows of a plane, of which elements [from, from + n); `offset`: of the columns at the first row. */
static void run_tile(kern_fused_job *j, const int64_t *offset, int64_t rows, int64_t from, int64_t n) {
  const kern_fused_space *s = &j->s;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const bool still = s->scalars >> k & 1, as_it_is = s->direct >> k & 1 || (still && s->native >> k & 1);
    const int64_t first = offset[k] + (still ? 0 : from);
    if (s->tellers >> k & 1) continue;
    const bool same = s->pitch[k] == 0 && !s->picks[k].picks; /* one row is all of them */
    if (s->found >> k & 1) {
      const int64_t place = kern_fused_told(j, k, offset[s->picks[k].teller]);
      if (j->status != TD_OK) return;
      j->rows.in[k] = (const char *)s->in[k]->data + (first + place) * (int64_t)body_size(s, k);
      j->rows.pitch[k] = s->pitch[k];
      continue;
    }
    if (!as_it_is) kern_fused_bring(j, k, offset, same ? 1 : rows, still ? 0 : from, still ? 1 : n);
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
    j->rows.out[0] = j->sums;
    j->rows.out_pitch[0] = j->sums_pitch;
  }
  if (j->sums && !j->front) {
    j->rows.in[0] = j->sums;
    j->rows.pitch[0] = j->sums_pitch;
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
      kern_fused_put(s, column, offset[column] + r * s->pitch[column], s->out_row[k] ? 0 : from, s->out_row[k] ? 1 : n,
                     made + r * wide * each);
  }
}

/* All elements of `rows` rows of a plane, of a program across rows. */
static void run_tile_across(kern_fused_job *j, const int64_t *offset, int64_t rows) {
  const kern_fused_space *s = &j->s;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const bool direct = s->direct >> k & 1;
    if (!direct) kern_fused_bring_across(j, k, offset[k], rows);
    j->rows.in[k] = direct ? (const char *)s->in[k]->data + offset[k] * (int64_t)body_size(s, k) : j->in[k];
    j->rows.pitch[k] = direct ? s->step[0][k] : j->wide;
  }
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    const uint32_t column = BASE_PROGRAM_OPERANDS + k;
    const int64_t at = offset[column] * (int64_t)body_size(s, column);
    j->rows.out[k] = s->aside[k] ? j->out[k] : (char *)base_out(s->call, k)->data + at;
    j->rows.out_pitch[k] = s->aside[k] ? j->wide : s->step[0][column];
  }
  j->rows.rows = rows;
  j->rows.n = s->length;
  j->body(&j->rows);
  for (uint32_t k = 0; k < s->p->out_count; k++)
    if (s->aside[k] && base_out(s->call, k))
      kern_fused_put_across(j, BASE_PROGRAM_OPERANDS + k, offset[BASE_PROGRAM_OPERANDS + k], rows);
}

/* `rows` rows from row `row` of `plane` on, of which elements [from, from + n). */
static void run_rows(kern_fused_job *j, int64_t plane, int64_t row, int64_t rows, int64_t from, int64_t n) {
  const kern_fused_space *s = &j->s;
  int64_t offset[COLUMNS];
  for (int64_t r = 0; r < rows; r += j->tile_rows) {
    const int64_t count = base_min_i64(j->tile_rows, rows - r);
    offsets_of(s, plane, row + r, offset);
    if (s->p->across) run_tile_across(j, offset, count);
    for (int64_t i = 0; !s->p->across && (i == 0 || i < n); i += j->tile_length)
      run_tile(j, offset, count, from + i, base_min_i64(j->tile_length, n - i));
  }
}

/* How large tiles are: without anything to bring into form the rows and pieces that tasks have. */
static void find_tile(kern_fused_job *j) {
  const kern_fused_space *s = &j->s;
  const int64_t length = base_max_i64(s->length, 1);
  j->tile_rows = j->tile_length = INT64_MAX;
  if (s->p->across) {
    const int64_t fits = base_max_i64(ACROSS / length, 1);
    j->tile_rows = base_min_i64((fits + 15) / 16 * 16, ACROSS_ROWS);
    j->wide = base_min_i64(j->tile_rows, (s->rows + 15) / 16 * 16) + UNIT; /* its powers of 2 would crowd few sets */
    return;
  }
  if (!s->piecewise) return;
  j->tile_length = s->p->row_axes ? length : base_min_i64(length, s->rows > 1 ? PIECE : FORMED);
  j->tile_rows = base_min_i64(base_max_i64((s->transposed ? TASK : FORMED) / j->tile_length, 1), FORMED_ROWS);
  if (s->transposed && j->tile_rows > TRANSPOSED_ROWS) j->tile_rows -= j->tile_rows % TRANSPOSED_ROWS;
  j->wide = (j->tile_length + 15) / 16 * 16;
}

static void run_tasks(kern_fused_job *j) {
  const kern_fused_space *s = &j->s;
  const bool whole = s->p->row_axes > 0;
  const int64_t all = s->planes * s->rows, length = base_max_i64(s->length, 1);
  const bool tiles = s->transposed || s->p->across;
  const int64_t fewest = tiles ? base_min_i64(j->tile_rows, s->rows) : 1; /* rows of a task */
  const int64_t size = kern_task_size(TASK, s->call->workers);
  int64_t block = base_max_i64(length < size ? size / length / fewest * fewest : 1, fewest);
  const int64_t span = size / base_min_i64(fewest, size / PIECE) / PIECE * PIECE; /* elements of their rows */
  const int64_t pieces = whole || length < 2 * span ? 1 : (length + span - 1) / span;
  const kern_cuts even = {.maps = 1,
                          .size = all,
                          .tile = base_max_i64(all, 1),
                          .row = base_min_i64(length, size),
                          .least = 1,
                          .most = base_ceil_div(all, block),
                          .cuts = base_ceil_div(all, block)};
  if (all && !tiles && pieces == 1) block = base_ceil_div(all, kern_even_cuts(&even, s->call->workers));
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
static size_t tile_bytes(const kern_fused_job *j, uint32_t k) {
  const kern_fused_space *s = &j->s;
  const bool one = k < BASE_PROGRAM_OPERANDS ? s->scalars >> k & 1 : s->out_row[k - BASE_PROGRAM_OPERANDS];
  const int64_t rows = !s->p->across ? j->tile_rows : one ? 1 : base_max_i64(s->length, 1);
  return (size_t)(j->wide * rows) * body_size(s, k);
}

/* Gives each tile its place in `at`, or, where that is NULL, counts. */
static size_t place_tiles(kern_fused_job *j, char *at) {
  const kern_fused_space *s = &j->s;
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
static bool take_memory(kern_fused_job *j, uint32_t kept_words) {
  const kern_fused_space *s = &j->s;
  const size_t length = (size_t)(s->p->row_axes ? base_max_i64(s->length, 1) : PIECE);
  const size_t lanes = (size_t)base_min_i64(j->tile_rows, KERN_FUSED_LANES);
  const size_t row = s->p->across ? length * lanes : (length + 15) / 16 * 16;
  const size_t tile = (size_t)(s->p->across ? s->length : j->tile_rows);
  size_t most, bytes;
  if (length > SIZE_MAX / (4096 * KERN_FUSED_LANES) ||
      __builtin_mul_overflow(s->piecewise ? (size_t)j->wide * COLUMNS * 8 : 0, tile, &most) ||
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

static td_status find_space(const base_call *call, const base_program *p, const kern_fused_code **code,
                            kern_fused_space *s) {
  s->call = call;
  s->p = p;
  s->gathers = base_program_picks(p, s->picks);
  s->row_axes = s->in_order && !p->row_axes ? 1 : p->row_axes;
  s->behind = p->behind;
  if (call->in_count != p->in_count || call->out_count > p->out_count)
    return bad_program(call, "the program has another number of operands");
  for (uint32_t k = 0; k < p->in_count; k++) {
    const base_program_pick *pick = &s->picks[k];
    s->in[k] = base_in(call, k);
    if (!s->in[k] || (s->in[k]->rank > p->rank && !pick->picks) || !kern_fused_reads(s->in[k]->dtype))
      return bad_program(call, "an operand is missing, or of a type or rank that the program does not take");
  }
  for (uint32_t k = 0; s->gathers && k < p->in_count; k++) {
    const base_program_pick *pick = &s->picks[k];
    if (pick->picks && (pick->axis >= s->in[k]->rank || pick->axes + 1 < s->in[k]->rank))
      return bad_program(call, "an operand cannot be gathered that way");
    if (pick->tells && !base_is_int(s->in[k]->dtype)) return bad_program(call, "gather indices must be integers");
  }
  find_types(s);
  if (!find_dims(s)) return bad_program(call, "the operands do not broadcast to the outputs");
  find_forms(s, code);
  for (uint32_t k = 0; k < p->out_count; k++)
    if (!kern_fused_writes(s->out_dtype[k]) || (base_out(call, k) && base_out(call, k)->dtype != s->out_dtype[k]))
      return bad_program(call, "an output has another type");
  for (uint32_t i = 0; i < p->count; i++) {
    const base_program_op *op = &p->ops[i];
    if (op->kind != BASE_PROGRAM_LOAD) continue;
    if (op->type != s->type[op->function]) return bad_program(call, "an operand has another type");
    if (op->row && !(s->scalars >> op->function & 1)) return bad_program(call, "an operand of rows changes along them");
  }
  return TD_OK;
}

/* What runs the program, whose space is known, of tiles yet to come. */
static td_status prepare(kern_fused_job *j, const kern_fused_program *f, const kern_fused_code *code) {
  j->body = code ? code->body : j->s.level->interpret;
  j->rows.program = f;
  j->rows.scalars = j->s.scalars;
  find_tile(j);
  return take_memory(j, f->kept_words) ? TD_OK : base_no_memory(j->s.call->err, "scratch");
}

/* The program of the call's attributes, as the step has it, or else read now. */
static td_status program_of(const base_call *call, bool chain, const kern_fused_program **f) {
  *f = call->program;
  if (*f) return TD_OK;
  kern_fused_program *own = base_call_scratch(call, 1, sizeof *own);
  if (!own) return base_no_memory(call->err, "scratch");
  const char *wrong = kern_fused_read(call->attrs, chain, own);
  *f = own;
  return wrong ? bad_program(call, wrong) : TD_OK;
}

static void clear(kern_fused_job *j) { memset(j, 0, offsetof(kern_fused_job, s.dims)); }

td_status kern_fused_run(const base_call *call, const kern_fused_level *level, const kern_fused_code *code) {
  const kern_fused_program *f;
  kern_fused_job j;
  TRY(program_of(call, false, &f));
  clear(&j);
  j.s.level = level;
  TRY(find_space(call, &f->p, &code, &j.s));
  if (j.s.planes * j.s.rows == 0 || (!f->p.row_axes && j.s.length == 0)) return TD_OK;
  TRY(prepare(&j, f, code));
  j.rows.stream = streams(&j.s);
  run_tasks(&j);
  return j.status;
}

/* ---- chains ---- */

struct kern_chain {
  base_call call; /* of the program: as if its operand 0 were the product's result, or its result the operand */
  const base_value *in[BASE_PROGRAM_OPERANDS];
  base_value made; /* of a chain in front: the dimensions of what exists a tile at a time */
  base_value *out[1];
  int64_t joined; /* rows of few columns, one behind the other, that are run as one; 0: none are */
  const char *joint[BASE_PROGRAM_OPERANDS]; /* operands as such a row reads them: where there is no repeat, NULL */
  kern_fused_job j;
};

/* The program's operand 0, and, of a chain in front, its output. False: there is no such operand. */
static bool find_ends(const base_call *call, kern_chain *c) {
  const base_tensor *x = base_in(call, 0);
  c->in[0] = call->out[0];
  if (!c->j.front) return true;
  if (!x || x->dtype != TD_F32) return false;
  c->made = (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(x->data, TD_F32, x->rank, x->dims)};
  c->out[0] = &c->made;
  c->in[0] = call->in[0];
  c->call.out = c->out;
  c->call.out_count = 1;
  return true;
}

/* Elements of rows that are run as one. */
enum { JOINED = 256 };

/* Could rows of the sums be joined, as far as operand `k` goes? It is a number, the same for each row, or goes on with
 * the rows. */
static bool joins(const kern_fused_space *s, uint32_t k) {
  if (!(s->native >> k & 1) || s->picks[k].picks || s->picks[k].tells) return false;
  if (s->scalars >> k & 1) return s->pitch[k] == 0;
  return s->direct >> k & 1 && (s->pitch[k] == 0 || s->pitch[k] == s->length);
}

/* A row that follows a masked store waits for it, and takes a call of its own: of a few columns many are one, where
 * operands allow. */
static td_status join_rows(const base_call *call, kern_chain *c) {
  const kern_fused_space *s = &c->j.s;
  bool may = !c->j.front && !s->p->row_axes && s->p->out_count == 1 && !s->aside[0] && s->planes == 1 &&
             s->length > 0 && s->length < KERN_FUSED_SHORT;
  for (uint32_t k = 0; k < s->p->in_count; k++) may = may && joins(s, k);
  c->joined = may ? JOINED / s->length : 0;
  if (!may) return TD_OK;
  for (uint32_t k = 1; k < s->p->in_count; k++) {
    c->joint[k] = NULL;
    if (s->scalars >> k & 1 || s->pitch[k] != 0) continue;
    const size_t row = (size_t)s->length * body_size(s, k);
    char *to = base_call_scratch(call, (size_t)c->joined, row);
    if (!to) return base_no_memory(call->err, "scratch");
    for (int64_t r = 0; r < c->joined; r++) memcpy(to + (size_t)r * row, s->in[k]->data, row);
    c->joint[k] = to;
  }
  return TD_OK;
}

/* `rows` times c->joined rows from row `row` on; or, with one of them, n elements. */
static void run_joined(kern_chain *c, float *sums, int64_t row, int64_t rows, int64_t n) {
  kern_fused_rows *r = &c->j.rows;
  const kern_fused_space *s = &c->j.s;
  const int64_t pitch = c->joined * s->length;
  for (uint32_t k = 1; k < s->p->in_count; k++) {
    r->in[k] = c->joint[k] ? c->joint[k] : (const char *)s->in[k]->data + row * s->pitch[k] * (int64_t)body_size(s, k);
    r->pitch[k] = s->pitch[k] ? pitch : 0;
  }
  r->in[0] = r->out[0] = sums;
  r->pitch[0] = r->out_pitch[0] = pitch;
  r->rows = rows;
  r->n = n;
  c->j.body(r);
}

td_status kern_chain_of(const base_call *call, const kern_fused_level *level, kern_chain **chain) {
  const kern_fused_program *f;
  uint32_t words;
  *chain = NULL;
  base_attr_ints(call->attrs, call->attrs->count - 1, &words);
  if (!words) return TD_OK;
  TRY(program_of(call, true, &f));
  const uint32_t others = f->p.in_count - 1u;
  kern_chain *c = base_call_scratch(call, 1, sizeof *c);
  if (!c) return base_no_memory(call->err, "scratch");
  c->call = *call;
  clear(&c->j);
  c->j.front = kern_chain_in_front(call->attrs);
  if (call->in_count < others || !find_ends(call, c) || f->p.rank != c->in[0]->tensor.rank)
    return bad_program(call, "the chain is for other operands");
  for (uint32_t k = 0; k < others; k++) c->in[1 + k] = call->in[call->in_count - others + k];
  c->call.in = c->in;
  c->call.in_count = f->p.in_count;
  if (c->call.out_count > f->p.out_count) c->call.out_count = f->p.out_count;
  c->j.s.level = level;
  c->j.s.in_order = true;
  const kern_fused_code *code = call->code;
  TRY(find_space(&c->call, &f->p, &code, &c->j.s));
  *chain = c;
  TRY(prepare(&c->j, f, code));
  return join_rows(call, c);
}

void kern_chain_run(kern_chain *chain, const kern_chain_tile *t) {
  kern_fused_job *j = &chain->j;
  const kern_fused_space *s = &j->s;
  int64_t offset[COLUMNS] = {0};
  if (chain->joined && t->row_step == 1 && t->pitch == s->length && t->columns == s->length) {
    const int64_t whole = t->rows / chain->joined, behind = whole * chain->joined, rest = t->rows - behind;
    if (whole) run_joined(chain, t->sums, t->row, whole, chain->joined * s->length);
    if (rest) run_joined(chain, t->sums + behind * t->pitch, t->row + behind, 1, rest * s->length);
    return;
  }
  for (int64_t done = 0, rows; done < t->rows; done += rows) {
    const int64_t row = t->row + done * t->row_step, plane = s->planes == 1 ? 0 : row / s->rows;
    const int64_t at = row - plane * s->rows;
    rows = t->row_step == 1 ? base_min_i64(base_min_i64(t->rows - done, s->rows - at), j->tile_rows) : 1;
    /* Tiles are small: the common case does without what other operands' places ask for. */
    if (s->planes > 1) offsets_of(s, plane, at, offset);
    else {
      for (uint32_t k = 0; k < s->p->in_count; k++) offset[k] = at * s->pitch[k];
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
  uint32_t i;
  const kern_level *levels = kern_levels(&i);
  do i--;
  while (!levels[i].fused || levels[i].isa & ~isa); /* the narrowest level needs nothing */
  return levels[i].fused;
}
