/* taps.c -- results inside a graph as outputs of it. */
#include <stdio.h>
#include <string.h>

#include "debug/debug.h"

typedef struct tap {
  ir_value value;
  const char *name;
} tap;

typedef BASE_VEC(tap) tap_list;

static base_str node_name(const ir_node_def *node) { return base_node_name(ir_node_name(node)); }

static bool is_output(const ir_graph *g, ir_value v) {
  const ir_block_def *top = ir_block_of(g, g->top);
  for (uint32_t i = 0; i < top->results.count; i++)
    if (top->results.at[i].id == v.id) return true;
  return false;
}

const char *debug_tap_name(ir_graph *g, uint32_t index, uint32_t k) {
  const ir_block_def *block = ir_block_of(g, g->top);
  const base_str name = node_name(ir_node_of(g, block->nodes.at[index]));
  uint32_t later = 0;
  for (uint32_t i = index + 1; i < block->nodes.count; i++)
    later += base_str_equal(name, node_name(ir_node_of(g, block->nodes.at[i])));
  char number[16] = "", result[16] = "";
  if (later) snprintf(number, sizeof number, "#%u", later);
  if (k) snprintf(result, sizeof result, ":%u", k);
  return base_arena_format(g->arena, "%.*s%s%s", (int)base_min_i64((int64_t)name.length, 1000), name.at, number,
                           result);
}

static td_status collect(ir_graph *g, const char *names, tap_list *taps, td_error *err) {
  const ir_block_def *block = ir_block_of(g, g->top);
  const bool all = strcmp(names, "*") == 0;
  for (uint32_t i = 0; i < block->nodes.count; i++) {
    const ir_node_def *node = ir_node_of(g, block->nodes.at[i]);
    for (uint32_t k = 0; k < node->out_count; k++) {
      const ir_type *type = ir_type_of(g, node->out[k]);
      if (type->kind != IR_TENSOR || type->dtype == TD_STRING || is_output(g, node->out[k])) continue;
      const char *name = debug_tap_name(g, i, k);
      if (!name) return base_no_memory(err, "a tap");
      if (!all && !base_str_listed(names, name)) continue;
      tap *to = base_vec_push(g->arena, taps);
      if (!to) return base_no_memory(err, "a tap");
      *to = (tap){node->out[k], name};
    }
  }
  return TD_OK;
}

/* Every name asked for is there. */
static td_status check_names(const char *names, const tap_list *taps, td_error *err) {
  for (const char *at = names; *at;) {
    const base_str word = {at, strcspn(at, ",")};
    bool found = false;
    for (uint32_t i = 0; i < taps->count; i++) found |= base_str_is(word, taps->at[i].name);
    if (!found)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                       "no node called '%.*s' has a tensor to tap that is not an output already; `treadle inspect "
                       "--stage imported` shows the nodes",
                       (int)base_min_i64((int64_t)word.length, 200), word.at);
    at += word.length + (at[word.length] == ',');
  }
  return TD_OK;
}

td_status debug_add_taps(ir_graph *graph, const char *names, td_error *err) {
  if (!names || !*names) return TD_OK;
  tap_list taps = {0};
  TRY(collect(graph, names, &taps, err));
  if (strcmp(names, "*") != 0) TRY(check_names(names, &taps, err));
  for (uint32_t i = 0; i < taps.count; i++) TRY(ir_add_output(graph, taps.at[i].value, taps.at[i].name, err));
  return TD_OK;
}

/* ---- outputs as inputs ---- */

static bool can_be_input(const ir_graph *g, ir_value v) {
  const ir_value_def *def = ir_value_of(g, v);
  const ir_type *type = &def->info.type;
  bool can = def->node.id && !def->info.ints && type->kind == IR_TENSOR && type->dtype != TD_STRING && type->rank >= 0;
  for (int32_t i = 0; can && i < type->rank; i++)
    can = type->dims[i] != BASE_DIM_NONE && !base_dim_from_data(&g->dims, type->dims[i]);
  return can;
}

td_status debug_feed_taps(ir_graph *g, td_error *err) {
  const uint32_t count = g->output_names.count;
  ir_value *made = base_new(g->arena, ir_value, (size_t)count + 1);
  if (!made) return base_no_memory(err, "outputs");
  for (uint32_t i = 0; i < count; i++) {
    ir_value with;
    made[i] = ir_block_of(g, g->top)->results.at[i];
    if (!can_be_input(g, made[i])) continue;
    const ir_type type = *ir_type_of(g, made[i]);
    TRY(ir_add_input(g, &type, g->output_names.at[i], IR_NO_VALUE, &with, err));
    TRY(ir_replace_value(g, made[i], with, err));
  }
  ir_settle(g);
  for (uint32_t i = 0; i < count; i++) ir_block_of(g, g->top)->results.at[i] = made[i];
  return ir_verify(g, err);
}
