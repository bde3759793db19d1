/* v1.c -- KServe's first protocol, as TensorFlow Serving has it: {"instances": [...]} in rows, {"predictions": [...]}
 * back, as nested lists of JSON. Types are the model's own; sizes follow from how the lists are nested. */
#include <string.h>

#include "fmt/json.h"
#include "server.h"

static td_status bad(td_error *err, const char *name, const char *text) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1, "%s", text);
}

/* ---- in ---- */

/* The value of an input in one row: a member of the row, or the row itself where the model has one input alone. */
static const fmt_json *value_of(const serve_job *job, const fmt_json *row, const char *name) {
  const fmt_json *named = fmt_json_get(row, name);
  if (named || td_model_input_count(job->version->model) != 1) return named;
  return !fmt_json_is(row, FMT_JSON_OBJECT) || fmt_json_get(row, "b64") ? row : NULL;
}

/* Text of JSON, or {"b64": "..."}. */
static const fmt_json *text_of(const fmt_json *value) {
  const fmt_json *packed = fmt_json_get(value, "b64");
  if (packed) value = packed;
  return fmt_json_text(value) ? value : NULL;
}

/* Numbers in lists whose sizes are dims[from...]. */
static bool fill(const td_tensor *t, int32_t from, int64_t *at, const fmt_json *value) {
  if (from == t->rank) return serve_store_number(t, (*at)++, value);
  if (!fmt_json_is(value, FMT_JSON_ARRAY) || (int64_t)fmt_json_count(value) != t->dims[from]) return false;
  for (size_t i = 0; i < fmt_json_count(value); i++)
    if (!fill(t, from + 1, at, fmt_json_at(value, i))) return false;
  return true;
}

static td_status read_numbers(serve_job *job, const fmt_json *rows, const td_value_info *info, td_tensor *t,
                              td_error *err) {
  int64_t count, at = 0;
  size_t bytes;
  *t = (td_tensor){.dtype = info->dtype, .rank = 1, .dims = {(int64_t)fmt_json_count(rows)}};
  for (const fmt_json *v = value_of(job, fmt_json_at(rows, 0), info->name); fmt_json_is(v, FMT_JSON_ARRAY);
       v = fmt_json_at(v, 0)) {
    if (t->rank == TD_MAX_RANK) return bad(err, info->name, "has more than 8 dimensions");
    t->dims[t->rank++] = (int64_t)fmt_json_count(v);
  }
  if (!base_numel(t->rank, t->dims, &count) || (uint64_t)count > job->count ||
      !base_dtype_bytes(t->dtype, count, &bytes))
    return bad(err, info->name, "has rows of different sizes");
  t->data = base_arena_alloc_uncleared(job->arena, bytes + 1, 64);
  if (!t->data) return base_no_memory(err, "an input");
  for (size_t i = 0; i < fmt_json_count(rows); i++)
    if (!fill(t, 1, &at, value_of(job, fmt_json_at(rows, i), info->name)))
      return bad(err, info->name, "has rows of different sizes, or values that its type does not hold");
  return TD_OK;
}

/* Texts, or files of pictures as base64. */
static td_status read_texts(serve_job *job, const fmt_json *rows, size_t index, const char *name, td_error *err) {
  const size_t count = fmt_json_count(rows);
  td_string *items = base_new(job->arena, td_string, count);
  const td_tensor t = {.dtype = TD_STRING, .rank = 1, .dims = {(int64_t)count}, .data = items};
  if (!items) return base_no_memory(err, "texts");
  for (size_t i = 0; i < count; i++) {
    const fmt_json *text = text_of(value_of(job, fmt_json_at(rows, i), name));
    if (!text) return bad(err, name, "has rows that are no texts");
    items[i] = (td_string){fmt_json_text(text), text->count};
  }
  return serve_give_strings(job, index, &t, NULL, err);
}

static td_status read_request(serve_job *job, td_error *err) {
  const td_model *model = job->version->model;
  const fmt_json *root;
  if (!job->count) return bad(err, NULL, "the request is empty: it takes {\"instances\": [...]}");
  if (job->count > SERVE_MOST_JSON)
    return bad(err, NULL, "more than 16 MiB of JSON: send tensors by V2 as binary data");
  TRY(fmt_json_read(job->arena, "the request", job->body, job->count, &root, err));
  const fmt_json *rows = fmt_json_get(root, "instances");
  if (!fmt_json_count(rows)) return bad(err, NULL, "the request has no \"instances\", or none in it");
  for (size_t i = 0; i < td_model_input_count(model); i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_input(model, i, &info, err));
    const fmt_json *first = value_of(job, fmt_json_at(rows, 0), info.name);
    if (!first) return bad(err, info.name, "is not among the instances' members");
    if (info.dtype == TD_STRING || text_of(first)) TRY(read_texts(job, rows, i, info.name, err));
    else TRY(read_numbers(job, rows, &info, &job->inputs[i], err));
  }
  return TD_OK;
}

/* ---- out ---- */

/* The element, or list of lists, of which `*at` is the first. */
static bool print_values(base_text *to, const td_tensor *t, int32_t from, int64_t *at) {
  if (from == t->rank) return serve_print_element(to, t, (*at)++);
  base_text_add(to, "[", 1);
  for (int64_t i = 0; i < t->dims[from]; i++) {
    if (i) base_text_add(to, ",", 1);
    if (!print_values(to, t, from + 1, at)) return false;
  }
  base_text_add(to, "]", 1);
  return true;
}

static td_status print_row(serve_job *job, const td_tensor *outputs, int64_t *at, size_t count, td_error *err) {
  base_text *to = &job->reply;
  if (count > 1) base_text_add(to, "{", 1);
  for (size_t i = 0; i < count; i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_output(job->version->model, i, &info, err));
    if (count > 1) {
      base_text_print(to, "%s", i ? "," : "");
      base_text_quote(to, info.name, strlen(info.name));
      base_text_print(to, ":");
    }
    if (!print_values(to, &outputs[i], 1, &at[i]))
      return bad(err, info.name, "holds numbers that JSON cannot say (infinite, or none): ask by V2 for binary data");
  }
  if (count > 1) base_text_add(to, "}", 1);
  return TD_OK;
}

static td_status write_reply(serve_job *job, const td_tensor *outputs, td_error *err) {
  const size_t count = td_model_output_count(job->version->model);
  int64_t *at = base_new(job->arena, int64_t, count + 1); /* how far each output is printed */
  if (!at) return base_no_memory(err, "the reply");
  for (size_t i = 0; i < count; i++)
    if (outputs[i].dtype == TD_INVALID || outputs[i].rank < 1 || outputs[i].dims[0] != outputs[0].dims[0])
      return base_fail(err, TD_UNSUPPORTED, NULL, -1, "the model's outputs are not by rows: ask it by V2");
  base_text_print(&job->reply, "{\"predictions\":[");
  for (int64_t row = 0; count && row < outputs[0].dims[0]; row++) {
    if (row) base_text_add(&job->reply, ",", 1);
    TRY(print_row(job, outputs, at, count, err));
  }
  base_text_print(&job->reply, "]}");
  return job->reply.failed ? base_no_memory(err, "the reply") : TD_OK;
}

const serve_protocol serve_v1 = {read_request, write_reply};
