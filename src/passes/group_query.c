/* group_query.c -- td::group_query_attention becomes steps that have kernels:
 *
 *     y, k', v' = group_query_attention(q, k, v, past k, past v, last, total, cos, sin, positions)
 *  -> k' = cache_rows(k, total, last, past k, cos, sin, positions)         [batch, kv heads, room, size]
 *     v' = cache_rows(v, total, last, past v)
 *     y  = cached_attention(rotate_rows(q, last, cos, sin, positions), k', v', last)
 *
 * q, k and v may be slices of one value. Half precision is cast to f32, and the results back. Sinks are operands of the
 * attention, zeros where the softmax is smooth. Biases stay with the plain loops.
 * Requires: a verified graph. Keeps: types. Breaks: bit equality. */
#include "passes/passes_priv.h"

#include <math.h>

enum { QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, LAST, TOTAL, COS, SIN, POSITIONS, BIAS, SINK, OPERANDS };

/* One attention while it is rewritten. */
typedef struct site {
  passes_edit *e;
  ir_node at;
  ir_value in[OPERANDS];
  int64_t heads, kv_heads, size;
  bool rotary, interleaved;
  td_dtype dtype;
} site;

static bool has_rank(const passes_edit *e, ir_value v, int32_t rank) {
  return !v.id || ir_type_of(e->graph, v)->rank == rank;
}

static bool is_supported(passes_edit *e, const site *s) {
  const ir_type *q = ir_type_of(e->graph, s->in[QUERY]);
  if (!base_is_float(q->dtype) || q->rank != 3 || !base_dim_known(q->dims[2])) return false;
  if (s->in[BIAS].id || !has_rank(e, s->in[SINK], 1)) return false;
  if (!s->in[KEY].id != !s->in[VALUE].id || !s->in[LAST].id || !s->in[TOTAL].id) return false;
  if (!has_rank(e, s->in[KEY], 3) || !has_rank(e, s->in[VALUE], 3)) return false;
  if (!has_rank(e, s->in[PAST_KEY], 4) || !has_rank(e, s->in[PAST_VALUE], 4) || !has_rank(e, s->in[LAST], 1))
    return false;
  if (!has_rank(e, s->in[COS], 2) || !has_rank(e, s->in[SIN], 2) || !has_rank(e, s->in[POSITIONS], 2)) return false;
  return !s->rotary || (s->in[COS].id && s->in[SIN].id);
}

static void read_site(passes_edit *e, ir_node at, const ir_node_def *node, site *s) {
  *s = (site){.e = e,
              .at = at,
              .heads = passes_int(node, "heads"),
              .kv_heads = passes_int(node, "kv_heads"),
              .dtype = ir_type_of(e->graph, node->in[QUERY])->dtype,
              .rotary = passes_int(node, "rotary"),
              .interleaved = passes_int(node, "interleaved")};
  for (uint32_t i = 0; i < OPERANDS; i++) s->in[i] = i < node->in_count ? node->in[i] : IR_NO_VALUE;
}

static td_status widen(site *s) {
  static const uint32_t floats[] = {QUERY, KEY, VALUE, PAST_KEY, PAST_VALUE, COS, SIN, SINK};
  for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
    ir_value *v = &s->in[floats[i]];
    if (v->id) TRY(passes_cast(s->e, s->at, *v, TD_F32, v));
  }
  return TD_OK;
}

/* Queries, keys and values of a packed operand as slices. */
static td_status unpack(site *s) {
  const ir_value packed = s->in[QUERY];
  const int64_t width = ir_type_of(s->e->graph, packed)->dims[2];
  const bool is_packed = !s->in[KEY].id;
  s->size = width / (is_packed ? s->heads + 2 * s->kv_heads : s->heads);
  if (!is_packed) return TD_OK;
  const int64_t queries = s->heads * s->size, keys = s->kv_heads * s->size;
  TRY(passes_slice(s->e, s->at, packed, 2, 0, queries, &s->in[QUERY]));
  TRY(passes_slice(s->e, s->at, packed, 2, queries, queries + keys, &s->in[KEY]));
  return passes_slice(s->e, s->at, packed, 2, queries + keys, width, &s->in[VALUE]);
}

/* op(in, and what turns rows where `turns`) {heads, interleaved} */
static td_status add_rows(site *s, ir_op_id op, ir_value *in, uint32_t count, bool turns, int64_t heads,
                          ir_value *out) {
  for (uint32_t i = COS; turns && i <= POSITIONS; i++) in[count++] = s->in[i];
  const base_arg args[] = {ARG_INT("heads", heads), ARG_BOOL("interleaved", s->interleaved)};
  return passes_add(s->e, s->at, op, (ir_new_node){.in = in, .in_count = count, .args = args, .arg_count = 2}, NULL,
                    out);
}

static td_status add_cache(site *s, uint32_t rows, uint32_t past, bool turns, ir_value *out) {
  ir_value in[OPERANDS] = {s->in[rows], s->in[TOTAL], s->in[LAST], s->in[past]};
  return add_rows(s, OP_td_cache_rows, in, 4, turns, s->kv_heads, out);
}

/* [batch, rows, heads, size] as [batch, rows, heads * size] */
static td_status flatten_heads(site *s, ir_value v, ir_value *out) {
  const int64_t sizes[] = {0, 0, s->heads * s->size};
  const base_arg copies = ARG_BOOL("zero_copies", true);
  ir_value in[2] = {v};
  TRY(ir_add_ints(s->e->graph, sizes, 3, &in[1], s->e->err));
  return passes_add(s->e, s->at, OP_aten_view, (ir_new_node){.in = in, .in_count = 2, .args = &copies, .arg_count = 1},
                    NULL, out);
}

static td_status read_sinks(site *s, const ir_node_def *node, ir_value *sinks) {
  *sinks = s->in[SINK];
  if (sinks->id || !passes_int(node, "smooth")) return TD_OK;
  ir_value in[2];
  TRY(ir_add_ints(s->e->graph, &s->heads, 1, &in[0], s->e->err));
  TRY(ir_add_scalar(s->e->graph, TD_F32, 0, &in[1], s->e->err));
  return passes_add(s->e, s->at, OP_aten_full, (ir_new_node){.in = in, .in_count = 2}, NULL, sinks);
}

static td_status add_attention(site *s, const ir_node_def *node, const ir_value *cache, ir_value *out) {
  static const int64_t tokens[] = {0, 2, 1, 3};
  const double scale = passes_float(node, "scale");
  const int64_t window = passes_int(node, "window"),
                sizes[] = {s->heads, s->size}; /* a window's keys: the own one, too */
  ir_value q[OPERANDS] = {s->in[QUERY], s->in[LAST]}, in[7] = {[5] = s->in[LAST]};
  TRY(read_sinks(s, node, &in[6]));
  if (s->rotary) TRY(add_rows(s, OP_td_rotate_rows, q, 2, true, s->heads, &q[0]));
  const base_arg split[] = {ARG_INT("dim", 2), ARG_INTS("sizes", sizes, 2)};
  TRY(passes_add(s->e, s->at, OP_aten_unflatten, (ir_new_node){.in = q, .in_count = 1, .args = split, .arg_count = 2},
                 NULL, &in[0]));
  for (uint32_t i = 0; i < 2; i++) TRY(passes_permute(s->e, s->at, cache[i], tokens, &in[1 + i]));
  const base_arg args[] = {ARG_FLOAT("scale", scale != 0 ? scale : 1 / sqrt((double)s->size)), ARG_BOOL("causal", true),
                           ARG_INT("safe", KERN_ATTENTION_SAFE),
                           ARG_INT("left", window < 0 ? -1 : base_max_i64(window - 1, 0)),
                           ARG_FLOAT("softcap", passes_float(node, "softcap"))};
  const ir_new_node spec = {.in = in, .in_count = in[6].id ? 7 : 6, .args = args, .arg_count = 5};
  TRY(passes_add(s->e, s->at, OP_td_cached_attention, spec, NULL, out));
  return flatten_heads(s, *out, out);
}

static td_status visit_group_query(passes_edit *e, ir_node id, const ir_node_def *def) {
  const ir_node_def node = *def; /* nodes move when one is added */
  ir_value cache[2], y;
  site s;
  read_site(e, id, &node, &s);
  if (!is_supported(e, &s)) return TD_OK;
  TRY(widen(&s));
  TRY(unpack(&s));
  TRY(add_cache(&s, KEY, PAST_KEY, s.rotary, &cache[0]));
  TRY(add_cache(&s, VALUE, PAST_VALUE, false, &cache[1]));
  TRY(add_attention(&s, &node, cache, &y));
  for (uint32_t i = 0; i < 2 && i + 1 < node.out_count; i++) {
    if (!node.out[i + 1].id) continue;
    TRY(passes_cast(e, id, cache[i], s.dtype, &cache[i]));
    TRY(passes_replace(e, node.out[i + 1], cache[i]));
  }
  TRY(passes_cast(e, id, y, s.dtype, &y));
  return passes_take_place(e, id, y);
}

static td_status visit(passes_edit *e, ir_node id) {
  static const passes_rule rules[] = {{OP_td_group_query_attention, visit_group_query}};
  return passes_apply(e, id, rules, sizeof rules / sizeof *rules, NULL);
}

td_status passes_group_query(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  return passes_each(graph, setting, changes, err, visit);
}
