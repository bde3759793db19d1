/* int8_ops.h -- which operators the pass int8 leaves of a graph given as text. */
#ifndef TESTS_PASSES_INT8_OPS_H
#define TESTS_PASSES_INT8_OPS_H
#include "passes/numbers.h"

/* Behind the pass, and the one that removes what nobody uses, each operator is there so many times. */
static inline void expect_ops(const char *text, const char *const *ops, const uint32_t *times, size_t count) {
  static const char *const passes[] = {"int8", "dead"};
  const passes_setting setting = {.isa = level_of("avx2")};
  base_arena *arena = base_arena_new(&base_libc_allocator);
  ir_graph *graph = parse_graph(arena, text, &base_libc_allocator);
  td_error err;
  uint32_t changes = 0;
  for (int i = 0; i < 2; i++) assert_int_equal(find_pass(passes[i])->run(graph, &setting, &changes, &err), TD_OK);
  for (size_t i = 0; i < count; i++) {
    uint32_t found = 0;
    for (uint32_t n = 1; n < graph->nodes.count; n++)
      found += graph->nodes.at[n].op && strcmp(graph->nodes.at[n].op->name, ops[i]) == 0;
    if (found != times[i]) fail_msg("%u of %s, not %u", found, ops[i], times[i]);
  }
  ir_graph_free(graph);
  base_arena_free(arena);
}

#define EXPECT_OPS(text, ...)                                                                              \
  do {                                                                                                     \
    static const struct {                                                                                  \
      const char *op;                                                                                      \
      uint32_t times;                                                                                      \
    } rows[] = {__VA_ARGS__};                                                                              \
    const char *ops[8];                                                                                    \
    uint32_t times[8];                                                                                     \
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) ops[i] = rows[i].op, times[i] = rows[i].times; \
    expect_ops(text, ops, times, sizeof rows / sizeof *rows);                                              \
  } while (0)
#endif
