/* run.c -- `treadle run`: a model on given or made-up inputs. */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "classes.h"
#include "collector.h"
#include "common/measure.h"
#include "engine.h"
#include "perf.h"

typedef struct run_state {
  cli_args *args;
  td_model *model;
  td_session *session;
  td_collector *collector;
  app_feed feed;
  app_figures figures;
  size_t output_count;
  base_value *outputs;
  const char **names; /* of the outputs */
  base_map written;   /* file names without .npy, so that none is used twice */
  json_t *json;       /* the array of outputs; NULL: print text */
  int64_t top;        /* 0: no classes asked for */
  bool classes_shown;
  const char *const *class_names; /* NULL: they have none */
} run_state;

/* ---- running ---- */

static td_status run_once(run_state *s, double *ms, td_error *err) {
  double start = app_now_ms();
  TRY(td_session_run(s->session, err));
  *ms = app_now_ms() - start;
  app_memory_sample(&s->figures.memory);
  return TD_OK;
}

static td_status run_all(run_state *s, td_error *err) {
  int64_t repeat = 1;
  double total = 0, ms;
  TRY(cli_int(s->args, "repeat", 1, INT32_MAX, &repeat, err));
  const char *ranges = cli_value(s->args, "itt");
  const bool shapes = ranges && strcmp(ranges, "shapes") == 0; /* are known after a run */
  if (shapes && repeat == 1)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "--itt shapes: sizes are known after the first run; give --repeat 2 or more, or --itt names");
  if (!shapes) TRY(cli_collect(s->args, s->session, s->collector, err));
  TRY(run_once(s, &s->figures.first_ms, err));
  if (shapes) TRY(cli_collect(s->args, s->session, s->collector, err));
  for (int64_t i = 1; i < repeat; i++) {
    TRY(run_once(s, &ms, err));
    total += ms;
  }
  s->figures.latency_ms = repeat > 1 ? total / (double)(repeat - 1) : s->figures.first_ms;
  return app_read_figures(s->model, s->session, &s->figures, err);
}

static td_status fetch_outputs(run_state *s, td_error *err) {
  base_arena *arena = s->args->arena;
  s->output_count = td_model_output_count(s->model);
  s->outputs = base_new(arena, base_value, s->output_count + 1);
  s->names = base_new(arena, const char *, s->output_count + 1);
  if (!s->outputs || !s->names) return base_no_memory(err, "outputs");
  for (size_t i = 0; i < s->output_count; i++) {
    td_value_info info = {.size = sizeof info};
    TRY(td_model_output(s->model, i, &info, err));
    s->names[i] = info.name;
    TRY(base_error_name(err, app_fetch(s->model, s->session, i, arena, &s->outputs[i], err), "output %s", info.name));
  }
  return TD_OK;
}

/* ---- files ---- */

/* The safe form of an output's name; a number is added where two outputs would share a file. */
static td_status claim_file_name(run_state *s, const char *name, const char **result, td_error *err) {
  base_arena *arena = s->args->arena;
  const char *safe = app_safe_name(arena, name);
  const char *candidate = safe;
  for (unsigned n = 2; candidate && base_map_get(&s->written, base_str_of(candidate)); n++)
    candidate = base_arena_format(arena, "%s.%u", safe, n);
  if (!candidate || !base_map_put(&s->written, arena, base_str_of(candidate), 1, NULL))
    return base_no_memory(err, name);
  *result = candidate;
  return TD_OK;
}

/* Writes a tensor where --output is given; *path is NULL where it is not. */
static td_status write_tensor(run_state *s, const char *name, const base_tensor *tensor, const char **path,
                              td_error *err) {
  const char *folder = cli_value(s->args, "output");
  const char *file = NULL;
  *path = NULL;
  if (!folder) return TD_OK;
  TRY(claim_file_name(s, name, &file, err));
  *path = base_arena_format(s->args->arena, "%s/%s.npy", folder, file);
  if (!*path) return base_no_memory(err, name);
  return app_write_npy(*path, tensor, err);
}

static td_status make_folder(const cli_args *args, td_error *err) {
  const char *folder = cli_value(args, "output");
  struct stat info;
  if (!folder || mkdir(folder, 0777) == 0) return TD_OK;
  int reason = errno;
  if (reason == EEXIST && stat(folder, &info) == 0 && S_ISDIR(info.st_mode)) return TD_OK;
  return base_fail(err, TD_NO_RESOURCE, folder, -1, "the folder of --output cannot be made: %s", strerror(reason));
}

/* ---- what an output holds ---- */

enum { FIRST_VALUES = 6 };

typedef struct summary {
  double min, mean, max;
  int64_t finite; /* elements that count in min, mean and max */
} summary;

static summary summarise(const base_tensor *t) {
  summary sum = {INFINITY, 0, -INFINITY, 0};
  int64_t count = t->dtype == TD_STRING ? 0 : base_tensor_numel(t);
  for (int64_t i = 0; i < count; i++) {
    double value = base_load_f64(t->dtype, t->data, i);
    if (!isfinite(value)) continue;
    sum.min = fmin(sum.min, value);
    sum.max = fmax(sum.max, value);
    sum.mean += value;
    sum.finite++;
  }
  if (sum.finite) sum.mean /= (double)sum.finite;
  return sum;
}

static void print_tensor(const char *name, const base_tensor *t, const char *path) {
  char text[256];
  summary sum = summarise(t);
  printf("%s %s", name, base_tensor_describe(t, text, sizeof text));
  if (path) printf(" -> %s", path);
  if (sum.finite) printf(", min %.6g, mean %.6g, max %.6g:", sum.min, sum.mean, sum.max);
  int64_t count = base_tensor_numel(t), shown = base_min_i64(count, FIRST_VALUES);
  for (int64_t i = 0; i < shown; i++) {
    if (t->dtype == TD_STRING) {
      const base_str *strings = t->data;
      printf(" '%.*s'", (int)base_min_i64((int64_t)strings[i].length, 60), strings[i].at);
    } else {
      printf(" %.6g", base_load_f64(t->dtype, t->data, i));
    }
  }
  printf("%s\n", shown < count ? " ..." : "");
}

static json_t *element_json(const base_tensor *t, int64_t index) {
  if (base_is_float(t->dtype)) return app_json_real(base_load_f64(t->dtype, t->data, index));
  return json_integer(base_load_i64(t->dtype, t->data, index));
}

static json_t *tensor_json(const char *name, const base_tensor *t, const char *path) {
  json_t *object = json_object(), *first = json_array();
  summary sum = summarise(t);
  app_json_set(object, "name", app_json_text(name));
  app_json_set(object, "dtype", app_json_text(td_dtype_name(t->dtype)));
  app_json_set(object, "shape", app_json_dims(t->rank, t->dims));
  app_json_set(object, "min", sum.finite ? app_json_real(sum.min) : json_null());
  app_json_set(object, "mean", sum.finite ? app_json_real(sum.mean) : json_null());
  app_json_set(object, "max", sum.finite ? app_json_real(sum.max) : json_null());
  app_json_set(object, "nan", json_integer(app_count_nan(&(base_value){.kind = BASE_TENSOR, .tensor = *t})));
  int64_t shown = t->dtype == TD_STRING ? 0 : base_min_i64(base_tensor_numel(t), FIRST_VALUES);
  for (int64_t i = 0; i < shown; i++) app_json_set(first, NULL, element_json(t, i));
  app_json_set(object, "first", first);
  if (path) app_json_set(object, "file", app_json_text(path));
  return object;
}

/* ---- classes ---- */

static td_status report_row(run_state *s, const base_tensor *t, int64_t row, json_t *rows, td_error *err) {
  int64_t classes = t->dims[t->rank - 1], count = base_min_i64(s->top, classes);
  cli_class *top = base_new(s->args->arena, cli_class, (size_t)count);
  if (!top) return base_no_memory(err, "classes");
  TRY(cli_top_classes(t, row, s->args->arena, top, &count, err));
  json_t *list = rows ? json_array() : NULL;
  for (int64_t i = 0; i < count; i++) {
    const char *name = s->class_names ? s->class_names[top[i].index] : NULL;
    if (!rows) {
      printf("%6.2f %%  %4lld%s%s\n", top[i].probability * 100, (long long)top[i].index, name ? "  " : "",
             name ? name : "");
      continue;
    }
    json_t *entry = json_object();
    app_json_set(entry, "class", json_integer(top[i].index));
    app_json_set(entry, "name", name ? app_json_text(name) : json_null());
    app_json_set(entry, "probability", app_json_real(top[i].probability));
    app_json_set(list, NULL, entry);
  }
  if (rows) app_json_set(rows, NULL, list);
  return TD_OK;
}

/* Every row (sample) of one output. */
static td_status report_classes(run_state *s, const base_tensor *t, json_t *object, td_error *err) {
  int64_t rows = base_tensor_numel(t) / t->dims[t->rank - 1];
  json_t *list = object ? json_array() : NULL;
  if (object) app_json_set(object, "top", list);
  TRY(cli_class_names(s->args->arena, t->dims[t->rank - 1], &s->class_names, err));
  for (int64_t i = 0; i < rows; i++) {
    if (!object && rows > 1) printf("sample %lld:\n", (long long)i);
    TRY(report_row(s, t, i, list, err));
  }
  s->classes_shown = true;
  return TD_OK;
}

/* ---- printing ---- */

static td_status report_tensor(run_state *s, const char *name, const base_tensor *t, json_t *outputs, td_error *err) {
  const char *path;
  bool classes = s->top && !s->classes_shown && cli_holds_classes(t);
  TRY(write_tensor(s, name, t, &path, err));
  if (outputs) {
    json_t *object = tensor_json(name, t, path);
    app_json_set(outputs, NULL, object);
    return classes ? report_classes(s, t, object, err) : TD_OK;
  }
  if (classes) return report_classes(s, t, NULL, err);
  print_tensor(name, t, path);
  return TD_OK;
}

static td_status report_list(run_state *s, const char *name, const base_list *list, td_error *err) {
  json_t *items = NULL;
  if (s->json) {
    json_t *object = json_object();
    items = json_array();
    app_json_set(object, "name", app_json_text(name));
    app_json_set(object, "items", items);
    app_json_set(s->json, NULL, object);
  } else {
    printf("%s, %lld items\n", name, (long long)list->count);
  }
  for (int64_t i = 0; i < list->count; i++) {
    const char *item = base_arena_format(s->args->arena, "%s_%lld", name, (long long)i);
    if (!item) return base_no_memory(err, name);
    TRY(report_tensor(s, item, &list->items[i].tensor, items, err));
  }
  return TD_OK;
}

static td_status report_outputs(run_state *s, td_error *err) {
  for (size_t i = 0; i < s->output_count; i++) {
    const base_value *value = &s->outputs[i];
    TRY(value->kind == BASE_LIST ? report_list(s, s->names[i], &value->list, err)
                                 : report_tensor(s, s->names[i], &value->tensor, s->json, err));
  }
  if (!s->top || s->classes_shown) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--top: no output holds scores of classes");
}

static td_status print_figures_json(run_state *s, td_error *err) {
  const app_figures *f = &s->figures;
  json_t *root = json_object();
  app_json_set(root, "model", app_json_text(s->args->subject));
  app_json_set(root, "backend", app_json_text(f->model.backend));
  app_json_set(root, "threads", json_integer(f->session.threads));
  app_json_set(root, "load_ms", app_json_real(f->model.load_ms));
  app_json_set(root, "compile_ms", app_json_real(f->model.compile_ms));
  app_json_set(root, "first_ms", app_json_real(f->first_ms));
  app_json_set(root, "latency_ms", app_json_real(f->latency_ms));
  app_json_set(root, "arena_bytes", json_integer((json_int_t)f->session.arena_bytes));
  app_json_set(root, "arena_lower_bytes", json_integer((json_int_t)f->session.arena_lower));
  app_json_set(root, "tail_bytes", json_integer((json_int_t)f->session.tail_bytes));
  app_json_set(root, "weights_bytes", json_integer((json_int_t)f->model.weights_bytes));
  app_json_set(root, "copied_bytes", json_integer((json_int_t)f->model.copied_bytes));
  app_json_set(root, "anon_peak_kib", json_integer((json_int_t)f->memory.anon_peak_kib));
  app_json_set(root, "peak_rss_kib", json_integer((json_int_t)f->memory.peak_rss_kib));
  app_json_set(root, "outputs", json_incref(s->json));
  return app_print_json(root, APP_JSON, err);
}

static void print_figures(const run_state *s) {
  const app_figures *f = &s->figures;
  char arena[24], weights[24], anonymous[24];
  printf("%.3g ms per inference; load %.3g ms, compile %.3g ms, first inference %.3g ms\n", f->latency_ms,
         f->model.load_ms, f->model.compile_ms, f->first_ms);
  printf("memory: arena %s, weights %s, anonymous memory at its peak %s\n",
         app_bytes_text(arena, sizeof arena, f->session.arena_bytes),
         app_bytes_text(weights, sizeof weights, f->model.weights_bytes),
         app_bytes_text(anonymous, sizeof anonymous, f->memory.anon_peak_kib * 1024));
}

static td_status run_steps(run_state *s, td_error *err) {
  TRY(cli_int(s->args, "top", 1, 1000000, &s->top, err));
  TRY(make_folder(s->args, err));
  TRY(cli_collector_open(s->args, &s->collector, err));
  TRY(cli_open_model(s->args, &s->model, err));
  TRY(cli_tell_perf(s->args, s->model, err));
  app_memory_sample(&s->figures.memory);
  TRY(cli_feed_make(s->args, s->model, true, &s->feed, err));
  TRY(cli_open_printing_session(s->args, cli_flag(s->args, "json") ? stderr : stdout, s->model, &s->session, err));
  TRY(cli_check_fault(s->args, s->model, s->session, err));
  TRY(cli_verbose(s->args, s->model, s->session, err));
  TRY(app_feed_bind(&s->feed, s->session, s->args->arena, err));
  TRY(run_all(s, err));
  TRY(fetch_outputs(s, err));
  if (cli_flag(s->args, "json") && !(s->json = json_array())) return base_no_memory(err, "JSON");
  TRY(report_outputs(s, err));
  app_note_nan(s->args->subject, s->model, &s->feed, s->names, s->outputs, s->output_count);
  if (s->json) return print_figures_json(s, err);
  print_figures(s);
  return TD_OK;
}

static td_status run_run(cli_args *args, td_error *err) {
  run_state s = {.args = args};
  td_status status = run_steps(&s, err);
  td_session_free(s.session);
  td_model_free(s.model);
  td_collector_close(s.collector);
  json_decref(s.json);
  return status;
}

static const cli_option run_options[] = {
    {"input", "[NAME=]FILE", "an input; without NAME, the next one in order", NULL, true},
    {"output", "DIR", "write every output to DIR/NAME.npy", NULL, false},
    CLI_OPTION_SHAPE,
    CLI_OPTION_METHOD,
    CLI_OPTION_SPECIALISE,
    CLI_OPTION_NODE_COPIES,
    {"top", "K", "print the K most likely classes with probabilities", NULL, false},
    CLI_OPTIONS_ENGINE,
    CLI_OPTION_TRUSTED,
    CLI_OPTION_TUNE,
    CLI_OPTION_TIERED,
    CLI_OPTION_TUNED,
    CLI_OPTION_THREADS,
    CLI_OPTION_INTEROP,
    CLI_OPTION_WEIGHTS,
    CLI_OPTION_PREPROCESS,
    CLI_OPTION_SEED,
    {"repeat", "N", "run N times, and print the mean time of all but the first", NULL, false},
    CLI_OPTION_INJECT,
    CLI_OPTION_DEBUG_DIR,
    {"verbose", "WHAT", "a line per step on standard error, as the plan has it (compile) or as it ends (run)",
     "compile run", true},
    CLI_OPTION_ITT,
    CLI_OPTION_PERF,
    CLI_OPTION_JSON,
};

const cli_command cli_run = {
    .name = "run",
    .operands = "MODEL",
    .summary = "run a model on files or random data and show the outputs",
    .text =
        "MODEL is a file or builtin:NAME. An input FILE is .npy, .npz, .pb (TensorProto), .safetensors, an image\n"
        "(.jpg, .png), audio (.wav), or SHAPE:DTYPE:FILL with a number or `random` as FILL, as in\n"
        "x=1x3x224x224:f32:0.5. Values of .npz and .safetensors go to the inputs of the same names.\n"
        "\n"
        "Other inputs get random data of the declared shape, the same for the same --seed; open dimensions are 1\n"
        "unless --shape says otherwise. In names of output files every byte outside [A-Za-z0-9._-] becomes _.",
    .examples =
        "treadle run net.onnx\n"
        "treadle run net.onnx --input cat.png --top 5\n"
        "treadle run net.onnx --input ids=ids.npy --shape mask=1x12 --output results\n"
        "treadle run net.onnx --shape x=1x3x224x224 --specialise 'height=224 width=224'\n"
        "treadle run builtin:efficientnet_lite0 --weights lite0.pth --input cat.jpg --top 5 --json",
    .options = run_options,
    .option_count = sizeof run_options / sizeof *run_options,
    .min_operands = 1,
    .max_operands = 1,
    .run = run_run,
};
