/* change.h -- a pass by the text before and after it. */
#ifndef TESTS_PASSES_CHANGE_H
#define TESTS_PASSES_CHANGE_H
#include "kernels/kernels.h"
#include "passes/nonfinite.h"
#include "passes/passes.h"
#include "sys/sys.h"

static inline const passes_row *find_pass(const char *name) {
  uint32_t count;
  const passes_row *rows = passes_list(&count);
  for (uint32_t i = 0; i < count; i++)
    if (strcmp(rows[i].name, name) == 0) return &rows[i];
  fail_msg("there is no pass %s", name);
  return NULL;
}

/* What passes are told of a level: they run no kernel, so any machine can be asked what they make of a graph for it. */
static inline uint32_t level_of(const char *name) {
  bool known;
  const uint32_t isa = kern_level_mask(name, UINT32_MAX, &known);
  assert_true(known);
  return isa;
}

/* For passes that fill panels, with instructions of the level. */
static inline bool machine_has(const char *name) {
  sys_machine machine;
  bool known;
  sys_cpu_read(&machine);
  (void)kern_level_mask(name, machine.isa, &known);
  return known;
}

/* By plain loops the pass has changed no number, and what is not finite stays where it is: held where the graph says
 * what it takes. Weights that a pass has packed for a level have that level's loops. */
static inline void expect_same_meaning(const char *before, const char *after) {
  rig plain, changed;
  rig_open(&plain, before, "eager");
  rig_open(&changed, after, "eager");
  expect_same_rigs(&plain, &changed, before, true);
  rig_close(&plain);
  rig_close(&changed);
}

/* Are there kernels for products of pairs? Builds for checks have them on any level. */
static inline bool has_pairs(const char *level) { return kern_select(KERN_CONV, TD_BF16, level_of(level)) != NULL; }

/* The pass turns `before` into exactly `after`, in `expected` changes; done again it changes nothing. */
static inline void expect_change_of_text(const passes_setting *setting, const char *name, const char *before,
                                         const char *after, uint32_t expected) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, before, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  if (find_pass(name)->run(graph, setting, &changes, &err) != TD_OK || ir_verify(graph, &err) != TD_OK)
    fail_msg("%s", err.text);
  assert_int_equal(changes, expected);
  for (int again = 0; again < 2; again++) {
    base_text text = {.allocator = &base_libc_allocator};
    assert_int_equal(ir_print(graph, &text), TD_OK);
    if (strcmp(text.at, after) != 0) { /* cmocka would cut it off */
      fprintf(stderr, "%s gives:\n%s---\nnot:\n%s---\n", name, text.at, after);
      fail_msg("another graph came out");
    }
    base_text_free(&text);
    changes = 0;
    assert_int_equal(find_pass(name)->run(graph, setting, &changes, &err), TD_OK);
    assert_int_equal(changes, 0);
  }
  ir_graph_free(graph);
  base_arena_free(arena);
}

/* The same, and both mean the same. */
static inline void expect_change_with(const passes_setting *setting, const char *name, const char *before,
                                      const char *after, uint32_t expected) {
  expect_change_of_text(setting, name, before, after, expected);
  if (expected) expect_same_meaning(before, after);
}

/* For kernels of the level `isa`. */
static inline void expect_change_at(uint32_t isa, const char *name, const char *before, const char *after,
                                    uint32_t expected) {
  expect_change_with(&(passes_setting){.isa = isa}, name, before, after, expected);
}

/* For the kernels that any machine has. */
static inline void expect_change(const char *name, const char *before, const char *after, uint32_t expected) {
  expect_change_at(0, name, before, after, expected);
}

static inline void expect_same(const char *name, const char *text) { expect_change(name, text, text, 0); }
#endif
