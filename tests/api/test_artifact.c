/* test_artifact.c -- models saved and loaded again through the public interface: equal bits, mapped weights. */
#include <glob.h>

#include "api/artifact.h"

static void models_of_tests(void **state) {
  const folder *f = *state;
  static const char *const patterns[] = {"tests/models/operators/*/model.onnx"};
  size_t seen = 0, answered = 0;
  for (size_t k = 0; k < sizeof patterns / sizeof *patterns; k++) {
    glob_t found;
    if (glob(patterns[k], 0, NULL, &found) != 0) continue;
    const size_t step = found.gl_pathc / 40 + 1; /* some of them; loops might not end on such inputs */
    for (size_t i = 0; i < found.gl_pathc; i += step, seen++) answered += round_trip(found.gl_pathv[i], f->file) != 0;
    globfree(&found);
  }
  if (answered < 8) fail_msg("of %zu models %zu ran", seen, answered);
}

static void layers(void **state) {
  const folder *f = *state;
  static const char *const names[] = {"builtin:layer:linear 8x64 out=48",
                                      "builtin:layer:conv 1x16x14x14 out=32 kernel=3",
                                      "builtin:layer:conv 1x32x14x14 out=64 kernel=1"};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_int_not_equal(round_trip(names[i], f->file), 0);
}

/* Weights are pages of the file: none of the process's own, and the same for all that map it. */
static void weights_stay_in_the_file(void **state) {
  const folder *f = *state;
  td_model *model = load("builtin:layer:linear 8x1024 out=1024", NULL);
  assert_int_equal(td_model_save((const td_model *const *)&model, 1, f->file, &err), TD_OK);
  td_model_free(model);
  model = load(f->file, NULL);
  assert_int_not_equal(answer_of(model), 0);
  FILE *maps = fopen("/proc/self/smaps", "r");
  if (!maps) skip();
  char line[512];
  long anonymous = -1, resident = 0, number;
  unsigned long from, to;
  bool ours = false;
  while (fgets(line, sizeof line, maps)) {
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) ours = strstr(line, f->file) != NULL;
    if (ours && sscanf(line, "Anonymous: %ld kB", &number) == 1) anonymous = number;
    if (ours && sscanf(line, "Rss: %ld kB", &number) == 1) resident = number;
  }
  fclose(maps);
  assert_int_equal(anonymous, 0);
  assert_true(resident >= 4096);
  td_model_free(model);
}

/* ---- machine code ---- */

static const char *compiler(void) {
  static const char *const paths[] = {"/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang"};
  for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
    if (access(paths[i], X_OK) == 0) return paths[i];
  return NULL;
}

static const char *const all_levels[] = {"scalar", "vector", "avx2", "avx512"};
enum { LEVELS = sizeof all_levels / sizeof *all_levels };

/* A model of fused loops for each level, this CPU's or not, in one file; its cache goes with it. */
static void save_with_code(const folder *f, td_model **models) {
  char cache[96], command[128];
  snprintf(cache, sizeof cache, "%s/cache", f->path);
  for (size_t i = 0; i < LEVELS; i++) {
    const td_load_options options = {
        .size = sizeof options, .isa = all_levels[i], .cc = compiler(), .cache = cache, .strict = 1, .for_file = 1};
    if (td_model_load("builtin:fused_chain", &options, &models[i], &err) != TD_OK) fail_msg("%s", err.text);
  }
  assert_int_equal(td_model_save((const td_model *const *)models, LEVELS, f->file, &err), TD_OK);
  snprintf(command, sizeof command, "rm -rf %s", cache);
  assert_int_equal(system(command), 0);
}

/* Is some step machine code that was generated? */
static bool has_code(const td_model *model) {
  td_code code = {.size = sizeof code};
  td_model_stats stats = {.size = sizeof stats};
  assert_int_equal(td_model_get_stats(model, &stats, &err), TD_OK);
  for (uint32_t i = 0; i < stats.steps; i++)
    if (td_model_code(model, i, &code, &err) == TD_OK) return true;
  return false;
}

/* What a file for many levels gives on each that the CPU has, with its code and without. */
static void code_in_the_file(void **state) {
  const folder *f = *state;
  td_model *models[LEVELS], *plain, *trusted;
  if (!compiler()) skip();
  save_with_code(f, models);
  for (size_t i = 0; i < LEVELS; i++) {
    const td_load_options without = {.size = sizeof without, .isa = all_levels[i]};
    const td_load_options with = {.size = sizeof with, .isa = all_levels[i], .trusted = 1, .strict = 1};
    td_session *session = NULL;
    if (td_model_load(f->file, &without, &plain, &err) != TD_OK) { /* another CPU's: refused, and so is a session */
      assert_non_null(strstr(err.text, all_levels[i]));
      assert_int_equal(td_session_new(models[i], NULL, &session, &err), TD_UNSUPPORTED);
      continue;
    }
    if (td_model_load(f->file, &with, &trusted, &err) != TD_OK) fail_msg("%s", err.text);
    assert_false(has_code(plain));
    assert_true(has_code(trusted));
    const uint64_t answer = answer_of(models[i]);
    assert_int_not_equal(answer, 0);
    assert_int_equal(answer_of(plain), answer);
    assert_int_equal(answer_of(trusted), answer);
    td_model_free(plain);
    td_model_free(trusted);
  }
  for (size_t i = 0; i < LEVELS; i++) td_model_free(models[i]);
}

/* Machine code of several files in one process: to each its own. */
static void code_of_many_files(void **state) {
  const folder *f = *state;
  static const char *const ops[] = {"sin", "exp", "tanh"};
  enum { FILES = sizeof ops / sizeof *ops };
  td_model *made, *opened[FILES];
  uint64_t answers[FILES];
  char cache[96], command[128], text[256];
  if (!compiler()) skip();
  snprintf(cache, sizeof cache, "%s/cache", f->path);
  const td_load_options options = {
      .size = sizeof options, .cc = compiler(), .cache = cache, .strict = 1, .for_file = 1, .trusted = 1};
  for (size_t i = 0; i < FILES; i++) {
    const int length = snprintf(text, sizeof text,
                                "tdir 1\ninput %%0 \"x\": f32[5, 7]\n%%1 = aten::%s(%%0)\n"
                                "%%2 = aten::mul(%%1, %%0)\noutput \"y\" %%2\n",
                                ops[i]);
    if (td_model_load_memory(text, (size_t)length, &options, &made, &err) != TD_OK) fail_msg("%s", err.text);
    answers[i] = answer_of(made);
    assert_int_equal(td_model_save((const td_model *const *)&made, 1, f->file, &err), TD_OK);
    td_model_free(made);
    if (td_model_load(f->file, &options, &opened[i], &err) != TD_OK) fail_msg("%s: %s", err.name, err.text);
    assert_int_equal(unlink(f->file), 0);
  }
  for (size_t i = 0; i < FILES; i++) {
    assert_true(has_code(opened[i]));
    assert_int_equal(answer_of(opened[i]), answers[i]);
    td_model_free(opened[i]);
  }
  snprintf(command, sizeof command, "rm -rf %s", cache);
  assert_int_equal(system(command), 0);
}

/* What was loaded with its code is saved with it. */
static void code_is_saved_again(void **state) {
  const folder *f = *state;
  const td_load_options options = {.size = sizeof options, .trusted = 1, .strict = 1};
  td_model *models[LEVELS], *first, *second;
  if (!compiler()) skip();
  save_with_code(f, models);
  for (size_t i = 0; i < LEVELS; i++) td_model_free(models[i]);
  assert_int_equal(td_model_load(f->file, &options, &first, &err), TD_OK);
  assert_int_equal(td_model_save((const td_model *const *)&first, 1, f->file, &err), TD_OK);
  assert_int_equal(td_model_load(f->file, &options, &second, &err), TD_OK);
  assert_true(has_code(second));
  assert_int_equal(answer_of(second), answer_of(first));
  td_model_free(first);
  td_model_free(second);
}

/* Bits of the file change one after the other: whoever trusts it is told of the damage, too. */
static void damaged_code(void **state) {
  const folder *f = *state;
  td_model *models[LEVELS], *model;
  if (!compiler()) skip();
  save_with_code(f, models);
  for (size_t i = 0; i < LEVELS; i++) td_model_free(models[i]);
  FILE *file = fopen(f->file, "r+b");
  size_t found = 0;
  char window[4];
  for (long at = 0; found < LEVELS && fseek(file, at, SEEK_SET) == 0 && fread(window, 1, 4, file) == 4; at += 8) {
    if (memcmp(window, "\177ELF", 4) != 0) continue;
    found++;
    for (size_t trusted = 0; trusted < 2; trusted++) {
      const td_load_options options = {.size = sizeof options, .trusted = (int32_t)trusted};
      fseek(file, at + 700, SEEK_SET);
      const int byte = fgetc(file);
      fseek(file, at + 700, SEEK_SET);
      fputc(byte ^ 4, file);
      fflush(file);
      /* Another variant's code is not read at all. */
      const td_status status = td_model_load(f->file, &options, &model, &err);
      if (status == TD_OK) td_model_free(model);
      else assert_int_equal(status, TD_BAD_FILE);
      fseek(file, at + 700, SEEK_SET);
      fputc(byte, file);
      fflush(file);
    }
  }
  fclose(file);
  assert_int_equal(found, LEVELS);
  assert_int_equal(td_model_load(f->file, NULL, &model, &err), TD_OK);
  td_model_free(model);
}

/* ---- two processes ---- */

/* KiB of this process's pages of `file`: its own, and those that others have too. */
static void pages_of(const char *file, long *own, long *shared) {
  char line[512];
  long number;
  bool ours = false;
  FILE *maps = fopen("/proc/self/smaps", "r");
  *own = *shared = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    if (strchr(line, '-') && strchr(line, ' ') && !strstr(line, "kB")) ours = strstr(line, file) != NULL;
    if (ours && sscanf(line, "Private_%*[^:]: %ld kB", &number) == 1) *own += number;
    if (ours && sscanf(line, "Shared_%*[^:]: %ld kB", &number) == 1) *shared += number; /* dirty: not on the disk yet */
  }
  if (maps) fclose(maps);
}

/* Loads and runs the file, says so, and keeps it until it is told to go. */
static void use_in_child(const char *file, int says, int hears) {
  td_model *model = NULL;
  char byte = 0;
  const td_status status = td_model_load(file, NULL, &model, &err);
  if (status == TD_OK && answer_of(model)) byte = 1;
  if (write(says, &byte, 1) != 1 || read(hears, &byte, 1) < 0) _exit(1);
  _exit(0);
}

static void weights_are_shared(void **state) {
  const folder *f = *state;
  td_model *model = load("builtin:layer:linear 8x1024 out=1024", NULL);
  int up[2], down[2];
  char byte = 0;
  long own, shared;
  assert_int_equal(td_model_save((const td_model *const *)&model, 1, f->file, &err), TD_OK);
  td_model_free(model);
  assert_int_equal(pipe(up), 0);
  assert_int_equal(pipe(down), 0);
  const pid_t child = fork();
  if (child == 0) use_in_child(f->file, up[1], down[0]);
  assert_int_equal(read(up[0], &byte, 1), 1);
  assert_int_equal(byte, 1);
  model = load(f->file, NULL);
  assert_int_not_equal(answer_of(model), 0);
  pages_of(f->file, &own, &shared);
  td_model_free(model);
  assert_int_equal(write(down[1], &byte, 1), 1);
  waitpid(child, NULL, 0);
  for (size_t i = 0; i < 2; i++) close(up[i]), close(down[i]);
  if (own + shared == 0) skip(); /* no smaps here */
  if (shared < 4096 || own > 256) fail_msg("%ld KiB are shared, %ld are not", shared, own);
}

static void refusals(void **state) {
  const folder *f = *state;
  td_model *models[] = {load("builtin:layer:linear 8x64 out=48", NULL), NULL}, *none;
  char *text;
  assert_int_equal(td_model_save((const td_model *const *)models, 2, f->file, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_save(NULL, 1, f->file, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_save((const td_model *const *)models, 1, NULL, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_save((const td_model *const *)models, 1, "/no/such/folder/net.tdl", &err), TD_NO_RESOURCE);
  assert_int_equal(td_model_save((const td_model *const *)models, 1, f->file, &err), TD_OK);
  const td_load_options taps = {.size = sizeof taps, .taps = "*"}, math = {.size = sizeof math, .math = "exact"},
                        eager = {.size = sizeof eager, .backend = "eager"},
                        passes = {.size = sizeof passes, .disabled_passes = "fold"},
                        scalar = {.size = sizeof scalar, .isa = "scalar"};
  assert_int_equal(td_model_load(f->file, &taps, &none, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load(f->file, &math, &none, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load(f->file, &passes, &none, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "when you compile it"));
  assert_int_equal(td_model_load(f->file, &eager, &none, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load(f->file, &scalar, &none, &err), TD_UNSUPPORTED);
  assert_non_null(strstr(err.text, "--isa"));
  td_model *saved = load(f->file, NULL);
  assert_int_equal(td_model_print(saved, "passes", "text", &text, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_print(saved, "plan", "text", &text, &err), TD_OK);
  td_text_free(saved, text);
  td_model_free(saved);
  td_model_free(models[0]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(models_of_tests, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(layers, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(weights_stay_in_the_file, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(weights_are_shared, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(code_in_the_file, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(code_of_many_files, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(code_is_saved_again, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(damaged_code, open_folder, close_folder),
      cmocka_unit_test_setup_teardown(refusals, open_folder, close_folder),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
