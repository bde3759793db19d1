/* predict.c -- TorchServe's handlers of pictures: image_classifier, image_segmenter, object_detector. Answers are
 * written as Python's json.dumps(indent=2) writes what the handlers give. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fmt/image.h"
#include "server.h"

static td_status bad(td_error *err, const char *text) { return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s", text); }

enum { TOP = 5 };

/* ---- pictures ---- */

td_status serve_read_picture(serve_job *job, size_t index, base_str file, const char *preset, td_tensor *t,
                             td_error *err) {
  td_value_info info = {.size = sizeof info};
  fmt_image image;
  base_tensor pixels;
  TRY(td_model_input(job->version->model, index, &info, err));
  if (strcmp(info.kind, "tensor") != 0 || (info.rank != 3 && info.rank != 4))
    return bad(err, "this model takes no pictures: POST tensors to /v2/models/NAME/infer");
  TRY(fmt_image_decode(job->arena, file.at, file.length, FMT_IMAGE_MOST_PIXELS, &image, err));
  const fmt_image_input input = {info.dtype, info.rank, info.dims};
  TRY(fmt_image_preprocess(job->arena, &image, preset, &input, &pixels, err));
  *t = (td_tensor){.dtype = pixels.dtype, .rank = pixels.rank, .data = pixels.data};
  memcpy(t->dims, pixels.dims, sizeof t->dims);
  return TD_OK;
}

static td_status read_one(serve_job *job, const char *preset, td_error *err) {
  if (td_model_input_count(job->version->model) != 1)
    return bad(err, "this model takes tensors: POST to /v2/models/NAME/infer");
  return serve_read_picture(job, 0, (base_str){job->body, job->count}, preset, &job->inputs[0], err);
}

static td_status read_imagenet(serve_job *job, td_error *err) { return read_one(job, "imagenet", err); }
static td_status read_raw(serve_job *job, td_error *err) { return read_one(job, "raw", err); }

/* ---- classes ---- */

/* The label of a class; `number`: room for its number, which it has where it has no label. */
static const char *label_of(const serve_version *v, int64_t class, char number[24]) {
  snprintf(number, 24, "%lld", (long long)class);
  const bool named = class >= 0 && (size_t) class < v->label_count && v->labels[class];
  return named ? v->labels[class] : number;
}

static double score(const td_tensor *t, int64_t i) { return base_load_f64(t->dtype, t->data, i); }

/* The likeliest first; at most `most` of them. */
static int64_t find_top(const td_tensor *t, int64_t classes, int64_t *top, int64_t most) {
  int64_t held = 0;
  for (int64_t i = 0; i < classes; i++) {
    int64_t at = held < most ? held++ : most;
    while (at > 0 && score(t, top[at - 1]) < score(t, i)) {
      if (at < most) top[at] = top[at - 1];
      at--;
    }
    if (at < most) top[at] = i;
  }
  return held;
}

/* As a dict: a label that several classes have stands where the first has it, with the probability of the last. */
static void print_labels(base_text *to, const serve_version *v, const td_tensor *t, const int64_t *classes,
                         int64_t count, double most, double sum) {
  base_text_print(to, "{");
  for (int64_t i = 0; i < count; i++) {
    char number[24], other[24];
    const char *label = label_of(v, classes[i], number);
    int64_t shown = i;
    bool again = false;
    for (int64_t j = 0; j < count; j++)
      if (strcmp(label_of(v, classes[j], other), label) == 0) {
        again = again || j < i;
        shown = j;
      }
    if (again) continue;
    base_text_print(to, "%s\n  ", i ? "," : "");
    base_text_quote(to, label, strlen(label));
    base_text_print(to, ": ");
    serve_print_float(to, (double)(float)(exp(score(t, classes[shown]) - most) / sum), true);
  }
  base_text_print(to, "\n}");
}

/* Softmax in f64, rounded to f32 as the handler has it. */
td_status serve_print_classes(serve_job *job, const td_tensor *t, int64_t top, td_error *err) {
  const int64_t classes = t->dims[1], count = top && top < classes ? top : classes;
  int64_t *order = base_new(job->arena, int64_t, (size_t)count + 1);
  double most = -INFINITY, sum = 0;
  if (!order) return base_no_memory(err, "classes");
  for (int64_t i = 0; i < classes; i++) {
    if (!isfinite(score(t, i)))
      return base_fail(err, TD_INTERNAL, NULL, -1, "the model's scores are no finite numbers");
    most = fmax(most, score(t, i));
    if (!top) order[i] = i;
  }
  for (int64_t i = 0; i < classes; i++) sum += exp(score(t, i) - most);
  if (top) find_top(t, classes, order, count);
  print_labels(&job->reply, job->version, t, order, count, most, sum);
  return TD_OK;
}

static td_status write_classes(serve_job *job, const td_tensor *outputs, td_error *err) {
  const td_tensor *out = &outputs[0];
  if (td_model_output_count(job->version->model) != 1 || !base_is_float(out->dtype) || out->rank != 2 ||
      out->dims[0] != 1)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "this model does not classify: POST to /v2/models/NAME/infer");
  return serve_print_classes(job, out, TOP, err);
}

/* ---- segments: of each pixel the likeliest class, as a float, and its probability ---- */

static void print_pixel(base_text *to, const td_tensor *t, int64_t at, int64_t step) {
  int64_t best = 0;
  double sum = 0;
  for (int64_t c = 1; c < t->dims[1]; c++)
    if (score(t, at + c * step) > score(t, at + best * step)) best = c;
  for (int64_t c = 0; c < t->dims[1]; c++) sum += exp(score(t, at + c * step) - score(t, at + best * step));
  base_text_print(to, "    [\n      %lld.0,\n      ", (long long)best);
  serve_print_float(to, (double)(float)(1 / sum), true);
  base_text_print(to, "\n    ]");
}

static td_status write_segments(serve_job *job, const td_tensor *outputs, td_error *err) {
  const td_tensor *t = &outputs[0]; /* a dict's first entry, "out" */
  base_text *to = &job->reply;
  if (!base_is_float(t->dtype) || t->rank != 4 || t->dims[0] != 1 || t->dims[1] < 1)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "this model does not segment: its first output is not [1,K,H,W]");
  const int64_t step = t->dims[2] * t->dims[3];
  for (int64_t i = 0; i < t->dims[1] * step; i++)
    if (!isfinite(score(t, i)))
      return base_fail(err, TD_INTERNAL, NULL, -1, "the model's scores are no finite numbers");
  base_text_print(to, "[");
  for (int64_t y = 0; y < t->dims[2]; y++) {
    base_text_print(to, "%s\n  [\n", y ? "," : "");
    for (int64_t x = 0; x < t->dims[3]; x++) {
      if (x) base_text_print(to, ",\n");
      print_pixel(to, t, y * t->dims[3] + x, step);
    }
    base_text_print(to, "\n  ]");
  }
  base_text_print(to, "\n]");
  return TD_OK;
}

/* ---- objects ---- */

typedef struct objects {
  const td_tensor *boxes, *labels, *scores; /* [n,4], [n], [n]; a batch of one may stand in front */
} objects;

static bool is_row(const td_tensor *t, int32_t rank) {
  return t->dtype != TD_INVALID && (t->rank == rank || (t->rank == rank + 1 && t->dims[0] == 1));
}

/* Which output is what follows from types and shapes: names differ from exporter to exporter. */
static bool find_objects(const td_tensor *outputs, size_t count, objects *o) {
  *o = (objects){0};
  for (size_t i = 0; i < count; i++) {
    const td_tensor *t = &outputs[i];
    if (!o->boxes && base_is_float(t->dtype) && is_row(t, 2) && t->dims[t->rank - 1] == 4) o->boxes = t;
    else if (!o->labels && !base_is_float(t->dtype) && is_row(t, 1)) o->labels = t;
    else if (!o->scores && base_is_float(t->dtype) && is_row(t, 1)) o->scores = t;
  }
  if (!o->boxes || !o->labels || !o->scores) return false;
  const int64_t n = o->boxes->dims[o->boxes->rank - 2];
  return o->labels->dims[o->labels->rank - 1] == n && o->scores->dims[o->scores->rank - 1] == n;
}

static td_status write_objects(serve_job *job, const td_tensor *outputs, td_error *err) {
  const double threshold = 0.5;
  base_text *to = &job->reply;
  objects o;
  bool first = true, finite = true;
  if (!find_objects(outputs, td_model_output_count(job->version->model), &o))
    return base_fail(err, TD_UNSUPPORTED, NULL, -1,
                     "this model does not detect: its outputs are not boxes [n,4], "
                     "labels [n] and scores [n]");
  base_text_print(to, "[");
  for (int64_t i = 0; i < o.scores->dims[o.scores->rank - 1]; i++) {
    char number[24];
    if (!(score(o.scores, i) >= threshold)) continue;
    const char *label = label_of(job->version, base_load_i64(o.labels->dtype, o.labels->data, i), number);
    base_text_print(to, "%s\n  {\n    ", first ? "" : ",");
    base_text_quote(to, label, strlen(label));
    base_text_print(to, ": [");
    for (int64_t j = 0; j < 4; j++) {
      base_text_print(to, "%s\n      ", j ? "," : "");
      finite = finite && serve_print_float(to, score(o.boxes, 4 * i + j), true);
    }
    base_text_print(to, "\n    ],\n    \"score\": ");
    finite = finite && serve_print_float(to, score(o.scores, i), true);
    base_text_print(to, "\n  }");
    first = false;
  }
  base_text_print(to, first ? "]" : "\n]");
  return finite ? TD_OK : base_fail(err, TD_INTERNAL, NULL, -1, "the model's boxes are no finite numbers");
}

const serve_protocol serve_prediction = {read_imagenet, write_classes};
const serve_protocol serve_segments = {read_imagenet, write_segments}, serve_objects = {read_raw, write_objects};
