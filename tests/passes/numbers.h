/* numbers.h -- that a graph given as text gives the same numbers with and without passes and kernels. */
#ifndef TESTS_PASSES_NUMBERS_H
#define TESTS_PASSES_NUMBERS_H
#include "passes/change.h"

static inline uint32_t count_of(const char *text, const char *word) {
  uint32_t count = 0;
  for (const char *at = text; (at = strstr(at, word)); at++) count++;
  return count;
}

/* Each rung of the ladder against eager. `odd`: what is not finite stays where it is, too. `isa`: BASE_ISA_* that
 * kernels may use. */
static inline void expect_alike(const char *text, uint32_t isa, bool odd) {
  static const char *const rungs[] = {"aot_eager", "interp", "native"};
  rig plain, fast;
  rig_open(&plain, text, "eager");
  for (size_t i = 0; i < sizeof rungs / sizeof *rungs; i++) {
    rig_open_at(&fast, text, NULL, rungs[i], NULL, isa);
    if (!expect_same_rigs(&plain, &fast, text, odd)) fail_msg("%s: %s", plain.err.name, plain.err.text);
    rig_close(&fast);
  }
  rig_close(&plain);
}

static inline void expect_same_numbers_at(const char *text, uint32_t isa) { expect_alike(text, isa, true); }

/* On every level that this machine has. */
static inline void expect_same_numbers_on_levels(const char *text) {
  uint32_t levels;
  const kern_level *level = kern_levels(&levels);
  sys_machine machine;
  sys_machine_read(&machine);
  for (uint32_t l = 0; l < levels; l++)
    if (!base_isa_lacks(machine.isa, level[l].isa)) expect_same_numbers_at(text, level[l].isa | BASE_ISA_VECTOR);
}

static inline void expect_same_numbers(const char *text) {
  sys_machine machine;
  sys_machine_read(&machine);
  expect_same_numbers_at(text, machine.isa | BASE_ISA_VECTOR);
}

/* For what says otherwise where something is not finite. */
static inline void expect_same_finite_numbers(const char *text) {
  sys_machine machine;
  sys_machine_read(&machine);
  expect_alike(text, machine.isa | BASE_ISA_VECTOR, false);
}

#endif
