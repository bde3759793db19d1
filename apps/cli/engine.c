/* engine.c -- the calls into libtreadle that several sub-commands make: load, open a session, bind, fetch. */
#include <string.h>

#include "threads.h"
#include "tuning.h"
#include "values.h"

/* The lists of all --specialise; "" if there are none, NULL: out of memory. */
static const char *join_sizes(const cli_args *args) {
  const char *all = "", *one;
  for (uint32_t cursor = 0; all && (one = cli_next(args, "specialise", &cursor));)
    all = base_arena_format(args->arena, "%s%s%s", all, *all ? ";" : "", one);
  return all;
}

td_status cli_load_options(cli_args *args, td_load_options *options, td_error *err) {
  int64_t seed = 0;
  td_input_spec *specs;
  *options = (td_load_options){.size = sizeof *options,
                               .backend = cli_value(args, "backend"),
                               .weights = cli_value(args, "weights"),
                               .disabled_passes = cli_value(args, "disable-passes"),
                               .disabled_kernels = cli_value(args, "disable-kernels"),
                               .isa = cli_value(args, "isa"),
                               .math = cli_value(args, "math"),
                               .precision = cli_value(args, "precision"),
                               .keep_f32 = cli_value(args, "keep-f32"),
                               .state = cli_value(args, "state"),
                               .method = cli_value(args, "method"),
                               .specialise = join_sizes(args),
                               .node_copies = cli_value(args, "node-copies"),
                               .inject = cli_value(args, "inject")};
  args->subject = args->operands[0];
  if (!options->specialise) return base_no_memory(err, "sizes");
  TRY(cli_int(args, "seed", 0, INT64_MAX, &seed, err));
  options->seed = (uint64_t)seed;
  TRY(cli_tuning_of(args, &options->tuning, err));
  TRY(cli_make_specs(args, &specs, &options->input_count, err));
  options->inputs = specs;
  const char *folder = cli_value(args, "debug-dir");
  if (folder) TRY(cli_debug_folder(args, folder, options, err));
  TRY(cli_code_options(args, options, err));
  return cli_flag(args, "tune") ? cli_tune_forms(args, options, err) : TD_OK;
}

td_status cli_open_model(cli_args *args, td_model **model, td_error *err) {
  td_load_options options;
  TRY(cli_load_options(args, &options, err));
  return td_model_load(args->operands[0], &options, model, err);
}

static void print_to(void *user, const char *text, size_t length) { fwrite(text, 1, length, user); }

td_status cli_open_session(const cli_args *args, const td_model *model, td_session **session, td_error *err) {
  return cli_open_printing_session(args, NULL, model, session, err);
}

td_status cli_open_printing_session(const cli_args *args, FILE *prints, const td_model *model, td_session **session,
                                    td_error *err) {
  cli_threads threads;
  int64_t interop = 0;
  TRY(cli_threads_of(args, &threads, err));
  TRY(cli_int(args, "interop-threads", 1, 1024, &interop, err));
  td_session_options options = {.size = sizeof options, .threads = threads.count, .interop_threads = (uint32_t)interop};
  if (prints) {
    options.print = print_to;
    options.print_user = prints;
  }
  return td_session_new(model, &options, session, err);
}

td_status cli_check_fault(const cli_args *args, const td_model *model, const td_session *session, td_error *err) {
  const char *fault = cli_value(args, "inject");
  td_model_stats stats = {.size = sizeof stats};
  if (!fault || cli_value(args, "disable-kernels") || cli_value(args, "disable-passes")) return TD_OK;
  TRY(td_model_get_stats(model, &stats, err));
  for (size_t i = 0; i < stats.steps; i++) {
    td_step step = {.size = sizeof step};
    TRY(td_session_get_step(session, i, &step, err));
    if (strcmp(step.op, "test::fault") == 0) return TD_OK;
  }
  return base_fail(
      err, TD_BAD_ARGUMENT, NULL, -1,
      "--inject %s puts in nothing: no kernel of the compiled graph computes such an operator (or node, or "
      "type); `treadle inspect --stage plan` shows what there is",
      fault);
}

td_status cli_dense_tensor(const base_tensor *from, base_arena *arena, td_tensor *to, td_error *err) {
  *to = (td_tensor){.dtype = from->dtype, .rank = from->rank, .data = from->data};
  memcpy(to->dims, from->dims, sizeof to->dims);
  if (base_tensor_contiguous(from)) return TD_OK;
  to->data = base_arena_alloc_aligned(arena, base_tensor_bytes(from), 64);
  if (!to->data) return base_no_memory(err, "an input");
  base_tensor_pack(to->data, from);
  return TD_OK;
}

static td_status bind_list(td_session *session, size_t index, const base_list *list, base_arena *arena, td_error *err) {
  /* One more than needed: the address of an empty list differs from NULL, which means none. */
  td_tensor *items = base_new(arena, td_tensor, (size_t)list->count + 1);
  if (!items) return base_no_memory(err, "a list of inputs");
  for (int64_t i = 0; i < list->count; i++) {
    if (list->items[i].kind != BASE_TENSOR) {
      return base_fail(err, TD_UNSUPPORTED, NULL, -1, "a list inside a list cannot be an input");
    }
    TRY(cli_dense_tensor(&list->items[i].tensor, arena, &items[i], err));
  }
  return td_session_set_input_list(session, index, items, (size_t)list->count, err);
}

td_status cli_bind(td_session *session, size_t index, const base_value *value, base_arena *arena, td_error *err) {
  if (value->kind == BASE_LIST) return bind_list(session, index, &value->list, arena, err);
  if (value->kind == BASE_NOTHING) return td_session_set_input_list(session, index, NULL, 0, err);
  td_tensor tensor;
  TRY(cli_dense_tensor(&value->tensor, arena, &tensor, err));
  return td_session_set_input(session, index, &tensor, err);
}

static base_value tensor_value(const td_tensor *t) {
  return (base_value){.kind = BASE_TENSOR, .tensor = base_tensor_of(t->data, t->dtype, t->rank, t->dims)};
}

td_status cli_fetch(const td_model *model, td_session *session, size_t index, base_arena *arena, base_value *value,
                    td_error *err) {
  td_value_info info = {.size = sizeof info};
  td_tensor tensor;
  TRY(td_model_output(model, index, &info, err));
  if (strcmp(info.kind, "tensor") == 0) {
    TRY(td_session_output(session, index, &tensor, err));
    *value = tensor_value(&tensor);
    return TD_OK;
  }
  size_t count;
  TRY(td_session_output_count(session, index, &count, err));
  base_value *items = base_new(arena, base_value, count + 1);
  if (!items) return base_no_memory(err, "a list of outputs");
  for (size_t i = 0; i < count; i++) {
    TRY(td_session_output_item(session, index, i, &tensor, err));
    items[i] = tensor_value(&tensor);
  }
  *value = (base_value){.kind = BASE_LIST, .list = {.items = items, .count = (int64_t)count}};
  return TD_OK;
}

/* Complex numbers are shown as such, without the axis of their parts. */
char *cli_info_text(const td_value_info *info, char *text, size_t size) {
  bool is_tensor = strcmp(info->kind, "tensor") == 0;
  const char *dtype = info->is_complex ? cli_complex_of_part(info->dtype) : td_dtype_name(info->dtype);
  const int32_t rank = info->rank - (info->is_complex != 0);
  if (!is_tensor && info->dtype == TD_INVALID) { /* of lists: nothing is said about the tensors inside */
    snprintf(text, size, "%s", info->kind);
    return text;
  }
  int at = snprintf(text, size, "%s%s%s", is_tensor ? "" : info->kind, is_tensor ? "" : " of ", dtype);
  if (info->rank < 0) {
    snprintf(text + at, size - (size_t)at, "[...]");
    return text;
  }
  for (int32_t i = 0; i < rank && (size_t)at < size; i++) {
    const char *before = i ? "," : "[";
    if (info->dims[i] >= 0) {
      at += snprintf(text + at, size - (size_t)at, "%s%lld", before, (long long)info->dims[i]);
    } else {
      at += snprintf(text + at, size - (size_t)at, "%s%s", before, info->symbols[i] ? info->symbols[i] : "?");
    }
  }
  if ((size_t)at < size) snprintf(text + at, size - (size_t)at, rank ? "]" : "[]");
  return text;
}

json_t *cli_info_json(const td_value_info *info) {
  json_t *object = json_object();
  cli_json_set(object, "name", cli_json_text(info->name));
  cli_json_set(object, "kind", cli_json_text(info->kind));
  cli_json_set(object, "dtype", cli_json_text(td_dtype_name(info->dtype)));
  if (info->is_complex) cli_json_set(object, "complex", json_true());
  json_t *dims = info->rank < 0 ? json_null() : json_array();
  for (int32_t i = 0; i < info->rank; i++) {
    if (info->dims[i] >= 0) {
      cli_json_set(dims, NULL, json_integer(info->dims[i]));
    } else {
      cli_json_set(dims, NULL, info->symbols[i] ? cli_json_text(info->symbols[i]) : json_null());
    }
  }
  cli_json_set(object, "shape", dims);
  return object;
}
