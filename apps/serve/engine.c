/* engine.c -- computes for Python handlers: the archive's model, loaded once for all workers of a version, and a
 * session of each worker. A TorchScript file does not say its inputs: it is compiled for those that the handler gives,
 * the first size open, and once more with more sizes open where later ones differ. */
#include <string.h>

#include "worker.h"

enum { MOST_TENSORS = 64, MOST_ENGINES = 8 };

typedef struct given {
  td_tensor tensors[MOST_TENSORS];
  const char *names[MOST_TENSORS]; /* NULL: by its place */
  size_t count;
} given;

static td_status read_given(frame *asked, given *g, td_error *err) {
  const fmt_json *inputs = fmt_json_get(asked->root, "inputs");
  g->count = fmt_json_count(inputs);
  if (!g->count || g->count > MOST_TENSORS)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a model takes 1 to %d tensors from a handler", MOST_TENSORS);
  for (size_t i = 0; i < g->count; i++) {
    const fmt_json *item = fmt_json_at(inputs, i);
    g->names[i] = fmt_json_text(fmt_json_get(item, "name"));
    TRY(frame_take_tensor(asked, item, &g->tensors[i], err));
  }
  return frame_end(asked, err);
}

static bool fits(const python_engine *e, const given *g) {
  if (!e->specs) return true;
  if (e->count != g->count) return false;
  for (size_t i = 0; i < g->count; i++) {
    const td_tensor *t = &g->tensors[i];
    if (e->specs[i].dtype != t->dtype || e->specs[i].rank != t->rank) return false;
    for (int32_t d = 0; d < t->rank; d++)
      if (e->specs[i].dims[d] >= 0 && e->specs[i].dims[d] != t->dims[d]) return false;
  }
  return true;
}

/* Sizes as in `g`; open are the first one, and those in which `last` differs. */
static td_input_spec *make_specs(base_arena *arena, const given *g, const python_engine *last) {
  td_input_spec *specs = base_new(arena, td_input_spec, g->count);
  if (last && last->count != g->count) last = NULL;
  for (size_t i = 0; specs && i < g->count; i++) {
    const td_tensor *t = &g->tensors[i];
    const td_input_spec *before = last && last->specs[i].rank == t->rank ? &last->specs[i] : NULL;
    specs[i] = (td_input_spec){.dtype = t->dtype, .rank = t->rank};
    for (int32_t d = 0; d < t->rank; d++)
      specs[i].dims[d] = d == 0 || (before && before->dims[d] != t->dims[d]) ? -1 : t->dims[d];
  }
  return specs;
}

/* With p->building held. */
static td_status add_engine(serve_version *v, const given *g, const python_engine **out, td_error *err) {
  serve_python *p = v->python;
  td_load_options options = v->server->load;
  const base_str file = base_str_of(p->file);
  const bool is_script = base_str_ends(file, ".pt") || base_str_ends(file, ".pth");
  uint32_t count = 0;
  for (const python_engine *e = p->engines; e; e = e->next) count++;
  python_engine *e = base_new(v->arena, python_engine, 1);
  if (!e) return base_no_memory(err, "a model");
  if (count == MOST_ENGINES)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "the handler gives tensors of too many types, ranks and sizes");
  *e = (python_engine){.next = p->engines, .count = g->count};
  if (is_script) {
    options.inputs = e->specs = make_specs(v->arena, g, p->engines);
    options.input_count = g->count;
    if (!e->specs) return base_no_memory(err, "a model");
  }
  TRY(td_model_load(p->file, &options, &e->model, err));
  p->engines = e;
  *out = e;
  return TD_OK;
}

static td_status find_engine(serve_version *v, const given *g, const python_engine **out, td_error *err) {
  serve_python *p = v->python;
  td_status status = TD_OK;
  if (!p->file) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the archive has no serialized file");
  pthread_mutex_lock(&p->building);
  *out = p->engines;
  while (*out && !fits(*out, g)) *out = (*out)->next;
  if (!*out) status = add_engine(v, g, out, err);
  pthread_mutex_unlock(&p->building);
  return status;
}

static td_status run(serve_worker *w, const given *g, const worker_wait *wait, td_error *err) {
  const python_engine *e = NULL;
  TRY(find_engine(w->version, g, &e, err));
  if (w->engine != e) {
    serve_session_free(w->session);
    w->session = NULL;
    w->engine = NULL;
    TRY(serve_session_new(w->version->server, e->model, 0, &w->session, err));
    w->engine = e;
  }
  td_session *session = serve_session_run(w->session);
  for (size_t i = 0; i < td_model_input_count(e->model); i++) TRY(td_session_clear_input(session, i, err));
  if (td_model_state_count(e->model)) TRY(td_session_reset(session, err));
  for (size_t i = 0; i < g->count; i++) {
    size_t index = i;
    if (g->names[i]) TRY(td_model_find_input(e->model, g->names[i], &index, err));
    if (index >= td_model_input_count(e->model))
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "the model has %zu inputs", td_model_input_count(e->model));
    TRY(td_session_set_input(session, index, &g->tensors[i], err));
  }
  const td_run_options limits = {.size = sizeof limits, .deadline_ns = wait->until_ns};
  return td_session_run_with(session, &limits, err);
}

/* Adds an output to the text, and its bytes to `parts`. */
static td_status add_output(const serve_worker *w, size_t index, base_text *text, base_str *part, td_error *err) {
  td_value_info info = {.size = sizeof info};
  td_tensor t;
  int64_t count = 0;
  TRY(td_model_output(w->engine->model, index, &info, err));
  if (strcmp(info.kind, "tensor") != 0)
    return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is no tensor: handlers get tensors alone");
  TRY(td_session_output(serve_session_run(w->session), index, &t, err));
  if (t.dtype == TD_STRING || !base_numel(t.rank, t.dims, &count) || !base_dtype_bytes(t.dtype, count, &part->length))
    return base_fail(err, TD_UNSUPPORTED, info.name, -1, "is a tensor that handlers cannot have");
  part->at = t.data;
  base_text_print(text, "%s{\"name\":", index ? "," : "");
  base_text_quote(text, info.name, strlen(info.name));
  base_text_print(text, ",\"dtype\":\"%s\",\"bytes\":%zu,\"shape\":[", td_dtype_name(t.dtype), part->length);
  for (int32_t d = 0; d < t.rank; d++) base_text_print(text, "%s%lld", d ? "," : "", (long long)t.dims[d]);
  base_text_print(text, "]}");
  return TD_OK;
}

static td_status compute(serve_worker *w, frame *asked, base_text *text, base_str *parts, const worker_wait *wait,
                         td_error *err) {
  given g = {.count = 0};
  TRY(read_given(asked, &g, err));
  TRY(run(w, &g, wait, err));
  const size_t outputs = td_model_output_count(w->engine->model);
  if (outputs > MOST_TENSORS) return base_fail(err, TD_UNSUPPORTED, NULL, -1, "the model has too many outputs");
  base_text_print(text, "{\"outputs\":[");
  for (size_t i = 0; i < outputs; i++) TRY(add_output(w, i, text, &parts[i], err));
  base_text_print(text, "]}");
  return text->failed ? base_no_memory(err, "outputs") : TD_OK;
}

td_status python_run_engine(serve_worker *w, frame *asked, base_arena *arena, const worker_wait *wait, td_error *err) {
  base_text text = {.allocator = base_arena_allocator(arena)};
  base_str parts[MOST_TENSORS] = {0};
  td_error own = {.offset = -1};
  size_t count = 0;
  td_status status = compute(w, asked, &text, parts, wait, &own);
  if (status == TD_TIMED_OUT) {
    base_text_free(&text);
    return base_fail(err, TD_TIMED_OUT, NULL, -1, "the model does not compute in time");
  }
  if (status == TD_OK) count = td_model_output_count(w->engine->model);
  if (status != TD_OK) {
    text.length = 0;
    base_text_print(&text, "{\"error\":");
    base_text_quote(&text, own.text, strlen(own.text));
    base_text_print(&text, ",\"unsupported\":%s}",
                    status == TD_UNSUPPORTED || status == TD_BAD_FILE ? "true" : "false");
  }
  status = text.failed ? base_no_memory(err, "outputs")
                       : worker_send(w, FRAME_OUTPUTS, (base_str){text.at, text.length}, parts, count, wait, err);
  if (w->session) serve_session_settle(w->session);
  base_text_free(&text);
  return status;
}
