/* nbits.c -- products of f32 with constant weights of 4 and 8 bits keep them so, where a level has kernels that widen
 * them in cache:
 *
 *     matmul_nbits(x, B, scales, zeros, bias)           -> linear_nbits(x, W, bias)
 *     the same with rows in groups out of order          -> linear_nbits(index_select(x, order), W, bias)
 *     matmul(x, dequantize(B)), of permute(dequantize(B)) -> linear_nbits(x, W)
 *     gemm(x, dequantize(B), c)                          -> linear_nbits(x, W, c)
 *
 * x of half precision is cast, and the result back. Where x may be of fewer bits, and rows enough are known to come,
 * tiles multiply it as one bf16 or as two (`pairs`), faster than blocks of whole numbers are. Samples do not count:
 * what becomes of one must not follow from how many come.
 *
 * Requires: a verified graph; comes before constants are folded, which would make f32 of the weights, and behind int8,
 * which takes what is quantised on both sides. Keeps: types. Breaks: bit equality: sums are in the kernel's order. */
#include "kernels/products/products.h"
#include "passes/passes_priv.h"

#include <math.h>

/* Where numbers of n columns lie in a tensor: number i of column n is element n * column + i * step. */
typedef struct numbers {
  const base_tensor *t; /* NULL: absent */
  int64_t column, step;
} numbers;

typedef struct weights {
  kern_nbits l;
  numbers q, scales, zeros;
  const base_tensor *groups; /* the block of each k; NULL: they are in order */
  int64_t *order;            /* the k that stands at each place; NULL: its own */
  int64_t x_bits;            /* of whole numbers that x may become; 32: of none */
  bool bf16;                 /* x may become that */
  bool pairs;                /* it becomes one or two, 8 or 16 bits */
  uint8_t *packed;
} weights;

/* ---- reading ---- */

static int64_t bits_of(const base_tensor *t) { return base_dtype(t->dtype)->bits; }

/* A whole number of few bits, from 0: those with a sign are moved up. */
static uint8_t number_at(const base_tensor *t, int64_t i) {
  const uint8_t *bytes = t->data;
  const bool is_signed = base_dtype(t->dtype)->is_signed;
  if (bits_of(t) == 8) return bytes[i] ^ (is_signed ? 128 : 0);
  return ((bytes[i / 2] >> (i % 2 * 4)) & 15) ^ (is_signed ? 8 : 0);
}

static bool zero_at(const weights *w, int64_t i, uint8_t *zero) {
  const base_tensor *t = w->zeros.t;
  const double value = base_is_float(t->dtype) ? base_load_f64(t->dtype, t->data, i) : number_at(t, i);
  const bool fits = value >= 0 && value < (double)(1 << w->l.bits) && value == nearbyint(value);
  *zero = fits ? (uint8_t)value : 0;
  return fits;
}

static void read_column(const weights *w, int64_t n, uint8_t *to) {
  const uint8_t *bytes = w->q.t->data;
  const int64_t first = n * w->q.column, step = w->q.step;
  const uint8_t flip = base_dtype(w->q.t->dtype)->is_signed ? (uint8_t)(1 << (w->l.bits - 1)) : 0;
  const bool whole = bits_of(w->q.t) == 8;
  if (step == 1 && !w->order && (whole || first % 2 == 0)) {
    kern_nbits_read(whole ? bytes + first : bytes + first / 2, bits_of(w->q.t), w->l.k, flip, to);
    return;
  }
  for (int64_t k = 0; k < w->l.k; k++) {
    const int64_t at = first + (w->order ? w->order[k] : k) * step;
    to[k] = (whole ? bytes[at] : (bytes[at / 2] >> (at % 2 * 4)) & 15) ^ flip;
  }
}

/* Packs panels of a task; `fits` of all of them. */
typedef struct job {
  weights *w;
  uint8_t *q, *zeros;
  float *scales;
  int64_t first, last; /* panels */
  bool fits;
} job;

static void pack_columns(void *jobs, uint32_t i) {
  job *j = &((job *)jobs)[i];
  const weights *w = j->w;
  const int64_t end = base_min_i64(w->l.n, j->last * w->l.panel);
  for (int64_t n = j->first * w->l.panel; n < end; n++) {
    read_column(w, n, j->q);
    for (int64_t b = 0; b < w->l.blocks; b++) {
      const base_tensor *s = w->scales.t;
      j->scales[b] = (float)base_load_f64(s->dtype, s->data, n * w->scales.column + b * w->scales.step);
      if (w->l.zeros) j->fits &= zero_at(w, n * w->zeros.column + b * w->zeros.step, &j->zeros[b]);
    }
    kern_nbits_pack(&w->l, n, j->q, j->scales, j->zeros, w->packed);
  }
}

/* The order that puts the rows of a group side by side. *fits: each group is a block then. */
static td_status find_order(passes_edit *e, weights *w, bool *fits) {
  const base_tensor *g = w->groups;
  *fits = true;
  if (!g) return TD_OK;
  *fits = base_is_int(g->dtype) && base_tensor_contiguous(g) && base_tensor_numel(g) == w->l.k;
  int64_t *filled = base_new(e->scratch, int64_t, (size_t)w->l.blocks + 1);
  w->order = base_new(e->graph->constants, int64_t, (size_t)w->l.k + 1);
  if (!filled || !w->order) return base_no_memory(e->err, "an order");
  bool same = true;
  for (int64_t k = 0; *fits && k < w->l.k; k++) {
    const int64_t block = base_load_i64(g->dtype, g->data, k);
    *fits = block >= 0 && block < w->l.blocks;
    if (!*fits) break;
    const int64_t at = block * w->l.block + filled[block]++;
    *fits = filled[block] <= w->l.block && at < w->l.k;
    if (!*fits) break;
    w->order[at] = k;
    same &= at == k;
  }
  if (same) w->order = NULL;
  return TD_OK;
}

/* ---- rewriting ---- */

enum { TILE_ROWS = 16 }; /* from so many on unpacking weights for a tile costs little beside it */

/* Are TILE_ROWS rows of a sample known to come? */
static bool has_rows(const ir_type *x) {
  int64_t rows = 1;
  for (int32_t i = 1; i < x->rank - 1; i++)
    if (!base_dim_known(x->dims[i]) || !base_mul_i64(rows, x->dims[i], &rows)) return false;
  return rows >= TILE_ROWS;
}

/* The kernel of such weights; one that takes bf16 or whole numbers for x where it may, and there is one. */
static const kern_row *row_of(const passes_edit *e, weights *w, const ir_type *x) {
  const kern_row *tiles = kern_select(KERN_LINEAR_NBITS, TD_BF16, e->setting->isa);
  w->pairs = w->x_bits < 32 && tiles && has_rows(x);
  if (w->pairs) w->x_bits = w->bf16 ? 8 : 16;
  if (w->pairs) return tiles;
  const kern_row *whole = w->x_bits < 32 ? kern_select(KERN_LINEAR_NBITS_I8, TD_I8, e->setting->isa) : NULL;
  if (whole && kern_nbits_has_whole(&w->l, w->x_bits, whole)) return whole;
  w->x_bits = 32;
  return kern_select(KERN_LINEAR_NBITS, TD_F32, e->setting->isa);
}

/* What the model or the caller lets become of x, the fewer bits of both. */
static void choose_bits(const passes_edit *e, const ir_node_def *node, weights *w) {
  static const int64_t by_caller[] = {
      [KERN_PRECISION_F32] = 32, [KERN_PRECISION_BF16] = 16, [KERN_PRECISION_F16] = 16, [KERN_PRECISION_INT8] = 8};
  const bool keeps = ir_origins_listed(&node->origins, e->setting->keep_f32);
  const kern_precision asked = passes_precision(e, node);
  w->x_bits = keeps ? 32 : base_min_i64(w->x_bits, by_caller[asked]);
  w->bf16 = !keeps && (w->bf16 || asked == KERN_PRECISION_BF16 || asked == KERN_PRECISION_INT8);
}

static td_status pack(passes_edit *e, weights *w, const ir_type *x, ir_value *packed, bool *fits) {
  enum { JOBS = 16 };
  job jobs[JOBS];
  w->l.panel = row_of(e, w, x)->lanes;
  w->l.zeros = w->zeros.t != NULL;
  *fits = kern_nbits_layout(&w->l) && w->l.n > 0 && w->l.k > 0;
  if (*fits) TRY(find_order(e, w, fits));
  if (!*fits) return TD_OK;
  w->packed = base_arena_alloc(e->graph->constants, (size_t)w->l.size);
  if (!w->packed) return base_no_memory(e->err, "packed weights");
  const uint32_t count = (uint32_t)base_min_i64(JOBS, w->l.panels);
  for (uint32_t i = 0; i < count; i++) {
    jobs[i] = (job){.w = w,
                    .q = base_new(e->scratch, uint8_t, (size_t)w->l.k),
                    .zeros = base_new(e->scratch, uint8_t, (size_t)w->l.blocks),
                    .scales = base_new(e->scratch, float, (size_t)w->l.blocks),
                    .first = w->l.panels * i / count,
                    .last = w->l.panels * (i + 1) / count,
                    .fits = true};
    if (!jobs[i].q || !jobs[i].zeros || !jobs[i].scales) return base_no_memory(e->err, "packed weights");
  }
  passes_share(e->setting, count, pack_columns, jobs);
  for (uint32_t i = 0; i < count; i++) *fits &= jobs[i].fits;
  const base_tensor t = base_tensor_of(w->packed, TD_U8, 1, &w->l.size);
  return *fits ? ir_add_constant(e->graph, &t, NULL, packed, e->err) : TD_OK;
}

static td_status reorder(passes_edit *e, ir_node at, const weights *w, ir_value *x) {
  if (!w->order) return TD_OK;
  const base_tensor order = base_tensor_of(w->order, TD_I64, 1, &w->l.k);
  ir_value index;
  TRY(ir_add_constant(e->graph, &order, NULL, &index, e->err));
  return passes_select(e, at, *x, ir_type_of(e->graph, *x)->rank - 1, index, x);
}

/* The product of x and w, plus `bias` (may be none), in place of the node. */
static td_status rebuild(passes_edit *e, ir_node id, weights *w, ir_value x, ir_value bias) {
  const ir_type *type = ir_type_of(e->graph, x);
  const td_dtype dtype = type->dtype;
  ir_value in[3] = {x, IR_NO_VALUE, bias}, made;
  bool fits = false;
  if (type->rank < 1 || (dtype != TD_F32 && dtype != TD_F16 && dtype != TD_BF16)) return TD_OK;
  choose_bits(e, ir_node_of(e->graph, id), w);
  TRY(pack(e, w, type, &in[1], &fits));
  if (!fits) return TD_OK;
  TRY(reorder(e, id, w, &in[0]));
  TRY(passes_cast(e, id, in[0], TD_F32, &in[0]));
  if (bias.id) TRY(passes_cast(e, id, bias, TD_F32, &in[2]));
  const base_arg args[] = {
      ARG_INT("n", w->l.n),         ARG_INT("bits", w->l.bits),    ARG_INT("block_size", w->l.block),
      ARG_INT("panel", w->l.panel), ARG_BOOL("zeros", w->l.zeros), ARG_INT("x_bits", w->x_bits),
      ARG_BOOL("pairs", w->pairs)};
  const ir_new_node spec = {.in = in, .in_count = bias.id ? 3 : 2, .args = args, .arg_count = w->pairs ? 7 : 6};
  TRY(passes_add(e, id, OP_td_linear_nbits, spec, NULL, &made));
  TRY(passes_cast(e, id, made, dtype, &made));
  return passes_take_place(e, id, made);
}

/* Operand `index` as a dense constant of `count` elements. *t: NULL where it is absent. False: it is something else. */
static bool constant_of(passes_edit *e, const ir_node_def *node, uint32_t index, int64_t count, const base_tensor **t) {
  const bool given = node->in_count > index && node->in[index].id;
  *t = given ? passes_constant(e, node, index) : NULL;
  return given ? *t && base_tensor_contiguous(*t) && base_tensor_numel(*t) == count : true;
}

static td_status visit_matmul_nbits(passes_edit *e, ir_node id, const ir_node_def *node) {
  const int64_t bits = passes_int(node, "bits"), n = passes_int(node, "n"), k = passes_int(node, "k"),
                block = passes_int(node, "block_size"), blocks = (k + block - 1) / block;
  const int64_t zero_bytes = (blocks * bits + 7) / 8;
  base_tensor q, zeros;
  const base_tensor *b, *scales, *z, *bias;
  weights w = {.l = {.n = n, .k = k, .bits = bits, .block = block},
               .x_bits = passes_int(node, "x_bits"),
               .bf16 = passes_int(node, "bf16") != 0};
  if (bits == 2 || !constant_of(e, node, 1, n * blocks * (block * bits / 8), &b) ||
      !constant_of(e, node, 2, n * blocks, &scales) || !constant_of(e, node, 4, n, &bias) ||
      !constant_of(e, node, 5, k, &w.groups))
    return TD_OK;
  const bool floats = node->in_count > 3 && node->in[3].id && base_is_float(ir_type_of(e->graph, node->in[3])->dtype);
  if (!constant_of(e, node, 3, floats ? n * blocks : n * zero_bytes, &z)) return TD_OK;
  q = *b;
  q.dtype = bits == 4 ? TD_U4 : TD_U8;
  w.q = (numbers){&q, blocks * block, 1};
  w.scales = (numbers){scales, blocks, 1};
  if (z) zeros = *z;
  if (z && !floats) zeros.dtype = q.dtype;
  if (z) w.zeros = (numbers){&zeros, floats ? blocks : zero_bytes * 8 / bits, 1};
  return rebuild(e, id, &w, node->in[0], bias ? node->in[4] : IR_NO_VALUE);
}

/* ---- dequantised matrices ---- */

/* Where the numbers of a matrix with as many scales (or one, or one for each column) lie; `columns_last`: [k, n]. */
static bool place(const base_tensor *t, const weights *w, bool columns_last, numbers *to) {
  const int64_t count = base_tensor_numel(t);
  if (!base_tensor_contiguous(t)) return false;
  *to = (numbers){t, columns_last ? 1 : w->l.blocks, columns_last ? w->l.n : 1};
  if (count == 1) *to = (numbers){t, 0, 0};
  else if (t->rank == 1) *to = (numbers){t, 1, 0};
  return count == 1 || (t->rank == 1 && count == w->l.n && w->l.blocks == 1) ||
         (t->rank == 2 && count == w->l.n * w->l.blocks);
}

/* What dequantize_linear makes the matrix `v` of; `columns_last`: v is [k, n]. */
static bool find_matrix(passes_edit *e, ir_value v, bool columns_last, weights *w) {
  const ir_node_def *node = passes_dequantised(e, v);
  const base_tensor *t = node ? passes_constant(e, node, 0) : NULL, *scales = node ? passes_constant(e, node, 1) : NULL;
  const bool has_zeros = node && node->in_count > 2 && node->in[2].id;
  const base_tensor *zeros = has_zeros ? passes_constant(e, node, 2) : NULL;
  if (!t || !scales || (has_zeros && !zeros) || t->rank != 2 || !base_is_int(t->dtype) || !base_tensor_contiguous(t) ||
      (bits_of(t) != 4 && bits_of(t) != 8) || base_tensor_numel(t) == 0 || (zeros && zeros->dtype != t->dtype))
    return false;
  const int64_t k = t->dims[!columns_last], n = t->dims[columns_last], whole = (k + 7) / 8 * 8;
  const int64_t given = passes_int(node, "axis"), axis = given < 0 ? given + 2 : given;
  const bool along_k = axis == !columns_last && scales->rank == 2;
  int64_t block = along_k ? passes_int(node, "block_size") : whole;
  if (along_k && block == 0) block = base_max_i64(1, k / base_max_i64(1, scales->dims[axis]));
  if (block < 1 || (!along_k && base_tensor_numel(scales) > 1 && (scales->rank != 1 || axis != columns_last)))
    return false;
  *w = (weights){.l = {.n = n, .k = k, .bits = bits_of(t), .block = block, .blocks = (k + block - 1) / block},
                 .x_bits = 32};
  w->q = (numbers){t, columns_last ? 1 : k, columns_last ? n : 1};
  return place(scales, w, columns_last, &w->scales) && (!zeros || place(zeros, w, columns_last, &w->zeros));
}

/* Whole numbers of a sign have 0 in the middle; others at 0. */
static const uint8_t no_zero[1] = {0};

static void add_zeros(weights *w, base_tensor *zeros) {
  static const int64_t one = 1;
  if (w->zeros.t || base_dtype(w->q.t->dtype)->is_signed) return;
  *zeros = base_tensor_of((void *)(uintptr_t)no_zero, w->q.t->dtype, 1, &one);
  w->zeros = (numbers){zeros, 0, 0};
}

static td_status visit_matmul(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_value x = node->in[0];
  const ir_value transposed = passes_transposed(e, node->in[1]);
  weights w;
  base_tensor zeros;
  if (ir_type_of(e->graph, x)->rank < 2) return TD_OK;
  if (!find_matrix(e, transposed.id ? transposed : node->in[1], !transposed.id, &w)) return TD_OK;
  add_zeros(&w, &zeros);
  return rebuild(e, id, &w, x, IR_NO_VALUE);
}

static td_status visit_gemm(passes_edit *e, ir_node id, const ir_node_def *node) {
  const ir_value x = node->in[0];
  const base_tensor *bias = NULL;
  weights w;
  base_tensor zeros;
  if (passes_int(node, "trans_a") || passes_float(node, "alpha") != 1 ||
      !find_matrix(e, node->in[1], !passes_int(node, "trans_b"), &w))
    return TD_OK;
  const bool biased = node->in_count > 2 && node->in[2].id;
  if (biased && (!constant_of(e, node, 2, w.l.n, &bias) || bias->rank != 1 || passes_float(node, "beta") != 1))
    return TD_OK;
  add_zeros(&w, &zeros);
  return rebuild(e, id, &w, x, biased ? node->in[2] : IR_NO_VALUE);
}

static const passes_rule rules[] = {{OP_td_matmul_nbits, visit_matmul_nbits},
                                    PASSES_PRODUCTS(visit_matmul, visit_gemm)};

static td_status visit(passes_edit *e, ir_node id) {
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_nbits(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  if (!kern_select(KERN_LINEAR_NBITS, TD_F32, setting->isa)) return TD_OK;
  return passes_each(graph, setting, changes, err, visit);
}
