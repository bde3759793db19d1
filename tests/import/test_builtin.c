/* Built-in models: the graph has the published architecture, weights are taken in place, keys that do not fit are
 * listed. */
#include "test.h"

#include <math.h>
#include <stdio.h>

#include "base/lack.h"
#include "import/import.h"
#include "ops/ops.h"

typedef struct world {
  base_arena *arena;
  const ir_opset *ops;
  base_text file; /* a .safetensors file that fits */
} world;

static td_status import(const world *w, const base_text *weights, uint64_t seed, ir_graph **graph, td_error *err) {
  import_builtin_source source = {.name = "efficientnet_lite0", .file = "lite0.safetensors", .seed = seed};
  if (weights) {
    source.weights = weights->at;
    source.size = weights->length;
  }
  return import_builtin(&source, w->ops, &base_libc_allocator, graph, err);
}

static ir_graph *import_seeded(const world *w, uint64_t seed) {
  ir_graph *graph;
  assert_int_equal(import(w, NULL, seed, &graph, NULL), TD_OK);
  return graph;
}

/* The named constants of a graph are its parameters. */
static const ir_value_def *param_at(const ir_graph *graph, uint32_t i) {
  const ir_value_def *def = &graph->values.at[i];
  return def->info.constant && def->name ? def : NULL;
}

static const base_tensor *find_param(const ir_graph *graph, const char *key) {
  for (uint32_t i = 1; i < graph->values.count; i++) {
    const ir_value_def *def = param_at(graph, i);
    if (def && strcmp(def->name, key) == 0) return def->info.constant;
  }
  return NULL;
}

/* ---- a file of weights ---- */

/* What to do to the key `key`: write it under another name, or with another shape. */
typedef struct change {
  const char *key, *name;
  bool flat;
} change;

static const change *change_of(const char *key, const change *changes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(key, changes[i].key) == 0) return &changes[i];
  return NULL;
}

static void add_entry(base_text *header, const char *name, const base_tensor *t, bool flat, size_t offset) {
  base_text_print(header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", header->length > 1 ? "," : "", name);
  if (flat) base_text_print(header, "%lld", (long long)base_tensor_numel(t));
  for (int32_t i = 0; !flat && i < t->rank; i++) base_text_print(header, "%s%lld", i ? "," : "", (long long)t->dims[i]);
  base_text_print(header, "],\"data_offsets\":[%zu,%zu]}", offset, offset + base_tensor_bytes(t));
}

/* The parameters of `graph` as .safetensors, with `changes`, and one key that models saved in training have. */
static base_text write_weights(const ir_graph *graph, const change *changes, size_t count) {
  base_text header = {.allocator = &base_libc_allocator}, data = header, file = header;
  base_text_print(&header, "{");
  for (uint32_t i = 1; i < graph->values.count; i++) {
    const ir_value_def *def = param_at(graph, i);
    if (!def) continue;
    const change *c = change_of(def->name, changes, count);
    add_entry(&header, c && c->name ? c->name : def->name, def->info.constant, c && c->flat, data.length);
    base_text_add(&data, def->info.constant->data, base_tensor_bytes(def->info.constant));
  }
  base_text_print(&header, ",\"_bn0.num_batches_tracked\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[%zu,%zu]}}",
                  data.length, data.length + 8);
  base_text_add(&data, "\1\0\0\0\0\0\0\0", 8);
  uint64_t bytes = header.length;
  base_text_add(&file, (const char *)&bytes, 8);
  base_text_add(&file, header.at, header.length);
  base_text_add(&file, data.at, data.length);
  assert_false(file.failed || data.failed || header.failed);
  base_text_free(&header);
  base_text_free(&data);
  return file;
}

static int make_world(void **state) {
  static world w;
  w.arena = base_arena_new(&base_libc_allocator);
  w.ops = ops_set(w.arena);
  ir_graph *graph;
  if (import(&w, NULL, 1, &graph, NULL) != TD_OK) return 1;
  w.file = write_weights(graph, NULL, 0);
  ir_graph_free(graph);
  *state = &w;
  return 0;
}

static int free_world(void **state) {
  world *w = *state;
  base_text_free(&w->file);
  base_arena_free(w->arena);
  return 0;
}

/* ---- tests ---- */

/* The published file has 296 tensors of 4,694,073 numbers; 49 of them, of one number, are num_batches_tracked. */
static void the_architecture_has_its_parameters(void **state) {
  const world *w = *state;
  ir_graph *graph = import_seeded(w, 0);
  uint32_t tensors = 0;
  int64_t numbers = 0;
  for (uint32_t i = 1; i < graph->values.count; i++) {
    const ir_value_def *def = param_at(graph, i);
    tensors += def != NULL;
    numbers += def ? base_tensor_numel(def->info.constant) : 0;
  }
  assert_int_equal(tensors, 247);
  assert_int_equal(numbers, 4694073 - 49);
  assert_null(find_param(graph, "_blocks.0._expand_conv.weight"));
  const base_tensor *depthwise = find_param(graph, "_blocks.11._depthwise_conv.weight");
  assert_non_null(depthwise);
  assert_int_equal(depthwise->dims[0], 672);
  assert_int_equal(depthwise->dims[2], 5);
  ir_graph_free(graph);
}

static uint32_t count_origin(const ir_graph *graph, const char *origin) {
  uint32_t count = 0;
  for (uint32_t i = 1; i < graph->nodes.count; i++)
    for (uint32_t k = 0; k < graph->nodes.at[i].origins.count; k++)
      count += strcmp(graph->nodes.at[i].origins.names[k], origin) == 0;
  return count;
}

static void nodes_are_named_by_their_modules(void **state) {
  const world *w = *state;
  ir_graph *graph = import_seeded(w, 0);
  char text[64];
  assert_int_equal(count_origin(graph, "_conv_stem (Conv2d)"), 1);
  assert_int_equal(count_origin(graph, "_blocks.3._bn0 (ReLU6)"), 1);
  assert_int_equal(count_origin(graph, "_blocks.3._bn2 (ReLU6)"), 0);
  assert_int_equal(count_origin(graph, "_fc (Linear)"), 1);
  static const bool added[16] = {[2] = 1, [4] = 1, [6] = 1, [7] = 1, [9] = 1, [10] = 1, [12] = 1, [13] = 1, [14] = 1};
  for (int i = 0; i < 16; i++) {
    snprintf(text, sizeof text, "_blocks.%d (add)", i);
    assert_int_equal(count_origin(graph, text), added[i]);
  }
  ir_graph_free(graph);
}

static void sizes_are_those_of_the_paper(void **state) {
  const world *w = *state;
  static const struct {
    const char *origin;
    int64_t channels, side;
  } cases[] = {{"_conv_stem (Conv2d)", 32, 112},          {"_blocks.0._bn2 (BatchNorm2d)", 16, 112},
               {"_blocks.2._bn2 (BatchNorm2d)", 24, 56},  {"_blocks.4._bn2 (BatchNorm2d)", 40, 28},
               {"_blocks.7._bn2 (BatchNorm2d)", 80, 14},  {"_blocks.10._bn2 (BatchNorm2d)", 112, 14},
               {"_blocks.14._bn2 (BatchNorm2d)", 192, 7}, {"_blocks.15._bn2 (BatchNorm2d)", 320, 7},
               {"_conv_head (Conv2d)", 1280, 7}};
  ir_graph *graph = import_seeded(w, 0);
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
    for (uint32_t i = 1; i < graph->nodes.count; i++) {
      const ir_node_def *node = &graph->nodes.at[i];
      if (strcmp(node->origins.names[0], cases[c].origin) != 0) continue;
      const ir_type *type = ir_type_of(graph, node->out[0]);
      assert_int_equal(type->dims[1], cases[c].channels);
      assert_int_equal(type->dims[2], cases[c].side);
      assert_int_equal(type->dims[3], cases[c].side);
    }
  ir_graph_free(graph);
}

static void seeds_decide(void **state) {
  const world *w = *state;
  ir_graph *a = import_seeded(w, 7), *b = import_seeded(w, 7), *c = import_seeded(w, 8);
  const base_tensor *first = find_param(a, "_fc.weight"), *same = find_param(b, "_fc.weight"),
                    *other = find_param(c, "_fc.weight");
  assert_memory_equal(first->data, same->data, base_tensor_bytes(first));
  assert_memory_not_equal(first->data, other->data, base_tensor_bytes(first));
  const float *values = first->data;
  double sum = 0, squares = 0, count = (double)base_tensor_numel(first);
  for (int64_t i = 0; i < base_tensor_numel(first); i++) {
    sum += (double)values[i];
    squares += (double)values[i] * (double)values[i];
  }
  assert_true(fabs(sum / count) < 1e-3);
  assert_true(fabs(squares / count * 1280 - 1) < 0.01); /* variance 1 / inputs */
  ir_graph_free(a);
  ir_graph_free(b);
  ir_graph_free(c);
}

static void weights_are_used_in_place(void **state) {
  const world *w = *state;
  ir_graph *graph, *seeded = import_seeded(w, 1);
  td_error err = {0};
  if (import(w, &w->file, 0, &graph, &err) != TD_OK) fail_msg("%s", err.text);
  for (uint32_t i = 1; i < graph->values.count; i++) {
    const ir_value_def *def = param_at(graph, i);
    if (!def) continue;
    const char *at = def->info.constant->data;
    assert_true(at >= w->file.at && at < w->file.at + w->file.length);
    const base_tensor *wanted = find_param(seeded, def->name);
    assert_memory_equal(at, wanted->data, base_tensor_bytes(wanted));
  }
  assert_true(base_arena_bytes(graph->arena) < 4 << 20); /* a chunk of 2 MiB; the weights are four times that */
  ir_graph_free(graph);
  ir_graph_free(seeded);
}

static void keys_that_do_not_fit_are_listed(void **state) {
  const world *w = *state;
  static const change changes[] = {{"_fc.bias", "_fc.offset", false},
                                   {"_bn1.running_mean", "_bn1.mean", false},
                                   {"_blocks.5._project_conv.weight", NULL, true}};
  ir_graph *seeded = import_seeded(w, 1), *graph;
  base_text file = write_weights(seeded, changes, 3);
  td_error err = {0};
  assert_int_equal(import(w, &file, 0, &graph, &err), TD_BAD_FILE);
  assert_null(graph);
  assert_string_equal(err.name, "lite0.safetensors");
  assert_non_null(strstr(err.text, "2 missing (_bn1.running_mean, _fc.bias)"));
  assert_non_null(strstr(
      err.text, "1 of another shape or type (_blocks.5._project_conv.weight is f32[19200], not f32[80,240,1,1])"));
  assert_non_null(strstr(err.text, "2 superfluous (_bn1.mean, _fc.offset)"));
  base_text_free(&file);
  ir_graph_free(seeded);
}

/* Another model's file: too many keys to print, and a count. */
static void a_file_without_any_key_is_refused(void **state) {
  const world *w = *state;
  static const char header[] = "{\"x\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}";
  uint64_t bytes = sizeof header - 1;
  base_text file = {.allocator = &base_libc_allocator};
  base_text_add(&file, (const char *)&bytes, 8);
  base_text_add(&file, header, sizeof header - 1);
  base_text_add(&file, "\0\0\0\0", 4);
  ir_graph *graph;
  td_error err = {0};
  assert_int_equal(import(w, &file, 0, &graph, &err), TD_BAD_FILE);
  assert_non_null(strstr(err.text, "247 missing (_conv_stem.weight, "));
  assert_non_null(strstr(err.text, ", ...)"));
  assert_non_null(strstr(err.text, "1 superfluous (x)"));
  base_text_free(&file);
}

static void other_failures_are_errors(void **state) {
  const world *w = *state;
  ir_graph *graph;
  td_error err = {0};
  import_builtin_source nobody = {.name = "efficientnet_lite9"};
  assert_int_equal(import_builtin(&nobody, w->ops, &base_libc_allocator, &graph, &err), TD_BAD_ARGUMENT);
  assert_non_null(strstr(err.text, "efficientnet_lite0"));
  base_text junk = {.allocator = &base_libc_allocator};
  base_text_add(&junk, "not weights", 11);
  assert_int_equal(import(w, &junk, 0, &graph, &err), TD_BAD_FILE);
  base_text_free(&junk);
}

static td_status import_within(const td_allocator *allocator, void *user) {
  const world *w = user;
  import_builtin_source source = {
      .name = "efficientnet_lite0", .file = "w", .weights = w->file.at, .size = w->file.length};
  ir_graph *graph;
  td_error err;
  const td_status status = import_builtin(&source, w->ops, allocator, &graph, &err);
  if (status == TD_OK) ir_graph_free(graph);
  else assert_null(graph);
  return status;
}

static void every_allocation_may_fail(void **state) {
  assert_true(fail_each_allocation(import_within, *state, false) > 2);
}

/* On seeded weights what flows through keeps an ordinary size to the end. */
static void seeded_weights_run(void **state) {
  (void)state;
  td_error err = {0};
  td_model *model;
  td_session *session;
  td_load_options options = {.size = sizeof options, .seed = 3};
  float *pixels = malloc(sizeof *pixels * 3 * 224 * 224);
  assert_non_null(pixels);
  for (int i = 0; i < 3 * 224 * 224; i++) pixels[i] = (float)(i * 37 % 256 - 127) / 128;
  td_tensor in = {.dtype = TD_F32, .rank = 4, .dims = {1, 3, 224, 224}, .data = pixels}, out;
  if (td_model_load("builtin:efficientnet_lite0", &options, &model, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(td_session_new(model, NULL, &session, &err), TD_OK);
  assert_int_equal(td_session_set_input(session, 0, &in, &err), TD_OK);
  if (td_session_run(session, &err) != TD_OK) fail_msg("%s", err.text);
  assert_int_equal(td_session_output(session, 0, &out, &err), TD_OK);
  assert_int_equal(out.dims[1], 1000);
  double squares = 0;
  for (int i = 0; i < 1000; i++) squares += (double)((float *)out.data)[i] * (double)((float *)out.data)[i];
  assert_true(squares / 1000 > 1e-2 && squares / 1000 < 1e2);
  td_session_free(session);
  td_model_free(model);
  free(pixels);
}

static void only_builtins_take_weights(void **state) {
  (void)state;
  td_error err = {0};
  td_model *model;
  td_load_options options = {.size = sizeof options, .weights = "w.pth"};
  assert_int_equal(td_model_load("model.onnx", &options, &model, &err), TD_BAD_ARGUMENT);
  assert_int_equal(td_model_load("builtin:efficientnet_lite0", &options, &model, &err), TD_BAD_FILE);
  assert_string_equal(err.name, "w.pth");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_architecture_has_its_parameters), cmocka_unit_test(nodes_are_named_by_their_modules),
      cmocka_unit_test(sizes_are_those_of_the_paper),        cmocka_unit_test(seeds_decide),
      cmocka_unit_test(weights_are_used_in_place),           cmocka_unit_test(keys_that_do_not_fit_are_listed),
      cmocka_unit_test(a_file_without_any_key_is_refused),   cmocka_unit_test(other_failures_are_errors),
      cmocka_unit_test(every_allocation_may_fail),           cmocka_unit_test(seeded_weights_run),
      cmocka_unit_test(only_builtins_take_weights),
  };
  return cmocka_run_group_tests(tests, make_world, free_world);
}
