/* eval.c -- references and inference run on real values. */
#include "ir/eval.h"
#include "base/size.h"
#include "ir/cost.h"

#include <string.h>

enum { FEW = 16 }; /* operands and outputs that need no scratch */

static const ir_kind kinds[] = {
    [BASE_NOTHING] = IR_NONE, [BASE_TENSOR] = IR_TENSOR, [BASE_LIST] = IR_LIST,    [BASE_TUPLE] = IR_TUPLE,
    [BASE_DICT] = IR_DICT,    [BASE_OBJECT] = IR_CLASS,  [BASE_FUTURE] = IR_FUTURE};

static void describe(const base_value *value, ir_info *info) {
  base_dim dims[BASE_MAX_RANK] = {0};
  for (int32_t i = 0; i < value->tensor.rank; i++) dims[i] = value->tensor.dims[i];
  if (value->kind == BASE_TENSOR) info->type = ir_tensor(value->tensor.dtype, value->tensor.rank, dims);
  else info->type = (ir_type){.kind = kinds[value->kind]};
  info->constant = value->kind == BASE_TENSOR ? &value->tensor : NULL;
}

typedef td_status (*with_outputs)(const base_call *call, const ir_info *out);

static td_status infer_in(const base_call *call, ir_info *infos, const ir_info **at, ir_info *out, with_outputs then) {
  const ir_op *op = call->op;
  for (uint32_t i = 0; i < call->in_count; i++) {
    at[i] = NULL;
    if (!call->in[i]) continue;
    infos[i] = (ir_info){0};
    describe(call->in[i], &infos[i]);
    at[i] = &infos[i];
  }
  for (uint32_t i = 0; i < call->out_count; i++) out[i] = (ir_info){0};
  ir_infer ctx = {.op = op,
                  .attrs = call->attrs,
                  .in = at,
                  .in_count = call->in_count,
                  .out = out,
                  .out_count = call->out_count,
                  .err = call->err};
  TRY(ir_infer_outputs(&ctx));
  return then(call, out);
}

static td_status infer_now(const base_call *call, with_outputs then) {
  if (call->in_count <= FEW && call->out_count <= FEW) {
    ir_info infos[FEW], out[FEW];
    const ir_info *at[FEW];
    return infer_in(call, infos, at, out, then);
  }
  ir_info *infos = base_call_scratch(call, call->in_count, sizeof *infos);
  ir_info *out = base_call_scratch(call, call->out_count, sizeof *out);
  const ir_info **at = base_call_scratch(call, call->in_count, sizeof *at);
  return infos && out && at ? infer_in(call, infos, at, out, then) : base_no_memory(call->err, "operands");
}

static td_status define_all(const base_call *call, const ir_info *out) {
  for (uint32_t i = 0; i < call->out_count; i++)
    if (call->out[i] && !call->out[i]->tensor.data)
      TRY(base_call_define(call, i, out[i].type.dtype, out[i].type.rank, out[i].type.dims));
  return TD_OK;
}

static td_status compare_all(const base_call *call, const ir_info *out) {
  for (uint32_t i = 0; i < call->out_count; i++) {
    const base_tensor *t = base_out(call, i);
    if (!t || call->out[i]->kind != BASE_TENSOR) continue;
    bool same = t->rank == out[i].type.rank && t->dtype == out[i].type.dtype;
    for (int32_t k = 0; same && k < t->rank; k++) same = t->dims[k] == out[i].type.dims[k];
    char text[128];
    if (!same)
      return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1,
                       "%s: the operands do not fit together: the result was to be %s (are the input shapes right?)",
                       ((const ir_op *)call->op)->name, base_tensor_describe(t, text, sizeof text));
  }
  return TD_OK;
}

td_status ir_define_outputs(const base_call *call) { return infer_now(call, define_all); }

td_status ir_check_outputs(const base_call *call) { return infer_now(call, compare_all); }

void ir_call_work(const base_call *call, double *flops, double *bytes) {
  ir_info infos[FEW], out[FEW];
  const ir_info *at[FEW];
  ir_work work = {0, 0};
  *flops = *bytes = 0;
  if (call->in_count > FEW || call->out_count > FEW) return;
  for (uint32_t i = 0; i < call->in_count + call->out_count; i++) {
    const bool is_in = i < call->in_count;
    const base_value *value = is_in ? call->in[i] : call->out[i - call->in_count];
    ir_info *info = is_in ? &infos[i] : &out[i - call->in_count];
    *info = (ir_info){.type = {.kind = IR_TENSOR}};
    if (value) describe(value, info);
    if (is_in) at[i] = value ? info : NULL;
  }
  if (!ir_cost(call->op, call->attrs, at, call->in_count, out, call->out_count, &work)) return;
  *flops = work.flops;
  *bytes = work.bytes;
}

/* Outputs live in the caller's arena, scratch in one of its own. */
typedef struct eval_memory {
  base_arena *keep, *scratch;
} eval_memory;

static void *eval_keep(void *memory, size_t bytes) {
  return base_arena_alloc_aligned(((eval_memory *)memory)->keep, bytes, 64);
}

static void *eval_scratch(void *memory, size_t bytes) {
  return base_arena_alloc_aligned(((eval_memory *)memory)->scratch, bytes, 64);
}

static base_call eval_call(const ir_op *op, const base_attrs *attrs, const base_value *const *in, uint32_t in_count,
                           base_value *const *out, uint32_t out_count, eval_memory *memory, td_error *err) {
  return (base_call){.attrs = attrs,
                     .op = op,
                     .in = in,
                     .out = out,
                     .in_count = in_count,
                     .out_count = out_count,
                     .err = err,
                     .memory = memory,
                     .keep = eval_keep,
                     .scratch = eval_scratch};
}

td_status ir_evaluate(const ir_op *op, const base_attrs *attrs, const base_value *const *in, uint32_t in_count,
                      base_arena *arena, base_value *out, uint32_t out_count, td_error *err) {
  base_value **outs = base_new(arena, base_value *, out_count ? out_count : 1);
  eval_memory memory = {arena, base_arena_new(base_arena_allocator(arena))};
  if (!outs || !memory.scratch) {
    base_arena_free(memory.scratch);
    return base_no_memory(err, "an evaluation");
  }
  for (uint32_t i = 0; i < out_count; i++) {
    out[i] = (base_value){.kind = BASE_TENSOR};
    outs[i] = &out[i];
  }
  const base_call call = eval_call(op, attrs, in, in_count, outs, out_count, &memory, err);
  td_status status = op->flags & IR_OP_DEFINES ? TD_OK : ir_define_outputs(&call);
  if (status == TD_OK) status = op->reference(&call);
  base_arena_free(memory.scratch);
  return status;
}

td_status ir_show(const ir_op *op, const base_attrs *attrs, const base_value *const *in, uint32_t in_count,
                  base_arena *arena, const ir_type *type, base_tensor *shown, td_error *err) {
  base_value out = {.kind = BASE_TENSOR, .tensor = base_tensor_of(NULL, type->dtype, type->rank, type->dims)};
  base_value *outs[] = {&out};
  eval_memory memory = {arena, base_arena_new(base_arena_allocator(arena))};
  if (!memory.scratch) return base_no_memory(err, "an evaluation");
  const base_call call = eval_call(op, attrs, in, in_count, outs, 1, &memory, err);
  td_status status = op->view(&call);
  base_arena_free(memory.scratch);
  *shown = out.tensor;
  return status;
}

static td_status one_attr(const ir_op *op, const ir_attr *spec, const base_arg *given, base_arg *to, td_error *err) {
  if (given && given->kind != BASE_ATTR_NONE) {
    if (given->kind != spec->kind)
      return base_fail(err, TD_BAD_FILE, NULL, -1, "%s: attribute %s has the wrong type", op->name, spec->name);
    *to = *given;
    return TD_OK;
  }
  if (spec->required) return base_fail(err, TD_BAD_FILE, NULL, -1, "%s needs the attribute %s", op->name, spec->name);
  *to = (base_arg){.name = spec->name, .kind = spec->optional ? BASE_ATTR_NONE : spec->kind, .str = ""};
  if (spec->kind == BASE_ATTR_FLOAT) to->f = spec->f;
  else if (spec->kind != BASE_ATTR_STR) to->i = spec->i;
  else if (spec->str) to->str = spec->str;
  return TD_OK;
}

td_status ir_make_attrs(base_arena *arena, const ir_op *op, const base_arg *args, uint32_t count,
                        const base_attrs **attrs, td_error *err) {
  base_arg all[64];
  if (op->attr_count > 64) return base_fail(err, TD_INTERNAL, NULL, -1, "%s has too many attributes", op->name);
  uint32_t used = 0;
  for (uint32_t i = 0; i < op->attr_count; i++) {
    const base_arg *given = NULL;
    for (uint32_t k = 0; k < count; k++)
      if (strcmp(args[k].name, op->attrs[i].name) == 0) given = &args[k];
    used += given != NULL;
    TRY(one_attr(op, &op->attrs[i], given, &all[i], err));
  }
  for (uint32_t k = 0; k < count && used < count; k++) {
    bool known = false;
    for (uint32_t i = 0; i < op->attr_count; i++) known |= strcmp(args[k].name, op->attrs[i].name) == 0;
    if (!known) return base_fail(err, TD_BAD_FILE, NULL, -1, "%s has no attribute %s", op->name, args[k].name);
  }
  *attrs = base_attrs_make(arena, all, op->attr_count);
  return *attrs ? TD_OK : base_no_memory(err, "attributes");
}
