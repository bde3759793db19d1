/* prepack.c -- weights into the order in which kernels read them, once, as new constants: panels as wide as a vector of
 * the level in use (kernels/products/pack.h, pack_conv.h), and 3x3 convolutions into Winograd's domain where that pays;
 * products may be done in Strassen's way (setting.math). A constant scale and shift that follow the sum directly go
 * into weights and bias on the way. The walk over the graph makes the constants; what fills them are jobs, done at the
 * end on as many threads as there are.
 *
 * Equal weights that are packed alike are one constant, as are those of a layer that a model runs several times.
 *
 * Requires: a verified graph; the last of the passes that touch weights. Keeps: types. Breaks: bit equality where a
 * scale is folded; with Winograd and Strassen, rounding. Weights that the pass batchnorm left to this one
 * (ir_graph.scaled) are there behind it, if anybody still reads them. */
#include "kernels/kernels.h"
#include "kernels/products/products.h"
#include "passes/passes_priv.h"

#include <string.h>

enum {
  WINOGRAD_BYTES = 46 << 20, /* that transformed weights of a model may take at least beyond the plain ones; at most as
                                many as its 3x3 convolutions' weights */
  HALVES_LEAST = 1 << 18,    /* numbers that are stored in 16 bits: fewer are near in f32, too */
  PAIRS_LEAST = 1 << 10,     /* and that are multiplied so */
  PAIRS_DEPTH = 32,          /* of a convolution's sums: shorter ones take as long as their results take to write */
  FIRST_LEAST = 25,          /* the same where a first layer makes so many channels: in bf16 they are half as large */
  FIRST_CHANNELS = 64,
  LONE_LEAST = 9, /* the same of one channel, whose image is small beside its result */
  LONE_CHANNELS = 32,
  FIRST_DEPTH = 96, /* of a first layer's: rounding its image costs as much as some fifty products */
  WIDEST = 4        /* output tile of Winograd's algorithm */
};

/* Filling one constant. */
typedef struct job job;
struct job {
  void (*fill)(const job *j);
  const kern_packing *by;
  base_tensor w;
  const float *scale; /* of each feature; NULL: none */
  td_dtype stored;    /* as: f32, or 16 bits */
  int64_t pairs;      /* of bf16: so many rows of k are stored (pack.h); 0: they are none */
  void *to;
  ir_value packed; /* the constant that it fills */
  int64_t panel, groups, tile;
  uint32_t feature_axis;
};
typedef BASE_VEC(job) job_vec;

/* A convolution that may be Winograd's. */
typedef struct candidate {
  ir_node id;
  int64_t bytes; /* of its weights */
} candidate;

/* What the walks over the graph share. Candidates and their choices are in the order of the walk, `next` the next. */
typedef struct packing {
  job_vec jobs;
  base_arena *arena;
  BASE_VEC(candidate) candidates;
  BASE_VEC(kern_winograd_choice) choices;
  uint32_t next;
} packing;

/* A product whose weights are about to be packed. */
typedef struct product {
  ir_node id;
  const ir_node_def *node;
  ir_value in[KERN_EPILOGUE_END];
  base_tensor w;
  const float *scale;    /* of w's features; NULL: none */
  uint32_t feature_axis; /* of w: the output's last dimension */
  base_arg args[2 * IR_NODE_ARGS];
  uint32_t arg_count;
} product;

/* Operator `op` in the node's place, with `packed` for weights and some attributes `changed`. */
static td_status rebuild(passes_edit *e, product *p, ir_op_id op, ir_value packed, const base_arg *changed,
                         uint32_t changes) {
  uint32_t in_count = KERN_EPILOGUE_END;
  for (uint32_t i = 0; i < changes; i++) {
    base_arg *old = passes_find_arg(p->args, p->arg_count, changed[i].name);
    *(old ? old : &p->args[p->arg_count++]) = changed[i];
  }
  while (!p->in[in_count - 1].id) in_count--;
  p->in[1] = packed;
  ir_value made;
  const ir_new_node spec = {.in = p->in, .in_count = in_count, .args = p->args, .arg_count = p->arg_count};
  TRY(passes_add(e, p->id, op, spec, NULL, &made));
  return passes_take_place(e, p->id, made);
}

/* Room for `count` numbers in `arena`, as a tensor of rank 1. */
static td_status new_numbers(passes_edit *e, base_arena *arena, td_dtype dtype, int64_t count, base_tensor *t) {
  size_t bytes;
  void *data = base_dtype_bytes(dtype, count, &bytes) ? base_arena_alloc_uncleared(arena, bytes + 1, 64) : NULL;
  if (!data) return base_no_memory(e->err, "packed weights");
  *t = base_tensor_of(data, dtype, 1, &count);
  return TD_OK;
}

static td_status new_floats(passes_edit *e, base_arena *arena, int64_t count, base_tensor *t) {
  return new_numbers(e, arena, TD_F32, count, t);
}

static bool same_floats(const float *a, const float *b, int64_t count) {
  return a == b || (a && b && memcmp(a, b, (size_t)count * sizeof *a) == 0);
}

static bool same_weights(const base_tensor *a, const base_tensor *b) {
  if (a->rank != b->rank) return false;
  for (int32_t i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i] || a->strides[i] != b->strides[i]) return false;
  return a->data == b->data || (base_tensor_contiguous(a) && same_floats(a->data, b->data, base_tensor_numel(a)));
}

/* Does another job what `j` asks for? */
static bool same_job(const job *j, const job *other) {
  return j->fill == other->fill && j->stored == other->stored && j->pairs == other->pairs && j->panel == other->panel &&
         j->groups == other->groups && j->tile == other->tile && j->feature_axis == other->feature_axis &&
         same_weights(&j->w, &other->w) && same_floats(j->scale, other->scale, j->w.dims[j->feature_axis]);
}

/* A constant of `count` numbers that `j` fills later; one that there is, if it would be the same. */
static td_status fill_later(passes_edit *e, const job *j, int64_t count, ir_value *packed) {
  job_vec *jobs = &((packing *)e->user)->jobs;
  base_tensor t;
  for (uint32_t i = 0; i < jobs->count; i++)
    if (same_job(j, &jobs->at[i])) {
      *packed = jobs->at[i].packed;
      return TD_OK;
    }
  TRY(new_numbers(e, e->graph->constants, j->stored, count, &t));
  TRY(ir_add_constant(e->graph, &t, NULL, packed, e->err));
  job *slot = base_vec_push(e->scratch, jobs);
  if (!slot) return base_no_memory(e->err, "packed weights");
  *slot = *j;
  slot->by = kern_packing_of(e->setting->isa);
  slot->to = t.data;
  slot->packed = *packed;
  return TD_OK;
}

/* ---- weights that are scaled on the way ---- */

/* What such weights are made of takes their place. */
static void take_source(const passes_edit *e, product *p) {
  const ir_scaled *s = passes_scaled_of(e->graph, &p->w);
  if (!s) return;
  p->w.data = s->from.data;
  p->scale = s->scale;
}

/* Makes those that are read by something else than a packed product. */
static td_status make_others(passes_edit *e) {
  ir_graph *g = e->graph;
  uint32_t kept = 0, *uses = base_new(e->scratch, uint32_t, (size_t)g->values.count + 1);
  if (!uses) return base_no_memory(e->err, "folded weights");
  ir_count_uses(g, uses);
  for (uint32_t i = 0; i < g->scaled.count; i++) {
    bool used = false;
    for (uint32_t v = 1; v < g->values.count && !used; v++)
      used = uses[v] && g->values.at[v].info.constant && g->values.at[v].info.constant->data == g->scaled.at[i].to;
    if (used) g->scaled.at[kept++] = g->scaled.at[i];
  }
  passes_share(e->setting, kept, passes_scale, g);
  g->scaled.count = 0;
  return TD_OK;
}

/* ---- a scale in front of everything else ---- */

static const base_f32 *vector(const passes_edit *e, ir_value v) {
  const base_tensor *t = passes_constant_value(e, v);
  return t ? t->data : NULL;
}

/* (sum + b) s + t = sum s + (b s + t): possible where nothing stands between. The vectors are those of the epilogue
 * pass: dense. */
static bool can_absorb(const passes_edit *e, const product *p) {
  bool between = p->in[KERN_IN_RESIDUAL].id ||
                 (strcmp(passes_str(p->node, "act"), "none") != 0 && !passes_int(p->node, "act_late"));
  for (uint32_t i = KERN_IN_BIAS; i < KERN_EPILOGUE_END; i++) between |= p->in[i].id && !vector(e, p->in[i]);
  return !between && p->in[KERN_IN_SCALE].id;
}

static td_status absorb_scale(passes_edit *e, product *p) {
  const base_f32 *scale = vector(e, p->in[KERN_IN_SCALE]), *shift = vector(e, p->in[KERN_IN_SHIFT]);
  const base_tensor *bias = passes_constant_value(e, p->in[KERN_IN_BIAS]);
  const int64_t n = p->w.dims[p->feature_axis];
  base_tensor both, b;
  TRY(new_floats(e, e->scratch, n, &both));
  TRY(new_floats(e, e->graph->constants, n, &b));
  for (int64_t i = 0; i < n; i++) {
    ((float *)both.data)[i] = scale[i] * (p->scale ? p->scale[i] : 1);
    ((float *)b.data)[i] =
        (bias ? ((const base_f32 *)bias->data)[i * bias->strides[0]] : 0) * scale[i] + (shift ? shift[i] : 0);
  }
  p->scale = both.data;
  p->in[KERN_IN_SCALE] = p->in[KERN_IN_SHIFT] = IR_NO_VALUE;
  return ir_add_constant(e->graph, &b, NULL, &p->in[KERN_IN_BIAS], e->err);
}

/* ---- by operator ---- */

/* Panels of 16 bits, by way of some rows of one in f32. */
static void fill_halves(const job *j, const kern_matrix *m) {
  enum { ROWS = 64 };
  float some[ROWS * KERN_MAX_PANEL];
  uint16_t *to = j->to;
  for (int64_t first = 0; first < m->n; first += j->panel)
    for (int64_t k = 0; k < m->k; k += ROWS) {
      const int64_t rows = base_min_i64(ROWS, m->k - k);
      const kern_matrix part = {.data = m->data + k * m->k_stride + first * m->n_stride,
                                .k = rows,
                                .n = base_min_i64(j->panel, m->n - first),
                                .k_stride = m->k_stride,
                                .n_stride = m->n_stride};
      j->by->matrix(some, &part, j->scale ? j->scale + first : NULL, j->panel, 0, 1);
      const bool last = k + rows == m->k;
      const int64_t stored = !j->pairs ? rows : last ? j->pairs - k : kern_pairs_depth(rows);
      if (j->pairs) kern_pack_pairs(some, rows, 1, j->panel, stored, to);
      else base_convert(j->stored, to, TD_F32, some, rows * j->panel, false);
      to += stored * j->panel;
    }
}

static void fill_linear(const job *j) {
  uint32_t n_axis = j->feature_axis, k_axis = 1 - n_axis;
  const kern_matrix m = {.data = j->w.data,
                         .k = j->w.dims[k_axis],
                         .n = j->w.dims[n_axis],
                         .k_stride = j->w.strides[k_axis],
                         .n_stride = j->w.strides[n_axis]};
  if (j->stored != TD_F32) fill_halves(j, &m);
  else j->by->matrix(j->to, &m, j->scale, j->panel, 0, (m.n + j->panel - 1) / j->panel);
}

/* Has `dtype` all numbers of `w`? */
static bool holds(const base_tensor *w, td_dtype dtype) {
  const base_f32 *at = w->data;
  const int64_t count = base_tensor_numel(w);
  for (int64_t i = 0; i < count; i++) {
    const float x = at[i];
    const bool exact = dtype == TD_BF16 ? base_round_to_bf16(x) == x : base_f16_to_f32(base_f32_to_f16(x)) == x;
    if (!exact) return false;
  }
  return true;
}

td_dtype passes_half_of(const base_tensor *w) {
  if (base_tensor_numel(w) < HALVES_LEAST || !base_tensor_contiguous(w)) return TD_F32;
  return holds(w, TD_BF16) ? TD_BF16 : holds(w, TD_F16) ? TD_F16 : TD_F32;
}

/* As what weights are stored: as the setting says; in 16 bits, too, where these have all of them, as those of models of
 * half precision. Few and small ones, of which kernels read columns, stay as they are. */
static td_dtype stored_as(const passes_edit *e, const product *p, const kern_row *row) {
  static const td_dtype types[] = {[KERN_PRECISION_F32] = TD_F32,
                                   [KERN_PRECISION_BF16] = TD_BF16,
                                   [KERN_PRECISION_F16] = TD_F16,
                                   [KERN_PRECISION_INT8] = TD_F32};
  if (!kern_takes_halves(row) || base_tensor_numel(&p->w) < HALVES_LEAST || p->w.dims[p->feature_axis] < 2 * row->lanes)
    return TD_F32;
  const td_dtype asked = types[passes_precision(e, p->node)];
  if (asked != TD_F32) return asked;
  return p->scale ? TD_F32 : passes_half_of(&p->w);
}

/* As asked; or bf16, where operators of the model are, and the weights are numbers of that: so its other operand was,
 * too, and no other rounding is left out than those between operators. */
static kern_precision precision_of(const passes_edit *e, const ir_node_def *node, const base_tensor *w) {
  const kern_precision asked = passes_precision(e, node);
  if (asked != KERN_PRECISION_F32 || !e->graph->has_bf16 || ir_origins_listed(&node->origins, e->setting->keep_f32))
    return asked;
  return base_tensor_contiguous(w) && holds(w, TD_BF16) ? KERN_PRECISION_BF16 : asked;
}

/* Is it to be taken in bf16, and is there a kernel for that, with panels as wide as those of f32? Then so many rows of
 * `k` are stored; else 0. */
static int64_t takes_pairs(const passes_edit *e, const product *p, kern_family family, int64_t k) {
  const kern_row *by = passes_pairs_row(e->setting, family);
  if (!by) return 0;
  const bool window = base_tensor_numel(&p->w) > p->w.dims[0] * p->w.dims[1];
  const int64_t features = p->w.dims[p->feature_axis];
  const bool narrow = family == KERN_CONV && (kern_takes_tiles(by) || (window && 2 * features > by->lanes));
  if (features < by->lanes && !narrow) return 0;
  const int64_t least = !kern_takes_tiles(by) ? PAIRS_LEAST / 2 : window ? PAIRS_LEAST / 4 : PAIRS_LEAST;
  const bool takes = base_tensor_numel(&p->w) >= least && precision_of(e, p->node, &p->w) == KERN_PRECISION_BF16;
  return takes ? kern_pairs_depth_of(by, k) : 0;
}

static td_status pack_linear(passes_edit *e, product *p, const kern_row *row) {
  size_t count;
  ir_value packed;
  const ir_type *x = ir_type_of(e->graph, p->node->in[0]);
  const bool known = x->rank > 0 && base_dim_known(x->dims[x->rank - 1]); /* the row is chosen by it */
  const int64_t k = p->w.dims[1 - p->feature_axis], pairs = known ? takes_pairs(e, p, KERN_LINEAR, k) : 0;
  const td_dtype stored = pairs ? TD_BF16 : stored_as(e, p, row);
  if (!kern_pack_count(pairs ? pairs : k, p->w.dims[p->feature_axis], row->lanes, &count)) return TD_OK;
  const job j = {.fill = fill_linear,
                 .w = p->w,
                 .scale = p->scale,
                 .stored = stored,
                 .pairs = pairs,
                 .panel = row->lanes,
                 .feature_axis = p->feature_axis};
  TRY(fill_later(e, &j, (int64_t)count, &packed));
  const base_arg changed[] = {ARG_INT("panel", row->lanes), ARG_BOOL("trans_w", false),
                              ARG_BOOL("strassen", e->setting->math == KERN_MATH_FAST && j.stored == TD_F32),
                              ARG_BOOL("pairs", pairs > 0)};
  return rebuild(e, p, OP_td_linear, packed, changed, 4);
}

static void fill_conv(const job *j) { j->by->conv(&j->w, j->scale, false, j->groups, j->panel, j->to); }

enum { PAIRS_BLOCK = 8192 }; /* floats that are packed at once before they become pairs */

/* Panel by panel of each group, some channels in at a time. */
static void fill_conv_pairs(const job *j) {
  float some[PAIRS_BLOCK];
  const int64_t in = j->w.dims[1], stored = j->pairs;
  const int64_t taps = base_tensor_numel(&j->w) / j->w.dims[0] / in, most = PAIRS_BLOCK / (taps * j->panel) / 2 * 2;
  const int64_t group_out = j->w.dims[0] / j->groups;
  uint16_t *to = j->to;
  for (int64_t first = 0, columns; first < j->w.dims[0]; first += columns, to += taps * stored * j->panel) {
    columns = base_min_i64(j->panel, group_out - first % group_out);
    for (int64_t k = 0; k < in; k += most) {
      base_tensor part = j->w;
      part.dims[0] = columns;
      part.dims[1] = base_min_i64(most, in - k);
      part.data = (float *)j->w.data + first * part.strides[0] + k * part.strides[1];
      j->by->conv(&part, j->scale ? j->scale + first : NULL, false, 1, j->panel, some);
      const int64_t rows = part.dims[1], wide = k + rows == in ? stored - k : rows;
      for (int64_t tap = 0; tap < taps; tap++)
        kern_pack_pairs(some + tap * rows * j->panel, rows, 1, j->panel, wide, to + (tap * stored + k) * j->panel);
    }
  }
}

/* The same of groups that share a panel. */
static void fill_conv_shared(const job *j) {
  float some[PAIRS_BLOCK];
  const int64_t in = j->w.dims[1], taps = base_tensor_numel(&j->w) / j->w.dims[0] / in;
  const int64_t shared = j->panel / (j->w.dims[0] / j->groups);
  uint16_t *to = j->to;
  for (int64_t first = 0; first < j->w.dims[0]; first += j->panel, to += taps * j->pairs * j->panel) {
    base_tensor part = j->w;
    part.dims[0] = j->panel;
    part.data = (float *)j->w.data + first * part.strides[0];
    j->by->conv(&part, j->scale ? j->scale + first : NULL, false, shared, j->panel, some);
    kern_pack_shared_pairs(some, taps, in, shared, j->panel, j->pairs, to);
  }
}

static void fill_conv_rows(const job *j) { kern_pack_rows(&j->w, j->scale, j->panel, j->to); }

static void fill_transpose(const job *j) { j->by->conv(&j->w, NULL, true, j->groups, j->panel, j->to); }

/* Numbers of a row of taps as pairs of these, for an image with channels first; 0: no kernel takes that. */
static int64_t row_numbers(const passes_edit *e, const product *p) {
  const int64_t across = p->w.dims[p->w.rank - 1],
                dilation = passes_int_at(p->node, "dilation", (uint32_t)p->w.rank - 3, 1);
  const bool tiles = kern_takes_tiles(kern_select(KERN_CONV, TD_BF16, e->setting->isa));
  const bool deep = base_tensor_numel(&p->w) / p->w.dims[0] >= FIRST_DEPTH;
  const bool takes = dilation == 1 && (tiles || (deep && kern_rows_are_pairs(p->w.dims[1], across)));
  return takes ? kern_row_channels(p->w.dims[1], across) * across : 0;
}

static void fill_row_columns(const job *j) { kern_pack_row_columns(&j->w, j->scale, j->panel, j->pairs, j->to); }

/* Packs taps of a row as columns where tiles have them so; else *packed stays. */
static td_status try_row_columns(passes_edit *e, product *p, int64_t panel, int64_t pairs, ir_value *packed) {
  kern_conv c;
  int64_t count;
  if (!kern_conv_window(p->node->attrs, p->w.rank, p->w.dims[1], &c) || c.groups != 1) return TD_OK;
  c.panel = panel;
  if (!kern_conv_row_columns(&c, &count)) return TD_OK;
  const job j = {
      .fill = fill_row_columns, .stored = TD_BF16, .pairs = pairs, .w = p->w, .scale = p->scale, .panel = panel};
  return fill_later(e, &j, count, packed);
}

static td_status pack_panels(passes_edit *e, product *p, const kern_row *row, bool transposed) {
  int64_t groups = passes_int(p->node, "groups"), channels = passes_int(p->node, "channels"), taps = 1, count;
  ir_value packed = IR_NO_VALUE;
  for (int32_t i = 2; i < p->w.rank; i++) taps *= p->w.dims[i];
  int64_t group_in = transposed ? p->w.dims[0] / groups : p->w.dims[1];
  const bool first = passes_int(p->node, "channels_first");
  const kern_row *by = kern_select(KERN_CONV, TD_BF16, e->setting->isa);
  const bool tiles = by && kern_takes_tiles(by);
  const int64_t least = first && group_in == 1 && channels >= LONE_CHANNELS ? LONE_LEAST
                        : first && channels >= FIRST_CHANNELS               ? FIRST_LEAST
                                                                            : PAIRS_DEPTH;
  const int64_t deep = tiles ? least : PAIRS_DEPTH / 2; /* a tile of pairs costs less */
  int64_t shared = transposed ? 0 : kern_conv_pairs_shared(groups, channels / groups, group_in, row->lanes, tiles);
  const int64_t block = taps * row->lanes * (shared > 1 ? group_in : 2);
  const bool may = shared && taps * group_in >= deep && (first ? groups == 1 : block <= PAIRS_BLOCK);
  int64_t pairs = may ? takes_pairs(e, p, KERN_CONV, group_in * shared) : 0;
  const base_arg changed = ARG_INT("panel", row->lanes);
  if (pairs && tiles) TRY(try_row_columns(e, p, row->lanes, pairs, &packed));
  if (packed.id) return rebuild(e, p, p->node->op->id, packed, &changed, 1);
  if (!pairs) shared = 1;
  if (pairs && first) {
    pairs = row_numbers(e, p);
    if (pairs) taps /= p->w.dims[p->w.rank - 1];
  }
  if (pairs) group_in = pairs;
  if (!kern_conv_packed_size(transposed, groups / shared, channels / groups * shared, taps, group_in, row->lanes,
                             &count))
    return TD_OK;
  const job j = {.fill = transposed       ? fill_transpose
                         : shared > 1     ? fill_conv_shared
                         : pairs && first ? fill_conv_rows
                         : pairs          ? fill_conv_pairs
                                          : fill_conv,
                 .stored = pairs ? TD_BF16 : TD_F32,
                 .pairs = pairs,
                 .w = p->w,
                 .scale = p->scale,
                 .panel = row->lanes,
                 .groups = groups};
  TRY(fill_later(e, &j, count, &packed));
  return rebuild(e, p, p->node->op->id, packed, &changed, 1);
}

/* The sizes of a convolution that Winograd's algorithm can do: a window of 3x3, or of planes of that, stride 1 within
 * planes. */
static bool winograd_layer(const passes_edit *e, const ir_node_def *node, const base_tensor *w,
                           kern_winograd_layer *l) {
  const ir_type *y = ir_type_of(e->graph, node->out[0]);
  uint32_t dilations, strides;
  const int64_t *dilation = passes_ints(node, "dilation", &dilations), *stride = passes_ints(node, "stride", &strides);
  const int32_t rank = w->rank;
  if ((rank != 4 && rank != 5) || w->dims[rank - 2] != 3 || w->dims[rank - 1] != 3 ||
      passes_int(node, "channels_first"))
    return false;
  const int64_t groups = passes_int(node, "groups");
  *l = (kern_winograd_layer){
      .planes = 1, .depth = 1, .groups = groups, .channels_in = w->dims[1], .channels = w->dims[0] / groups};
  int64_t *const sizes[] = {&l->planes, &l->height, &l->width};
  for (int32_t i = 0; i < rank - 2; i++)
    if (!passes_assume_size(e->graph, y->dims[1 + i], sizes[5 - rank + i])) return false;
  if (rank == 5) l->depth = w->dims[2];
  for (int32_t i = 0; i < 2; i++) {
    l->dilation[i] = dilations ? dilation[rank - 4 + i] : 1;
    if ((strides && stride[rank - 4 + i] != 1) || l->dilation[i] > KERN_WINOGRAD_DILATION) return false;
  }
  return true;
}

/* What the layer is without Winograd's algorithm: how much faster than by f32, of what weights. */
static void find_direct(const passes_edit *e, const ir_node_def *node, const base_tensor *w, kern_winograd_layer *l) {
  const kern_row *bf16 = kern_select(KERN_CONV, TD_BF16, e->setting->isa);
  const int64_t shared =
      bf16 ? kern_conv_pairs_shared(l->groups, l->channels, l->channels_in, bf16->lanes, kern_takes_tiles(bf16)) : 0;
  const bool narrow = shared && precision_of(e, node, w) == KERN_PRECISION_BF16;
  l->direct_speed = narrow ? kern_pairs_speed(bf16) / (double)shared : 1;
  l->direct_bytes = narrow ? sizeof(uint16_t) : sizeof(float);
}

/* By default the tile must round nearly as well as a plain sum. The scales that go into weights make no difference:
 * they are of an output channel each. */
static td_status find_candidate(passes_edit *e, ir_node id) {
  packing *all = e->user;
  const ir_node_def *node = ir_node_of(e->graph, id);
  const kern_row *row = kern_select(KERN_WINOGRAD, TD_F32, e->setting->isa);
  kern_winograd_choice choice = {.panel = row->lanes, .widest = WIDEST};
  if (node->op->id != OP_td_conv || passes_int(node, "panel")) return TD_OK;
  const base_tensor *w = passes_constant(e, node, 1);
  if (!w || w->dtype != TD_F32 || base_tensor_numel(w) == 0 || !winograd_layer(e, node, w, &choice.layer)) return TD_OK;
  const ir_scaled *s = passes_scaled_of(e->graph, w);
  base_tensor plain = *w;
  if (s) plain.data = s->from.data;
  find_direct(e, node, &plain, &choice.layer);
  const int64_t tile = kern_winograd_tile(&choice.layer, row->lanes, WIDEST);
  if (tile == WIDEST && e->setting->math == KERN_MATH_DEFAULT &&
      !(kern_winograd_error(&plain, WIDEST) <= KERN_WINOGRAD_NEAR))
    choice.widest = 2;
  candidate *to = tile ? base_vec_push(all->arena, &all->candidates) : NULL;
  kern_winograd_choice *of = to ? base_vec_push(all->arena, &all->choices) : NULL;
  if (tile && !of) return base_no_memory(e->err, "candidates");
  if (tile) *to = (candidate){id, base_tensor_numel(w) * (int64_t)sizeof(float)}, *of = choice;
  return TD_OK;
}

static td_status choose_tiles(passes_edit *e) {
  packing *all = e->user;
  double bytes = 0;
  for (uint32_t i = 0; i < all->candidates.count; i++) bytes += (double)all->candidates.at[i].bytes;
  kern_winograd_choose(all->choices.at, all->choices.count, bytes > WINOGRAD_BYTES ? bytes : WINOGRAD_BYTES);
  return TD_OK;
}

/* The output tile chosen for a node of the walk; 0: td::conv stays. */
static int64_t winograd_tile(const passes_edit *e, ir_node id) {
  packing *all = e->user;
  if (all->next == all->candidates.count || all->candidates.at[all->next].id.id != id.id) return 0;
  return all->choices.at[all->next++].tile;
}

static void fill_winograd(const job *j) { j->by->winograd(&j->w, j->scale, j->groups, j->tile, j->panel, j->to); }

static td_status pack_winograd(passes_edit *e, product *p, const kern_row *row, int64_t tile) {
  int64_t count;
  ir_value packed;
  const int64_t inputs = base_tensor_numel(&p->w) / p->w.dims[0] / 9, groups = passes_int(p->node, "groups");
  if (!kern_winograd_packed_size(tile, groups, p->w.dims[0] / groups, inputs, row->lanes, &count))
    return base_no_memory(e->err, "packed weights");
  const job j = {.fill = fill_winograd,
                 .stored = TD_F32,
                 .w = p->w,
                 .scale = p->scale,
                 .panel = row->lanes,
                 .groups = groups,
                 .tile = tile};
  TRY(fill_later(e, &j, count, &packed));
  const base_arg changed[] = {ARG_INT("panel", row->lanes), ARG_INT("tile", tile)};
  return rebuild(e, p, OP_td_winograd_conv, packed, changed, 2);
}

/* A 1x1 convolution is a product of pixels with a matrix: td::linear, where Strassen's recursion pays. */
static bool better_as_product(const passes_edit *e, const product *p, const kern_row *row) {
  const ir_type *y = ir_type_of(e->graph, p->node->out[0]);
  int64_t pixels = 1;
  for (int32_t i = 1; i < y->rank - 1; i++)
    if (!base_dim_known(y->dims[i]) || __builtin_mul_overflow(pixels, y->dims[i], &pixels)) return false;
  return e->setting->math == KERN_MATH_FAST && passes_is_pointwise(p->node) && passes_int(p->node, "groups") == 1 &&
         !passes_int(p->node, "channels_first") && kern_strassen_pays(pixels, p->w.dims[0], p->w.dims[1], row->lanes);
}

static td_status pack_as_product(passes_edit *e, product *p, const kern_row *row) {
  static const char *const kept[] = {"act", "act_a", "act_b", "act_late"};
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    const base_arg arg = *passes_arg(p->args + count, p->arg_count - count, kept[i]);
    p->args[count++] = arg;
  }
  p->args[count++] = ARG_INT("n", p->w.dims[0]);
  p->arg_count = count;
  p->w.rank = 2; /* the other two are 1 long */
  return pack_linear(e, p, row);
}

static td_status pack_conv(passes_edit *e, product *p, const kern_row *row) {
  if (better_as_product(e, p, row)) return pack_as_product(e, p, row);
  const int64_t tile = winograd_tile(e, p->id);
  const kern_row *winograd = kern_select(KERN_WINOGRAD, TD_F32, e->setting->isa);
  return tile ? pack_winograd(e, p, winograd, tile) : pack_panels(e, p, row, false);
}

static td_status pack_transpose(passes_edit *e, product *p, const kern_row *row) {
  return pack_panels(e, p, row, true);
}

/* [C, 1, kernel...] as [taps, C]. */
static td_status pack_depthwise(passes_edit *e, product *p, const kern_row *row) {
  (void)row;
  base_tensor packed, dense;
  int64_t channels = p->w.dims[0], taps = base_tensor_numel(&p->w) / channels, dims[] = {taps, channels};
  TRY(new_floats(e, e->graph->constants, channels * taps, &packed));
  TRY(new_floats(e, e->scratch, channels * taps, &dense));
  base_tensor_pack(dense.data, &p->w);
  for (int64_t t = 0; t < taps; t++)
    for (int64_t c = 0; c < channels; c++)
      ((float *)packed.data)[t * channels + c] =
          kern_normal(((float *)dense.data)[c * taps + t] * (p->scale ? p->scale[c] : 1));
  packed = base_tensor_of(packed.data, TD_F32, 2, dims);
  const base_arg changed = ARG_INT("panel", 1);
  ir_value constant;
  TRY(ir_add_constant(e->graph, &packed, NULL, &constant, e->err));
  return rebuild(e, p, p->node->op->id, constant, &changed, 1);
}

static const struct {
  ir_op_id op;
  kern_family family;
  bool scales; /* w's axis 0, or of td::linear 1, is the output's last dimension */
  td_status (*pack)(passes_edit *e, product *p, const kern_row *row);
} rows[] = {{OP_td_linear, KERN_LINEAR, true, pack_linear},
            {OP_td_conv, KERN_CONV, true, pack_conv},
            {OP_td_depthwise_conv, KERN_DEPTHWISE, true, pack_depthwise},
            {OP_td_conv_transpose, KERN_CONV_TRANSPOSE, false, pack_transpose}};

static td_status visit(passes_edit *e, ir_node id) {
  product p = {.id = id, .node = ir_node_of(e->graph, id)};
  size_t i = 0;
  while (i < sizeof rows / sizeof *rows && p.node->op->id != rows[i].op) i++;
  if (i == sizeof rows / sizeof *rows) return TD_OK;
  const base_tensor *w = passes_constant(e, p.node, 1);
  const kern_row *row = kern_select(rows[i].family, TD_F32, e->setting->isa);
  if (!row || !w || w->dtype != TD_F32 || base_tensor_numel(w) == 0 || passes_int(p.node, "panel")) return TD_OK;
  const ir_node_def copy = *p.node; /* the graph's nodes move when one is added */
  p.node = &copy;
  p.w = *w;
  take_source(e, &p);
  p.arg_count = ir_node_args(p.node, p.args);
  p.feature_axis = rows[i].family == KERN_LINEAR && !passes_int(p.node, "trans_w");
  memcpy(p.in, p.node->in, p.node->in_count * sizeof *p.in);
  if (rows[i].scales && can_absorb(e, &p)) TRY(absorb_scale(e, &p));
  return rows[i].pack(e, &p, row);
}

static void do_job(void *jobs, uint32_t i) { ((job *)jobs)[i].fill(&((job *)jobs)[i]); }

static td_status finish(passes_edit *e) {
  const job_vec *jobs = &((packing *)e->user)->jobs;
  passes_share(e->setting, jobs->count, do_job, jobs->at);
  return e->graph->scaled.count ? make_others(e) : TD_OK;
}

td_status passes_prepack(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  packing all = {.arena = base_arena_new(base_arena_allocator(graph->arena))};
  if (!all.arena) return base_no_memory(err, "a pass");
  passes_edit e = {.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &all};
  const bool may = setting->math != KERN_MATH_EXACT && kern_select(KERN_WINOGRAD, TD_F32, setting->isa);
  td_status status = may ? passes_walk(&e, find_candidate, choose_tiles) : TD_OK;
  e = (passes_edit){.graph = graph, .setting = setting, .changes = changes, .err = err, .user = &all};
  if (status == TD_OK) status = passes_walk(&e, visit, finish);
  base_arena_free(all.arena);
  return status;
}
