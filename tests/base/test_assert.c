/* test_assert.c -- assertions end a process of a Debug build, and cost a Release build nothing, not even evaluation. */
#include "test.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"

#ifdef TREADLE_ASSERT
enum { ACTIVE = 1 };
#else
enum { ACTIVE = 0 };
#endif

/* Does `defect` end the process? */
static bool ends(void (*defect)(void)) {
  const pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    close(STDERR_FILENO);
    signal(SIGABRT, SIG_DFL);
    defect();
    _exit(0);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void read_other_kind(void) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  const base_arg args[] = {ARG_INT("axis", 3)};
  const base_attrs *attrs = base_attrs_make(arena, args, 1);
  if (base_attr_float(attrs, 0) != 0) _exit(1); /* where it goes on, it gives 0 */
  base_arena_free(arena);
}

static void align_to_three(void) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  (void)base_arena_alloc_aligned(arena, 8, 3);
  base_arena_free(arena);
}

static void hold(void) { BASE_ASSERT(2 + 2 == 4); }

static void defects_end_debug_builds(void **state) {
  (void)state;
  assert_int_equal(ends(read_other_kind), ACTIVE);
  assert_int_equal(ends(align_to_three), ACTIVE);
  assert_false(ends(hold));
}

static void release_builds_evaluate_nothing(void **state) {
  (void)state;
  int evaluated = 0;
  BASE_ASSERT(++evaluated == 1);
  assert_int_equal(evaluated, ACTIVE);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(defects_end_debug_builds),
      cmocka_unit_test(release_builds_evaluate_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
