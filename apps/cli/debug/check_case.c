/* check_case.c -- one recorded case: read, run, compare, set by set.
 *
 * Two layouts. ONNX: model.onnx, test_data_set_N/input_I.pb and output_I.pb in the order of the model's inputs and
 * outputs, and perhaps data.json with tolerances. case.json: names the model, its files (.npy) by input and output
 * name, tolerances, and perhaps several sets. */
#include <math.h>
#include <string.h>

#include "check.h"
#include "common/feed.h"
#include "common/session.h"
#include "common/values.h"
#include "tolerance.h"

static const double default_rtol = 1e-3, default_atol = 1e-7;

typedef struct case_file {
  const char *name; /* of the input or output; NULL: by position */
  const char *path;
} case_file;

typedef struct case_side {
  case_file *files;
  size_t count;
} case_side;

typedef struct case_set {
  const char *name;
  case_side inputs, outputs;
} case_set;

typedef struct check_running {
  const char *folder;
  base_arena *arena;
  const char *model_path;
  bool recorded; /* the files are ONNX values, not .npy */
  cli_tolerance tolerance;
  json_t *description; /* case.json; NULL: the ONNX layout */
  BASE_VEC(case_set) sets;
  td_model *model;
} check_running;

static char *join(base_arena *arena, const char *folder, const char *name) {
  return base_arena_format(arena, "%s/%s", folder, name);
}

/* ---- the ONNX layout ---- */

static td_status list_side(check_running *c, const char *folder, const char *prefix, case_side *side, td_error *err) {
  const char **names;
  TRY(check_list(folder, prefix, c->arena, &names, &side->count, err));
  side->files = base_new(c->arena, case_file, side->count + 1);
  if (!side->files) return base_no_memory(err, folder);
  for (size_t i = 0; i < side->count; i++) {
    side->files[i].path = base_arena_format(c->arena, "%s/%s%zu.pb", folder, prefix, i);
    if (!side->files[i].path) return base_no_memory(err, folder);
  }
  return TD_OK;
}

static void read_tolerance(const json_t *object, cli_tolerance *tolerance) {
  const json_t *rtol = json_object_get(object, "rtol"), *atol = json_object_get(object, "atol");
  if (json_is_number(rtol)) tolerance->rtol = json_number_value(rtol);
  if (json_is_number(atol)) tolerance->atol = json_number_value(atol);
}

static td_status load_json(const char *path, json_t **root, td_error *err) {
  json_error_t where;
  *root = json_load_file(path, 0, &where);
  if (*root) return TD_OK;
  return base_fail(err, TD_BAD_FILE, path, where.position, "line %d: %s", where.line, where.text);
}

static td_status read_onnx_case(check_running *c, td_error *err) {
  c->recorded = true;
  c->tolerance = (cli_tolerance){.rtol = default_rtol, .atol = default_atol};
  c->model_path = join(c->arena, c->folder, "model.onnx");
  const char *extra = join(c->arena, c->folder, "data.json");
  if (!c->model_path || !extra) return base_no_memory(err, c->folder);
  const char **sets;
  size_t count;
  TRY(check_list(c->folder, "data.json", c->arena, &sets, &count, err));
  if (count) {
    json_t *root;
    TRY(load_json(extra, &root, err));
    read_tolerance(root, &c->tolerance);
    json_decref(root);
  }
  TRY(check_list(c->folder, "test_data_set_", c->arena, &sets, &count, err));
  for (size_t i = 0; i < count; i++) {
    const char *folder = join(c->arena, c->folder, sets[i]);
    case_set *set = base_vec_push(c->arena, &c->sets);
    if (!folder || !set) return base_no_memory(err, c->folder);
    set->name = sets[i];
    TRY(list_side(c, folder, "input_", &set->inputs, err));
    TRY(list_side(c, folder, "output_", &set->outputs, err));
  }
  return TD_OK;
}

/* ---- the case.json layout ---- */

static td_status json_side(check_running *c, const json_t *array, case_side *side, td_error *err) {
  side->count = json_array_size(array);
  side->files = base_new(c->arena, case_file, side->count + 1);
  if (!side->files) return base_no_memory(err, c->folder);
  for (size_t i = 0; i < side->count; i++) {
    const json_t *entry = json_array_get(array, i);
    const char *name = json_string_value(json_object_get(entry, "name"));
    const char *file = json_string_value(json_object_get(entry, "file"));
    if (!file) return base_fail(err, TD_BAD_FILE, "case.json", -1, "an input or output has no `file`");
    side->files[i].name = name ? base_arena_text(c->arena, name) : NULL;
    side->files[i].path = join(c->arena, c->folder, file);
    if (!side->files[i].path || (name && !side->files[i].name)) return base_no_memory(err, c->folder);
  }
  return TD_OK;
}

static td_status json_set(check_running *c, const json_t *object, size_t number, td_error *err) {
  case_set *set = base_vec_push(c->arena, &c->sets);
  if (!set) return base_no_memory(err, c->folder);
  set->name = base_arena_format(c->arena, "set %zu", number);
  if (!set->name) return base_no_memory(err, c->folder);
  TRY(json_side(c, json_object_get(object, "inputs"), &set->inputs, err));
  TRY(json_side(c, json_object_get(object, "outputs"), &set->outputs, err));
  if (!set->outputs.count) return base_fail(err, TD_BAD_FILE, "case.json", -1, "%s has no outputs", set->name);
  return TD_OK;
}

static td_status read_json_root(check_running *c, const json_t *root, td_error *err) {
  const char *file = json_string_value(json_object_get(root, "file"));
  if (!file) return base_fail(err, TD_BAD_FILE, "case.json", -1, "`file`, the name of the model, is missing");
  c->model_path = join(c->arena, c->folder, file);
  if (!c->model_path) return base_no_memory(err, c->folder);
  c->tolerance = (cli_tolerance){.rtol = default_rtol, .atol = default_atol, .exact_integers = true};
  read_tolerance(root, &c->tolerance);
  const json_t *sets = json_object_get(root, "sets");
  if (!sets) return json_set(c, root, 0, err);
  for (size_t i = 0; i < json_array_size(sets); i++) TRY(json_set(c, json_array_get(sets, i), i, err));
  return c->sets.count ? TD_OK : base_fail(err, TD_BAD_FILE, "case.json", -1, "`sets` is empty");
}

static td_status read_json_case(check_running *c, const char *path, td_error *err) {
  json_t *root;
  TRY(load_json(path, &root, err));
  c->description = root;
  return read_json_root(c, root, err);
}

/* ---- running ---- */

static td_status read_file(const check_running *c, const case_file *file, const td_value_info *info, base_value *value,
                           td_error *err) {
  app_read_how how = {.arena = c->arena, .info = info};
  if (c->recorded) return app_read_recorded(file->path, &how, value, err);
  app_named_vec found = {0};
  TRY(app_read_values(file->path, &how, &found, err));
  if (found.count != 1) return base_fail(err, TD_BAD_FILE, file->path, -1, "one value is needed, not %u", found.count);
  *value = found.at[0].value;
  return TD_OK;
}

/* Dimensions that the case calls open carry a name of their own. */
static void open_dims(const check_running *c, const char *name, td_input_spec *spec) {
  const json_t *open = json_object_get(json_object_get(c->description, "dynamic"), name);
  const char *key;
  json_t *value;
  json_object_foreach((json_t *)(uintptr_t)open, key, value) {
    int64_t dim = -1;
    if (!base_str_int(base_str_of(key), &dim) || dim < 0 || dim >= spec->rank) continue;
    spec->dims[dim] = -1;
    spec->symbols[dim] = json_string_value(value);
  }
}

/* What the inputs are, for models whose file does not say it: as the first set has them. */
static td_status make_specs(const check_running *c, td_load_options *options, td_error *err) {
  const case_side *side = &c->sets.at[0].inputs;
  const json_t *paths = json_object_get(c->description, "arguments");
  td_input_spec *specs = base_new(c->arena, td_input_spec, side->count + 1);
  if (!specs) return base_no_memory(err, c->folder);
  for (size_t i = 0; i < side->count; i++) {
    base_value value;
    TRY(read_file(c, &side->files[i], NULL, &value, err));
    TRY(app_spec_of_value(&value, side->files[i].name, &specs[i], err));
    specs[i].path = json_string_value(json_array_get(paths, i));
    open_dims(c, side->files[i].name, &specs[i]);
  }
  options->inputs = specs;
  options->input_count = side->count;
  return TD_OK;
}

static td_status bind_inputs(const check_running *c, td_session *session, const case_side *side, td_error *err) {
  size_t count = td_model_input_count(c->model);
  if (side->count > count) {
    return base_fail(err, TD_ANSWER_NO, NULL, -1, "the model has %zu inputs, the case %zu", count, side->count);
  }
  for (size_t i = 0; i < side->count; i++) {
    const case_file *file = &side->files[i];
    size_t index = i;
    td_value_info info = {.size = sizeof info};
    base_value value;
    if (file->name) TRY(td_model_find_input(c->model, file->name, &index, err));
    TRY(td_model_input(c->model, index, &info, err));
    TRY(read_file(c, file, &info, &value, err));
    TRY(base_error_name(err, app_bind(session, index, &value, c->arena, err), "input %s", info.name));
  }
  return TD_OK;
}

/* The output of this name; where there is none, "output_3" is the fourth: what a recorder calls those of a tuple. */
static td_status find_output(const check_running *c, const char *name, size_t *index, td_error *err) {
  static const char prefix[] = "output_";
  int64_t number;
  td_status status = td_model_find_output(c->model, name, index, err);
  if (status == TD_OK || strncmp(name, prefix, sizeof prefix - 1) != 0) return status;
  if (!base_str_int(base_str_of(name + sizeof prefix - 1), &number) || number < 0) return status;
  if ((size_t)number >= td_model_output_count(c->model)) return status;
  *index = (size_t)number;
  return TD_OK;
}

static td_status compare_outputs(const check_running *c, td_session *session, const case_side *side, td_error *err) {
  size_t count = td_model_output_count(c->model);
  if (side->count != count) {
    return base_fail(err, TD_ANSWER_NO, NULL, -1, "the model has %zu outputs, expected %zu", count, side->count);
  }
  for (size_t i = 0; i < side->count; i++) {
    const case_file *file = &side->files[i];
    size_t index = i;
    td_value_info info = {.size = sizeof info};
    base_value got, expected;
    if (file->name) TRY(find_output(c, file->name, &index, err));
    TRY(td_model_output(c->model, index, &info, err));
    TRY(read_file(c, file, &info, &expected, err));
    TRY(base_error_name(err, app_fetch(c->model, session, index, c->arena, &got, err), "output %s", info.name));
    td_status status = cli_within(&got, &expected, &c->tolerance, err);
    if (status != TD_OK) {
      char item[64];
      snprintf(item, sizeof item, "%s%.60s", err->name[0] ? ", " : "", err->name);
      err->name[0] = 0;
      return base_error_name(err, status, "output %s%s", info.name, item);
    }
  }
  return TD_OK;
}

static td_status run_set(const check_running *c, const case_set *set, td_error *err) {
  td_session_options options = {.size = sizeof options};
  td_session *session;
  TRY(td_session_new(c->model, &options, &session, err));
  td_status status = bind_inputs(c, session, &set->inputs, err);
  if (status == TD_OK) status = td_session_run(session, err);
  if (status == TD_OK) status = compare_outputs(c, session, &set->outputs, err);
  td_session_free(session);
  if (status == TD_OK || c->sets.count == 1) return status;
  char name[sizeof err->name];
  snprintf(name, sizeof name, "%s", err->name);
  err->name[0] = 0;
  return base_error_name(err, status, "%s%s%s", set->name, name[0] ? ": " : "", name);
}

static td_status run_case(check_running *c, const check_settings *settings, td_error *err) {
  const char *description = join(c->arena, c->folder, "case.json");
  const char **names;
  size_t count;
  if (!description) return base_no_memory(err, c->folder);
  TRY(check_list(c->folder, "case.json", c->arena, &names, &count, err));
  TRY(count ? read_json_case(c, description, err) : read_onnx_case(c, err));
  if (!isnan(settings->rtol)) c->tolerance.rtol = settings->rtol;
  if (!isnan(settings->atol)) c->tolerance.atol = settings->atol;
  td_load_options options = {.size = sizeof options,
                             .backend = settings->backend,
                             .disabled_passes = settings->disabled_passes,
                             .isa = settings->isa,
                             .math = settings->math,
                             .precision = settings->precision,
                             .cc = settings->code.cc,
                             .cache = settings->code.cache,
                             .strict = settings->code.strict,
                             .trusted = settings->code.trusted,
                             .warn = settings->code.warn,
                             .warn_user = (void *)(uintptr_t)c->folder};
  if (c->description && base_str_ends(base_str_of(c->model_path), ".pt")) TRY(make_specs(c, &options, err));
  td_status loaded = td_model_load(c->model_path, &options, &c->model, err);
  if (strcmp(err->name, c->model_path) == 0) err->name[0] = 0; /* the case is named already */
  TRY(loaded);
  for (uint32_t i = 0; i < c->sets.count; i++) TRY(run_set(c, &c->sets.at[i], err));
  return TD_OK;
}

td_status check_case(const char *folder, const check_settings *settings, td_error *err) {
  check_running c = {.folder = folder, .arena = base_arena_new(&base_libc_allocator)};
  if (!c.arena) return base_no_memory(err, folder);
  td_status status = run_case(&c, settings, err);
  td_model_free(c.model);
  json_decref(c.description);
  base_arena_free(c.arena);
  return status;
}
