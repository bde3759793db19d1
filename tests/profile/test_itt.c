/* test_itt.c -- ranges, as collectors of both versions of the interface hear them. */
#include "test.h"

#include <stdio.h>
#include <unistd.h>

#include "profile/profile.h"
#include "profile/ranges.h"

typedef struct fixture {
  char log[64];
  char text[4096]; /* what was heard, without the threads' numbers */
} fixture;

static int fixture_open(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  snprintf(f->log, sizeof f->log, "/tmp/treadle-itt-XXXXXX");
  const int file = mkstemp(f->log);
  assert_true(file >= 0);
  close(file);
  assert_int_equal(setenv("COLLECTED", f->log, 1), 0);
  *state = f;
  return 0;
}

static int fixture_close(void **state) {
  fixture *f = *state;
  unlink(f->log);
  free(f);
  return 0;
}

static const char *heard(fixture *f) {
  char line[256];
  FILE *from = fopen(f->log, "r");
  assert_non_null(from);
  f->text[0] = 0;
  while (fgets(line, sizeof line, from)) strcat(f->text, strchr(line, ' ') + 1);
  fclose(from);
  return f->text;
}

/* The path of a library beside the test program. */
static const char *beside(const char *name, char *path, size_t room) {
  const ssize_t length = readlink("/proc/self/exe", path, room - 64);
  assert_true(length > 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, name);
  return path;
}

static prof_collector *open_collector(const char *name) {
  char path[4096];
  prof_collector *c;
  td_error err;
  if (prof_collector_open(&base_libc_allocator, beside(name, path, sizeof path), &c, &err) != TD_OK)
    fail_msg("%s", err.text);
  return c;
}

static void ranges_nest(void **state) {
  fixture *f = *state;
  prof_collector *c = open_collector("itt_collector.so");
  prof_range_push(c, "outer");
  prof_range_push(c, "inner");
  prof_range_pop(c);
  prof_mark(c, "now");
  prof_range_pop(c);
  prof_pause(c);
  prof_resume(c);
  prof_collector_close(c);
  assert_string_equal(
      heard(f), "domain Treadle\nbegin outer\nbegin inner\nend \nbegin now\nend \nend \npause \nresume \nfini \n");
}

static void old_collectors_too(void **state) {
  fixture *f = *state;
  prof_collector *c = open_collector("itt_collector_old.so");
  prof_range_push(c, "one");
  prof_range_pop(c);
  prof_collector_close(c);
  assert_string_equal(heard(f), "domain Treadle\nbegin one\nend \n");
}

static void nobody_listens(void **state) {
  (void)state;
  prof_range_push(NULL, "one");
  prof_mark(NULL, "two");
  prof_range_pop(NULL);
  prof_collector_close(NULL);
}

/* Each part of a step is a range, and who observed before goes on. */
static void steps_are_ranges(void **state) {
  fixture *f = *state;
  static const char *const names[] = {"aten::add", "aten::mul [[1]]"};
  prof_collector *c = open_collector("itt_collector.so");
  const prof_options options = {.steps = 2, .threads = 1, .records = 4};
  prof_recorder *r = prof_recorder_new(&base_libc_allocator, &options);
  const td_observer inner = prof_observer(r);
  td_observer o;
  assert_int_equal(prof_watch(c, names, 2, &inner, &o, NULL), TD_OK);
  for (uint32_t i = 0; i < 3; i++) { /* step 2 is none of the plan's */
    o.begin(o.user, i);
    o.enter(o.user, 0, i);
    o.part(o.user, 0, i, 10 * i, 10 * i + 5);
    o.end(o.user, i, 5);
  }
  o.run(o.user, 0, 40);
  prof_collector_close(c);
  assert_string_equal(heard(f), "domain Treadle\nbegin aten::add\nend \nbegin aten::mul [[1]]\nend \nfini \n");
  const prof_source source = {.recorder = r, .steps = (td_step[2]){{0}, {0}}, .model = "m", .machine = ""};
  assert_int_equal(prof_totals(&source).runs, 1);
  assert_int_equal(prof_totals(&source).records, 2);
  prof_recorder_free(r);
}

static void others_are_refused(void **state) {
  (void)state;
  td_error err;
  prof_collector *c;
  assert_int_equal(prof_collector_open(&base_libc_allocator, "/nowhere/lib.so", &c, &err), TD_NO_RESOURCE);
  assert_string_equal(err.name, "/nowhere/lib.so");
  assert_int_equal(prof_collector_open(&base_libc_allocator, "libm.so.6", &c, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "no collector"));
}

static void memory_may_fail(void **state) {
  (void)state;
  char path[4096];
  for (uint64_t fail_at = 1;; fail_at++) {
    assert_true(fail_at < 10);
    base_counting counting = {.inner = &base_libc_allocator, .fail_at = fail_at};
    const td_allocator allocator = base_counting_allocator(&counting);
    prof_collector *c = NULL;
    td_observer o;
    td_error err;
    td_status status = prof_collector_open(&allocator, beside("itt_collector.so", path, sizeof path), &c, &err);
    if (status == TD_OK) status = prof_watch(c, &(const char *const){"x"}, 1, &(td_observer){0}, &o, &err);
    prof_collector_close(c);
    assert_int_equal(counting.live, 0);
    if (status == TD_OK) break;
    assert_int_equal(status, TD_NO_RESOURCE);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(ranges_nest, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(old_collectors_too, fixture_open, fixture_close),
      cmocka_unit_test(nobody_listens),
      cmocka_unit_test_setup_teardown(steps_are_ranges, fixture_open, fixture_close),
      cmocka_unit_test(others_are_refused),
      cmocka_unit_test_setup_teardown(memory_may_fail, fixture_open, fixture_close),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
