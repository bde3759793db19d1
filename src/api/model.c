/* model.c -- models: load, describe, print. */
#include "api/api_priv.h"
#include "ops/ops.h"

#include <stdlib.h>
#include <string.h>

/* ---- load ---- */

static const char builtin_prefix[] = "builtin:";

static td_status new_model(const td_load_options *options, td_model **model, td_error *err) {
  const td_allocator allocator = options->allocator ? *options->allocator : sys_allocator;
  base_arena *arena = base_arena_new(&allocator);
  td_model *m = arena ? base_new(arena, td_model, 1) : NULL;
  const ir_opset *ops = m ? ops_set(arena) : NULL;
  if (ops) *m = (td_model){.allocator = allocator, .arena = arena, .ops = ops};
  const td_status status = ops ? api_take_options(m, options, err) : base_no_memory(err, "a model");
  if (status == TD_OK) *model = m;
  else base_arena_free(arena);
  return status;
}

static uint32_t count_nodes(const ir_graph *graph) {
  uint32_t count = 0;
  for (uint32_t i = 1; i < graph->nodes.count; i++) count += graph->nodes.at[i].op != NULL;
  return count;
}

static bool mapped(const td_model *m, const void *at) {
  const char *p = at, *own = m->bytes;
  if (own && p >= own && p < own + m->size) return true;
  for (uint32_t i = 0; i < m->files.count; i++) {
    const char *base = m->files.at[i].mapping.bytes;
    if (base && p >= base && p < base + m->files.at[i].mapping.size) return true;
  }
  for (uint32_t i = 0; i < m->given_count; i++) { /* the caller's: shared, as files are */
    const base_tensor *t = &m->given[i].tensor;
    const char *base = t->data;
    int64_t last = 0;
    for (int32_t k = 0; k < t->rank; k++) last += t->dims[k] > 0 ? (t->dims[k] - 1) * t->strides[k] : 0;
    if (base && p >= base && p <= base + (size_t)last * (base_dtype(t->dtype)->bits / 8u)) return true;
  }
  return false;
}

/* Does a plan before number `variant` have the bytes at the same place? */
static bool shared(const plan_exe *plan, uint32_t variant, const void *base) {
  for (uint32_t k = 0; k < variant; k++)
    for (uint32_t i = 0; i < plan_at(plan, k)->segments.count; i++)
      if (plan_at(plan, k)->here.bases.at[i] == base) return true;
  return false;
}

static size_t constant_bytes(const plan_slot *s) {
  int64_t count = 1;
  size_t bytes = 0;
  for (int32_t k = 0; k < s->rank; k++) count *= s->dims[k];
  base_dtype_bytes(s->dtype, count, &bytes);
  return bytes;
}

static void count_weights(td_model *m) {
  for (uint32_t k = 0; k < plan_count(m->plan); k++) {
    const plan_exe *plan = plan_at(m->plan, k);
    for (uint32_t i = 0; i < plan->slots.count; i++) {
      const plan_slot *s = &plan->slots.at[i];
      if (s->place != PLAN_CONST || shared(m->plan, k, plan->here.bases.at[s->segment])) continue;
      const size_t bytes = constant_bytes(s);
      m->stats.weights_bytes += bytes;
      if (k) m->stats.variant_bytes += bytes;
      if (!mapped(m, plan_constant(plan, s))) m->stats.copied_bytes += bytes;
    }
  }
}

/* ---- pages of the files that are not needed any more ---- */

typedef struct byte_range {
  const char *at;
  size_t bytes;
} byte_range;

static int by_address(const void *a, const void *b) {
  const byte_range *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

static void give_back_between(const sys_mapping *file, const byte_range *used, uint32_t count) {
  const char *from = file->bytes, *end = from + file->size;
  for (uint32_t i = 0; i < count && from < end; i++) {
    if (used[i].at + used[i].bytes <= from) continue;
    const char *to = used[i].at < end ? used[i].at : end;
    if (to > from) sys_give_back((void *)(uintptr_t)from, (size_t)(to - from));
    from = used[i].at + used[i].bytes;
  }
  if (from < end) sys_give_back((void *)(uintptr_t)from, (size_t)(end - from));
}

/* Of the mapped files only the constants of the plan are read from now on: not what was packed into copies, nor the
 * graph. Their pages leave this process; should anything be read after all, it comes from the file again. */
static void give_back_files(td_model *m) {
  size_t slots = 0;
  uint32_t count = 0;
  for (uint32_t k = 0; k < plan_count(m->plan); k++) slots += plan_at(m->plan, k)->slots.count;
  byte_range *used = base_new(m->arena, byte_range, slots + 1);
  if (!used) return;
  for (uint32_t k = 0; k < plan_count(m->plan); k++) {
    const plan_exe *plan = plan_at(m->plan, k);
    for (uint32_t i = 0; i < plan->slots.count; i++)
      if (plan->slots.at[i].place == PLAN_CONST)
        used[count++] = (byte_range){plan_constant(plan, &plan->slots.at[i]), constant_bytes(&plan->slots.at[i])};
  }
  qsort(used, count, sizeof *used, by_address);
  for (uint32_t i = 0; i < m->files.count; i++) give_back_between(&m->files.at[i].mapping, used, count);
}

static td_status make(td_model *m, uint64_t started, td_error *err) {
  ir_graph *graph;
  TRY(api_prepare(m, NULL, m->brief, &graph, err));
  const uint64_t imported = sys_clock_ns();
  td_status status = api_compile(m, NULL, graph, &m->plan, err);
  m->stats.load_ms = (double)(imported - started) * 1e-6;
  if (status == TD_OK) m->stats.nodes = count_nodes(graph);
  ir_graph_free(graph);
  if (status == TD_OK) status = api_specialise(m, err);
  m->stats.compile_ms = (double)(sys_clock_ns() - imported) * 1e-6;
  return status;
}

static td_status load(td_model *m, uint64_t started, td_error *err) {
  /* What others are shown, what a file holds, and what nodes are looked up in, is whole. */
  m->brief = !api_is_saved(m) && !m->builtin && !m->options.dump && !m->options.for_file && !m->options.keep_f32;
  TRY(api_is_saved(m) ? api_open(m, started, err) : api_tell_error(m, make(m, started, err), err));
  m->stats.backend = plan_name(m->plan, m->plan->backend);
  m->stats.variants = m->plan->here.variants.count;
  for (uint32_t i = 0; i < plan_count(m->plan); i++) m->stats.steps += plan_at(m->plan, i)->steps.count;
  m->stats.gflop = m->plan->flops * 1e-9;
  m->stats.gbyte = m->plan->bytes * 1e-9;
  for (uint32_t i = 0; i < plan_count(m->plan); i++)
    m->lacks |= base_isa_lacks(m->cpu_isa, plan_at(m->plan, i)->needs) != 0;
  count_weights(m);
  give_back_files(m);
  return api_copy_to_nodes(m, err);
}

static td_status map_file(td_model *m, const char *path, td_error *err) {
  sys_mapping *mapping = api_add_file(m, NULL);
  if (!mapping) return base_no_memory(err, "a model");
  TRY(sys_file_map(path, mapping, err));
  m->bytes = mapping->bytes;
  m->size = mapping->size;
  return TD_OK;
}

static td_status refuse_weights(const char *name, td_error *err) {
  return base_fail(err, TD_BAD_ARGUMENT, name, -1,
                   "a model file has its own weights; only builtin: models take others");
}

/* The bytes of a model are its file; of a built-in one, its weights. */
static td_status map_model(td_model *m, const char *path, td_error *err) {
  m->path = base_arena_text(m->arena, path);
  if (!m->path) return base_no_memory(err, "a model");
  if (!base_str_starts(base_str_of(path), builtin_prefix))
    return m->options.weights ? refuse_weights(path, err) : map_file(m, path, err);
  m->builtin = m->path + sizeof builtin_prefix - 1;
  return m->options.weights ? map_file(m, m->options.weights, err) : TD_OK;
}

/* Loads a model whose bytes are set, unless `status` says that there are none, and hands it over or frees it. */
static td_status finish(td_model *m, td_status status, uint64_t started, td_model **model, td_error *err) {
  if (status == TD_OK) status = load(m, started, err);
  if (status == TD_OK) *model = m;
  else td_model_free(m);
  return status;
}

td_status td_model_load(const char *path, const td_load_options *options, td_model **model, td_error *err) {
  uint64_t started = sys_clock_ns();
  td_load_options o = {0};
  td_model *m;
  if (!path || !model)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_load needs a path and a place for the model");
  TRY(api_read_options(&o, sizeof o, options, err));
  TRY(new_model(&o, &m, err));
  return finish(m, map_model(m, path, err), started, model, err);
}

td_status td_model_load_memory(const void *bytes, size_t size, const td_load_options *options, td_model **model,
                               td_error *err) {
  uint64_t started = sys_clock_ns();
  td_load_options o = {0};
  td_model *m;
  if (!bytes || !model)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_load_memory needs bytes and a place for the model");
  TRY(api_read_options(&o, sizeof o, options, err));
  TRY(new_model(&o, &m, err));
  m->bytes = bytes;
  m->size = size;
  return finish(m, m->options.weights ? refuse_weights(NULL, err) : TD_OK, started, model, err);
}

/* Keeps what `weights` say of their tensors; elements stay with the caller. */
static td_status take_weights(td_model *m, const td_named_tensor *weights, size_t count, td_error *err) {
  import_weight *given = base_new(m->arena, import_weight, count + 1);
  if (!given || count > UINT32_MAX) return base_no_memory(err, "weights");
  for (size_t i = 0; i < count; i++) {
    const td_tensor *t = &weights[i].tensor;
    bool sound = weights[i].name && t->dtype > TD_INVALID && t->dtype < TD_DTYPE_COUNT && t->dtype != TD_STRING &&
                 t->rank >= 0 && t->rank <= TD_MAX_RANK;
    int64_t numel = 0;
    for (int32_t k = 0; sound && k < t->rank; k++) sound = t->dims[k] >= 0 && weights[i].strides[k] >= 0;
    if (!sound || !base_numel(t->rank, t->dims, &numel) || (numel && !t->data))
      return base_fail(err, TD_BAD_ARGUMENT, weights[i].name, -1,
                       "weight %zu has no name, or is no tensor of numbers with strides that are not negative", i);
    given[i] = (import_weight){.name = base_arena_text(m->arena, weights[i].name),
                               .tensor = base_tensor_of(t->data, t->dtype, t->rank, t->dims)};
    if (!given[i].name) return base_no_memory(err, "weights");
    for (int32_t k = 0; k < t->rank; k++) given[i].tensor.strides[k] = weights[i].strides[k];
  }
  m->given = given;
  m->given_count = (uint32_t)count;
  return TD_OK;
}

td_status td_model_load_graph(const void *program, size_t size, const td_named_tensor *weights, size_t count,
                              const td_load_options *options, td_model **model, td_error *err) {
  uint64_t started = sys_clock_ns();
  td_load_options o = {0};
  td_model *m;
  if (!program || !model || (count && !weights))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1,
                     "td_model_load_graph needs a program, its weights and a place for the model");
  TRY(api_read_options(&o, sizeof o, options, err));
  o.format = "pt2";
  TRY(new_model(&o, &m, err));
  m->bytes = program;
  m->size = size;
  td_status status = take_weights(m, weights, count, err);
  if (status == TD_OK && m->options.weights) status = refuse_weights(NULL, err);
  return finish(m, status, started, model, err);
}

void td_model_free(td_model *model) {
  if (!model) return;
  run_pool_free(atomic_load(&model->pool));
  run_copies_free(model->copies);
  plan_free(model->plan);
  api_told_free(model);
  for (uint32_t i = 0; i < model->files.count; i++) sys_unmap(&model->files.at[i].mapping);
  base_arena_free(model->arena);
}

/* ---- describe ---- */

size_t td_model_input_count(const td_model *model) { return model ? model->plan->inputs.count : 0; }
size_t td_model_output_count(const td_model *model) { return model ? model->plan->outputs.count : 0; }
size_t td_model_state_count(const td_model *model) { return model ? model->plan->states.count : 0; }

static td_status describe(const td_model *model, const plan_port *port, td_value_info *info, td_error *err) {
  const plan_exe *plan = model->plan;
  td_value_info own = {.name = plan_name(plan, port->name),
                       .kind = plan_port_kind_name(port),
                       .dtype = port->dtype,
                       .rank = port->rank,
                       .has_default = port->fallback != PLAN_NONE,
                       .is_complex = (int32_t)port->is_complex};
  for (int32_t i = 0; i < port->rank; i++) {
    own.dims[i] = base_dim_known(port->dims[i]) ? port->dims[i] : -1;
    own.symbols[i] = base_dim_symbol_name(&plan->dims, port->dims[i]);
  }
  return api_write_stats(info, &own, sizeof own, err);
}

static td_status out_of_range(size_t index, size_t count, const char *what, td_error *err) {
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no %s %zu; the model has %zu", what, index, count);
}

td_status td_model_input(const td_model *model, size_t index, td_value_info *info, td_error *err) {
  if (!model || !info)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_input needs a model and a place for the answer");
  if (index >= model->plan->inputs.count) return out_of_range(index, model->plan->inputs.count, "input", err);
  return describe(model, &model->plan->inputs.at[index], info, err);
}

td_status td_model_output(const td_model *model, size_t index, td_value_info *info, td_error *err) {
  if (!model || !info)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_output needs a model and a place for the answer");
  if (index >= model->plan->outputs.count) return out_of_range(index, model->plan->outputs.count, "output", err);
  return describe(model, &model->plan->outputs.at[index], info, err);
}

td_status td_model_state(const td_model *model, size_t index, td_value_info *info, td_error *err) {
  if (!model || !info)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_state needs a model and a place for the answer");
  if (index >= model->plan->states.count) return out_of_range(index, model->plan->states.count, "state", err);
  return describe(model, &model->plan->states.at[index].port, info, err);
}

/* `ports`: of a table whose rows begin with one and take `each` bytes. */
static td_status find_port(const td_model *model, const void *ports, size_t each, uint32_t count, const char *name,
                           const char *what, size_t *index, td_error *err) {
  base_text names = {.allocator = &model->allocator};
  for (uint32_t i = 0; i < count; i++) {
    const plan_port *port = (const plan_port *)(const void *)((const char *)ports + i * each);
    base_text_print(&names, "%s%s", i ? ", " : "", plan_name(model->plan, port->name));
    if (strcmp(plan_name(model->plan, port->name), name) != 0) continue;
    *index = i;
    base_text_free(&names);
    return TD_OK;
  }
  td_status status = base_fail(err, TD_BAD_ARGUMENT, name, -1, "there is no %s called %s; there are: %s", what, name,
                               names.at ? names.at : "none");
  base_text_free(&names);
  return status;
}

td_status td_model_find_input(const td_model *model, const char *name, size_t *index, td_error *err) {
  if (!model || !name || !index)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_find_input needs a model and a name");
  return find_port(model, model->plan->inputs.at, sizeof(plan_port), model->plan->inputs.count, name, "input", index,
                   err);
}

td_status td_model_find_output(const td_model *model, const char *name, size_t *index, td_error *err) {
  if (!model || !name || !index)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_find_output needs a model and a name");
  return find_port(model, model->plan->outputs.at, sizeof(plan_port), model->plan->outputs.count, name, "output", index,
                   err);
}

td_status td_model_find_state(const td_model *model, const char *name, size_t *index, td_error *err) {
  if (!model || !name || !index)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_find_state needs a model and a name");
  return find_port(model, model->plan->states.at, sizeof(plan_state), model->plan->states.count, name, "state", index,
                   err);
}

td_status td_model_get_stats(const td_model *model, td_model_stats *stats, td_error *err) {
  if (!model || !stats)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "td_model_get_stats needs a model and a struct");
  td_model_stats all = model->stats;
  for (uint32_t i = 0; i < plan_count(model->plan); i++) {
    const plan_tier *tier = plan_at(model->plan, i)->here.tier;
    if (tier) all.waiting += atomic_load_explicit(&tier->waiting, memory_order_acquire);
  }
  return api_write_stats(stats, &all, sizeof all, err);
}
