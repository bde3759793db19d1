/* function.c -- functions of the model are inlined where they are called: the body is lowered into the caller's block,
 * its names prefixed with the call's. */
#include "import/onnx/state_priv.h"

/* Attributes that the body may refer to: those of the call, then the defaults of those it leaves out. */
static td_status bind_call(onnx_node *n, const onnx_function *f, onnx_scope *body) {
  onnx_import *im = n->im;
  size_t most = (size_t)n->attr_count + f->defaults.count;
  onnx_bound *bound = base_new(im->arena, onnx_bound, most + 1);
  if (!bound) return base_no_memory(im->err, "a function");
  uint32_t count = n->attr_count;
  for (uint32_t i = 0; i < count; i++) bound[i] = n->attrs[i];
  for (uint32_t i = 0; i < f->defaults.count; i++) {
    onnx_attr *attr = &f->defaults.at[i];
    bool given = false;
    for (uint32_t k = 0; k < n->attr_count && !given; k++) given = base_str_equal(n->attrs[k].name, attr->name);
    if (!given) bound[count++] = (onnx_bound){attr->name, attr, body};
  }
  body->bound = bound;
  body->bound_count = count;
  return TD_OK;
}

static td_status bind_inputs(onnx_node *n, const onnx_function *f, onnx_scope *body) {
  if (n->in_count > f->inputs.count)
    return base_fail(n->im->err, TD_BAD_FILE, NULL, -1, "the function takes %u inputs and is given %u", f->inputs.count,
                     n->in_count);
  for (uint32_t i = 0; i < f->inputs.count; i++)
    TRY(onnx_define(body, f->inputs.at[i], i < n->in_count ? n->in[i] : (ir_value){ONNX_ABSENT}));
  return TD_OK;
}

static td_status give_outputs(onnx_node *n, const onnx_function *f, const onnx_scope *body) {
  if (n->out_count > f->outputs.count)
    return base_fail(n->im->err, TD_BAD_FILE, NULL, -1, "the function has %u outputs and %u are asked for",
                     f->outputs.count, n->out_count);
  for (uint32_t i = 0; i < n->out_count; i++) {
    base_str name = f->outputs.at[i];
    const uint32_t *id = onnx_lookup(body, name);
    if (!id)
      return base_fail(n->im->err, TD_BAD_FILE, NULL, -1, "the function's output \"%.*s\" is not defined",
                       (int)name.length, name.at);
    n->is_lost = *id == ONNX_LOST;
    if (n->is_lost) return base_fail(n->im->err, TD_UNSUPPORTED, NULL, -1, "the function is not supported");
    if (*id != ONNX_NOT_MADE) onnx_out(n, i, (ir_value){*id});
  }
  return TD_OK;
}

td_status onnx_inline(onnx_node *n) {
  onnx_function *f = n->record->impl.function;
  onnx_scope *body = base_new(n->im->arena, onnx_scope, 1);
  const char *prefix = base_arena_format(n->im->arena, "%s/", n->label);
  if (!body || !prefix) return base_no_memory(n->im->err, "a function");
  *body =
      (onnx_scope){.im = n->im, .block = n->b.block, .prefix = prefix, .path = prefix, .depth = n->scope->depth + 1};
  TRY(bind_call(n, f, body));
  TRY(bind_inputs(n, f, body));
  TRY(onnx_lower_graph(body, &f->body));
  return give_outputs(n, f, body);
}
