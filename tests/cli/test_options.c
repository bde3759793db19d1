/* Each text, flag and number of treadle/options.def is an option of `treadle run` or `compile`, or is known not to be
 * one.
 */
#include "cli/fixture.h"
#include "compile/compile.h"

/* What is called otherwise, and "" what the command sets itself or has no use for. */
static const char *const others[][2] = {{"disabled_passes", "disable-passes"},
                                        {"disabled_kernels", "disable-kernels"}, /* of compare, bisect, minify */
                                        {"format", ""},                          /* found from the bytes */
                                        {"tuning", "tuned"},
                                        {"taps", ""},          /* of compare */
                                        {"tapped_inputs", ""}, /* of compare */
                                        {"float64", ""},       /* of compare */
                                        {"cache", ""},         /* TREADLE_CACHE */
                                        {"edited", ""},        /* of replay */
                                        {"for_file", ""},      /* of compile */
                                        {"alone", "tune"}};

/* As the command calls it; "": not at all. */
static const char *option_of(fixture *f, const char *field) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (strcmp(others[i][0], field) == 0) return others[i][1];
  char *name = base_arena_text(f->arena, field);
  for (char *at = name; *at; at++)
    if (*at == '_') *at = '-';
  return name;
}

static void options_come_from_the_list(void **state) {
  static const char *const fields[] = {
#define TEXT(field) #field,
#define FLAG TEXT
#define NUMBER TEXT
#define VALUE(field)
#define OTHER(field)
#include <treadle/options.def>
  };
  fixture *f = *state;
  const char *all = run(f, "help --bash-completion").out;
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    const char *option = option_of(f, fields[i]);
    if (*option) assert_holds(all, base_arena_format(f->arena, "--%s", option));
  }
}

/* --backend has those of the library, in its order. */
static void backends_are_the_librarys(void **state) {
  fixture *f = *state;
  uint32_t count;
  const compile_backend *backends = compile_backends(&count);
  base_text list = {.allocator = &base_libc_allocator};
  for (uint32_t i = 0; i < count; i++) base_text_print(&list, "%s%s", i ? " " : "", backends[i].name);
  assert_holds(run(f, "help --bash-completion").out,
               base_arena_format(f->arena, "run:--backend) COMPREPLY=($(compgen -W '%s' ", list.at));
  base_text_free(&list);
}

/* A compiler that is too slow is given up. */
static void the_compilers_time_ends(void **state) {
  fixture *f = *state;
  save_text("chain.tdir",
            "tdir 1\ninput %0 \"x\": f32[64, 48]\n%1 = aten::tanh(%0)\n%2 = aten::exp(%1)\noutput \"y\" %2\n");
  save_text("slow", "#!/bin/sh\nexec sleep 30\n");
  assert_int_equal(chmod("slow", 0755), 0);
  const outcome got = run(f, "run chain.tdir --strict --cc ./slow --cc-limit-ms 100");
  assert_int_not_equal(got.status, 0);
  assert_holds(got.err, "compiler");
  assert_int_equal(run(f, "run chain.tdir --cc-limit-ms 0").status, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(options_come_from_the_list, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(backends_are_the_librarys, fixture_open, fixture_close),
      cmocka_unit_test_setup_teardown(the_compilers_time_ends, fixture_open, fixture_close)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
