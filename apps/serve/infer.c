/* infer.c -- KServe's inference: tensors of JSON and of bytes behind it, in and out. TorchServe's prediction: a picture
 * in, the five likeliest classes out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fmt/image.h"
#include "fmt/json.h"
#include "server.h"

static const struct {
  const char *name;
  td_dtype dtype;
} datatypes[] = {{"BOOL", TD_BOOL}, {"UINT8", TD_U8},  {"UINT16", TD_U16}, {"UINT32", TD_U32}, {"UINT64", TD_U64},
                 {"INT8", TD_I8},   {"INT16", TD_I16}, {"INT32", TD_I32},  {"INT64", TD_I64},  {"FP16", TD_F16},
                 {"BF16", TD_BF16}, {"FP32", TD_F32},  {"FP64", TD_F64}};
enum { DATATYPES = sizeof datatypes / sizeof *datatypes, MOST_JSON = 1 << 24 };

const char *serve_datatype(td_dtype dtype) {
  for (size_t i = 0; i < DATATYPES; i++)
    if (datatypes[i].dtype == dtype) return datatypes[i].name;
  return NULL;
}

static td_status bad(td_error *err, const char *name, const char *text) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s", text);
}

/* Whole numbers that a type does not hold are refused, not wrapped. */
static bool store(const td_tensor *t, int64_t index, const fmt_json *v) {
  const bool truth = v->kind == FMT_JSON_TRUE || v->kind == FMT_JSON_FALSE;
  if (t->dtype == TD_BOOL && truth) {
    base_store_i64(TD_BOOL, t->data, index, v->kind == FMT_JSON_TRUE);
    return true;
  }
  if (base_is_float(t->dtype)) {
    const bool number = v->kind == FMT_JSON_INT || v->kind == FMT_JSON_FLOAT;
    if (number) base_store_f64(t->dtype, t->data, index, v->kind == FMT_JSON_INT ? (double)v->u.i : v->u.f);
    return number;
  }
  if (v->kind != FMT_JSON_INT) return false;
  base_store_i64(t->dtype, t->data, index, v->u.i);
  if (t->dtype == TD_BOOL) return v->u.i == 0 || v->u.i == 1;
  return base_load_i64(t->dtype, t->data, index) == v->u.i && (t->dtype != TD_U64 || v->u.i >= 0);
}

/* Elements of lists in lists, which fmt_json_read has bounded the depth of. */
static bool fill(const td_tensor *t, int64_t *at, int64_t count, const fmt_json *list) {
  for (size_t i = 0; i < fmt_json_count(list); i++) {
    const fmt_json *v = fmt_json_at(list, i);
    if (fmt_json_is(v, FMT_JSON_ARRAY)) {
      if (!fill(t, at, count, v)) return false;
    } else {
      if (*at == count || !store(t, *at, v)) return false;
      ++*at;
    }
  }
  return true;
}

static td_status read_shape(const fmt_json *input, const char *name, td_tensor *t, size_t *bytes, td_error *err) {
  const fmt_json *shape = fmt_json_get(input, "shape");
  const char *type = fmt_json_text(fmt_json_get(input, "datatype"));
  int64_t count;
  t->dtype = TD_INVALID;
  for (size_t i = 0; type && i < DATATYPES; i++)
    if (strcmp(datatypes[i].name, type) == 0) t->dtype = datatypes[i].dtype;
  if (t->dtype == TD_INVALID)
    return bad(err, name, "has no datatype that is known: BOOL, INT8 to UINT64, FP16 to FP64, BF16");
  if (!fmt_json_is(shape, FMT_JSON_ARRAY) || fmt_json_count(shape) > TD_MAX_RANK)
    return bad(err, name, "has no shape, or one of more than 8 dimensions");
  t->rank = (int32_t)fmt_json_count(shape);
  for (int32_t i = 0; i < t->rank; i++) {
    const fmt_json *d = fmt_json_at(shape, (size_t)i);
    if (!fmt_json_is(d, FMT_JSON_INT) || d->u.i < 0) return bad(err, name, "has a shape of other things than sizes");
    t->dims[i] = d->u.i;
  }
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, bytes))
    return bad(err, name, "has a shape too large");
  return TD_OK;
}

/* `*rest`: the bytes behind the JSON that are not taken yet. */
static td_status read_input(serve_job *job, const fmt_json *input, td_session *session, base_str *rest, td_error *err) {
  const char *name = fmt_json_text(fmt_json_get(input, "name"));
  const fmt_json *size = fmt_json_get(fmt_json_get(input, "parameters"), "binary_data_size");
  const fmt_json *data = fmt_json_get(input, "data");
  size_t index, bytes;
  td_tensor t = {0};
  if (!name) return bad(err, NULL, "an input has no name");
  TRY(td_model_find_input(job->model->model, name, &index, err));
  TRY(read_shape(input, name, &t, &bytes, err));
  if (size) {
    if (data || !fmt_json_is(size, FMT_JSON_INT) || size->u.i < 0 || (uint64_t)size->u.i != bytes ||
        bytes > rest->length)
      return bad(err, name, "binary_data_size is not what shape and datatype say, or there are not so many bytes");
    t.data = base_arena_alloc_uncleared(job->arena, bytes + 1, 64);
    if (t.data) memcpy(t.data, rest->at, bytes);
    *rest = (base_str){rest->at + bytes, rest->length - bytes};
    for (size_t i = 0; t.data && t.dtype == TD_BOOL && i < bytes; i++)
      if (((uint8_t *)t.data)[i] > 1) return bad(err, name, "a BOOL is 0 or 1");
  } else {
    if (t.dtype == TD_F16 || t.dtype == TD_BF16) return bad(err, name, "FP16 and BF16 come as binary data alone");
    if (bytes / 8 > job->count) return bad(err, name, "data does not fit shape and datatype");
    t.data = base_arena_alloc_uncleared(job->arena, bytes + 1, 64);
  }
  if (!t.data) return base_no_memory(err, "an input");
  int64_t at = 0, count;
  if (!base_numel(t.rank, t.dims, &count)) return bad(err, name, "has a shape too large");
  if (!size && (!fmt_json_is(data, FMT_JSON_ARRAY) || !fill(&t, &at, count, data) || at != count))
    return bad(err, name, "data does not fit shape and datatype");
  return td_session_set_input(session, index, &t, err);
}

/* The shortest text that reads as the same number of the type. */
static bool print_float(base_text *to, double value, bool is_f64) {
  char text[40];
  if (!isfinite(value)) return false;
  for (int digits = is_f64 ? 15 : 6;; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (digits == 17 || (is_f64 ? strtod(text, NULL) == value : strtof(text, NULL) == (float)value)) break;
  }
  base_text_print(to, strpbrk(text, ".e") ? "%s" : "%s.0", text);
  return true;
}

static td_status print_data(base_text *to, const char *name, const td_tensor *t, int64_t count, td_error *err) {
  if (t->dtype == TD_F16 || t->dtype == TD_BF16) return bad(err, name, "FP16 and BF16 are given as binary data alone");
  base_text_print(to, ",\"data\":[");
  for (int64_t i = 0; i < count; i++) {
    if (i) base_text_add(to, ",", 1);
    if (base_is_float(t->dtype)) {
      if (!print_float(to, base_load_f64(t->dtype, t->data, i), t->dtype == TD_F64))
        return bad(err, name, "holds numbers that JSON cannot say (infinite, or none): ask for binary data");
    } else if (t->dtype == TD_BOOL) {
      base_text_print(to, "%s", base_load_i64(TD_BOOL, t->data, i) ? "true" : "false");
    } else if (t->dtype == TD_U64) {
      base_text_print(to, "%llu", (unsigned long long)((const base_u64 *)t->data)[i]);
    } else {
      base_text_print(to, "%lld", (long long)base_load_i64(t->dtype, t->data, i));
    }
  }
  base_text_print(to, "]}");
  return TD_OK;
}

static bool wants_binary(const fmt_json *root, const fmt_json *output) {
  const fmt_json *own = fmt_json_get(fmt_json_get(output, "parameters"), "binary_data");
  return fmt_json_is(own ? own : fmt_json_get(fmt_json_get(root, "parameters"), "binary_data_output"), FMT_JSON_TRUE);
}

static td_status print_output(serve_job *job, td_session *session, size_t index, bool binary, base_text *raw,
                              td_error *err) {
  td_value_info info;
  td_tensor t;
  int64_t count;
  size_t bytes;
  base_text *to = &job->reply;
  TRY(td_model_output(job->model->model, index, &info, err));
  if (strcmp(info.kind, "tensor") != 0) return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is no tensor");
  TRY(td_session_output(session, index, &t, err));
  const char *type = serve_datatype(t.dtype);
  if (!type || !base_numel(t.rank, t.dims, &count) || !base_dtype_bytes(t.dtype, count, &bytes))
    return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is of a type that the protocol does not have");
  base_text_print(to, "{\"name\":");
  base_text_quote(to, info.name, strlen(info.name));
  base_text_print(to, ",\"shape\":[");
  for (int32_t i = 0; i < t.rank; i++) base_text_print(to, "%s%lld", i ? "," : "", (long long)t.dims[i]);
  base_text_print(to, "],\"datatype\":\"%s\"", type);
  if (!binary) return print_data(to, info.name, &t, count, err);
  base_text_print(to, ",\"parameters\":{\"binary_data_size\":%zu}}", bytes);
  base_text_add(raw, t.data, bytes);
  return TD_OK;
}

static td_status print_outputs(serve_job *job, td_session *session, const fmt_json *root, base_text *raw,
                               td_error *err) {
  const td_model *model = job->model->model;
  const fmt_json *asked = fmt_json_get(root, "outputs");
  const char *id = fmt_json_text(fmt_json_get(root, "id"));
  const size_t all = td_model_output_count(model), count = asked ? fmt_json_count(asked) : all;
  if (count > all) return bad(err, NULL, "more outputs are asked for than the model has");
  base_text_print(&job->reply, "{\"model_name\":");
  base_text_quote(&job->reply, job->model->name, strlen(job->model->name));
  base_text_print(&job->reply, ",\"model_version\":\"1\"");
  if (id) {
    base_text_print(&job->reply, ",\"id\":");
    base_text_quote(&job->reply, id, strlen(id));
  }
  base_text_print(&job->reply, ",\"outputs\":[");
  for (size_t i = 0; i < count; i++) {
    const fmt_json *output = fmt_json_at(asked, i);
    const char *name = fmt_json_text(fmt_json_get(output, "name"));
    size_t index = i;
    if (asked && !name) return bad(err, NULL, "an output has no name");
    if (asked) TRY(td_model_find_output(model, name, &index, err));
    if (i) base_text_add(&job->reply, ",", 1);
    TRY(print_output(job, session, index, wants_binary(root, output), raw, err));
  }
  base_text_print(&job->reply, "]}");
  return TD_OK;
}

/* What a session had from the request before is gone, whatever became of that. */
static td_status clear(const td_model *model, td_session *session, td_error *err) {
  for (size_t i = 0; i < td_model_input_count(model); i++) TRY(td_session_clear_input(session, i, err));
  return td_model_state_count(model) ? td_session_reset(session, err) : TD_OK;
}

static td_status infer(serve_job *job, td_session *session, base_text *raw, td_error *err) {
  const fmt_json *root;
  if (!job->body) return bad(err, NULL, "the request is empty");
  const size_t json = job->json_count < 0 ? job->count : (size_t)job->json_count;
  base_str rest = {job->body + json, job->count - json};
  if (json > MOST_JSON) return bad(err, NULL, "more than 16 MiB of JSON: send tensors as binary data");
  TRY(fmt_json_read(job->arena, "the request", job->body, json, &root, err));
  const fmt_json *inputs = fmt_json_get(root, "inputs");
  if (!fmt_json_is(inputs, FMT_JSON_ARRAY)) return bad(err, NULL, "the request has no inputs");
  TRY(clear(job->model->model, session, err));
  for (size_t i = 0; i < fmt_json_count(inputs); i++) TRY(read_input(job, fmt_json_at(inputs, i), session, &rest, err));
  if (rest.length) return bad(err, NULL, "there are bytes behind the last tensor");
  TRY(td_session_run(session, err));
  return print_outputs(job, session, root, raw, err);
}

/* The library's statuses as HTTP's: what the request can be blamed for, and what not. */
static void finish(serve_job *job, td_status status, const td_error *err) {
  job->status = 200;
  if (status == TD_OK) return;
  const bool asked_wrong = status == TD_BAD_ARGUMENT || status == TD_BAD_FILE || status == TD_UNSUPPORTED;
  serve_refuse(job,
               asked_wrong                ? 400
               : status == TD_NO_RESOURCE ? 507
                                          : 500,
               "%s%s%s", err->name, err->name[0] ? ": " : "", err->text);
}

void serve_infer(serve_job *job, td_session *session) {
  td_error err = {.offset = -1};
  base_text raw = {.allocator = &base_libc_allocator};
  td_status status = infer(job, session, &raw, &err);
  if (status == TD_OK && raw.failed) status = base_no_memory(&err, "the reply");
  if (status == TD_OK && raw.length) {
    job->reply_json = job->reply.length;
    base_text_add(&job->reply, raw.at, raw.length);
  }
  base_text_free(&raw);
  finish(job, status, &err);
}

/* ---- TorchServe ---- */

enum { TOP = 5 };

/* Softmax in f64, rounded to f32 as the handler has it; the likeliest first. */
static void print_classes(base_text *to, const serve_model *m, const td_tensor *t, int64_t classes) {
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
    print_float(to, (double)(float)(exp(base_load_f64(t->dtype, t->data, top[i]) - most) / sum), true);
  }
  base_text_print(to, "\n}");
}

static td_status predict(serve_job *job, td_session *session, td_error *err) {
  td_value_info info;
  fmt_image image;
  base_tensor pixels;
  td_tensor t, out;
  const td_model *model = job->model->model;
  if (td_model_input_count(model) != 1 || td_model_output_count(model) != 1)
    return bad(err, NULL, "this model takes tensors: POST to /v2/models/NAME/infer");
  TRY(td_model_input(model, 0, &info, err));
  if (info.rank != 4 || info.dtype != TD_F32 || info.dims[1] != 3)
    return bad(err, NULL, "this model takes no pictures: POST tensors to /v2/models/NAME/infer");
  TRY(fmt_image_decode(job->arena, job->body, job->count, FMT_IMAGE_MOST_PIXELS, &image, err));
  TRY(fmt_image_preprocess(job->arena, &image, "imagenet", &pixels, err));
  t = (td_tensor){.dtype = TD_F32, .rank = 4, .data = pixels.data};
  memcpy(t.dims, pixels.dims, sizeof t.dims);
  TRY(clear(model, session, err));
  TRY(td_session_set_input(session, 0, &t, err));
  TRY(td_session_run(session, err));
  TRY(td_session_output(session, 0, &out, err));
  int64_t count;
  if (!base_is_float(out.dtype) || out.rank != 2 || out.dims[0] != 1 || !base_numel(out.rank, out.dims, &count))
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "this model does not classify: POST to /v2/models/NAME/infer");
  for (int64_t i = 0; i < count; i++)
    if (!isfinite(base_load_f64(out.dtype, out.data, i)))
      return base_fail(err, TD_INTERNAL, NULL, -1, "the model's scores are no finite numbers");
  print_classes(&job->reply, job->model, &out, count);
  return TD_OK;
}

/* The error's type is called as TorchServe's exception of that status. */
static void refuse_prediction(serve_job *job, const td_error *err) {
  const char *type = job->status == 400 ? "BadRequestException" : "InternalServerException";
  job->reply.length = 0;
  base_text_print(&job->reply, "{\n  \"code\": %d,\n  \"type\": \"%s\",\n  \"message\": ", job->status, type);
  base_text_quote(&job->reply, err->text, strlen(err->text));
  base_text_print(&job->reply, "\n}\n");
}

void serve_predict(serve_job *job, td_session *session) {
  td_error err = {.offset = -1};
  const td_status status = predict(job, session, &err);
  finish(job, status, &err);
  if (status != TD_OK) refuse_prediction(job, &err);
}
