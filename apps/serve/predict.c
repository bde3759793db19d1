/* predict.c -- TorchServe's prediction with its image_classifier: a picture in, the five likeliest classes out. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "fmt/image.h"
#include "server.h"

static td_status bad(td_error *err, const char *text) { return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s", text); }

enum { TOP = 5 };

/* Softmax in f64, rounded to f32 as the handler has it; the likeliest first. */
static void print_classes(base_text *to, const serve_version *m, const td_tensor *t, int64_t classes) {
  int64_t top[TOP], held = 0;
  double most = -INFINITY, sum = 0;
  for (int64_t i = 0; i < classes; i++) {
    const double v = base_load_f64(t->dtype, t->data, i);
    int64_t at = held < TOP ? held++ : TOP;
    while (at > 0 && base_load_f64(t->dtype, t->data, top[at - 1]) < v) {
      if (at < TOP) top[at] = top[at - 1];
      at--;
    }
    if (at < TOP) top[at] = i;
    most = fmax(most, v);
  }
  for (int64_t i = 0; i < classes; i++) sum += exp(base_load_f64(t->dtype, t->data, i) - most);
  base_text_print(to, "{");
  for (int64_t i = 0; i < held; i++) {
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)top[i]);
    const bool named = (size_t)top[i] < m->label_count && m->labels[top[i]];
    const char *label = named ? m->labels[top[i]] : number;
    base_text_print(to, "%s\n  ", i ? "," : "");
    base_text_quote(to, label, strlen(label));
    base_text_print(to, ": ");
    serve_print_float(to, (double)(float)(exp(base_load_f64(t->dtype, t->data, top[i]) - most) / sum), true);
  }
  base_text_print(to, "\n}");
}

static td_status read_picture(serve_job *job, td_error *err) {
  td_value_info info;
  fmt_image image;
  base_tensor pixels;
  const td_model *model = job->version->model;
  if (td_model_input_count(model) != 1 || td_model_output_count(model) != 1)
    return bad(err, "this model takes tensors: POST to /v2/models/NAME/infer");
  TRY(td_model_input(model, 0, &info, err));
  if (info.rank != 4 || info.dtype != TD_F32 || info.dims[1] != 3)
    return bad(err, "this model takes no pictures: POST tensors to /v2/models/NAME/infer");
  TRY(fmt_image_decode(job->arena, job->body, job->count, FMT_IMAGE_MOST_PIXELS, &image, err));
  const fmt_image_input input = {info.dtype, info.rank, info.dims};
  TRY(fmt_image_preprocess(job->arena, &image, "imagenet", &input, &pixels, err));
  job->inputs[0] = (td_tensor){.dtype = TD_F32, .rank = 4, .data = pixels.data};
  memcpy(job->inputs[0].dims, pixels.dims, sizeof job->inputs[0].dims);
  return TD_OK;
}

static td_status write_classes(serve_job *job, const td_tensor *outputs, td_error *err) {
  int64_t count;
  const td_tensor *out = &outputs[0];
  if (!base_is_float(out->dtype) || out->rank != 2 || out->dims[0] != 1 || !base_numel(out->rank, out->dims, &count))
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "this model does not classify: POST to /v2/models/NAME/infer");
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(base_load_f64(out->dtype, out->data, i)))
      return base_fail(err, TD_INTERNAL, NULL, -1, "the model's scores are no finite numbers");
  print_classes(&job->reply, job->version, out, count);
  return TD_OK;
}

const serve_protocol serve_prediction = {read_picture, write_classes};
