/* Mapping files: bytes arrive, odd things are refused, and a location from a stranger never leaves the folder. */
#include "test.h"

#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/sys.h"

static char folder[64];

static void path_of(const char *name, char *path, size_t size) { snprintf(path, size, "%s/%s", folder, name); }

static void write_file(const char *name, const char *text) {
  char path[256];
  path_of(name, path, sizeof path);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
}

static void make_folder(const char *name) {
  char path[256];
  path_of(name, path, sizeof path);
  assert_int_equal(mkdir(path, 0700), 0);
}

static void make_link(const char *target, const char *name) {
  char path[256];
  path_of(name, path, sizeof path);
  assert_int_equal(symlink(target, path), 0);
}

/* folder/: secret, pipe, model/{w.bin, empty, sub/deep.bin, out -> ../secret, in -> w.bin, up -> .., pipe} */
static int make_tree(void **state) {
  (void)state;
  snprintf(folder, sizeof folder, "%s", "/tmp/treadle-map-XXXXXX");
  if (!mkdtemp(folder)) return 1;
  write_file("secret", "secret");
  make_folder("model");
  make_folder("model/sub");
  write_file("model/w.bin", "weights");
  write_file("model/empty", "");
  write_file("model/sub/deep.bin", "deep");
  write_file("model/..odd", "odd");
  make_link("../secret", "model/out");
  make_link("w.bin", "model/in");
  make_link("..", "model/up");
  make_link("sub", "model/inner");
  make_link("model", "linked");
  char path[256];
  path_of("model/pipe", path, sizeof path);
  return mkfifo(path, 0600);
}

static int remove_tree(void **state) {
  (void)state;
  char command[128];
  snprintf(command, sizeof command, "rm -r %s", folder);
  return system(command);
}

static void a_file_is_mapped(void **state) {
  (void)state;
  char path[256];
  sys_mapping mapping;
  td_error err;
  path_of("model/w.bin", path, sizeof path);
  assert_int_equal(sys_file_map(path, &mapping, &err), TD_OK);
  assert_int_equal(mapping.size, 7);
  assert_memory_equal(mapping.bytes, "weights", 7);
  sys_unmap(&mapping);
  assert_null(mapping.bytes);
  sys_unmap(&mapping);
}

static void an_empty_file_has_no_bytes(void **state) {
  (void)state;
  char path[256];
  sys_mapping mapping;
  path_of("model/empty", path, sizeof path);
  assert_int_equal(sys_file_map(path, &mapping, NULL), TD_OK);
  assert_int_equal(mapping.size, 0);
  assert_non_null(mapping.bytes);
  sys_unmap(&mapping);
}

static void odd_files_are_refused(void **state) {
  (void)state;
  const struct {
    const char *name, *reason;
  } cases[] = {{"missing", "No such file"}, {"model", "is a folder"}, {"model/pipe", "not a regular file"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[256];
    sys_mapping mapping;
    td_error err = {0};
    path_of(cases[i].name, path, sizeof path);
    assert_int_equal(sys_file_map(path, &mapping, &err), TD_BAD_FILE);
    assert_string_equal(err.name, path);
    assert_non_null(strstr(err.text, cases[i].reason));
    assert_null(mapping.bytes);
  }
}

static void locations_inside_the_folder_open(void **state) {
  (void)state;
  const struct {
    const char *folder, *location, *text;
  } cases[] = {{"model", "w.bin", "weights"},
               {"model", "sub/deep.bin", "deep"},
               {"linked", "w.bin", "weights"}, /* the folder is the user's own choice */
               {"model/", "..odd", "odd"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[256];
    sys_mapping mapping;
    path_of(cases[i].folder, path, sizeof path);
    assert_int_equal(sys_map_beneath(path, cases[i].location, &mapping, NULL), TD_OK);
    assert_int_equal(mapping.size, strlen(cases[i].text));
    assert_memory_equal(mapping.bytes, cases[i].text, mapping.size);
    sys_unmap(&mapping);
  }
}

static void locations_that_leave_are_refused(void **state) {
  (void)state;
  static const char *const cases[] = {"",
                                      "/etc/passwd",
                                      "../secret",
                                      "sub/../../secret",
                                      "sub/../w.bin",
                                      "./w.bin",
                                      "sub//deep.bin",
                                      "sub/",
                                      "..",
                                      ".",
                                      "sub\\deep.bin",
                                      "out",
                                      "in",
                                      "up/secret",
                                      "up/model/w.bin",
                                      "inner/deep.bin",
                                      "pipe",
                                      "sub",
                                      "missing",
                                      "w.bin/x"};
  char path[256], absolute[512], longest[400];
  td_error err;
  sys_mapping mapping;
  path_of("model", path, sizeof path);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    err = (td_error){0};
    assert_int_equal(sys_map_beneath(path, cases[i], &mapping, &err), TD_BAD_FILE);
    assert_null(mapping.bytes);
    assert_true(err.text[0] != 0);
    if (*cases[i]) assert_string_equal(err.name, cases[i]);
  }
  snprintf(absolute, sizeof absolute, "%s/w.bin", path);
  assert_int_equal(sys_map_beneath(path, absolute, &mapping, NULL), TD_BAD_FILE);
  memset(longest, 'a', sizeof longest);
  longest[sizeof longest - 1] = 0;
  assert_int_equal(sys_map_beneath(path, longest, &mapping, NULL), TD_BAD_FILE);
  path_of("nowhere", path, sizeof path);
  assert_int_equal(sys_map_beneath(path, "w.bin", &mapping, &err), TD_BAD_FILE);
  assert_string_equal(err.name, path);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_file_is_mapped),
      cmocka_unit_test(an_empty_file_has_no_bytes),
      cmocka_unit_test(odd_files_are_refused),
      cmocka_unit_test(locations_inside_the_folder_open),
      cmocka_unit_test(locations_that_leave_are_refused),
  };
  return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
