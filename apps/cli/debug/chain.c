/* chain.c -- what the user's nodes have become: node, graph node, kernel, line of generated C. */
#include <string.h>

#include <treadle/experimental.h>

#include "chain.h"

enum { SHOWN = 4 /* nodes that are named */ };

static void put_nodes(base_text *text, const td_session *session, uint32_t index, const td_step *step) {
  if (step->origins < 2) return;
  base_text_print(text, " of %zu nodes (", step->origins);
  for (size_t i = 0; i < step->origins && i < SHOWN; i++) {
    const base_str node = base_node_name(td_session_step_origin(session, index, i));
    base_text_print(text, "%s%.*s", i ? ", " : "", (int)node.length, node.at);
  }
  base_text_print(text, step->origins > SHOWN ? ", ...)" : ")");
}

const char *cli_chain(base_arena *arena, const td_model *model, const td_session *session, uint32_t step) {
  base_text text = {.allocator = base_arena_allocator(arena)};
  td_step s = {.size = sizeof s};
  td_code code = {.size = sizeof code};
  td_error unused;
  if (td_session_get_step(session, step, &s, &unused) != TD_OK) return NULL;
  base_text_print(&text, "%s", *s.name ? s.name : "no node");
  if (*s.op) base_text_print(&text, ": graph node %s", s.op);
  put_nodes(&text, session, step, &s);
  if (*s.kernel && strcmp(s.kernel, s.op) != 0) base_text_print(&text, ", kernel %s", s.kernel);
  if (td_model_code(model, step, &code, &unused) == TD_OK && code.source)
    base_text_print(&text, ", generated code %s:%u", code.source, code.line);
  const char *made = text.failed ? NULL : base_arena_text(arena, text.at);
  base_text_free(&text);
  return made;
}

void cli_print_chain(base_arena *arena, const td_model *model, const td_session *session, uint32_t step) {
  const char *chain = cli_chain(arena, model, session, step);
  if (chain) printf("  step %u: %s\n", step, chain);
}

static bool stands_for(const td_session *session, uint32_t index, const td_step *step, const char *node) {
  if (base_str_is(base_node_name(step->name), node)) return true;
  for (size_t i = 0; i < step->origins; i++)
    if (base_str_is(base_node_name(td_session_step_origin(session, index, i)), node)) return true;
  return false;
}

void cli_print_chains(base_arena *arena, const td_model *model, const td_session *session, const char *kernel,
                      const char *node, uint32_t most) {
  td_model_stats stats = {.size = sizeof stats};
  td_error unused;
  if (td_model_get_stats(model, &stats, &unused) != TD_OK) return;
  for (uint32_t i = 0; i < stats.steps && most; i++) {
    td_step step = {.size = sizeof step};
    if (td_session_get_step(session, i, &step, &unused) != TD_OK || !*step.kernel) continue;
    if ((kernel && strcmp(step.kernel, kernel) != 0) || (node && !stands_for(session, i, &step, node))) continue;
    cli_print_chain(arena, model, session, i);
    most--;
  }
}
