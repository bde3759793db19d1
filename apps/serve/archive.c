/* archive.c -- archives of models (bundle.h): what MANIFEST.json names, with one of TorchServe's built-in handlers. Its
 * model is read like any other; other handlers, and models that are Python, are for python.c where that is allowed. */
#include <string.h>

#include "fmt/json.h"
#include "bundle.h"

enum { PLAN_ALIGNMENT = 64 };

static td_status find(const fmt_zip *zip, base_arena *arena, const char *name, const uint8_t **bytes, size_t *size,
                      td_error *err) {
  const fmt_zip_entry *entry = fmt_zip_find(zip, base_str_of(name));
  if (!entry) return base_fail(err, TD_BAD_FILE, name, -1, "the archive has no such file");
  *size = (size_t)entry->bytes;
  return fmt_zip_read(arena, zip, entry, bytes, err);
}

/* "label", or ["wnid", "label"], whose last counts. */
static const char *label_of(const fmt_json *value) {
  const size_t count = fmt_json_count(value);
  return fmt_json_text(count ? fmt_json_at(value, count - 1) : value);
}

static td_status read_labels(serve_version *v, const fmt_zip *zip, base_arena *arena, td_error *err) {
  static const char file[] = "index_to_name.json";
  const uint8_t *bytes;
  const fmt_json *root, *value;
  const char *key;
  size_t size, most = 0;
  if (!fmt_zip_find(zip, BASE_STR(file))) return TD_OK;
  TRY(find(zip, arena, file, &bytes, &size, err));
  TRY(fmt_json_read(arena, file, bytes, size, &root, err));
  const fmt_json *listed = fmt_json_get(root, "object_type_names"); /* as older archives have it */
  while (fmt_json_member(root, most, &key)) most++;
  if (listed) most = fmt_json_count(listed);
  v->labels = base_new(arena, const char *, most);
  if (!v->labels) return base_no_memory(err, "labels");
  v->label_count = most;
  for (size_t i = 0; listed && i < most; i++) v->labels[i] = fmt_json_text(fmt_json_at(listed, i));
  for (size_t i = 0; !listed && (value = fmt_json_member(root, i, &key)); i++) {
    int64_t index;
    if (!base_str_int(base_str_of(key), &index) || index < 0 || (size_t)index >= most || !label_of(value))
      return base_fail(err, TD_BAD_FILE, file, -1, "is not {\"0\": \"label\", ...} with a label for each class");
    v->labels[index] = label_of(value);
  }
  return TD_OK;
}

static td_status read_vocabulary(serve_version *v, const fmt_zip *zip, td_error *err) {
  static const char file[] = "source_vocab.json";
  const uint8_t *bytes;
  size_t size;
  if (!fmt_zip_find(zip, BASE_STR(file)) && fmt_zip_find(zip, BASE_STR("source_vocab.pt")))
    return base_fail(err, TD_UNSUPPORTED, "source_vocab.pt", -1,
                     "is a pickle, which is not executed: add the vocabulary as %s, {\"word\": number, ...}", file);
  TRY(find(zip, v->arena, file, &bytes, &size, err));
  return fmt_json_read(v->arena, file, bytes, size, &v->vocabulary, err);
}

/* The numbers of the file that the manifest names, if it names one. */
static td_status read_config(serve_version *v, const fmt_zip *zip, const fmt_json *model, td_error *err) {
  const char *file = fmt_json_text(fmt_json_get(model, "configFile"));
  serve_config config = SERVE_SAYS_NOTHING;
  const uint8_t *bytes;
  size_t size;
  if (!file || !*file) return TD_OK;
  TRY(find(zip, v->arena, file, &bytes, &size, err));
  TRY(serve_read_yaml(file, bytes, size, &config, err));
  serve_configure(v, &config);
  return TD_OK;
}

/* As if the archive were a model's whose manifest names that handler. */
td_status serve_open_function(serve_version *v, const char *path, const char *handler, td_error *err) {
  base_text manifest = {.allocator = &base_libc_allocator};
  fmt_zip zip;
  if (!v->server->options.python_handlers)
    return base_fail(err, TD_UNSUPPORTED, handler, -1,
                     "is a function of a workflow's handler: Python in an archive is run with --python-handlers alone");
  TRY(sys_file_map(path, &v->archive, err));
  TRY(fmt_zip_open(v->arena, v->archive.bytes, v->archive.size, &zip, err));
  base_text_print(&manifest, "{\"model\":{\"modelName\":");
  base_text_quote(&manifest, v->name, strlen(v->name));
  base_text_print(&manifest, ",\"handler\":");
  base_text_quote(&manifest, handler, strlen(handler));
  base_text_print(&manifest, "}}");
  const char *text = manifest.failed ? NULL : base_arena_slice(v->arena, manifest.at, manifest.length);
  base_text_free(&manifest);
  v->runtime = "python";
  return text ? serve_python_open(v, &zip, text, NULL, err) : base_no_memory(err, "a workflow");
}

/* Saved plans are used where they lie, at a multiple of 64 bytes; archives put files anywhere. */
static bool is_aligned(const char *file, const uint8_t *bytes) {
  return !base_str_ends(base_str_of(file), ".tdl") || (uintptr_t)bytes % PLAN_ALIGNMENT == 0;
}

/* The bytes of the model's file, for as long as the version. */
static td_status find_model(serve_version *v, const fmt_zip *zip, const char *file, const uint8_t **bytes, size_t *size,
                            td_error *err) {
  base_arena *inflated = base_arena_new(&base_libc_allocator);
  td_status status = inflated ? find(zip, inflated, file, bytes, size, err) : base_no_memory(err, "a model");
  const bool is_inflated = status == TD_OK && base_arena_holds(inflated, *bytes);
  if (is_inflated && bundle_set_aside(*bytes, *size, &v->inflated)) {
    *bytes = v->inflated.bytes;
  } else if (status == TD_OK && (is_inflated || !is_aligned(file, *bytes))) {
    uint8_t *copy = base_arena_alloc_uncleared(v->arena, *size + 1, PLAN_ALIGNMENT);
    if (copy) *bytes = memcpy(copy, *bytes, *size);
    else status = base_no_memory(err, "a model");
  }
  base_arena_free(inflated);
  return status;
}

td_status serve_open_archive(serve_version *v, const char *path, bool is_named, td_error *err) {
  base_arena *arena = v->arena;
  static const char manifest[] = "MAR-INF/MANIFEST.json";
  const uint8_t *bytes;
  const fmt_json *root;
  size_t size;
  fmt_zip zip;
  TRY(bundle_open(v, path, &zip, err));
  TRY(find(&zip, arena, manifest, &bytes, &size, err));
  TRY(fmt_json_read(arena, manifest, bytes, size, &root, err));
  const fmt_json *model = fmt_json_get(root, "model");
  const char *handler = fmt_json_text(fmt_json_get(model, "handler"));
  const char *file = fmt_json_text(fmt_json_get(model, "serializedFile"));
  const char *number = fmt_json_text(fmt_json_get(model, "modelVersion"));
  const char *name = fmt_json_text(fmt_json_get(model, "modelName"));
  if (name && !is_named) v->name = name;
  if (number) v->number = number;
  v->runtime = "python"; /* what describes it names TorchServe's */
  v->handler = serve_find_handler(handler);
  const bool is_code = !file || fmt_json_text(fmt_json_get(model, "modelFile"));
  if (handler && (!v->handler || is_code) && v->server->options.python_handlers) {
    TRY(read_config(v, &zip, model, err));
    return serve_python_open(v, &zip, base_arena_slice(arena, (const char *)bytes, size), file, err);
  }
  if (!v->handler)
    return base_fail(err, TD_UNSUPPORTED, path, -1,
                     "its handler is %s, none of TorchServe's built-in ones, and Python in an archive is run with "
                     "--python-handlers alone",
                     handler ? handler : "not named");
  if (is_code)
    return base_fail(err, TD_UNSUPPORTED, path, -1,
                     "its model is a Python file: archive it as TorchScript or ONNX, or have it run by "
                     "--python-handlers");
  TRY(read_labels(v, &zip, arena, err));
  if (v->handler->protocol == &serve_text) TRY(read_vocabulary(v, &zip, err));
  TRY(read_config(v, &zip, model, err));
  TRY(find_model(v, &zip, file, &bytes, &size, err));
  const bool is_script = base_str_ends(base_str_of(file), ".pt") || base_str_ends(base_str_of(file), ".pth");
  td_load_options options = v->server->load;
  options.inputs = is_script ? v->handler->inputs : NULL;
  options.input_count = is_script ? v->handler->input_count : 0;
  return td_model_load_memory(bytes, size, &options, &v->model, err);
}
