/* main.c -- `treadle-quantize`: measures a model on samples, writes it with products of 8 or 4 bits, and reports how
 * far its outputs are from those of f32, and which layers cost most. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <treadle/experimental.h>

#include "measure.h"
#include "fmt/image.h"
#include "sys/sys.h"

enum { ALONE_SAMPLES = 4 /* of which a layer's own cost is found */ };

typedef struct job {
  const char *model_path, *out_path, *data_path, *max_loss_text;
  const char *mode_name, *observer_name, *block_text, *layers_text;
  BASE_VEC(const char *) keep;
  double max_loss; /* < 0: none */
  int64_t layers;  /* of the report */
  sys_mapping map;
  base_text exported;
  base_arena *arena;
  quant_model m;
  quant_ranges ranges;
  quant_data data;
  quant_recipe recipe;
  quant_observer observer;
  quant_runner f32; /* with the products' results behind the outputs */
  quant_node **products;
  double *alone; /* of each product: the loss where it alone is narrow */
  uint32_t product_count;
} job;

static const char help[] =
    "usage: treadle quantize MODEL --data FILE|FOLDER -o OUT.onnx [OPTION]...\n"
    "Writes a model of f32 with products of 8 or 4 bits, and reports what that costs.\n"
    "  MODEL                ONNX from operator set 13 on, or what `treadle` exports as such (.pt, .pt2)\n"
    "  --data PATH          samples: .npy files and pictures, or folders of NAME.npy for several inputs\n"
    "  -o, --output FILE    the ONNX file to be written\n"
    "  --mode M             static (the default): all between products in 8 bits; dynamic: products that quantise\n"
    "                       rows as they come; weights: weights alone, of 8 bits; int4: of 4 bits, by block\n"
    "  --observer O         minmax (the default), percentile, mse, entropy: how static ranges are chosen\n"
    "  --block N            elements of a block of int4: 16 to 256, a power of 2; default 32\n"
    "  --keep NODE          leaves this node in f32; may be given again\n"
    "  --max-loss X         leaves layers in f32, the costliest first, until the outputs' relative error is at most X\n"
    "  --layers N           layers of the report; default 10, 0: their costs are not found\n"
    "  --preprocess P       of pictures: imagenet (the default), efficientnet_lite, raw\n";

/* ---- words ---- */

static td_status read_words(job *j, int count, char **words, bool *helped, td_error *err) {
  struct {
    const char *name, *brief, **value;
  } const taken[] = {{"--data", "", &j->data_path},
                     {"--output", "-o", &j->out_path},
                     {"--mode", "", &j->mode_name},
                     {"--observer", "", &j->observer_name},
                     {"--block", "", &j->block_text},
                     {"--max-loss", "", &j->max_loss_text},
                     {"--layers", "", &j->layers_text},
                     {"--preprocess", "", &j->data.preset},
                     {"--keep", "", NULL}};
  for (int i = 0; i < count; i++) {
    size_t k = 0;
    const size_t options = sizeof taken / sizeof *taken;
    if ((*helped = strcmp(words[i], "--help") == 0)) return TD_OK;
    while (k < options && strcmp(words[i], taken[k].name) != 0 && strcmp(words[i], taken[k].brief) != 0) k++;
    if (k == options && *words[i] == '-')
      return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "there is no option %s; --help lists them", words[i]);
    if (k == options && j->model_path) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a second model: %s", words[i]);
    if (k == options) {
      j->model_path = words[i];
      continue;
    }
    if (i + 1 == count) return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s needs a value", words[i]);
    const char **to = taken[k].value ? taken[k].value : base_vec_push(j->arena, &j->keep);
    if (!to) return base_no_memory(err, "words");
    *to = words[++i];
  }
  return TD_OK;
}

static td_status choose(const char *what, const char *given, const char *const *names, int *chosen, td_error *err) {
  for (*chosen = 0; names[*chosen]; ++*chosen)
    if (!given || strcmp(given, names[*chosen]) == 0) return TD_OK;
  return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "%s '%s'; --help lists what there is", what, given);
}

static td_status read_numbers(job *j, td_error *err) {
  static const char *const modes[] = {"static", "dynamic", "weights", "int4", NULL}, *const observers[] = {
                                                                                         "minmax", "percentile", "mse",
                                                                                         "entropy", NULL};
  int mode, observer;
  char *end = NULL;
  TRY(choose("--mode", j->mode_name, modes, &mode, err));
  TRY(choose("--observer", j->observer_name, observers, &observer, err));
  j->recipe = (quant_recipe){.mode = (quant_mode)mode, .block = 32};
  j->observer = (quant_observer)observer;
  j->layers = 10;
  j->max_loss = -1;
  if (!j->data.preset) j->data.preset = fmt_image_preset_name(0);
  if (j->block_text && (!base_str_int(base_str_of(j->block_text), &j->recipe.block) || j->recipe.block < 16 ||
                        j->recipe.block > 256 || (j->recipe.block & (j->recipe.block - 1))))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--block '%s': a power of 2 from 16 to 256", j->block_text);
  if (j->layers_text && (!base_str_int(base_str_of(j->layers_text), &j->layers) || j->layers < 0))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--layers '%s': a number from 0 on", j->layers_text);
  if (j->max_loss_text) j->max_loss = strtod(j->max_loss_text, &end);
  if (j->max_loss_text && (end == j->max_loss_text || *end || !(j->max_loss >= 0)))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--max-loss '%s': a number from 0 on, as 0.01", j->max_loss_text);
  if (!j->model_path || !j->out_path || !j->data_path)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a model, --data and --output are needed; see --help");
  return TD_OK;
}

/* ---- the model ---- */

static td_status append(void *user, const char *bytes, size_t count) {
  base_text_add(user, bytes, count);
  return ((base_text *)user)->failed ? TD_NO_RESOURCE : TD_OK;
}

/* The bytes of an ONNX file: those of the caller's, or an export of it. */
static td_status read_model(job *j, td_error *err) {
  const base_str path = base_str_of(j->model_path);
  if (base_str_ends(path, ".onnx")) {
    TRY(sys_file_map(j->model_path, &j->map, err));
    return quant_read(j->arena, j->map.bytes, j->map.size, &j->m, err);
  }
  const td_load_options options = {.size = sizeof options, .backend = "eager"};
  td_model *model;
  TRY(td_model_load(j->model_path, &options, &model, err));
  const td_status status = td_model_save_onnx(model, append, &j->exported, err);
  td_model_free(model);
  TRY(status);
  return quant_read(j->arena, j->exported.at, j->exported.length, &j->m, err);
}

static td_status keep_nodes(job *j, td_error *err) {
  for (uint32_t k = 0; k < j->keep.count; k++) {
    bool found = false;
    for (uint32_t i = 0; i < j->m.nodes.count; i++) {
      quant_node *n = &j->m.nodes.at[i];
      if (strcmp(n->label, j->keep.at[k]) == 0) found = n->kept = true;
    }
    if (!found)
      return base_fail(err, TD_BAD_ARGUMENT, j->model_path, -1, "--keep: no node is called %s", j->keep.at[k]);
  }
  return TD_OK;
}

static td_status list_products(job *j, td_error *err) {
  const uint32_t nodes = j->m.nodes.count;
  j->products = base_new(j->arena, quant_node *, (size_t)nodes + 1);
  j->alone = base_new(j->arena, double, (size_t)nodes + 1);
  if (!j->products || !j->alone) return base_no_memory(err, "layers");
  for (uint32_t i = 0; i < nodes; i++)
    if (j->m.nodes.at[i].is_product) j->products[j->product_count++] = &j->m.nodes.at[i];
  if (!j->product_count)
    return base_fail(err, TD_UNSUPPORTED, j->model_path, -1,
                     "no node is a convolution, MatMul or Gemm with a constant matrix of f32%s",
                     j->recipe.mode == QUANT_STATIC ? "" : " (convolutions are for --mode static)");
  return TD_OK;
}

/* ---- losses ---- */

static td_status write_narrow(const job *j, const quant_node *alone, base_text *file, td_error *err) {
  quant_recipe recipe = j->recipe;
  recipe.alone = alone;
  return quant_write(&j->m, &recipe, file, err);
}

/* The errors of the outputs of the model with these layers; `errors`: of each output. */
static td_status measure_loss(const job *j, const quant_node *alone, uint32_t samples, quant_error *errors,
                              double *loss, td_error *err) {
  base_text file = {.allocator = &base_libc_allocator};
  quant_runner r = {0};
  const uint32_t count = j->m.outputs.count;
  memset(errors, 0, count * sizeof *errors);
  td_status status = write_narrow(j, alone, &file, err);
  if (status == TD_OK) status = quant_open(&r, file, err);
  else base_text_free(&file);
  if (status == TD_OK) status = quant_compare(&j->f32, &r, &j->data, samples, errors, count, err);
  quant_close(&r);
  *loss = 0;
  for (uint32_t i = 0; i < count; i++) *loss = fmax(*loss, quant_relative(&errors[i]));
  return status;
}

static td_status measure_alone(job *j, quant_error *errors, td_error *err) {
  const uint32_t samples = j->data.count < ALONE_SAMPLES ? j->data.count : ALONE_SAMPLES;
  for (uint32_t i = 0; i < j->product_count; i++) {
    quant_progress("layers", i + 1, j->product_count);
    if (j->products[i]->kept) continue;
    TRY(measure_loss(j, j->products[i], samples, errors, &j->alone[i], err));
  }
  quant_progress("", 0, 0);
  return TD_OK;
}

/* The costliest layer that is still narrow; j->product_count: there is none. */
static uint32_t costliest(const job *j) {
  uint32_t best = j->product_count;
  for (uint32_t i = 0; i < j->product_count; i++)
    if (!j->products[i]->kept && (best == j->product_count || j->alone[i] > j->alone[best])) best = i;
  return best;
}

static td_status keep_costly(job *j, quant_error *errors, double *loss, td_error *err) {
  while (*loss > j->max_loss) {
    const uint32_t worst = costliest(j);
    if (worst == j->product_count) break;
    j->products[worst]->kept = true;
    TRY(measure_loss(j, NULL, j->data.count, errors, loss, err));
  }
  return TD_OK;
}

/* ---- the report ---- */

static void print_outputs(const job *j, const quant_error *errors) {
  printf("%-32s %14s %14s %14s\n", "output", "relative error", "largest", "top-1 agrees");
  for (uint32_t i = 0; i < j->m.outputs.count; i++) {
    const quant_error *e = &errors[i];
    if (!e->rows) printf("%-32s %14s\n", j->m.outputs.at[i], "no f32");
    else
      printf("%-32s %14.6f %14.6g %13.2f%%\n", j->m.outputs.at[i], quant_relative(e), e->most,
             100.0 * (double)e->agree / (double)e->rows);
  }
}

static void print_layers(const job *j) {
  bool *told = base_new(j->arena, bool, (size_t)j->product_count + 1);
  if (!told || !j->layers) return;
  printf("%-60s %14s\n", "layer, alone in 8 or 4 bits", "relative error");
  for (int64_t k = 0; k < j->layers && k < j->product_count; k++) {
    uint32_t best = j->product_count;
    for (uint32_t i = 0; i < j->product_count; i++)
      if (!told[i] && (best == j->product_count || j->alone[i] > j->alone[best])) best = i;
    told[best] = true;
    printf("%-60s %14.6f%s\n", j->products[best]->label, j->alone[best],
           j->products[best]->kept ? "  kept in f32" : "");
  }
}

static td_status write_file(const job *j, const base_text *file, td_error *err) {
  FILE *to = fopen(j->out_path, "wb");
  bool written = to && fwrite(file->at, 1, file->length, to) == file->length;
  if (to && fclose(to) != 0) written = false;
  return written ? TD_OK : base_fail(err, TD_NO_RESOURCE, j->out_path, -1, "the file cannot be written");
}

static td_status report(job *j, td_error *err) {
  quant_error *errors = base_new(j->arena, quant_error, (size_t)j->m.outputs.count + 1);
  double loss;
  uint32_t kept = 0;
  if (!errors) return base_no_memory(err, "a report");
  if (j->layers || j->max_loss >= 0) TRY(measure_alone(j, errors, err));
  TRY(measure_loss(j, NULL, j->data.count, errors, &loss, err));
  if (j->max_loss >= 0) TRY(keep_costly(j, errors, &loss, err));
  for (uint32_t i = 0; i < j->product_count; i++) kept += j->products[i]->kept;
  print_outputs(j, errors);
  print_layers(j);
  printf("%u of %u layers narrow, on %u samples: %s\n", j->product_count - kept, j->product_count, j->data.count,
         j->out_path);
  if (j->max_loss >= 0 && loss > j->max_loss)
    return base_fail(err, TD_ANSWER_NO, j->model_path, -1, "the loss is %g with all layers in f32", loss);
  return TD_OK;
}

static td_status quantize(job *j, int count, char **words, td_error *err) {
  bool helped = false;
  base_text file = {.allocator = &base_libc_allocator}, plain = file;
  TRY(read_words(j, count, words, &helped, err));
  if (helped) {
    fputs(help, stdout);
    return TD_OK;
  }
  TRY(read_numbers(j, err));
  TRY(read_model(j, err));
  TRY(quant_find(&j->m, j->recipe.mode, &j->ranges, err));
  TRY(keep_nodes(j, err));
  TRY(list_products(j, err));
  TRY(quant_list_data(j->arena, j->data_path, &j->data, err));
  if (j->recipe.mode == QUANT_STATIC) TRY(quant_measure(&j->m, &j->data, j->observer, &j->ranges, err));
  if (j->recipe.mode == QUANT_STATIC) j->recipe.ranges = &j->ranges;
  quant_write_tapped(&j->m, NULL, 0, &plain);
  TRY(quant_open(&j->f32, plain, err));
  TRY(report(j, err));
  td_status status = write_narrow(j, NULL, &file, err);
  if (status == TD_OK) status = write_file(j, &file, err);
  base_text_free(&file);
  return status;
}

int main(int count, char **words) {
  td_error err = {.offset = -1};
  job j = {.arena = base_arena_new(&base_libc_allocator), .exported = {.allocator = &base_libc_allocator}};
  if (!j.arena) return TD_NO_RESOURCE;
  const td_status status = quantize(&j, count - 1, words + 1, &err);
  if (status != TD_OK) {
    quant_progress("", 0, 0);
    fprintf(stderr, "treadle: quantize: %s%s%s\n", err.name, *err.name ? ": " : "", err.text);
  }
  quant_close(&j.f32);
  sys_unmap(&j.map);
  base_text_free(&j.exported);
  base_arena_free(j.arena);
  return (int)status;
}
