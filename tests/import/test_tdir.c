/* test_tdir.c -- graphs as files: what is saved loads again, to the same text and the same plan; what is wrong is
 * refused where it stands. */
#include "test.h"

#include <dirent.h>
#include <stdio.h>
#include <unistd.h>

#include "base/base.h"

typedef struct sink {
  base_text text, weights;
} sink;

static td_status take_text(void *user, const char *bytes, size_t count) {
  base_text_add(&((sink *)user)->text, bytes, count);
  return TD_OK;
}

static td_status take_weights(void *user, const char *bytes, size_t count) {
  base_text_add(&((sink *)user)->weights, bytes, count);
  return TD_OK;
}

static void save(const td_model *model, td_cut *cut, sink *to) {
  td_error err;
  *to = (sink){{.allocator = &base_libc_allocator}, {.allocator = &base_libc_allocator}};
  if (td_model_save_graph(model, "imported", cut, "w", take_text, take_weights, to, &err) != TD_OK)
    fail_msg("%s: %s", err.name, err.text);
}

static void drop(sink *s) {
  base_text_free(&s->text);
  base_text_free(&s->weights);
}

static void write_file(const char *folder, const char *name, const base_text *bytes) {
  char path[128];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *file = fopen(path, "wb");
  assert_non_null(file);
  assert_int_equal(fwrite(bytes->at ? bytes->at : "", 1, bytes->length, file), bytes->length);
  fclose(file);
}

static td_model *load(const char *path, const char *backend) {
  td_load_options options = {.size = sizeof options, .backend = backend};
  td_model *model = NULL;
  td_error err;
  return td_model_load(path, &options, &model, &err) == TD_OK ? model : NULL;
}

/* Names of values inside a graph are not in its text: they go from the plan's. */
static void drop_names(char *text) {
  char *to = text;
  for (const char *at = text; *at;) {
    const size_t length = strcspn(at, "\n"), kept = *at == 's' ? strcspn(at, "#") : length;
    const size_t n = kept < length ? kept : length;
    memmove(to, at, n);
    to += n;
    while (to > text && to[-1] == ' ') to--;
    *to++ = '\n';
    at += length + (at[length] == '\n');
  }
  *to = 0;
}

static void same_plan(const td_model *a, const td_model *b) {
  char *text[2];
  assert_int_equal(td_model_print(a, "plan", "text", &text[0], NULL), TD_OK);
  assert_int_equal(td_model_print(b, "plan", "text", &text[1], NULL), TD_OK);
  drop_names(text[0]);
  drop_names(text[1]);
  assert_string_equal(text[0], text[1]);
  td_text_free(a, text[0]);
  td_text_free(b, text[1]);
}

/* Saved, loaded, saved: the same bytes, and on the way the same plan. */
static void round_trip(const char *folder, const char *path) {
  char file[128];
  sink first, second;
  td_model *model = load(path, "interp");
  if (!model) return; /* what is not supported is the business of other tests */
  save(model, NULL, &first);
  snprintf(file, sizeof file, "%s/graph.tdir", folder);
  write_file(folder, "graph.tdir", &first.text);
  write_file(folder, "w", &first.weights);
  td_model *again = load(file, "interp");
  if (!again) fail_msg("%s does not load again", path);
  save(again, NULL, &second);
  if (strcmp(first.text.at, second.text.at) != 0) fail_msg("%s:\n%s\n----\n%s", path, first.text.at, second.text.at);
  assert_int_equal(first.weights.length, second.weights.length);
  if (first.weights.length) assert_memory_equal(first.weights.at, second.weights.at, first.weights.length);
  same_plan(model, again);
  drop(&first);
  drop(&second);
  td_model_free(model);
  td_model_free(again);
}

static void models_come_back(void **state) {
  static const char *const folders[] = {"tests/models/control", "tests/models/operators"};
  uint32_t count = 0;
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    DIR *dir = opendir(folders[i]);
    assert_non_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));) {
      char path[512];
      snprintf(path, sizeof path, "%s/%s/model.onnx", folders[i], entry->d_name);
      if (access(path, F_OK) != 0) continue;
      round_trip(*state, path);
      count++;
    }
    closedir(dir);
  }
  assert_true(count > 20);
  round_trip(*state, "builtin:layer:linear 64x96 out=48 act=gelu");
}

/* ---- what is wrong ---- */

static void refused(const char *text, const char *words, int64_t offset) {
  td_load_options options = {.size = sizeof options, .format = "tdir"};
  td_model *model = NULL;
  td_error err = {0};
  assert_int_not_equal(td_model_load_memory(text, strlen(text), &options, &model, &err), TD_OK);
  if (!strstr(err.text, words)) fail_msg("'%s' is not in: %s", words, err.text);
  if (offset >= 0) assert_int_equal(err.offset, offset);
}

static void wrong_files_are_refused(void **state) {
  (void)state;
  refused("tdir 2\n", "version 1", 0);
  refused("tdir 1\ninput %0: f32[2]\noutput \"y\" %1\n", "a value that was defined", 37);
  refused("tdir 1\nweights \"../w\" 4\n", "same folder", 7);
  refused("tdir 1\nweights \"w\" x\n", "BYTES", 7);
  refused("tdir 1\nweights \"w\" 4\n", "from its path", 7);
  refused("tdir 1\nconst %1 \"w\": f32[32] = @0+0\n", "a segment that was given", -1);
}

/* Text alone in segments: pointers would come from the file. */
static void weights_are_checked(void **state) {
  const char *folder = *state;
  char file[128];
  td_error err;
  td_model *model = NULL;
  base_text text = {.allocator = &base_libc_allocator}, weights = text;
  base_text_print(&weights, "%0*d", 64, 0);
  snprintf(file, sizeof file, "%s/graph.tdir", folder);
  write_file(folder, "w", &weights);
  base_text_print(&text, "tdir 1\nweights \"w\" 64\nconst %%0: string[4] = @0+0\noutput \"y\" %%0\n");
  write_file(folder, "graph.tdir", &text);
  assert_int_equal(td_model_load(file, NULL, &model, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "strings"));
  base_text_free(&text);
  base_text_print(&text, "tdir 1\nweights \"w\" 65\ninput %%0: f32[4]\noutput \"y\" %%0\n");
  write_file(folder, "graph.tdir", &text);
  assert_int_equal(td_model_load(file, NULL, &model, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "65 bytes"));
  base_text_free(&text);
  base_text_free(&weights);
}

/* ---- parts ---- */

static const char chain[] =
    "tdir 1\n"
    "input %0 \"x\": f32[n, 4]\n"
    "input %1 \"unused\": f32[2]\n"
    "%2 = aten::neg(%0)  # \"a\"\n"
    "%3 = aten::exp(%2)  # \"b\"\n"
    "%4 = aten::relu(%3)  # \"c\"\n"
    "output \"y\" %4\n";

static const char *cut_text(td_cut *cut, sink *to) {
  td_load_options options = {.size = sizeof options, .backend = "eager"};
  td_model *model = NULL;
  assert_int_equal(td_model_load_memory(chain, strlen(chain), &options, &model, NULL), TD_OK);
  cut->size = sizeof *cut;
  save(model, cut, to);
  td_model_free(model);
  return to->text.at;
}

static void parts_are_cut(void **state) {
  (void)state;
  sink s;
  uint8_t keep[] = {0, 1, 0};
  td_cut middle = {.keep = keep, .keep_count = 3};
  assert_string_equal(cut_text(&middle, &s),
                      "tdir 1\ninput %0 \"a\": f32[n, 4]\n%1 = aten::exp(%0): f32[n, 4]  # \"b\"\noutput \"b\" %1\n");
  assert_int_equal(middle.node_count, 3);
  drop(&s);
  const td_value_info four = {.name = "x", .kind = "tensor", .dtype = TD_F64, .rank = 2, .dims = {7, 4}};
  td_cut fixed = {.output = "b", .inputs = &four, .input_count = 1};
  assert_string_equal(cut_text(&fixed, &s),
                      "tdir 1\ninput %0 \"x\": f64[7, 4]\n%1 = aten::neg(%0): f64[7, 4]  # \"a\"\n"
                      "%2 = aten::exp(%1): f64[7, 4]  # \"b\"\noutput \"b\" %2\n");
  drop(&s);
  td_cut small = {.size_from = 4, .size_to = 2, .dtype_from = TD_F32, .dtype_to = TD_F64};
  assert_non_null(strstr(cut_text(&small, &s), "input %0 \"x\": f64[n, 2]"));
  drop(&s);
}

static void wrong_cuts_are_refused(void **state) {
  (void)state;
  td_load_options options = {.size = sizeof options, .backend = "eager"};
  td_model *model = NULL;
  td_error err;
  sink s = {{.allocator = &base_libc_allocator}, {.allocator = &base_libc_allocator}};
  uint8_t keep[3] = {0};
  td_cut cuts[] = {{.size = sizeof(td_cut), .keep = keep, .keep_count = 3},
                   {.size = sizeof(td_cut), .keep = keep, .keep_count = 2},
                   {.size = sizeof(td_cut), .output = "nobody"},
                   {.size = sizeof(td_cut), .size_from = 4, .size_to = 5}};
  assert_int_equal(td_model_load_memory(chain, strlen(chain), &options, &model, NULL), TD_OK);
  for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
    assert_int_equal(td_model_save_graph(model, "imported", &cuts[i], "w", take_text, take_weights, &s, &err),
                     TD_BAD_ARGUMENT);
  assert_int_equal(td_model_save_graph(model, "plan", NULL, "w", take_text, take_weights, &s, &err), TD_BAD_ARGUMENT);
  td_model_free(model);
}

static int open_folder(void **state) {
  static char folder[] = "/tmp/treadle-tdir-XXXXXX";
  *state = mkdtemp(folder);
  return *state ? 0 : -1;
}

static int close_folder(void **state) {
  char path[128];
  static const char *const names[] = {"graph.tdir", "w"};
  for (size_t i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%s", (const char *)*state, names[i]);
    unlink(path);
  }
  return rmdir(*state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(models_come_back),       cmocka_unit_test(wrong_files_are_refused),
      cmocka_unit_test(weights_are_checked),    cmocka_unit_test(parts_are_cut),
      cmocka_unit_test(wrong_cuts_are_refused),
  };
  return cmocka_run_group_tests(tests, open_folder, close_folder);
}
