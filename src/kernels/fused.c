/* fused.c -- the space of a fused step, its tasks, and operands that are not floats in a row. Tasks are runs of rows or
 * pieces of a long row, by shape alone. */
#include "kernels/kernels_priv.h"

#include <string.h>

enum { PIECE = 512 /* elements brought into form at a time */, TASK = 16384 /* elements */ };
enum { PROGRAM /* attribute */ };
/* Outputs from this size on are written past the caches: reading what a write replaces would cost as much again, and
 * whoever reads them finds little of them there. */
static const size_t stream_bytes = (size_t)16 << 20;

typedef struct space {
  const base_call *call;
  const base_program *p;
  const base_tensor *in[BASE_PROGRAM_OPERANDS];
  int32_t rank;                                                              /* of the planes */
  int64_t dims[BASE_MAX_RANK], stride[BASE_MAX_RANK][BASE_PROGRAM_OPERANDS]; /* of the planes */
  int64_t planes, rows, length;
  int64_t pitch[BASE_PROGRAM_OPERANDS];
  int32_t row_rank; /* dimensions of a row, innermost first; at least 1 */
  int64_t row_dims[BASE_MAX_RANK], step[BASE_MAX_RANK][BASE_PROGRAM_OPERANDS];
  uint64_t scalars; /* bit k: operand k does not change along a row */
  uint64_t direct;  /* bit k: operand k, no scalar, is a dense row of floats as it is */
  td_dtype out_dtype[BASE_PROGRAM_OUTS];
  bool out_row[BASE_PROGRAM_OUTS]; /* one number a row */
  bool aside[BASE_PROGRAM_OUTS];   /* made in a piece of memory first: no float, or nobody wants it */
  bool piecewise;                  /* something has to be brought into form */
} space;

/* ---- dimensions ---- */

typedef struct dim_list {
  int32_t count;
  int64_t dims[BASE_MAX_RANK], stride[BASE_MAX_RANK][BASE_PROGRAM_OPERANDS];
} dim_list;

/* Adds a dimension outside of those in the list, or merges it into the last of them. */
static void add_dim(dim_list *list, uint32_t operands, int64_t length, const int64_t *stride) {
  if (length == 1) return;
  bool merges = list->count > 0;
  int32_t last = list->count - 1;
  for (uint32_t k = 0; merges && k < operands; k++) merges = stride[k] == list->stride[last][k] * list->dims[last];
  if (merges) {
    list->dims[last] *= length;
    return;
  }
  list->dims[list->count] = length;
  memcpy(list->stride[list->count++], stride, operands * sizeof *stride);
}

/* Length of axis `axis` of the space and the operands' strides along it. False: they do not broadcast. */
static bool axis_of(const space *s, int32_t axis, int64_t *length, int64_t *stride) {
  *length = 1;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const base_tensor *t = s->in[k];
    const int32_t at = axis - s->p->rank + t->rank;
    const int64_t dim = at >= 0 ? t->dims[at] : 1;
    stride[k] = dim != 1 ? t->strides[at] : 0;
    if (dim != 1 && *length != 1 && *length != dim) return false;
    if (dim != 1) *length = dim;
  }
  return true;
}

static bool find_dims(space *s) {
  const uint32_t operands = s->p->in_count;
  dim_list row = {0}, rest = {0};
  int64_t length, stride[BASE_PROGRAM_OPERANDS];
  for (int32_t i = s->p->rank; i-- > 0;) {
    if (!axis_of(s, i, &length, stride)) return false;
    add_dim(i >= s->p->rank - s->p->row_axes ? &row : &rest, operands, length, stride);
  }
  int32_t from = 0; /* of `rest`; where no axis is the row's, its innermost dimension is */
  if (!s->p->row_axes && rest.count) {
    add_dim(&row, operands, rest.dims[0], rest.stride[0]);
    from = 1;
  }
  s->row_rank = row.count > 0 ? row.count : 1;
  s->length = s->rows = s->planes = s->row_dims[0] = 1;
  for (int32_t i = 0; i < row.count; i++) {
    s->length *= s->row_dims[i] = row.dims[i];
    memcpy(s->step[i], row.stride[i], sizeof s->step[i]);
  }
  if (from < rest.count) {
    s->rows = rest.dims[from];
    memcpy(s->pitch, rest.stride[from], sizeof s->pitch);
  }
  for (int32_t i = from + 1; i < rest.count; i++) {
    s->planes *= s->dims[s->rank] = rest.dims[i];
    memcpy(s->stride[s->rank++], rest.stride[i], sizeof s->stride[0]);
  }
  return true;
}

static void find_forms(space *s) {
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    bool still = true;
    for (int32_t i = 0; i < s->row_rank; i++) still &= s->step[i][k] == 0;
    const bool dense = s->row_rank == 1 && (s->step[0][k] == 1 || s->length == 1) && s->in[k]->dtype == TD_F32;
    if (still) s->scalars |= (uint64_t)1 << k;
    else if (dense) s->direct |= (uint64_t)1 << k;
    s->piecewise |= still ? s->in[k]->dtype != TD_F32 : !dense;
  }
  for (uint32_t i = 0; i < s->p->count; i++) {
    const base_program_op *op = &s->p->ops[i];
    if (op->kind != BASE_PROGRAM_STORE) continue;
    s->out_dtype[op->function] = (td_dtype)op->in[2];
    s->out_row[op->function] = op->row;
    s->aside[op->function] = op->in[2] != TD_F32 || !base_out(s->call, op->function);
    s->piecewise |= s->aside[op->function];
  }
}

/* ---- bringing operands into form ---- */

/* to[i] = element i of `from`, `step` elements apart. */
typedef void (*to_floats)(float *to, const void *from, int64_t step, int64_t n);
#define TO_FLOATS(name, type, value)                                       \
  static void name(float *to, const void *from, int64_t step, int64_t n) { \
    const type *at = from;                                                 \
    for (int64_t i = 0; i < n; i++, at += step) to[i] = (value);           \
  }
TO_FLOATS(from_f32, float, *at)
TO_FLOATS(from_f16, uint16_t, base_f16_to_f32(*at))
TO_FLOATS(from_bf16, uint16_t, base_bf16_to_f32(*at))
TO_FLOATS(from_f64, double, (float)*at)
TO_FLOATS(from_i64, int64_t, (float)*at)
TO_FLOATS(from_i32, int32_t, (float)*at)
TO_FLOATS(from_i16, int16_t, *at)
TO_FLOATS(from_i8, int8_t, *at)
TO_FLOATS(from_u64, uint64_t, (float)*at)
TO_FLOATS(from_u32, uint32_t, (float)*at)
TO_FLOATS(from_u16, uint16_t, *at)
TO_FLOATS(from_u8, uint8_t, *at)
TO_FLOATS(from_bool, uint8_t, *at != 0)
static const to_floats readers[TD_DTYPE_COUNT] = {
    [TD_F64] = from_f64, [TD_F32] = from_f32, [TD_F16] = from_f16,  [TD_BF16] = from_bf16, [TD_I64] = from_i64,
    [TD_I32] = from_i32, [TD_I16] = from_i16, [TD_I8] = from_i8,    [TD_U64] = from_u64,   [TD_U32] = from_u32,
    [TD_U16] = from_u16, [TD_U8] = from_u8,   [TD_BOOL] = from_bool};

typedef void (*of_floats)(void *to, const float *from, int64_t n);
#define OF_FLOATS(name, type, value)                         \
  static void name(void *to, const float *from, int64_t n) { \
    type *at = to;                                           \
    for (int64_t i = 0; i < n; i++) at[i] = (value);         \
  }
OF_FLOATS(into_f32, float, from[i])
OF_FLOATS(into_f16, uint16_t, base_f32_to_f16(from[i]))
OF_FLOATS(into_bf16, uint16_t, base_f32_to_bf16(from[i]))
OF_FLOATS(into_bool, uint8_t, from[i] != 0)
static const of_floats writers[TD_DTYPE_COUNT] = {
    [TD_F32] = into_f32, [TD_F16] = into_f16, [TD_BF16] = into_bf16, [TD_BOOL] = into_bool};

static size_t size_of(td_dtype dtype) { return base_dtype(dtype)->bits / 8u; }

/* Elements [from, from + count) of a row of operand `k` that begins at element `offset`, into `to`. */
static void gather(const space *s, uint32_t k, int64_t offset, int64_t from, int64_t count, float *to) {
  const base_tensor *t = s->in[k];
  while (count > 0) {
    int64_t at = offset, rest = from;
    for (int32_t i = 0; i < s->row_rank; i++) {
      at += rest % s->row_dims[i] * s->step[i][k];
      rest /= s->row_dims[i];
    }
    const int64_t run = base_min_i64(count, s->row_dims[0] - from % s->row_dims[0]);
    readers[t->dtype](to, (const char *)t->data + at * (int64_t)size_of(t->dtype), s->step[0][k], run);
    to += run, from += run, count -= run;
  }
}

/* Every output is large, of floats, and its rows begin where whole vectors may be written past the caches. */
static bool streams(const space *s) {
  bool all = !s->piecewise && !s->p->row_axes && s->length % 16 == 0;
  for (uint32_t k = 0; all && k < s->p->out_count; k++) {
    const base_tensor *out = base_out(s->call, k);
    all = (uintptr_t)out->data % 64 == 0 && base_tensor_bytes(out) >= stream_bytes;
  }
  return all;
}

/* ---- running ---- */

typedef struct job {
  space s;
  kern_fused_body body;
  kern_fused_rows rows;
  float *in[BASE_PROGRAM_OPERANDS], *out[BASE_PROGRAM_OUTS]; /* pieces */
} job;

/* Element offsets of the operands at row `row` of plane `plane`. */
static void offsets_of(const space *s, int64_t plane, int64_t row, int64_t *offset) {
  for (uint32_t k = 0; k < s->p->in_count; k++) offset[k] = row * s->pitch[k];
  for (int32_t i = 0; i < s->rank; i++) {
    for (uint32_t k = 0; k < s->p->in_count; k++) offset[k] += plane % s->dims[i] * s->stride[i][k];
    plane /= s->dims[i];
  }
}

/* Where row `row` of all, from its element `from` on, begins in output `k`. */
static char *out_at(const space *s, uint32_t k, int64_t row, int64_t from) {
  const int64_t element = s->out_row[k] ? row : row * s->length + from;
  return (char *)base_out(s->call, k)->data + element * (int64_t)size_of(s->out_dtype[k]);
}

static void run_direct(job *j, int64_t plane, int64_t row, int64_t rows, int64_t from, int64_t n) {
  const space *s = &j->s;
  int64_t offset[BASE_PROGRAM_OPERANDS];
  offsets_of(s, plane, row, offset);
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const float *data = s->in[k]->data;
    j->rows.in[k] = data + offset[k] + (s->direct >> k & 1 ? from : 0);
    j->rows.pitch[k] = s->pitch[k];
  }
  for (uint32_t k = 0; k < s->p->out_count; k++) {
    j->rows.out[k] = (float *)(void *)out_at(s, k, plane * s->rows + row, from);
    j->rows.out_pitch[k] = s->out_row[k] ? 1 : s->length;
  }
  j->rows.rows = rows;
  j->rows.n = n;
  j->body(&j->rows);
}

static void run_piece(job *j, const int64_t *offset, int64_t row, int64_t from, int64_t n) {
  const space *s = &j->s;
  for (uint32_t k = 0; k < s->p->in_count; k++) {
    const bool still = s->scalars >> k & 1;
    if (s->direct >> k & 1 || (still && s->in[k]->dtype == TD_F32)) {
      j->rows.in[k] = (const float *)s->in[k]->data + offset[k] + (still ? 0 : from);
      continue;
    }
    gather(s, k, offset[k], still ? 0 : from, still ? 1 : n, j->in[k]);
    j->rows.in[k] = j->in[k];
  }
  for (uint32_t k = 0; k < s->p->out_count; k++)
    j->rows.out[k] = s->aside[k] ? j->out[k] : (float *)(void *)out_at(s, k, row, from);
  j->rows.rows = 1;
  j->rows.n = n;
  j->body(&j->rows);
  for (uint32_t k = 0; k < s->p->out_count; k++)
    if (s->aside[k] && base_out(s->call, k))
      writers[s->out_dtype[k]](out_at(s, k, row, from), j->out[k], s->out_row[k] ? 1 : n);
}

/* `rows` rows from row `row` of `plane` on, of which elements [from, from + n). */
static void run_rows(job *j, int64_t plane, int64_t row, int64_t rows, int64_t from, int64_t n) {
  const space *s = &j->s;
  int64_t offset[BASE_PROGRAM_OPERANDS];
  if (!s->piecewise) {
    run_direct(j, plane, row, rows, from, n);
    return;
  }
  const int64_t most = s->p->row_axes ? base_max_i64(n, 1) : PIECE;
  for (int64_t r = row; r < row + rows; r++) {
    offsets_of(s, plane, r, offset);
    for (int64_t i = 0; i == 0 || i < n; i += most)
      run_piece(j, offset, plane * s->rows + r, from + i, base_min_i64(most, n - i));
  }
}

static void run_tasks(job *j) {
  const space *s = &j->s;
  const bool whole = s->p->row_axes > 0;
  const int64_t all = s->planes * s->rows, length = base_max_i64(s->length, 1);
  const int64_t block = length < TASK ? TASK / length : 1;
  const int64_t pieces = whole || length < 2 * TASK ? 1 : (length + TASK - 1) / TASK;
  const int64_t total = (all + block - 1) / block * pieces;
  for (int64_t task = base_call_first(s->call, total); task < total; task = base_call_next(s->call, task, total)) {
    const int64_t first = task / pieces * block, end = base_min_i64(all, first + block);
    const int64_t from = pieces > 1 ? task % pieces * TASK : 0;
    const int64_t n = pieces > 1 ? base_min_i64(TASK, s->length - from) : s->length;
    for (int64_t row = first, rows; row < end; row += rows) {
      rows = base_min_i64(s->rows - row % s->rows, end - row);
      run_rows(j, row / s->rows, row % s->rows, rows, from, n);
    }
  }
}

/* Memory for what is brought into form, and for values that are kept along a row. */
static bool take_memory(job *j, uint32_t kept) {
  const space *s = &j->s;
  const size_t n = (size_t)(s->p->row_axes ? base_max_i64(s->length, 1) : PIECE), each = (n + 15) / 16 * 16;
  uint32_t wanted = 0;
  for (uint32_t k = 0; s->piecewise && k < s->p->in_count; k++) wanted += !(s->direct >> k & 1);
  for (uint32_t k = 0; s->piecewise && k < s->p->out_count; k++) wanted += s->aside[k];
  if (each > SIZE_MAX / sizeof(float)) return false;
  float *at = base_call_scratch(s->call, (size_t)wanted + kept, each * sizeof *at);
  if (!at) return false;
  j->rows.kept = at;
  at += kept * each;
  for (uint32_t k = 0; s->piecewise && k < s->p->in_count; k++)
    if (!(s->direct >> k & 1)) j->in[k] = at, at += each;
  for (uint32_t k = 0; s->piecewise && k < s->p->out_count; k++)
    if (s->aside[k]) j->out[k] = at, at += each;
  return true;
}

static td_status bad_program(const base_call *call, const char *what) {
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "td::fused: %s", what);
}

static td_status find_space(const base_call *call, const base_program *p, space *s) {
  s->call = call;
  s->p = p;
  if (call->in_count != p->in_count || call->out_count > p->out_count)
    return bad_program(call, "the program has another number of operands");
  for (uint32_t k = 0; k < p->in_count; k++) {
    s->in[k] = base_in(call, k);
    if (!s->in[k] || s->in[k]->rank > p->rank || !readers[s->in[k]->dtype])
      return bad_program(call, "an operand is missing, or of a type or rank that the program does not take");
  }
  if (!find_dims(s)) return bad_program(call, "the operands do not broadcast");
  find_forms(s);
  for (uint32_t k = 0; k < p->out_count; k++) {
    const int64_t wanted = s->planes * s->rows * (s->out_row[k] ? 1 : s->length);
    const base_tensor *out = base_out(call, k);
    if (!writers[s->out_dtype[k]] || (out && base_tensor_numel(out) != wanted))
      return bad_program(call, "an output has another type or size");
  }
  for (uint32_t i = 0; i < p->count; i++)
    if (p->ops[i].kind == BASE_PROGRAM_LOAD && p->ops[i].row && !(s->scalars >> p->ops[i].function & 1))
      return bad_program(call, "an operand of rows changes along them");
  return TD_OK;
}

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
  }
  for (uint32_t s = 0; s < f->stages; s++)
    for (uint32_t i = 0; i < p->count; i++) {
      const base_program_op *op = &p->ops[i];
      uint32_t slot = 0;
      if (f->stage[i] != s || op->kind != BASE_PROGRAM_SCALAR || op->row) continue;
      if (f->kept[i]) f->slot[i] = (uint8_t)kept++;
      else {
        while (taken[slot]) slot++;
        taken[slot] = true;
        f->slot[i] = (uint8_t)slot;
      }
      for (uint32_t k = 0; k < 3; k++) {
        const base_program_op *from = &p->ops[op->in[k]];
        const bool ends = op->in[k] < i && last[op->in[k]] == i;
        if (ends && from->kind == BASE_PROGRAM_SCALAR && !from->row && !f->kept[op->in[k]])
          taken[f->slot[op->in[k]]] = false;
      }
    }
}

td_status kern_fused_run(const base_call *call, kern_fused_body interpret, const kern_fused_code *code) {
  kern_fused_program f = {0};
  uint32_t count;
  const int64_t *words = base_attr_ints(call->attrs, PROGRAM, &count);
  const char *wrong = base_program_read(words, count, &f.p);
  if (wrong) return bad_program(call, wrong);
  job j = {.body = interpret};
  TRY(find_space(call, &f.p, &j.s));
  if (j.s.planes * j.s.rows == 0 || (!f.p.row_axes && j.s.length == 0)) return TD_OK;
  if (code && code->scalars == j.s.scalars) j.body = code->body;
  f.stages = base_program_stages(&f.p, f.stage);
  f.kept_count = base_program_kept(&f.p, f.stage, f.kept);
  find_slots(&f);
  j.rows.program = &f;
  j.rows.scalars = j.s.scalars;
  j.rows.stream = streams(&j.s);
  if (!take_memory(&j, f.kept_count)) return base_no_memory(call->err, "scratch");
  run_tasks(&j);
  return TD_OK;
}

kern_fused_body kern_fused_interpreter(uint32_t isa) {
  static const struct {
    uint32_t needs;
    kern_fused_body body;
  } levels[] = {{KERN_NEEDS_avx512, kern_fused_body_avx512},
                {KERN_NEEDS_avx2, kern_fused_body_avx2},
                {KERN_NEEDS_vector, kern_fused_body_vector}};
  for (size_t i = 0; i < sizeof levels / sizeof *levels; i++)
    if ((levels[i].needs & ~isa) == 0) return levels[i].body;
  return kern_fused_body_scalar;
}
