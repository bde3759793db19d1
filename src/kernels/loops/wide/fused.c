/* fused.c -- KERN_FUSED: the block interpreter of programs (base/program.h). A row is walked a block at a time; each
 * operation runs over the block before the next one does, so that what they pass on stays in the first-level cache.
 *
 * Values of a row stand in one vector of equal lanes. An operand is read with a step of a vector, or of 0. Behind the
 * last element of a row the blocks hold anything; reductions and stores leave it alone. */
#include "kernels/loops/loops.h"
#include "kernels/simd/math_double_priv.h"
#include "kernels/simd/wide/narrow_priv.h"
#include "kernels/simd/wide/rows_priv.h"
#include "kernels/simd/wide/transpose_priv.h"

enum { BLOCK = KERN_FUSED_PIECE, WIDE_WORDS = V_LANES > 2 ? V_LANES : 2 };

/* A value as an operation reads it: `step` floats from vector to vector. */
typedef struct source {
  const float *at;
  int64_t step;
} source;
typedef void (*block_fn)(float *out, const source *in, int64_t n, const double *p);

/* Truth is all bits of a lane. */
#define v_truth(m) v_select(m, v_as_float(vi_set(-1)), v_zero())
#define v_untruth(m) v_select(m, v_zero(), v_as_float(vi_set(-1)))
#define v_where(x, y, z) v_select(v_eq(x, v_zero()), z, y)

#define BLOCK_FN(name, value)                                                          \
  static void block_##name(float *out, const source *in, int64_t n, const double *p) { \
    const vf a = v_set((float)p[0]), b = v_set((float)p[1]), c = v_set((float)p[2]);   \
    const float *from_x = in[0].at, *from_y = in[1].at, *from_z = in[2].at;            \
    (void)a, (void)b, (void)c;                                                         \
    for (int64_t i = 0; i < n; i += V_LANES) {                                         \
      vf x = v_load(from_x), y = v_load(from_y), z = v_load(from_z);                   \
      (void)y, (void)z;                                                                \
      v_store(out + i, value);                                                         \
      from_x += in[0].step, from_y += in[1].step, from_z += in[2].step;                \
    }                                                                                  \
  }
#define UNARY(family, function, types, work, value) BLOCK_FN(function, value)
#define BINARY(family, function, types, work, value) BLOCK_FN(function, value)
#define PURE(function, operands, types, gives, work, value) BLOCK_FN(function, value)
#include "base/scalar.def"

/* NULL: without vectors. */
static const block_fn blocks[BASE_SCALAR_COUNT] = {
#define UNARY(family, function, types, work, value) block_##function,
#define BINARY(family, function, types, work, value) block_##function,
#define PURE(function, operands, types, gives, work, value) block_##function,
#include "base/scalar.def"
};

/* The op's function over vectors: of F32, and the choice between any values of 4 bytes. */
static block_fn block_of(const base_program *p, const base_program_op *op) {
  const base_type type = base_program_operand_type(p, op);
  const bool fits = type == BASE_TYPE_F32 || (op->function == BASE_SCALAR_where && !base_type_is_wide(type));
  return fits ? blocks[op->function] : NULL;
}

/* ---- reductions ---- */

V_INLINE vf nan_max(vf a, vf b) { return v_select(v_eq(a, a), v_max(a, b), a); }
V_INLINE vf nan_min(vf a, vf b) { return v_select(v_eq(a, a), v_min(a, b), a); }
static inline bool any_nan(vf a) { return v_sum(v_select(v_eq(a, a), v_zero(), v_set(1))) > 0; }

typedef struct combining {
  float start;
  void (*block)(float *total, source x, int64_t n);
  float (*across)(vf total);
} combining;

#define COMBINING(name, START, COMBINE)                                                    \
  static void combine_##name(float *total, source x, int64_t n) {                          \
    const vf start = v_set(START);                                                         \
    vf part0 = start, part1 = start;                                                       \
    int64_t i = 0;                                                                         \
    for (; i + 2 * V_LANES <= n; i += 2 * V_LANES, x.at += 2 * x.step)                     \
      part0 = COMBINE(part0, v_load(x.at)), part1 = COMBINE(part1, v_load(x.at + x.step)); \
    for (; i < n; i += V_LANES, x.at += x.step)                                            \
      part0 = COMBINE(part0, row_load(x.at, base_min_i64(V_LANES, n - i), start));         \
    v_store(total, COMBINE(v_load(total), COMBINE(part0, part1)));                         \
  }
COMBINING(sum, 0, v_add)
COMBINING(max, -INFINITY, nan_max)
COMBINING(min, INFINITY, nan_min)
COMBINING(prod, 1, v_mul)
static float across_sum(vf a) { return v_sum(a); }
static float across_max(vf a) { return any_nan(a) ? NAN : v_highest(a); }
static float across_min(vf a) { return any_nan(a) ? NAN : v_lowest(a); }
static float across_prod(vf a) {
  float lanes[V_LANES], prod = 1;
  v_store(lanes, a);
  for (int i = 0; i < V_LANES; i++) prod *= lanes[i];
  return prod;
}
static const combining combinings[BASE_COMBINE_COUNT] = {{0, combine_sum, across_sum},
                                                         {-INFINITY, combine_max, across_max},
                                                         {INFINITY, combine_min, across_min},
                                                         {1, combine_prod, across_prod}};

/* ---- the interpreter ---- */

typedef struct machine {
  const kern_fused_rows *r;
  int64_t row, kept_pitch;
  source value[BASE_PROGRAM_OPS];
  float wide[BASE_PROGRAM_OPS][WIDE_WORDS]; /* numbers and values of rows; totals of reductions */
  float block[BASE_PROGRAM_OPS][BLOCK];     /* by slot */
} machine;

static int64_t size_of(const base_program_op *op) { return base_type_is_wide((base_type)op->type) ? 8 : 4; }

/* The row's value of op `i`, which stands in the first bytes of wide[i], is one that operations read. */
static void spread(machine *m, uint32_t i) {
  if (size_of(&m->r->program->p.ops[i]) == 4) v_store(m->wide[i], v_set(m->wide[i][0]));
  m->value[i] = (source){m->wide[i], 0};
}

static void set_wide(machine *m, uint32_t i, const void *x) {
  memcpy(m->wide[i], x, (size_t)size_of(&m->r->program->p.ops[i]));
  spread(m, i);
}

/* A number as op `i`'s type has it. */
static void set_number(machine *m, uint32_t i, double x, int64_t whole) {
  const base_type type = (base_type)m->r->program->p.ops[i].type;
  const float narrow = (float)x;
  const int32_t cut = type == BASE_TYPE_BOOL ? -(whole != 0) : (int32_t)whole;
  set_wide(m, i,
           type == BASE_TYPE_F32   ? (const void *)&narrow
           : type == BASE_TYPE_F64 ? (const void *)&x
           : type == BASE_TYPE_I64 ? (const void *)&whole
                                   : (const void *)&cut);
}

static void sources_of(const machine *m, const base_program_op *op, source *in) {
  const uint32_t count = base_scalar_of((base_scalar)op->function)->operands;
  for (uint32_t k = 0; k < 3; k++) in[k] = m->value[op->in[k < count ? k : 0]];
}

/* Op `i` over n elements, without vectors where they do not have it. */
static void run_function(machine *m, const base_program_op *op, float *to, int64_t n, int64_t vectors) {
  const base_program *p = &m->r->program->p;
  const block_fn block = block_of(p, op);
  source in[3];
  sources_of(m, op, in);
  if (block) {
    block(to, in, vectors, op->p);
    return;
  }
  const kern_fused_source from[3] = {
      {in[0].at, in[0].step != 0}, {in[1].at, in[1].step != 0}, {in[2].at, in[2].step != 0}};
  kern_fused_apply(op->function, (uint32_t)base_program_operand_type(p, op), op->type, op->p, to, from, n);
}

/* One element of operand or output `at` of op `i`'s type: its place in memory, where truth takes a byte. */
static void load_row(machine *m, uint32_t i, const base_program_op *op) {
  const uint32_t k = op->function;
  const int64_t element = m->row * m->r->pitch[k];
  const char *at = m->r->in[k];
  if (op->type == BASE_TYPE_BOOL) set_number(m, i, 0, at[element]);
  else set_wide(m, i, at + element * size_of(op));
}

static void store_row(const machine *m, const base_program_op *op) {
  const uint32_t k = op->function;
  const int64_t element = m->row * m->r->out_pitch[k];
  const float *from = m->value[op->in[0]].at;
  char *to = m->r->out[k];
  if (op->type == BASE_TYPE_BOOL) to[element] = from[0] != 0;
  else memcpy(to + element * size_of(op), from, (size_t)size_of(op));
}

/* What is computed once for the row in this stage, before its loop. */
static void run_row_ops(machine *m, uint32_t stage) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    if (op->kind == BASE_PROGRAM_SCAN && f->stage[i] == stage)
      kern_fused_combine(op->function, op->type, m->wide[i], NULL, 0);
    if (!op->row || f->stage[i] != stage) continue;
    if (op->kind == BASE_PROGRAM_LOAD) load_row(m, i, op);
    if (op->kind == BASE_PROGRAM_LENGTH) set_number(m, i, (double)m->r->n, m->r->n);
    if (op->kind == BASE_PROGRAM_REDUCE && op->type == BASE_TYPE_F32) set_wide(m, i, &combinings[op->function].start);
    else if (op->kind == BASE_PROGRAM_REDUCE) kern_fused_combine(op->function, op->type, m->wide[i], NULL, 0);
    if (op->kind == BASE_PROGRAM_STORE) store_row(m, op);
    if (op->kind != BASE_PROGRAM_SCALAR) continue;
    run_function(m, op, m->wide[i], 1, V_LANES);
    spread(m, i);
  }
}

/* Fetches the block behind the one at `at`: blocks of several operands in turn are nothing that hardware foresees. */
static void fetch_next(const float *at, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(at + n + i);
}

/* n elements of an operand, where they stand if whole vectors of it may be read there, and truth takes no byte; else in
 * `to`. */
static void load_lanes(machine *m, uint32_t i, const base_program_op *op, float *to, int64_t from, int64_t n) {
  const uint32_t k = op->function;
  const bool truth = op->type == BASE_TYPE_BOOL;
  const char *row = (const char *)m->r->in[k];
  const int64_t element = m->row * m->r->pitch[k] + from;
  m->value[i] = (source){to, V_LANES};
  if (truth) {
    for (int64_t e = 0; e < n; e++) ((int32_t *)(void *)to)[e] = -(row[element + e] != 0);
    return;
  }
  const float *at = (const float *)(const void *)(row + element * size_of(op));
  if (m->r->stream) fetch_next(at, n);
  if (n % V_LANES == 0) m->value[i].at = at;
  else memcpy(to, at, (size_t)(n * size_of(op)));
}

static void load_block(machine *m, uint32_t i, const base_program_op *op, int64_t from, int64_t n) {
  if (m->r->scalars >> op->function & 1) load_row(m, i, op);
  else load_lanes(m, i, op, m->block[m->r->program->slot[i]], from, n);
}

static void store_block(const base_program_op *op, char *to, source from, int64_t n) {
  int64_t i = 0;
  float *out = (float *)(void *)to;
  if (op->type == BASE_TYPE_BOOL) {
    const int32_t *truth = (const int32_t *)(const void *)from.at;
    for (; i < n; i++) to[i] = truth[from.step ? i : 0] != 0;
    return;
  }
  if (out == from.at) return;
  if (size_of(op) == 8 && from.step == 0) {
    for (; i < n; i++) memcpy(to + i * 8, from.at, 8);
    return;
  }
  const int64_t left = n * size_of(op) / 4; /* in floats */
  for (; i + V_LANES <= left; i += V_LANES, from.at += from.step) v_store(out + i, v_load(from.at));
  if (i < left) v_store_n(out + i, v_load(from.at), left - i);
}

/* Element `from` of the row in output `k`, of op's type. */
static char *out_at(const machine *m, const base_program_op *op, int64_t from) {
  const int64_t element = m->row * m->r->out_pitch[op->function] + from;
  return (char *)m->r->out[op->function] + element * (op->type == BASE_TYPE_BOOL ? 1 : size_of(op));
}

static float *kept_at(const machine *m, uint32_t i, int64_t from) {
  const kern_fused_program *f = m->r->program;
  return m->r->kept + f->slot[i] * m->kept_pitch + from * size_of(&f->p.ops[i]) / 4;
}

/* Where the block of op `i` is computed: in its output, if only stores follow and whole vectors may be written. */
static float *place_of(machine *m, uint32_t i, int64_t from, int64_t n) {
  const kern_fused_program *f = m->r->program;
  if (f->kept[i]) return kept_at(m, i, from);
  if (i == f->last_work && n % V_LANES == 0 && f->p.ops[i].type != BASE_TYPE_BOOL)
    for (uint32_t k = i + 1; k < f->p.count; k++)
      if (f->p.ops[k].in[0] == i && !f->p.ops[k].row) return (float *)(void *)out_at(m, &f->p.ops[k], from);
  return m->block[f->slot[i]];
}

static void combine_block(machine *m, uint32_t i, const base_program_op *op, int64_t n) {
  const source x = m->value[op->in[0]];
  const kern_fused_source plain = {x.at, x.step != 0};
  if (op->type == BASE_TYPE_F32) combinings[op->function].block(m->wide[i], x, n);
  else kern_fused_combine(op->function, op->type, m->wide[i], &plain, n);
}

static void run_block(machine *m, uint32_t stage, int64_t from, int64_t n) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    if (op->kind == BASE_PROGRAM_LOAD && !op->row) load_block(m, i, op, from, n);
    if (f->kept[i] && f->stage[i] < stage) m->value[i] = (source){kept_at(m, i, from), V_LANES};
    if (f->stage[i] != stage) continue;
    if (op->kind == BASE_PROGRAM_REDUCE) combine_block(m, i, op, n);
    if (op->kind == BASE_PROGRAM_STORE && !op->row) store_block(op, out_at(m, op, from), m->value[op->in[0]], n);
    if (!base_program_computes(op)) continue;
    float *to = place_of(m, i, from, n);
    const source x = m->value[op->in[0]];
    if (op->kind == BASE_PROGRAM_SCALAR) run_function(m, op, to, n, n);
    else kern_fused_scan(op, m->wide[i], &(kern_fused_source){x.at, x.step != 0}, to, n);
    m->value[i] = (source){to, V_LANES};
  }
}

static void finish_reductions(machine *m, uint32_t stage) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    if (op->kind != BASE_PROGRAM_REDUCE || f->stage[i] != stage) continue;
    if (op->type == BASE_TYPE_F32) m->wide[i][0] = combinings[op->function].across(v_load(m->wide[i]));
    spread(m, i);
  }
}

/* ---- across rows: a block is one element of up to KERN_FUSED_LANES rows; what is computed once for a row is one, too.
 * In m->row stands the element's number, which is what pitches count. ---- */

static float *block_across(machine *m, uint32_t i) {
  return &m->block[0][0] + (size_t)i * KERN_FUSED_LANES * (m->r->program->wide ? 2 : 1);
}

/* Blocks behind those of the ops: what scans have so far. */
static float *total_across(machine *m, uint32_t i) { return block_across(m, BASE_PROGRAM_OPS + i); }

static float *kept_across(const machine *m, uint32_t i, int64_t lanes) {
  const kern_fused_program *f = m->r->program;
  const int64_t wide = (lanes + 15) / 16 * 16;
  return m->r->kept + (f->slot[i] * m->r->n + m->row * size_of(&f->p.ops[i]) / 4) * wide;
}

static void start_across(const base_program_op *op, float *total, int64_t lanes) {
  char *to = (char *)total;
  kern_fused_combine(op->function, op->type, to, NULL, 0);
  for (int64_t i = 1; i < lanes; i++) memcpy(to + i * size_of(op), to, (size_t)size_of(op));
}

/* The lanes of *total joined with those of what the op reduces or scans. */
static void join_across(machine *m, const base_program_op *op, float *total, int64_t lanes) {
  static const double none[3];
  const base_scalar function = base_combine_scalar((base_combine)op->function, (base_type)op->type);
  const source x = m->value[op->in[0]], in[3] = {{total, V_LANES}, x, x};
  if (op->type == BASE_TYPE_F32) {
    blocks[function](total, in, lanes, none);
    return;
  }
  const kern_fused_source y = {x.at, x.step != 0}, from[3] = {{total, 1}, y, y};
  kern_fused_apply(function, op->type, op->type, none, total, from, lanes);
}

static void scan_across(machine *m, uint32_t i, const base_program_op *op, float *to, int64_t lanes) {
  const size_t bytes = (size_t)(lanes * size_of(op));
  if (op->in[1] & BASE_SCAN_EXCLUSIVE) memcpy(to, total_across(m, i), bytes);
  join_across(m, op, total_across(m, i), lanes);
  if (!(op->in[1] & BASE_SCAN_EXCLUSIVE)) memcpy(to, total_across(m, i), bytes);
}

/* Loads, and all that is done once for a row, in front of the loop of `stage`. */
static void run_rows_across(machine *m, uint32_t stage, int64_t from, int64_t lanes) {
  const kern_fused_program *f = m->r->program;
  m->row = 0;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    const bool still = op->kind == BASE_PROGRAM_LOAD && m->r->scalars >> op->function & 1;
    if (still && stage == 0) load_lanes(m, i, op, block_across(m, i), from, lanes);
    if (f->stage[i] != stage) continue;
    if (op->kind == BASE_PROGRAM_SCAN) start_across(op, total_across(m, i), lanes);
    if (!op->row || op->kind == BASE_PROGRAM_LOAD) continue;
    if (op->kind == BASE_PROGRAM_LENGTH) set_number(m, i, (double)m->r->n, m->r->n);
    if (op->kind == BASE_PROGRAM_STORE) store_block(op, out_at(m, op, from), m->value[op->in[0]], lanes);
    if (op->kind == BASE_PROGRAM_REDUCE) start_across(op, block_across(m, i), lanes);
    if (op->kind == BASE_PROGRAM_SCALAR) run_function(m, op, block_across(m, i), lanes, lanes);
    if (op->kind == BASE_PROGRAM_REDUCE || op->kind == BASE_PROGRAM_SCALAR)
      m->value[i] = (source){block_across(m, i), V_LANES};
  }
}

/* Element m->row of the rows. */
static void run_element_across(machine *m, uint32_t stage, int64_t from, int64_t lanes) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    const bool still = op->kind == BASE_PROGRAM_LOAD && m->r->scalars >> op->function & 1;
    if (op->kind == BASE_PROGRAM_LOAD && !still) load_lanes(m, i, op, block_across(m, i), from, lanes);
    if (f->kept[i] && f->stage[i] < stage) m->value[i] = (source){kept_across(m, i, lanes), V_LANES};
    if (f->stage[i] != stage) continue;
    if (op->kind == BASE_PROGRAM_REDUCE) join_across(m, op, block_across(m, i), lanes);
    if (op->kind == BASE_PROGRAM_STORE && !op->row) store_block(op, out_at(m, op, from), m->value[op->in[0]], lanes);
    if (!base_program_computes(op)) continue;
    float *to = f->kept[i] ? kept_across(m, i, lanes) : block_across(m, i);
    if (op->kind == BASE_PROGRAM_SCALAR) run_function(m, op, to, lanes, lanes);
    else scan_across(m, i, op, to, lanes);
    m->value[i] = (source){to, V_LANES};
  }
}

static void interpret_across(machine *m) {
  const kern_fused_rows *r = m->r;
  const kern_fused_program *f = r->program;
  for (int64_t from = 0; from < r->rows; from += KERN_FUSED_LANES) {
    const int64_t lanes = base_min_i64(KERN_FUSED_LANES, r->rows - from);
    for (uint32_t stage = 0; stage <= f->stages; stage++) {
      run_rows_across(m, stage, from, lanes);
      for (int64_t k = 0; stage < f->stages && k < r->n; k++) {
        m->row = f->back[stage] ? r->n - 1 - k : k;
        run_element_across(m, stage, from, lanes);
      }
    }
  }
}

static void interpret(const kern_fused_rows *r) {
  machine m;
  m.r = r;
  m.kept_pitch = (r->n + 15) / 16 * 16;
  const kern_fused_program *f = r->program;
  const int64_t block = f->wide ? BLOCK / 2 : BLOCK, count = (r->n + block - 1) / block;
  for (uint32_t i = 0; i < f->p.count; i++)
    if (f->p.ops[i].kind == BASE_PROGRAM_NUMBER) set_number(&m, i, f->p.ops[i].p[0], f->p.ops[i].whole);
  if (f->p.across) {
    interpret_across(&m);
    return;
  }
  for (m.row = 0; m.row < r->rows; m.row++)
    for (uint32_t stage = 0; stage <= f->stages; stage++) {
      if (f->p.row_axes) run_row_ops(&m, stage);
      for (int64_t k = 0; stage < f->stages && k < count; k++) {
        const int64_t from = (f->back[stage] ? count - 1 - k : k) * block;
        run_block(&m, stage, from, base_min_i64(block, r->n - from));
      }
      if (f->p.row_axes) finish_reductions(&m, stage);
    }
}

static const kern_fused_form narrow_forms[TD_DTYPE_COUNT] = {
    [TD_F16] = {read_f16, write_f16}, [TD_BF16] = {read_bf16, write_bf16}, [TD_U16] = {read_u16, write_u16},
    [TD_I16] = {read_i16, write_i16}, [TD_U8] = {read_u8, write_u8},       [TD_I8] = {read_i8, write_i8}};

const kern_fused_level KERN_NAME(fused_level) = {interpret, KERN_NAME(transpose_block), narrow_forms};

td_status KERN_NAME(fused)(const base_call *call) { return kern_fused_run(call, &KERN_NAME(fused_level), NULL); }
