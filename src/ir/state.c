/* state.c -- session state of a graph: what a run finds as the last one has left it. */
#include "ir/ir.h"

#include <string.h>

static td_status copy_initial(ir_graph *g, const ir_initial *from, ir_initial *to, td_error *err) {
  *to = *from;
  if (!from->list) return TD_OK;
  ir_initial *items = base_new(g->arena, ir_initial, (size_t)from->count + 1);
  if (!items) return base_no_memory(err, "session state");
  to->items = items;
  for (uint32_t i = 0; i < from->count; i++) TRY(copy_initial(g, &from->items[i], &items[i], err));
  return TD_OK;
}

td_status ir_add_state(ir_graph *g, const ir_type *type, const char *name, const ir_initial *initial, ir_value *value,
                       td_error *err) {
  ir_initial copy;
  TRY(copy_initial(g, initial, &copy, err));
  TRY(ir_add_param(g, g->top, type, name, value, err));
  TRY(ir_add_result(g, g->top, *value, err));
  ir_initial *slot = base_vec_push(g->arena, &g->states);
  if (!slot) return base_no_memory(err, "session state");
  *slot = copy;
  return TD_OK;
}

td_status ir_store_state(ir_graph *g, ir_value state, ir_value with, td_error *err) {
  for (uint32_t i = 0; i < g->states.count; i++) {
    if (ir_state_before(g, i).id != state.id) continue;
    ir_block_of(g, g->top)->results.at[g->output_names.count + i] = with;
    return TD_OK;
  }
  return base_fail(err, TD_INTERNAL, NULL, -1, "value %u is no session state", state.id);
}

/* Moves element `at` of `count` to the end. */
static void put_last(ir_value *values, uint32_t at, uint32_t count) {
  const ir_value moved = values[at];
  memmove(values + at, values + at + 1, (count - 1 - at) * sizeof *values);
  values[count - 1] = moved;
}

/* Forgets output `at`, whose value stays among the results. */
static void remove_output(ir_graph *g, uint32_t at) {
  uint32_t kept = 0;
  for (uint32_t i = at; i + 1 < g->output_names.count; i++) g->output_names.at[i] = g->output_names.at[i + 1];
  g->output_names.count--;
  for (uint32_t i = 0; i < g->complex_outputs.count; i++) {
    const uint32_t output = g->complex_outputs.at[i];
    if (output != at) g->complex_outputs.at[kept++] = output - (output > at);
  }
  g->complex_outputs.count = kept;
}

td_status ir_keep_input(ir_graph *g, uint32_t input, uint32_t output, const ir_initial *initial, td_error *err) {
  ir_block_def *top = ir_block_of(g, g->top);
  ir_initial *slot, copy;
  BASE_ASSERT(input < g->input_defaults.count && output < g->output_names.count);
  TRY(copy_initial(g, initial, &copy, err));
  if (!(slot = base_vec_push(g->arena, &g->states))) return base_no_memory(err, "session state");
  *slot = copy;
  for (uint32_t i = input; i + 1 < g->input_defaults.count; i++) g->input_defaults.at[i] = g->input_defaults.at[i + 1];
  g->input_defaults.count--;
  put_last(top->params.at, input, top->params.count);
  for (uint32_t i = input; i < top->params.count; i++) ir_value_of(g, top->params.at[i])->index = i;
  put_last(top->results.at, output, top->results.count);
  remove_output(g, output);
  return TD_OK;
}
