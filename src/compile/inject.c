/* inject.c -- faults that tests put in, to be found: in builds with TREADLE_INJECT alone.
 *
 * A fault belongs to an operator's kernel or generated code: behind each node of the operator stands a node
 * test::fault, before loops are fused. It stays where something other than the operator's reference computes the node:
 * so it goes with the kernel that is left out, and is in no run on references. A fault of a pass stands behind a node
 * that the pass has made, whatever computes it: so it goes with the pass. */
#include "compile/compile_priv.h"
#include "codegen/codegen.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

typedef enum fault_mode {
  FAULT_WRONG,
  FAULT_NAN,
  FAULT_CRASH,
  FAULT_HANG,
  FAULT_COMPILE,
  FAULT_TYPE,
  FAULT_SLIGHT
} fault_mode;
static const char *const mode_names[] = {"wrong", "nan", "crash", "hang", "compile", "type", "slight"};

/* What the silent change makes of a type: another one of the same size. */
static td_dtype changed_type(td_dtype dtype) {
  static const td_dtype other[TD_DTYPE_COUNT] = {[TD_F64] = TD_I64,  [TD_F32] = TD_I32, [TD_F16] = TD_I16,
                                                 [TD_BF16] = TD_I16, [TD_I64] = TD_F64, [TD_I32] = TD_F32};
  return other[dtype] ? other[dtype] : dtype;
}

/* ---- the operator ---- */

static td_status infer_fault(ir_infer *ctx) {
  const td_dtype dtype = ir_in(ctx, 0)->type.dtype;
  return ir_out_like(ctx, 0, 0, base_attr_int(ctx->attrs, 0) == FAULT_TYPE ? changed_type(dtype) : dtype);
}

static td_status run_fault(const base_call *call) {
  const base_tensor *in = base_in(call, 0);
  base_tensor *out = base_out(call, 0);
  const int64_t mode = base_attr_int(call->attrs, 0);
  if (mode == FAULT_CRASH) raise(SIGSEGV);
  if (mode == FAULT_HANG)
    for (;;) pause();
  base_walk w;
  const int64_t *strides[] = {in->strides};
  base_walk_start(&w, in->rank, in->dims, 1, strides);
  for (int64_t i = 0; i < w.count; i++, base_walk_next(&w)) {
    if (!base_is_float(in->dtype)) {
      const int64_t whole = base_load_i64(in->dtype, in->data, w.offset[0]);
      base_store_i64(out->dtype, out->data, i, mode == FAULT_WRONG || mode == FAULT_SLIGHT ? whole ^ 1 : whole);
      continue;
    }
    double value = base_load_f64(in->dtype, in->data, w.offset[0]);
    if (mode == FAULT_WRONG) value = value * 2 + (value == 0);
    if (mode == FAULT_SLIGHT) value *= 1.006;
    if (mode == FAULT_NAN && i == 0) value = (double)__builtin_nanf("");
    base_store_f64(out->dtype, out->data, i, value);
  }
  return TD_OK;
}

static const ir_attr fault_attrs[] = {{.name = "mode", .kind = BASE_ATTR_INT, .required = true},
                                      {.name = "stays", .kind = BASE_ATTR_INT, .required = true}};
static const ir_op fault_op = {.name = "test::fault",
                               .min_in = 1,
                               .max_in = 1,
                               .out_count = 1,
                               .attrs = fault_attrs,
                               .attr_count = 2,
                               .infer = infer_fault,
                               .reference = run_fault};

const ir_op *compile_injected(const char *name) { return strcmp(name, fault_op.name) == 0 ? &fault_op : NULL; }

/* ---- which nodes ---- */

typedef struct fault {
  base_str op;      /* of a pass: its name */
  const char *node; /* NULL: all of the operator */
  fault_mode mode;
  bool of_pass;
} fault;

/* "OPERATOR:MODE" or "OPERATOR:MODE@NODE"; of "aten::neg", "neg" is enough. "pass=NAME:MODE": of a pass. */
static td_status read_fault(const char *text, fault *f, td_error *err) {
  const size_t length = strcspn(text, "@");
  size_t colon = length;
  while (colon > 0 && text[colon - 1] != ':') colon--;
  *f = (fault){.op = {text, colon ? colon - 1 : 0}, .node = text[length] ? text + length + 1 : NULL};
  f->of_pass = base_str_starts(f->op, "pass=");
  if (f->of_pass) f->op = (base_str){f->op.at + strlen("pass="), f->op.length - strlen("pass=")};
  for (size_t i = 0; colon && i < sizeof mode_names / sizeof *mode_names; i++) {
    f->mode = (fault_mode)i;
    if (base_str_is((base_str){text + colon, length - colon}, mode_names[i])) return TD_OK;
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                   "a fault is OPERATOR:MODE, OPERATOR:MODE@NODE or pass=NAME:MODE, with wrong, slight, nan, crash, "
                   "hang, compile or type as its mode, not '%s'",
                   text);
}

/* Can its first result be wrong in that way? Whole numbers cannot be NaN. */
static bool can_fail(const ir_graph *g, const ir_node_def *node, fault_mode mode) {
  if (!node->op || !node->out_count || node->op->flags & IR_OP_REGION) return false;
  const ir_type *type = ir_type_of(g, node->out[0]);
  if (type->kind != IR_TENSOR) return false;
  if (mode == FAULT_TYPE) return changed_type(type->dtype) != type->dtype;
  return base_is_float(type->dtype) || (mode != FAULT_NAN && base_is_int(type->dtype));
}

static bool is_meant(const fault *f, const ir_graph *g, const ir_node_def *node) {
  if (!can_fail(g, node, f->mode)) return false;
  const char *name = node->op->name, *own = strstr(name, "::");
  bool named = !f->node;
  if (!base_str_is(f->op, name) && !(own && base_str_is(f->op, own + 2))) return false;
  for (uint32_t i = 0; !named && i < node->origins.count; i++)
    named = base_str_is(base_node_name(node->origins.names[i]), f->node);
  return named;
}

/* Puts the fault behind node `index` of the block. */
static td_status add_fault(ir_graph *g, ir_block block, uint32_t index, const fault *f, ir_node *made, td_error *err) {
  const ir_node target = ir_block_of(g, block)->nodes.at[index];
  const bool last = index + 1 == ir_block_of(g, block)->nodes.count;
  const base_arg args[] = {ARG_INT("mode", f->mode), ARG_INT("stays", f->of_pass)};
  const ir_value out = ir_node_of(g, target)->out[0];
  const ir_new_node spec = {.op = &fault_op,
                            .in = &out,
                            .in_count = 1,
                            .args = args,
                            .arg_count = 2,
                            .origins = ir_node_of(g, target)->origins,
                            .before = last ? (ir_node){0} : ir_block_of(g, block)->nodes.at[index + 1]};
  ir_value faulty;
  TRY(ir_add_node(g, block, &spec, made, &faulty, err));
  return ir_replace_value(g, out, faulty, err);
}

typedef struct placed {
  ir_node node;
  ir_value in;
} placed;

static td_status inject(const fault *f, ir_graph *g, base_arena *scratch, td_error *err) {
  BASE_VEC(placed) all = {0};
  for (uint32_t b = 1; b < g->blocks.count; b++)
    for (uint32_t i = 0, count = g->blocks.at[b].nodes.count; i < count; i++) {
      const ir_node_def *node = ir_node_of(g, g->blocks.at[b].nodes.at[i]);
      if (!is_meant(f, g, node)) continue;
      placed *to = base_vec_push(scratch, &all);
      if (!to) return base_no_memory(err, "a fault");
      to->in = node->out[0];
      TRY(add_fault(g, (ir_block){b}, i, f, &to->node, err));
    }
  ir_settle(g);
  for (uint32_t i = 0; i < all.count; i++) ir_node_of(g, all.at[i].node)->in[0] = all.at[i].in; /* not its own result */
  return TD_OK;
}

td_status compile_inject(const char *text, ir_graph *g, td_error *err) {
  fault f;
  if (!text || !*text) return TD_OK;
  TRY(read_fault(text, &f, err));
  if (f.of_pass) return TD_OK; /* compile_spoil puts it in */
  base_arena *scratch = base_arena_new(base_arena_allocator(g->arena));
  const td_status status = scratch ? inject(&f, g, scratch, err) : base_no_memory(err, "a fault");
  base_arena_free(scratch);
  return status;
}

/* Of the graph's own block: the first node that the pass made and that can fail, else the last one of all. */
static bool find_victim(const ir_graph *g, fault_mode mode, uint32_t first, uint32_t *index) {
  const ir_block_def *top = ir_block_of(g, g->top);
  bool found = false;
  for (uint32_t i = 0; i < top->nodes.count; i++) {
    const ir_node id = top->nodes.at[i];
    if (!can_fail(g, ir_node_of(g, id), mode)) continue;
    found = true;
    *index = i;
    if (id.id >= first) break;
  }
  return found;
}

td_status compile_spoil(const char *text, const char *pass, ir_graph *g, uint32_t first, td_error *err) {
  fault f;
  uint32_t index;
  ir_node made;
  if (!text || !*text) return TD_OK;
  TRY(read_fault(text, &f, err));
  if (!f.of_pass || !base_str_is(f.op, pass) || !find_victim(g, f.mode, first, &index)) return TD_OK;
  const ir_value out = ir_node_of(g, ir_block_of(g, g->top)->nodes.at[index])->out[0];
  TRY(add_fault(g, g->top, index, &f, &made, err));
  ir_settle(g);
  ir_node_of(g, made)->in[0] = out; /* not its own result */
  return TD_OK;
}

/* Is the node computed by something that has the fault? */
static td_status is_active(const ir_graph *g, const lower_setting *lower, ir_value made, base_arena *scratch,
                           bool *active, td_error *err) {
  const ir_node id = ir_value_of(g, made)->node;
  const kern_row *kernel = NULL;
  const uint32_t number = id.id ? lower->generated[id.id] : 0;
  *active = false;
  if (!id.id) return TD_OK;
  TRY(lower_find_kernel(g, lower, ir_node_of(g, id), scratch, &kernel, err));
  *active = kernel && !(number && base_str_listed(lower->disabled_kernels, lower->code[number - 1]));
  return TD_OK;
}

td_status compile_inject_end(ir_graph *g, const lower_setting *lower, base_arena *scratch, td_error *err) {
  for (uint32_t n = 1; n < g->nodes.count; n++) {
    const ir_node_def *node = &g->nodes.at[n];
    bool active;
    if (node->op != &fault_op) continue;
    TRY(is_active(g, lower, node->in[0], scratch, &active, err));
    active |= base_attr_int(node->attrs, 1) != 0;
    if (active && base_attr_int(node->attrs, 0) == FAULT_COMPILE)
      return base_fail(err, TD_INTERNAL, node->origins.count ? node->origins.names[0] : NULL, -1,
                       "a fault that was put in: this does not compile");
    if (active) continue;
    TRY(ir_replace_value(g, node->out[0], node->in[0], err));
    ir_remove_node(g, (ir_node){n});
  }
  ir_settle(g);
  return TD_OK;
}
