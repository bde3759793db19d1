/* v2.c -- KServe's inference: tensors of JSON and of bytes behind it, in and out. */
#include <stdio.h>
#include <string.h>

#include "fmt/image.h"
#include "fmt/json.h"
#include "member.h"
#include "server.h"

static const struct {
  const char *name;
  td_dtype dtype;
} datatypes[] = {{"BOOL", TD_BOOL}, {"UINT8", TD_U8},  {"UINT16", TD_U16}, {"UINT32", TD_U32},  {"UINT64", TD_U64},
                 {"INT8", TD_I8},   {"INT16", TD_I16}, {"INT32", TD_I32},  {"INT64", TD_I64},   {"FP16", TD_F16},
                 {"BF16", TD_BF16}, {"FP32", TD_F32},  {"FP64", TD_F64},   {"BYTES", TD_STRING}};
enum { DATATYPES = sizeof datatypes / sizeof *datatypes };

const char *serve_datatype(td_dtype dtype) {
  for (size_t i = 0; i < DATATYPES; i++)
    if (datatypes[i].dtype == dtype) return datatypes[i].name;
  return NULL;
}

td_dtype serve_dtype(base_str name) {
  for (size_t i = 0; i < DATATYPES; i++)
    if (base_str_is(name, datatypes[i].name)) return datatypes[i].dtype;
  return TD_INVALID;
}

static td_status bad(td_error *err, const char *name, const char *text) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s", text);
}

/* Whole numbers that a type does not hold are refused, not wrapped. */
bool serve_store_number(const td_tensor *t, int64_t index, const fmt_json *v) {
  if (!v) return false;
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
      if (*at == count || !serve_store_number(t, *at, v)) return false;
      ++*at;
    }
  }
  return true;
}

static td_status read_shape(const fmt_json *input, const char *name, td_tensor *t, size_t *bytes, td_error *err) {
  const fmt_json *shape = fmt_json_get(input, "shape");
  const char *type = fmt_json_text(fmt_json_get(input, "datatype"));
  int64_t count;
  t->dtype = serve_dtype(base_str_of(type));
  if (t->dtype == TD_INVALID)
    return bad(err, name, "has no datatype that is known: BOOL, INT8 to UINT64, FP16 to FP64, BF16, BYTES");
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

static bool fill_strings(td_string *items, int64_t *at, int64_t count, const fmt_json *list) {
  for (size_t i = 0; i < fmt_json_count(list); i++) {
    const fmt_json *v = fmt_json_at(list, i);
    if (fmt_json_is(v, FMT_JSON_ARRAY)) {
      if (!fill_strings(items, at, count, v)) return false;
    } else {
      if (*at == count || !fmt_json_text(v)) return false;
      items[(*at)++] = (td_string){fmt_json_text(v), v->count};
    }
  }
  return true;
}

/* BYTES: texts of JSON, or elements of binary data. */
static td_status read_strings(serve_job *job, size_t index, const fmt_json *input, td_tensor *t, base_str *rest,
                              td_error *err) {
  const char *name = fmt_json_text(fmt_json_get(input, "name"));
  const fmt_json *parameters = fmt_json_get(input, "parameters"), *size = fmt_json_get(parameters, "binary_data_size");
  const fmt_json *data = fmt_json_get(input, "data");
  int64_t count, at = 0;
  td_string *items = NULL;
  if (!base_numel(t->rank, t->dims, &count)) return bad(err, name, "has a shape too large");
  if (size) {
    if (data || !fmt_json_is(size, FMT_JSON_INT) || size->u.i < 0 || (uint64_t)size->u.i > rest->length)
      return bad(err, name, "binary_data_size is no number of bytes that there are");
    const size_t bytes = (size_t)size->u.i;
    TRY(serve_split_strings(job->arena, name, (base_str){rest->at, bytes}, count, &items, err));
    *rest = (base_str){rest->at + bytes, rest->length - bytes};
  } else {
    if ((uint64_t)count > job->count) return bad(err, name, "data does not fit shape and datatype");
    items = base_new(job->arena, td_string, (size_t)count + 1);
    if (!items) return base_no_memory(err, "texts");
    if (!fmt_json_is(data, FMT_JSON_ARRAY) || !fill_strings(items, &at, count, data) || at != count)
      return bad(err, name, "data does not fit shape and datatype");
  }
  t->data = items;
  return serve_give_strings(job, index, t, fmt_json_text(fmt_json_get(parameters, "preset")), err);
}

/* `*rest`: the bytes behind the JSON that are not taken yet. */
static td_status read_input(serve_job *job, const fmt_json *input, base_str *rest, td_error *err) {
  const char *name = fmt_json_text(fmt_json_get(input, "name"));
  const fmt_json *size = fmt_json_get(fmt_json_get(input, "parameters"), "binary_data_size");
  const fmt_json *data = fmt_json_get(input, "data");
  size_t index, bytes;
  td_tensor t = {0};
  if (!name) return bad(err, NULL, "an input has no name");
  TRY(td_model_find_input(job->version->model, name, &index, err));
  if (job->inputs[index].data) return bad(err, name, "is given twice");
  TRY(read_shape(input, name, &t, &bytes, err));
  if (t.dtype == TD_STRING) return read_strings(job, index, input, &t, rest, err);
  if (size) {
    if (data || !fmt_json_is(size, FMT_JSON_INT) || size->u.i < 0 || (uint64_t)size->u.i != bytes ||
        bytes > rest->length)
      return bad(err, name, "binary_data_size is not what shape and datatype say, or there are not so many bytes");
    t.data = (void *)(uintptr_t)rest->at; /* nobody writes to it; inputs may have any alignment */
    *rest = (base_str){rest->at + bytes, rest->length - bytes};
    for (size_t i = 0; t.dtype == TD_BOOL && i < bytes; i++)
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
  job->inputs[index] = t;
  return TD_OK;
}

static td_status print_data(base_text *to, const char *name, const td_tensor *t, int64_t count, td_error *err) {
  base_text_print(to, ",\"data\":[");
  for (int64_t i = 0; i < count; i++) {
    if (i) base_text_add(to, ",", 1);
    if (!serve_print_element(to, t, i))
      return bad(err, name, "holds numbers that JSON cannot say (infinite, or none): ask for binary data");
  }
  base_text_print(to, "]}");
  return TD_OK;
}

static bool wants_binary(const fmt_json *root, const fmt_json *output) {
  const fmt_json *own = fmt_json_get(fmt_json_get(output, "parameters"), "binary_data");
  if (!root) return true;
  return fmt_json_is(own ? own : fmt_json_get(fmt_json_get(root, "parameters"), "binary_data_output"), FMT_JSON_TRUE);
}

static td_status print_output(serve_job *job, const td_tensor *outputs, size_t index, bool binary, td_error *err) {
  td_value_info info = {.size = sizeof info};
  const td_tensor t = outputs[index];
  int64_t count;
  size_t bytes;
  base_text *to = &job->reply;
  TRY(td_model_output(job->version->model, index, &info, err));
  if (t.dtype == TD_INVALID) return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is no tensor");
  const char *type = serve_datatype(t.dtype);
  if (!type || !base_numel(t.rank, t.dims, &count) || !base_dtype_bytes(t.dtype, count, &bytes))
    return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is of a type that the protocol does not have");
  base_text_print(to, "{\"name\":");
  base_text_quote(to, info.name, strlen(info.name));
  base_text_print(to, ",\"shape\":[");
  for (int32_t i = 0; i < t.rank; i++) base_text_print(to, "%s%lld", i ? "," : "", (long long)t.dims[i]);
  base_text_print(to, "],\"datatype\":\"%s\"", type);
  if (!binary) return print_data(to, info.name, &t, count, err);
  if (t.dtype == TD_STRING) bytes = serve_strings_size(&t, count);
  base_text_print(to, ",\"parameters\":{\"binary_data_size\":%zu}}", bytes);
  return TD_OK;
}

/* Behind the JSON: it goes into the reply from where it was computed. */
static void add_bytes(base_text *to, const td_tensor *t) {
  int64_t count;
  size_t bytes;
  if (!base_numel(t->rank, t->dims, &count) || !base_dtype_bytes(t->dtype, count, &bytes)) return; /* not printed */
  if (t->dtype == TD_STRING) serve_put_strings(to, t, count);
  else base_text_add(to, t->data, bytes);
}

/* `binary`: gets the indices of the outputs whose bytes follow, *binaries of them; it has room for all. */
static td_status print_outputs(serve_job *job, const td_tensor *outputs, size_t *binary, size_t *binaries,
                               td_error *err) {
  const fmt_json *root = job->asked;
  const td_model *model = job->version->model;
  const fmt_json *asked = fmt_json_get(root, "outputs");
  const char *id = fmt_json_text(fmt_json_get(root, "id"));
  const size_t all = td_model_output_count(model), count = asked ? fmt_json_count(asked) : all;
  base_text_print(&job->reply, "{\"model_name\":");
  base_text_quote(&job->reply, job->version->name, strlen(job->version->name));
  base_text_print(&job->reply, ",\"model_version\":");
  base_text_quote(&job->reply, job->version->number, strlen(job->version->number));
  if (id) {
    base_text_print(&job->reply, ",\"id\":");
    base_text_quote(&job->reply, id, strlen(id));
  }
  base_text_print(&job->reply, ",\"outputs\":[");
  for (size_t i = 0; i < count; i++) {
    const fmt_json *output = fmt_json_at(asked, i);
    const char *name = fmt_json_text(fmt_json_get(output, "name"));
    size_t index = i;
    if (asked) TRY(td_model_find_output(model, name, &index, err));
    if (i) base_text_add(&job->reply, ",", 1);
    const bool is_binary = wants_binary(root, output);
    if (is_binary) binary[(*binaries)++] = index;
    TRY(print_output(job, outputs, index, is_binary, err));
  }
  base_text_print(&job->reply, "]}");
  return TD_OK;
}

/* The whole body is the one input that the model has: its open size follows from the bytes. All outputs are bytes. */
static td_status read_bytes(serve_job *job, td_error *err) {
  td_value_info info = {.size = sizeof info};
  int64_t rest = 1, *open = NULL;
  size_t each;
  if (td_model_input_count(job->version->model) != 1) return bad(err, NULL, "bytes alone are for models of one input");
  TRY(td_model_input(job->version->model, 0, &info, err));
  if (info.rank < 0 || !base_dtype_bytes(info.dtype, 1, &each) || !each)
    return bad(err, info.name, "is of a type or rank that bytes alone do not give");
  td_tensor *t = &job->inputs[0];
  if (info.dtype == TD_STRING || fmt_image_sniff(job->body, job->count)) { /* one element, without its length */
    td_string one = {job->body, job->count};
    td_tensor item = {
        .dtype = TD_STRING, .rank = 1, .dims = {1}, .data = base_arena_copy(job->arena, &one, sizeof one)};
    return item.data ? serve_give_strings(job, 0, &item, NULL, err) : base_no_memory(err, "an input");
  }
  *t = (td_tensor){.dtype = info.dtype, .rank = info.rank, .data = job->body};
  for (int32_t i = 0; i < info.rank; i++) {
    t->dims[i] = info.dims[i];
    if (i == 0 && info.dims[i] == -1) t->dims[i] = 1; /* the batch */
    else if (info.dims[i] == -1 && open) return bad(err, info.name, "has more than one open size");
    else if (info.dims[i] == -1) open = &t->dims[i];
    if (&t->dims[i] != open && !base_mul_i64(rest, t->dims[i], &rest)) return bad(err, info.name, "is too large");
  }
  if (open) *open = rest > 0 ? (int64_t)(job->count / each) / rest : 0;
  const int64_t all = open ? rest * *open : rest;
  if ((uint64_t)all > job->count || (uint64_t)all * each != job->count)
    return bad(err, info.name, "there are not the bytes that its shape asks for");
  return TD_OK;
}

/* ---- sequences ---- */

static size_t json_bytes(const serve_job *job) { return job->json_count < 0 ? job->count : (size_t)job->json_count; }

bool serve_name_v2(serve_job *job) {
  static const char key[] = "\"sequence_";
  const size_t count = json_bytes(job);
  const fmt_json *root;
  td_error err = {.offset = -1};
  if (!count || count > SERVE_MOST_JSON || !memmem(job->body, count, key, sizeof key - 1)) return true;
  const base_str text = serve_find_member((base_str){job->body, count}, "parameters");
  if (!text.length || fmt_json_read(job->arena, "parameters", text.at, text.length, &root, &err) != TD_OK) return true;
  const fmt_json *id = fmt_json_get(root, "sequence_id");
  base_str name = {NULL, 0};
  char number[24];
  if (fmt_json_is(id, FMT_JSON_TEXT)) name = (base_str){fmt_json_text(id), id->count};
  else if (fmt_json_is(id, FMT_JSON_INT) && id->u.i >= 0)
    name = (base_str){number, (size_t)snprintf(number, sizeof number, "%lld", (long long)id->u.i)};
  else if (id) {
    serve_refuse(job, 400, "sequence_id is neither a text nor a number from 1 to %lld", (long long)INT64_MAX);
    return false;
  }
  return serve_name_sequence(job, name, fmt_json_is(fmt_json_get(root, "sequence_start"), FMT_JSON_TRUE),
                             fmt_json_is(fmt_json_get(root, "sequence_end"), FMT_JSON_TRUE));
}

/* ---- requests ---- */

/* What cannot be replied is refused before it is computed: the state of a sequence is not to be ahead of its replies.
 */
static td_status check_outputs(const serve_job *job, const fmt_json *root, td_error *err) {
  const td_model *model = job->version->model;
  const fmt_json *asked = fmt_json_get(root, "outputs");
  const size_t all = td_model_output_count(model), count = asked ? fmt_json_count(asked) : all;
  if (count > all) return bad(err, NULL, "more outputs are asked for than the model has");
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    const fmt_json *output = fmt_json_at(asked, i);
    const char *name = fmt_json_text(fmt_json_get(output, "name"));
    size_t index = i;
    if (asked && !name) return bad(err, NULL, "an output has no name");
    if (asked) TRY(td_model_find_output(model, name, &index, err));
    TRY(td_model_output(model, index, &info, err));
    if ((info.dtype == TD_F16 || info.dtype == TD_BF16) && !wants_binary(root, output))
      return bad(err, info.name, "FP16 and BF16 are given as binary data alone");
  }
  return TD_OK;
}

static td_status read_request(serve_job *job, td_error *err) {
  const fmt_json *root;
  if (!job->body) return bad(err, NULL, "the request is empty");
  if (job->json_count == 0) return read_bytes(job, err);
  const size_t json = json_bytes(job);
  base_str rest = {job->body + json, job->count - json};
  if (json > SERVE_MOST_JSON) return bad(err, NULL, "more than 16 MiB of JSON: send tensors as binary data");
  TRY(fmt_json_read(job->arena, "the request", job->body, json, &root, err));
  job->asked = root;
  const fmt_json *inputs = fmt_json_get(root, "inputs");
  const fmt_json *limit = fmt_json_get(fmt_json_get(root, "parameters"), "timeout");
  if (!job->sequence && td_model_state_count(job->version->model) &&
      fmt_json_get(fmt_json_get(root, "parameters"), "sequence_id"))
    return bad(err, NULL, "sequence_id is written with escapes"); /* by which it was not found */
  if (fmt_json_is(limit, FMT_JSON_INT) && limit->u.i > 0 && limit->u.i < SERVE_MOST_TIMEOUT_US)
    serve_limit(job, (uint64_t)limit->u.i * 1000u);
  if (!fmt_json_is(inputs, FMT_JSON_ARRAY)) return bad(err, NULL, "the request has no inputs");
  TRY(check_outputs(job, root, err));
  for (size_t i = 0; i < fmt_json_count(inputs); i++) TRY(read_input(job, fmt_json_at(inputs, i), &rest, err));
  return rest.length ? bad(err, NULL, "there are bytes behind the last tensor") : TD_OK;
}

static td_status write_reply(serve_job *job, const td_tensor *outputs, td_error *err) {
  size_t binaries = 0, *binary = base_new(job->arena, size_t, td_model_output_count(job->version->model) + 1);
  if (!binary) return base_no_memory(err, "the reply");
  TRY(print_outputs(job, outputs, binary, &binaries, err));
  if (binaries) job->reply_json = job->reply.length;
  for (size_t i = 0; i < binaries; i++) add_bytes(&job->reply, &outputs[binary[i]]);
  return job->reply.failed ? base_no_memory(err, "the reply") : TD_OK;
}

const serve_protocol serve_v2 = {read_request, write_reply};
