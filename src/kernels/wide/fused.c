/* fused.c -- KERN_FUSED: the block interpreter of programs (base/program.h). A row is walked a block at a time; each
 * operation runs over the block before the next one does, so that what they pass on stays in the first-level cache.
 *
 * Values of a row stand in one vector of equal lanes. An operand is read with a step of a vector, or of 0. Behind the
 * last element of a row the blocks hold anything; reductions and stores leave it alone. */
#include "kernels/fused.h"
#include "kernels/wide/halves_priv.h"
#include "kernels/wide/rows_priv.h"
#include "kernels/wide/turn_priv.h"

enum { BLOCK = 512 };

/* A value as an operation reads it: `step` floats from vector to vector. */
typedef struct source {
  const float *at;
  int64_t step;
} source;
typedef void (*block_fn)(float *out, const source *in, int64_t n, const float *p);

#define BLOCK_FN(name, value)                                                         \
  static void block_##name(float *out, const source *in, int64_t n, const float *p) { \
    const vf a = v_set(p[0]), b = v_set(p[1]), c = v_set(p[2]);                       \
    const float *from_x = in[0].at, *from_y = in[1].at, *from_z = in[2].at;           \
    (void)a, (void)b, (void)c;                                                        \
    for (int64_t i = 0; i < n; i += V_LANES) {                                        \
      vf x = v_load(from_x), y = v_load(from_y), z = v_load(from_z);                  \
      (void)y, (void)z;                                                               \
      v_store(out + i, value);                                                        \
      from_x += in[0].step, from_y += in[1].step, from_z += in[2].step;               \
    }                                                                                 \
  }
#define UNARY(family, function, value) BLOCK_FN(function, value)
#define BINARY(family, function, value) BLOCK_FN(function, value)
#define PURE(function, operands, value) BLOCK_FN(function, value)
#include "base/scalar.def"

static const block_fn blocks[] = {
#define UNARY(family, function, value) block_##function,
#define BINARY(family, function, value) block_##function,
#define PURE(function, operands, value) block_##function,
#include "base/scalar.def"
};

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
static float across_sum(vf a) { return v_sum(a); }
static float across_max(vf a) { return any_nan(a) ? NAN : v_highest(a); }
static float across_min(vf a) { return any_nan(a) ? NAN : v_lowest(a); }
static const combining combinings[BASE_COMBINE_COUNT] = {
    {0, combine_sum, across_sum}, {-INFINITY, combine_max, across_max}, {INFINITY, combine_min, across_min}};

/* ---- the interpreter ---- */

typedef struct machine {
  const kern_fused_rows *r;
  int64_t row, kept_pitch;
  source value[BASE_PROGRAM_OPS];
  float wide[BASE_PROGRAM_OPS][V_LANES]; /* numbers and values of rows; totals of reductions */
  float block[BASE_PROGRAM_OPS][BLOCK];  /* by slot */
} machine;

static void set_wide(machine *m, uint32_t i, float x) {
  v_store(m->wide[i], v_set(x));
  m->value[i] = (source){m->wide[i], 0};
}

static void sources_of(const machine *m, const base_program_op *op, source *in) {
  const uint32_t count = base_scalar_of((base_scalar)op->function)->operands;
  for (uint32_t k = 0; k < 3; k++) in[k] = m->value[op->in[k < count ? k : 0]];
}

/* What is computed once for the row in this stage, before its loop. */
static void run_row_ops(machine *m, uint32_t stage) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    source in[3];
    if (!op->row || f->stage[i] != stage) continue;
    if (op->kind == BASE_PROGRAM_LOAD) set_wide(m, i, m->r->in[op->function][m->row * m->r->pitch[op->function]]);
    if (op->kind == BASE_PROGRAM_LENGTH) set_wide(m, i, (float)m->r->n);
    if (op->kind == BASE_PROGRAM_REDUCE) set_wide(m, i, combinings[op->function].start);
    if (op->kind == BASE_PROGRAM_STORE)
      m->r->out[op->function][m->row * m->r->out_pitch[op->function]] = m->value[op->in[0]].at[0];
    if (op->kind != BASE_PROGRAM_SCALAR) continue;
    sources_of(m, op, in);
    blocks[op->function](m->wide[i], in, V_LANES, op->p);
    m->value[i] = (source){m->wide[i], 0};
  }
}

/* Fetches the block behind the one at `at`: blocks of several operands in turn are nothing that hardware foresees. */
static void fetch_next(const float *at, int64_t n) {
  for (int64_t i = 0; i < n; i += 16) __builtin_prefetch(at + n + i);
}

/* A block of an operand, where it stands if whole vectors of it may be read there. */
static void load_block(machine *m, uint32_t i, const base_program_op *op, int64_t from, int64_t n) {
  const float *at = m->r->in[op->function] + m->row * m->r->pitch[op->function];
  if (m->r->scalars >> op->function & 1) {
    set_wide(m, i, *at);
    return;
  }
  at += from;
  m->value[i] = (source){at, V_LANES};
  if (m->r->stream) fetch_next(at, n);
  if (n % V_LANES == 0) return;
  float *to = m->block[m->r->program->slot[i]];
  memcpy(to, at, (size_t)n * sizeof *to);
  m->value[i].at = to;
}

static void store_block(float *to, source from, int64_t n) {
  int64_t i = 0;
  if (to == from.at) return;
  for (; i + V_LANES <= n; i += V_LANES, from.at += from.step) v_store(to + i, v_load(from.at));
  if (i < n) v_store_n(to + i, v_load(from.at), n - i);
}

/* Where the block of op `i` is computed: in its output, if only stores follow and whole vectors may be written. */
static float *place_of(machine *m, uint32_t i, int64_t from, int64_t n) {
  const kern_fused_program *f = m->r->program;
  if (f->kept[i]) return m->r->kept + f->slot[i] * m->kept_pitch + from;
  if (i == f->last_work && n % V_LANES == 0)
    for (uint32_t k = i + 1; k < f->p.count; k++)
      if (f->p.ops[k].in[0] == i && !f->p.ops[k].row)
        return m->r->out[f->p.ops[k].function] + m->row * m->r->out_pitch[f->p.ops[k].function] + from;
  return m->block[f->slot[i]];
}

static void run_block(machine *m, uint32_t stage, int64_t from, int64_t n) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++) {
    const base_program_op *op = &f->p.ops[i];
    source in[3];
    if (op->kind == BASE_PROGRAM_LOAD && !op->row) load_block(m, i, op, from, n);
    if (f->kept[i] && f->stage[i] < stage)
      m->value[i] = (source){m->r->kept + f->slot[i] * m->kept_pitch + from, V_LANES};
    if (f->stage[i] != stage) continue;
    if (op->kind == BASE_PROGRAM_REDUCE) combinings[op->function].block(m->wide[i], m->value[op->in[0]], n);
    if (op->kind == BASE_PROGRAM_STORE && !op->row)
      store_block(m->r->out[op->function] + m->row * m->r->out_pitch[op->function] + from, m->value[op->in[0]], n);
    if (op->kind != BASE_PROGRAM_SCALAR || op->row) continue;
    sources_of(m, op, in);
    float *to = place_of(m, i, from, n);
    blocks[op->function](to, in, n, op->p);
    m->value[i] = (source){to, V_LANES};
  }
}

static void finish_reductions(machine *m, uint32_t stage) {
  const kern_fused_program *f = m->r->program;
  for (uint32_t i = 0; i < f->p.count; i++)
    if (f->p.ops[i].kind == BASE_PROGRAM_REDUCE && f->stage[i] == stage)
      set_wide(m, i, combinings[f->p.ops[i].function].across(v_load(m->wide[i])));
}

static void interpret(const kern_fused_rows *r) {
  machine m;
  m.r = r;
  m.kept_pitch = (r->n + 15) / 16 * 16;
  const kern_fused_program *f = r->program;
  for (uint32_t i = 0; i < f->p.count; i++)
    if (f->p.ops[i].kind == BASE_PROGRAM_NUMBER) set_wide(&m, i, f->p.ops[i].p[0]);
  for (m.row = 0; m.row < r->rows; m.row++)
    for (uint32_t stage = 0; stage <= f->stages; stage++) {
      if (f->p.row_axes) run_row_ops(&m, stage);
      for (int64_t from = 0; stage < f->stages && from < r->n; from += BLOCK)
        run_block(&m, stage, from, base_min_i64(BLOCK, r->n - from));
      if (f->p.row_axes) finish_reductions(&m, stage);
    }
}

static void turn(float *to, int64_t to_step, const float *from, int64_t from_step, int64_t rows, int64_t columns,
                 int64_t ahead) {
  turn_block(to, to_step, from, from_step, rows, columns, ahead);
}

const kern_fused_level KERN_NAME(fused_level) = {
    interpret, turn, read_f16, read_bf16, write_f16, write_bf16,
};

td_status KERN_NAME(fused)(const base_call *call) { return kern_fused_run(call, &KERN_NAME(fused_level), NULL); }
