/* passes.c -- the order of the passes, and which of them a caller leaves out. */
#include "passes/passes_priv.h"
#include "base/size.h"

#include <stdio.h>
#include <string.h>

static const passes_row rows[] = {
#define PASS(name, purpose, when) {#name, purpose, PASSES_##when, passes_##name},
#include "passes/passes.def"
#undef PASS
};
enum { ROWS = sizeof rows / sizeof *rows };
_Static_assert((int)ROWS <= (int)PASSES_MAX, "callers have room for PASSES_MAX counts");

const passes_row *passes_list(uint32_t *count) {
  *count = ROWS;
  return rows;
}

static td_status unknown_pass(base_str name, td_error *err) {
  char names[sizeof err->text - 128] = "";
  for (uint32_t i = 0; i < ROWS; i++) {
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%s", i ? ", " : "", rows[i].name);
  }
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no pass called '%.*s'; there are: %s",
                   (int)base_min_i64((int64_t)name.length, 64), name.at, names);
}

static td_status check_names(const char *list, td_error *err) {
  for (const char *at = list; at && *at;) {
    size_t word = strcspn(at, ",");
    bool known = false;
    for (uint32_t i = 0; i < ROWS; i++) known |= strlen(rows[i].name) == word && memcmp(rows[i].name, at, word) == 0;
    if (!known) return unknown_pass((base_str){at, word}, err);
    at += word + (at[word] == ',');
  }
  return TD_OK;
}

/* Every node of the list is there. */
static td_status check_nodes(const ir_graph *graph, const char *list, td_error *err) {
  for (const char *at = list; at && *at;) {
    const base_str word = {at, strcspn(at, ",")};
    bool found = false;
    for (uint32_t i = 1; i < graph->nodes.count && !found; i++)
      found = graph->nodes.at[i].op && ir_origins_have(&graph->nodes.at[i].origins, word);
    if (!found)
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                       "no node is called '%.*s', which is to stay f32; `treadle inspect --stage imported` shows the "
                       "nodes",
                       (int)base_min_i64((int64_t)word.length, 200), word.at);
    at += word.length + (at[word.length] == ',');
  }
  return TD_OK;
}

#ifdef PASSES_VERIFY /* debug builds */
enum { VERIFY = 1 };
#else
enum { VERIFY = 0 };
#endif

bool passes_runs(const passes_row *row, const passes_setting *setting) {
  const bool wanted[] = {[PASSES_ALWAYS] = true, [PASSES_KERNELS] = setting->kernels, [PASSES_LOOPS] = setting->loops};
  return wanted[row->when];
}

td_status passes_run(ir_graph *graph, const passes_setting *setting, uint32_t *changes, td_error *err) {
  TRY(check_names(setting->disabled, err));
  TRY(check_nodes(graph, setting->keep_f32, err));
  bool injected = !setting->inject;
  for (uint32_t i = 0; i < ROWS; i++) {
    changes[i] = 0;
    if (rows[i].when == PASSES_LOOPS && !injected) {
      TRY(setting->inject(setting->fault, graph, err));
      injected = true;
    }
    if (base_str_listed(setting->disabled, rows[i].name) || !passes_runs(&rows[i], setting)) continue;
    const uint32_t first = graph->nodes.count;
    TRY(rows[i].run(graph, setting, &changes[i], err));
    if (changes[i] && setting->spoil) TRY(setting->spoil(setting->fault, rows[i].name, graph, first, err));
    if (changes[i] && setting->seen) TRY(setting->seen(setting->seen_user, rows[i].name, graph, err));
    if (VERIFY && changes[i]) TRY(base_error_name(err, ir_verify(graph, err), "after pass %s", rows[i].name));
  }
  return TD_OK;
}
