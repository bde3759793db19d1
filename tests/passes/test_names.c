/* test_names.c -- passes name attributes as texts, which a compiler does not look at: each that stands in their
 * sources is one that an operator has. */
#include "test.h"

#include <glob.h>
#include <stdio.h>

#include "base/base.h"
#include "ops/ops.h"

static const ir_opset *set;

static bool is_attribute(const char *name) {
  for (uint32_t i = 0; i < set->count; i++)
    for (uint32_t k = 0; k < set->ops[i]->attr_count; k++)
      if (strcmp(set->ops[i]->attrs[k].name, name) == 0) return true;
  return false;
}

/* The text in quotes that begins at `at`, which follows the opening one. */
static bool literal(const char *at, char *text, size_t size) {
  size_t n = strcspn(at, "\"\\\n");
  if (at[n] != '"' || n + 1 > size) return false;
  memcpy(text, at, n);
  text[n] = 0;
  return true;
}

/* Does what stands in front of the quote at `at` take the name of an attribute there? */
static bool wants_attribute(const char *start, const char *at) {
  static const char *const calls[] = {"passes_int(",  "passes_float(", "passes_str(", "passes_ints(",
                                      "passes_attr(", "passes_arg(",   "passes_has(", "ARG_"};
  const char *line = at;
  while (line > start && line[-1] != '\n') line--;
  for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
    const char *call = NULL;
    for (const char *c = strstr(line, calls[i]); c && c < at; c = strstr(c + 1, calls[i])) call = c;
    const char *open = call ? strchr(call, '(') : NULL;
    if (!open || open >= at) continue;
    bool first = strcmp(calls[i], "ARG_") == 0; /* of ARG_INT("name", ...) the name comes first */
    int depth = 0, commas = 0;
    for (const char *c = open; c < at; c++) {
      depth += (*c == '(') - (*c == ')');
      if (depth == 0) break; /* that call is over */
      commas += *c == ',' && depth == 1;
    }
    if (depth == 1 && (first ? commas == 0 : commas > 0)) return true;
  }
  return false;
}

static char *contents(const char *path) {
  FILE *file = fopen(path, "rb");
  assert_non_null(file);
  char *text = calloc(1, 1 << 20);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 20) - 1, file) > 0);
  fclose(file);
  return text;
}

static void every_attribute_exists(void **state) {
  (void)state;
  glob_t files;
  uint32_t attributes = 0, missing = 0;
  assert_int_equal(glob("src/passes/*.c", 0, NULL, &files), 0);
  for (size_t i = 0; i < files.gl_pathc; i++) {
    char *text = contents(files.gl_pathv[i]), name[128];
    for (const char *at = strchr(text, '"'); at; at = strchr(at + 1, '"')) {
      const char *begin = at;
      if (!literal(at + 1, name, sizeof name)) continue;
      at += strlen(name) + 1;
      if (!wants_attribute(text, begin)) continue;
      attributes++;
      if (is_attribute(name)) continue;
      print_error("%s: no operator has the attribute \"%s\"\n", files.gl_pathv[i], name);
      missing++;
    }
    free(text);
  }
  globfree(&files);
  assert_int_equal(missing, 0);
  assert_true(attributes > 50);
}

static void misspelt_names_are_found(void **state) {
  (void)state;
  static const char source[] =
      "  int64_t g = passes_int(node, \"gruops\");\n  args[0] = ARG_INT(\"dim\", 1);\n  name(\"x\");\n";
  const char *bad = strchr(source, '"'), *good = strstr(source, "\"dim\""), *none = strstr(source, "\"x\"");
  assert_true(wants_attribute(source, bad) && wants_attribute(source, good) && !wants_attribute(source, none));
  assert_true(!is_attribute("gruops") && is_attribute("dim"));
}

int main(void) {
  base_arena *arena = base_arena_new(&base_libc_allocator);
  set = ops_set(arena);
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_attribute_exists),
                                     cmocka_unit_test(misspelt_names_are_found)};
  int failed = set ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
  base_arena_free(arena);
  return failed;
}
