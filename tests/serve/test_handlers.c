/* test_handlers.c -- archives with each of TorchServe's built-in handlers, and KServe's BYTES: pictures and texts. The
 * answers' numbers are those that Python gives for these models by hand. */
#include "serve/archive.h"

typedef struct archive {
  const char *name, *handler, *graph, *file, *text; /* and one more file */
} archive;

/* Scores of three classes are the means of red, green and blue. */
static const char segmenter[] =
    "tdir 1\n"
    "input %0 \"x\": f32[1, 3, 224, 224]\n"
    "%1 = aten::mean(%0) {dim = [2, 3], keepdim = true, noop = false}: f32[1, 3, 1, 1]\n"
    "output \"out\" %1\n";
static const char detector[] =
    "tdir 1\n"
    "input %0 \"x\": f32[1, 3, h, w]\n"
    "const %1: f32[3, 4] = {1, 2, 3.5, 4, 0, 0, 9, 9, 5, 6, 7, 8}\n"
    "const %2: i64[3] = {1, 1, 7}\n"
    "const %3: f32[3] = {0.75, 0.25, 0.5}\n"
    "%4 = aten::mean(%0) {dim = [0, 1, 2, 3], keepdim = false, noop = false}: f32[]\n"
    "%5 = aten::relu(%4): f32[]\n"
    "%6 = aten::sub(%5, %5): f32[]\n"
    "%7 = aten::add(%3, %6): f32[3]\n"
    "output \"boxes\" %1\n"
    "output \"labels\" %2\n"
    "output \"scores\" %7\n";
/* The mean of what the table has for each word and pair: 1 + 2 + 6 of three, or of one word alone. */
static const char bag[] =
    "tdir 1\n"
    "input %0 \"tokens\": i64[n]\n"
    "input %1 \"offsets\": i64[1]\n"
    "const %2: f32[4, 2] = {0, 0, 1, 0, 2, 0, 6, 0}\n"
    "%3 = aten::index_select(%2, %0) {dim = 0}: f32[n, 2]\n"
    "%4 = aten::mean(%3) {dim = [0], keepdim = true, noop = false}: f32[1, 2]\n"
    "output \"y\" %4\n";
/* Texts pass through; so do single pictures, as their means. */
static const char pictures[] =
    "tdir 1\n"
    "input %0 \"x\": f32[n, 3, 224, 224]\n"
    "%1 = aten::mean(%0) {dim = [2, 3], keepdim = false, noop = false}: f32[n, 3]\n"
    "output \"y\" %1\n";

static const archive archives[] = {
    {"segments", "image_segmenter", segmenter, NULL, NULL},
    {"objects", "object_detector", detector, "index_to_name.json", "{\"object_type_names\":[\"sky\",\"cat\"]}"},
    {"texts", "text_classifier", bag, "source_vocab.json", "{\"<unk>\":0,\"hello\":1,\"world\":2,\"hello world\":3}"},
    {"pictures", "image_classifier", pictures, NULL, NULL},
};
enum { ARCHIVES = sizeof archives / sizeof *archives };

static void write_model(const fixture *f, const archive *a, const char *handler) {
  char manifest[256], name[64];
  snprintf(manifest, sizeof manifest, "{\"model\":{\"handler\":\"%s\",\"serializedFile\":\"net.tdir\"}}", handler);
  snprintf(name, sizeof name, "%s.mar", a->name);
  write_archive(f, name,
                (const archived[]){
                    {"net.tdir", a->graph}, {"MAR-INF/MANIFEST.json", manifest}, {a->file, a->text}, {NULL, NULL}});
}

/* Numbers that no answer needs. */
static void write_large(const fixture *f) {
  enum { NUMBERS = 50000 };
  base_text text = {.allocator = &base_libc_allocator};
  uint32_t number = 1;
  base_text_print(&text, "%sconst %%2: f32[%d] = {", pictures, NUMBERS);
  for (int i = 0; i < NUMBERS; i++) {
    number = number * 1664525 + 1013904223;
    base_text_print(&text, i ? ", %u" : "%u", number >> 8);
  }
  base_text_print(&text, "}\n");
  write_model(f, &(archive){"large", NULL, text.at, NULL, NULL}, "image_classifier");
  base_text_free(&text);
}

static int open_fixture(void **state) {
  fixture *f = calloc(1, sizeof *f);
  assert_non_null(f);
  open_folder(f);
  for (size_t i = 0; i < ARCHIVES; i++) write_model(f, &archives[i], archives[i].handler);
  write_large(f);
  start_server(f,
               (const char *const[]){"serve", "--port", "0", "segments.mar", "objects.mar", "texts.mar", "pictures.mar",
                                     "large.mar", NULL},
               &f->port, 1);
  *state = f;
  return 0;
}

static int close_fixture(void **state) {
  fixture *f = *state;
  const int status = end(f);
  remove_folder(f);
  free(f);
  return status;
}

/* A red picture of one pixel. */
static const char png[] =
    "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01"
    "\x08\x02\x00\x00\x00\x90\x77\x53\xde\x00\x00\x00\x0c\x49\x44\x41\x54\x78\x9c\x63\xf8\xcf\xc0\x00"
    "\x00\x03\x01\x01\x00\xc9\xfe\x92\xef\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82";
enum { PNG_BYTES = sizeof png - 1 };

static int post(fixture *f, const char *path, const char *head, const void *body, size_t count) {
  static char text[8192];
  const int length =
      snprintf(text, sizeof text, "POST %s HTTP/1.1\r\nHost: a\r\n%sContent-Length: %zu\r\n\r\n", path, head, count);
  assert_true((size_t)length + count < sizeof text);
  memcpy(text + length, body, count);
  return ask(f, text, (size_t)length + count);
}

static const char *body_of(const fixture *f) { return strstr(f->reply, "\r\n\r\n") + 4; }

/* Red is (1 - 0.485) / 0.229, green -0.456 / 0.224, blue -0.406 / 0.225. */
static void pixels_have_classes(void **state) {
  fixture *f = *state;
  double class, share;
  assert_int_equal(post(f, "/predictions/segments", "", png, PNG_BYTES), 200);
  assert_int_equal(sscanf(body_of(f), "[\n  [\n    [\n      %lf,\n      %lf\n    ]\n  ]\n]", &class, &share), 2);
  const double red = (1 - 0.485) / 0.229, green = -0.456 / 0.224, blue = -0.406 / 0.225;
  assert_true(class == 0);
  assert_true(fabs(share - 1 / (1 + exp(green - red) + exp(blue - red))) < 1e-6);
  assert_int_equal(ask_path(f, "POST", "/predictions/segments", "no picture"), 400);
}

static void objects_above_a_half(void **state) {
  fixture *f = *state;
  assert_int_equal(post(f, "/predictions/objects", "", png, PNG_BYTES), 200);
  assert_string_equal(
      body_of(f),
      "[\n  {\n    \"cat\": [\n      1.0,\n      2.0,\n      3.5,\n      4.0\n    ],\n    \"score\": 0.75\n"
      "  },\n  {\n    \"7\": [\n      5.0,\n      6.0,\n      7.0,\n      8.0\n    ],\n    \"score\": 0.5\n"
      "  }\n]");
}

static void words_and_pairs(void **state) {
  static const struct {
    const char *text;
    double mean; /* of the first class; the second has 0 */
  } rows[] = {{"hello", 1},
              {"<b class=\"x\">Hello</b>, w\xc3\xb6rld!", 3}, /* hello, world, hello world: 1, 2, 6 */
              {"HELLO&nbsp;&#39;", 1},
              {"nothing known", 0},
              {"world", 2}};
  fixture *f = *state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double first, second;
    assert_int_equal(post(f, "/predictions/texts", "", rows[i].text, strlen(rows[i].text)), 200);
    assert_int_equal(sscanf(body_of(f), "{\n  \"0\": %lf,\n  \"1\": %lf\n}", &first, &second), 2);
    assert_true(fabs(first - 1 / (1 + exp(-rows[i].mean))) < 1e-6 && fabs(first + second - 1) < 1e-6);
  }
  assert_int_equal(post(f, "/predictions/texts", "", "", 0), 400);
  assert_int_equal(post(f, "/predictions/texts", "", "...", 3), 400);
  assert_non_null(strstr(f->reply, "no words"));
  assert_int_equal(post(f, "/predictions/texts", "", "\xff\xfe", 2), 400);
  assert_non_null(strstr(f->reply, "UTF-8"));
}

static void pictures_as_bytes(void **state) {
  static const char encoded[] =
      "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGP4z8AAAAMBAQDJ/pLvAAAAAElFTkSuQmCC";
  static const char infer[] = "/v2/models/pictures/infer";
  fixture *f = *state;
  char text[1024], head[128];
  double y[6];
  snprintf(text, sizeof text,
           "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[2],\"data\":[\"%s\",\"%s\"]}]}", encoded,
           encoded);
  assert_int_equal(post(f, infer, "", text, strlen(text)), 200);
  const char *data = strstr(f->reply, "\"data\":[");
  assert_non_null(data);
  assert_int_equal(sscanf(data, "\"data\":[%lf,%lf,%lf,%lf,%lf,%lf]", y, y + 1, y + 2, y + 3, y + 4, y + 5), 6);
  assert_true(fabs(y[0] - (1 - 0.485) / 0.229) < 1e-5 && fabs(y[5] + 0.406 / 0.225) < 1e-5 && y[3] == y[0]);
  snprintf(text, sizeof text, "{\"instances\":[{\"b64\":\"%s\"},{\"x\":{\"b64\":\"%s\"}}]}", encoded, encoded);
  assert_int_equal(post(f, "/v1/models/pictures:predict", "", text, strlen(text)), 200);
  data = strstr(f->reply, "{\"predictions\":[[");
  assert_non_null(data);
  assert_int_equal(
      sscanf(data, "{\"predictions\":[[%lf,%lf,%lf],[%lf,%lf,%lf]]}", y, y + 1, y + 2, y + 3, y + 4, y + 5), 6);
  assert_true(fabs(y[0] - (1 - 0.485) / 0.229) < 1e-5 && fabs(y[5] + 0.406 / 0.225) < 1e-5 && y[3] == y[0]);
  int length = snprintf(text, sizeof text,
                        "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[1],\"parameters\":"
                        "{\"binary_data_size\":%d}}]}",
                        PNG_BYTES + 4);
  const uint32_t bytes = PNG_BYTES;
  snprintf(head, sizeof head, "Inference-Header-Content-Length: %d\r\n", length);
  memcpy(text + length, &bytes, 4);
  memcpy(text + length + 4, png, PNG_BYTES);
  assert_int_equal(post(f, infer, head, text, (size_t)length + 4 + PNG_BYTES), 200);
  text[length]++; /* longer than the data */
  assert_int_equal(post(f, infer, head, text, (size_t)length + 4 + PNG_BYTES), 400);
  assert_non_null(strstr(f->reply, "longer than the data"));
  snprintf(text, sizeof text,
           "{\"inputs\":[{\"name\":\"x\",\"datatype\":\"BYTES\",\"shape\":[1],\"data\":[\"A?==\"]}]}");
  assert_int_equal(post(f, infer, "", text, strlen(text)), 400);
}

/* What an archive asks to be run is not. */
static void other_handlers_are_refused(void **state) {
  const fixture *f = *state;
  char command[768];
  write_model(f, &(archive){"own", NULL, segmenter, NULL, NULL}, "handler.py");
  snprintf(command, sizeof command, "%s serve --port 0 %s/own.mar 2>&1 | grep -q 'none of TorchServe'", f->program,
           f->folder);
  assert_int_equal(system(command), 0);
}

/* What was read of an archive is in memory no more. */
static void archives_leave_memory(void **state) {
  const fixture *f = *state;
  char path[64], line[512];
  int kilobytes = -1;
  bool ours = false;
  snprintf(path, sizeof path, "/proc/%d/smaps", (int)f->child);
  FILE *maps = fopen(path, "r");
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps)) {
    if (strchr(line, '-') && strchr(line, '-') < strchr(line, ' ')) ours = strstr(line, "/large.mar") != NULL;
    if (ours) sscanf(line, "Rss: %d kB", &kilobytes);
  }
  fclose(maps);
  assert_in_range(kilobytes, 0, 8); /* the last page is not whole */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(archives_leave_memory), cmocka_unit_test(pixels_have_classes),
      cmocka_unit_test(objects_above_a_half),  cmocka_unit_test(words_and_pairs),
      cmocka_unit_test(pictures_as_bytes),     cmocka_unit_test(other_handlers_are_refused),
  };
  return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
