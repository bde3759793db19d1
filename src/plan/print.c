/* print.c -- a plan for people (text), for tools (JSON) and for Graphviz. */
#include "plan/plan.h"

#include <string.h>

static const char *const place_names[] = {"input", "const", "arena", "view", "tail"};
static const char *const kind_names[] = {"call", "show", "if", "loop", "end", "fork", "wait"};

const char *plan_port_kind_name(const plan_port *port) {
  static const char *const names[PLAN_PORT_KIND_COUNT] = {"tensor", "list", "optional", "tuple", "dict", "class"};
  return names[port->kind];
}

static void print_slot(const plan_exe *plan, uint32_t index, base_text *text) {
  const plan_slot *s = &plan->slots.at[index];
  base_text_print(text, "s%u %s %s[", index, place_names[s->place], td_dtype_name(s->dtype));
  if (s->rank < 0) base_text_print(text, "...");
  for (int32_t k = 0; k < s->rank; k++) {
    if (k) base_text_print(text, ", ");
    base_dim_print(&plan->dims, s->dims[k], text);
  }
  base_text_print(text, "]");
  if (s->place == PLAN_ARENA && s->part_of != PLAN_NONE)
    base_text_print(text, " part of s%u from %lld of dimension %d", s->part_of, (long long)s->part_at, s->part_axis);
  else if (s->root != index) base_text_print(text, " in s%u", s->root);
  else if (s->place == PLAN_ARENA) base_text_print(text, " steps %u..%u", s->first, s->last);
  if (s->name) base_text_print(text, " # %s", plan_name(plan, s->name));
  base_text_print(text, "\n");
}

static void print_operands(const plan_exe *plan, uint32_t at, uint32_t count, base_text *text) {
  for (uint32_t i = 0; i < count; i++) {
    uint32_t slot = plan->operands.at[at + i];
    if (slot == PLAN_NONE) base_text_print(text, "%s-", i ? ", " : "");
    else base_text_print(text, "%ss%u", i ? ", " : "", slot);
  }
}

static void print_batches(const plan_exe *plan, base_text *text) {
  for (uint32_t i = 0; i < plan->batches.count; i++) {
    const plan_batch *b = &plan->batches.at[i];
    base_text_print(text, "batch steps %u..%u: ", b->first, b->end - 1);
    base_dim_print(&plan->dims, b->samples, text);
    base_text_print(text, " samples\n");
  }
}

static void print_states(const plan_exe *plan, base_text *text) {
  for (uint32_t i = 0; i < plan->states.count; i++)
    base_text_print(text, "state s%u after the run s%u # %s\n", plan->states.at[i].port.slot, plan->states.at[i].after,
                    plan_name(plan, plan->states.at[i].port.name));
}

td_status plan_print(const plan_exe *plan, base_text *text) {
  base_text_print(text, "slots %u\n", plan->slots.count);
  for (uint32_t i = 0; i < plan->slots.count; i++) print_slot(plan, i, text);
  base_text_print(text, "steps %u\n", plan->steps.count);
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    bool calls = s->kind == PLAN_CALL || s->kind == PLAN_SHOW;
    base_text_print(text, "%u %s %s(", i, kind_names[s->kind], calls ? plan->here.links.at[s->function].name : "");
    print_operands(plan, s->in, s->in_count, text);
    base_text_print(text, ") -> ");
    print_operands(plan, s->out, s->out_count, text);
    if (s->bytes > 0) base_text_print(text, " [%.0f flops, %.0f bytes]", s->flops, s->bytes);
    base_text_print(text, "%s%s\n", s->name ? " # " : "", plan_name(plan, s->name));
  }
  print_batches(plan, text);
  print_states(plan, text);
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

/* ---- JSON ---- */

static void json_text(const char *key, const char *value, base_text *text) {
  base_text_print(text, ", \"%s\": ", key);
  base_text_quote(text, value, strlen(value));
}

static void json_slot(const plan_exe *plan, uint32_t index, base_text *text) {
  const plan_slot *s = &plan->slots.at[index];
  base_text_print(text, "%s\n    {\"slot\": %u", index ? "," : "", index);
  json_text("place", place_names[s->place], text);
  json_text("dtype", td_dtype_name(s->dtype), text);
  base_text_print(text, ", \"dims\": ");
  if (s->rank < 0) base_text_print(text, "null");
  for (int32_t k = 0; k < s->rank; k++) {
    base_text dim = {.allocator = text->allocator};
    base_dim_print(&plan->dims, s->dims[k], &dim);
    base_text_print(text, k ? ", " : "[");
    base_text_quote(text, dim.at ? dim.at : "", dim.length);
    base_text_free(&dim);
  }
  if (s->rank >= 0) base_text_print(text, s->rank ? "]" : "[]");
  base_text_print(text, ", \"root\": %u, \"first\": %u, \"last\": %u", s->root, s->first, s->last);
  json_text("name", plan_name(plan, s->name), text);
  base_text_print(text, "}");
}

static void json_operands(const plan_exe *plan, const char *key, uint32_t at, uint32_t count, base_text *text) {
  base_text_print(text, ", \"%s\": [", key);
  for (uint32_t i = 0; i < count; i++) {
    uint32_t slot = plan->operands.at[at + i];
    if (slot == PLAN_NONE) base_text_print(text, "%snull", i ? ", " : "");
    else base_text_print(text, "%s%u", i ? ", " : "", slot);
  }
  base_text_print(text, "]");
}

static void json_step(const plan_exe *plan, uint32_t index, base_text *text) {
  const plan_step *s = &plan->steps.at[index];
  bool calls = s->kind == PLAN_CALL || s->kind == PLAN_SHOW;
  base_text_print(text, "%s\n    {\"step\": %u", index ? "," : "", index);
  json_text("kind", kind_names[s->kind], text);
  json_text("function", calls ? plan->here.links.at[s->function].name : "", text);
  json_operands(plan, "in", s->in, s->in_count, text);
  json_operands(plan, "out", s->out, s->out_count, text);
  base_text_print(text, ", \"flops\": %.0f, \"bytes\": %.0f", s->flops, s->bytes);
  json_text("name", plan_name(plan, s->name), text);
  base_text_print(text, "}");
}

td_status plan_print_json(const plan_exe *plan, base_text *text) {
  base_text_print(text, "{\"slots\": [");
  for (uint32_t i = 0; i < plan->slots.count; i++) json_slot(plan, i, text);
  base_text_print(text, "\n  ], \"steps\": [");
  for (uint32_t i = 0; i < plan->steps.count; i++) json_step(plan, i, text);
  base_text_print(text, "\n  ], \"states\": [");
  for (uint32_t i = 0; i < plan->states.count; i++) {
    const plan_state *s = &plan->states.at[i];
    base_text_print(text, "%s\n    {\"slot\": %u, \"after\": %u", i ? "," : "", s->port.slot, s->after);
    json_text("name", plan_name(plan, s->port.name), text);
    base_text_print(text, "}");
  }
  base_text_print(text, "\n  ]}\n");
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}

/* ---- Graphviz: steps are boxes, slots are the arrows between them ---- */

td_status plan_print_dot(const plan_exe *plan, base_text *text) {
  base_text_print(text, "digraph plan {\n  node [shape=box];\n");
  for (uint32_t i = 0; i < plan->slots.count; i++) {
    const plan_slot *s = &plan->slots.at[i];
    if (s->place != PLAN_INPUT) continue;
    base_text_print(text, "  s%u [shape=ellipse, label=", i);
    base_text_quote(text, plan_name(plan, s->name), strlen(plan_name(plan, s->name)));
    base_text_print(text, "];\n");
  }
  for (uint32_t i = 0; i < plan->steps.count; i++) {
    const plan_step *s = &plan->steps.at[i];
    base_text_print(text, "  t%u [label=", i);
    base_text_quote(text, plan_name(plan, s->name), strlen(plan_name(plan, s->name)));
    base_text_print(text, "];\n");
    for (uint32_t k = 0; k < s->in_count; k++) {
      uint32_t slot = plan->operands.at[s->in + k];
      if (slot != PLAN_NONE && plan->slots.at[slot].place != PLAN_CONST)
        base_text_print(text, "  s%u -> t%u;\n", slot, i);
    }
    for (uint32_t k = 0; k < s->out_count; k++) {
      uint32_t slot = plan->operands.at[s->out + k];
      if (slot != PLAN_NONE) base_text_print(text, "  t%u -> s%u;\n  s%u [shape=point];\n", i, slot, slot);
    }
  }
  base_text_print(text, "}\n");
  return text->failed ? TD_NO_RESOURCE : TD_OK;
}
