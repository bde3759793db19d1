/* job.c -- words, models and files of `treadle-quantize`: measures a model on samples, writes it with products of 8 or
 * 4 bits, and reports how far its outputs are from those of f32, and which layers cost most. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <treadle/experimental.h>

#include "fmt/image.h"
#include "job.h"
#include "norms.h"

static const char help[] =
    "usage: treadle quantize MODEL --data FILE|FOLDER -o OUT.onnx [OPTION]...\n"
    "       treadle quantize MODEL --data FILE|FOLDER --mode bf16|f16 [-o LIST] [OPTION]...\n"
    "Writes a model of f32 with products of 8 or 4 bits, or finds what --precision bf16 or f16 is to leave in f32, "
    "and\n"
    "reports what that costs.\n"
    "  MODEL                ONNX from operator set 13 on, or what `treadle` exports as such (.pt, .pt2); of bf16 and "
    "f16\n"
    "                       any that `treadle run` takes\n"
    "  --data PATH          samples: .npy files and pictures, or folders of NAME.npy for several inputs\n"
    "  --test PATH          other samples, on which the report's outputs are compared; default: those of --data\n"
    "  -o, --output FILE    the ONNX file to be written; of bf16 and f16 the list for --keep-f32\n"
    "  --mode M             static (the default): all between products in 8 bits; dynamic: products that quantise\n"
    "                       rows as they come; weights: weights alone, of 8 bits; int4: of 4 bits, by block;\n"
    "                       bf16, f16: as --precision would have it; nothing is rewritten\n"
    "  --observer O         minmax (the default), percentile, mse, entropy: how static ranges are chosen\n"
    "  --smooth A           moves outliers of activations into the weights of matrix products (SmoothQuant) before:\n"
    "                       auto tries several A by the outputs' error, 0.5 shares them evenly; static and dynamic\n"
    "  --fit on|off         rounds weights and shifts biases so that products come out as in f32 on samples (the "
    "default);\n"
    "                       off: weights are rounded to nearest; static\n"
    "  --block N            elements of a block of int4: 16 to 256, a power of 2; default 32\n"
    "  --keep NODE          leaves this node in f32; may be given again\n"
    "  --max-loss X         leaves as few layers in f32 as make the relative error of each output at most X\n"
    "  --layers N           layers of the report; default 10, 0: their costs are not found\n"
    "  --json               the report as JSON\n"
    "  --isa LEVEL          measures as this level computes; default: the widest that the CPU has\n"
    "  --weights FILE       state_dict of a builtin: model (.pth, .safetensors)\n"
    "  --preprocess P       of pictures: imagenet (the default), efficientnet_lite, raw\n";

/* ---- words ---- */

static td_status read_words(job *j, int count, char **words, bool *helped, td_error *err) {
  struct {
    const char *name, *brief, **value;
  } const taken[] = {{"--isa", "", &j->engine.isa},         {"--weights", "", &j->weights},
                     {"--smooth", "", &j->smooth_text},     {"--fit", "", &j->fit_text},
                     {"--data", "", &j->data_path},         {"--test", "", &j->test_path},
                     {"--output", "-o", &j->out_path},      {"--mode", "", &j->mode_name},
                     {"--observer", "", &j->observer_name}, {"--block", "", &j->block_text},
                     {"--max-loss", "", &j->max_loss_text}, {"--layers", "", &j->layers_text},
                     {"--preprocess", "", &j->data.preset}, {"--keep", "", NULL}};
  for (int i = 0; i < count; i++) {
    size_t k = 0;
    const size_t options = sizeof taken / sizeof *taken;
    if ((*helped = strcmp(words[i], "--help") == 0)) return TD_OK;
    if (strcmp(words[i], "--json") == 0) {
      j->json = true;
      continue;
    }
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
  static const char *const modes[] = {"static", "dynamic", "weights", "int4", "bf16", "f16", NULL};
  static const char *const observers[] = {"minmax", "percentile", "mse", "entropy", NULL};
  static const char *const switches[] = {"on", "off", NULL};
  int mode, observer, off;
  char *end = NULL;
  TRY(choose("--mode", j->mode_name, modes, &mode, err));
  TRY(choose("--observer", j->observer_name, observers, &observer, err));
  TRY(choose("--fit", j->fit_text, switches, &off, err));
  j->fitted = !off && mode == QUANT_STATIC;
  j->recipe = (quant_recipe){.mode = (quant_mode)mode, .block = 32};
  if (mode > QUANT_INT4) j->precision = modes[mode];
  j->observer = (quant_observer)observer;
  j->layers_told = 10;
  j->max_loss = -1;
  if (!j->data.preset) j->data.preset = fmt_image_preset_name(0);
  if (j->block_text && (!base_str_int(base_str_of(j->block_text), &j->recipe.block) || j->recipe.block < 16 ||
                        j->recipe.block > 256 || (j->recipe.block & (j->recipe.block - 1))))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--block '%s': a power of 2 from 16 to 256", j->block_text);
  if (j->layers_text && (!base_str_int(base_str_of(j->layers_text), &j->layers_told) || j->layers_told < 0))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--layers '%s': a number from 0 on", j->layers_text);
  if (j->max_loss_text) j->max_loss = strtod(j->max_loss_text, &end);
  if (j->max_loss_text && (end == j->max_loss_text || *end || !(j->max_loss >= 0)))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--max-loss '%s': a number from 0 on, as 0.01", j->max_loss_text);
  if (j->smooth_text && strcmp(j->smooth_text, "auto") != 0) j->alpha = strtod(j->smooth_text, &end);
  if (j->smooth_text && strcmp(j->smooth_text, "auto") != 0 &&
      (end == j->smooth_text || *end || !(j->alpha >= 0 && j->alpha <= 1)))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--smooth '%s': auto, or a number from 0 to 1, as 0.5",
                     j->smooth_text);
  if (j->smooth_text && mode > QUANT_DYNAMIC)
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "--smooth is for activations of 8 bits: --mode static or dynamic");
  if (!j->model_path || !j->data_path || (!j->out_path && !j->precision))
    return base_fail(err, TD_BAD_ARGUMENT, NULL, -1, "a model, --data and --output are needed; see --help");
  return TD_OK;
}

/* ---- the model ---- */

static td_status append(void *user, const char *bytes, size_t count) {
  base_text_add(user, bytes, count);
  return ((base_text *)user)->failed ? TD_NO_RESOURCE : TD_OK;
}

/* The model as the engine reads it, written as ONNX. */
static td_status export_model(job *j, td_error *err) {
  const td_load_options options = {
      .size = sizeof options, .backend = "eager", .allocator = j->engine.allocator, .weights = j->weights};
  td_model *model;
  TRY(td_model_load(j->model_path, &options, &model, err));
  const td_status status = td_model_save_onnx(model, append, &j->exported, err);
  td_model_free(model);
  TRY(status);
  return quant_read(j->arena, j->exported.at, j->exported.length, &j->m, err);
}

/* The caller's own ONNX file where it can be edited, else an export. */
static td_status read_model(job *j, td_error *err) {
  if (!base_str_ends(base_str_of(j->model_path), ".onnx")) return export_model(j, err);
  TRY(sys_file_map(j->model_path, &j->map, err));
  TRY(quant_read(j->arena, j->map.bytes, j->map.size, &j->m, err));
  if (!j->m.is_external && j->m.opset >= QUANT_OPSET) return TD_OK;
  td_error why = {.offset = -1};
  const char *what = j->m.is_external ? "its weights are in other files" : "its operator set is older than 13";
  const char *instead =
      j->m.is_external ? "save it with its weights inside (onnx.save_model)" : "convert it with onnx.version_converter";
  const td_status status = export_model(j, &why);
  if (status != TD_UNSUPPORTED) {
    if (status != TD_OK) *err = why;
    return status;
  }
  return base_fail(err, TD_UNSUPPORTED, j->model_path, -1, "%s, and Treadle cannot write it anew (%s%s%s): %s", what,
                   why.name, *why.name ? ": " : "", why.text, instead);
}

/* ---- the two ways ---- */

static td_status list_samples(job *j, td_error *err) {
  TRY(quant_list_data(j->arena, j->data_path, &j->data, err));
  j->judged = j->data;
  return j->test_path ? quant_list_data(j->arena, j->test_path, &j->judged, err) : TD_OK;
}

static td_status fold_norms(job *j, td_error *err) {
  bool found;
  TRY(quant_fold_norms(&j->m, &j->folded_file, &found, err));
  return found ? quant_read(j->arena, j->folded_file.at, j->folded_file.length, &j->m, err) : TD_OK;
}

/* Finds what may be of 8 or 4 bits, and opens the model of f32. */
static td_status find_products(job *j, td_error *err) {
  base_text plain = {.allocator = j->engine.allocator};
  TRY(read_model(j, err));
  TRY(list_samples(j, err));
  quant_write_tapped(&j->m, NULL, 0, &plain);
  TRY(quant_open(&j->f32, plain, &j->engine, err));
  if (j->recipe.mode == QUANT_STATIC) TRY(fold_norms(j, err));
  if (j->smooth_text) TRY(quant_smooth(j, err));
  return quant_prepare(j, err);
}

static td_status find_halves(job *j, td_error *err) {
  TRY(list_samples(j, err));
  TRY(quant_find_halves(j, err));
  for (uint32_t k = 0; k < j->keep.count; k++) {
    uint32_t i = 0;
    while (i < j->layers.count && strcmp(j->layers.at[i].label, j->keep.at[k]) != 0) i++;
    if (i == j->layers.count)
      return base_fail(err, TD_BAD_ARGUMENT, j->model_path, -1,
                       "--keep: no layer that would be %s is called %s; --layers 1000 prints them", j->precision,
                       j->keep.at[k]);
    quant_keep(&j->layers.at[i], true);
  }
  return TD_OK;
}

/* The ONNX file, or the list of names. */
static td_status make_file(const job *j, base_text *file, td_error *err) {
  if (!j->precision) return quant_write(&j->m, &j->recipe, file, err);
  const char *kept = quant_kept_names(j);
  base_text_add(file, kept ? kept : "", kept ? strlen(kept) : 0);
  base_text_add(file, "\n", 1);
  return kept && !file->failed ? TD_OK : base_no_memory(err, "names of layers");
}

static td_status write_file(const job *j, td_error *err) {
  base_text file = {.allocator = j->engine.allocator};
  if (!j->out_path) return TD_OK;
  const td_status status = make_file(j, &file, err);
  FILE *to = status == TD_OK ? fopen(j->out_path, "wb") : NULL;
  bool written = to && fwrite(file.at, 1, file.length, to) == file.length;
  if (to && fclose(to) != 0) written = false;
  base_text_free(&file);
  if (status != TD_OK) return status;
  return written ? TD_OK : base_fail(err, TD_NO_RESOURCE, j->out_path, -1, "the file cannot be written");
}

static td_status quantize(job *j, int count, char **words, td_error *err) {
  bool helped = false;
  double loss;
  TRY(read_words(j, count, words, &helped, err));
  if (helped) {
    fputs(help, j->to);
    return TD_OK;
  }
  TRY(read_numbers(j, err));
  TRY(j->precision ? find_halves(j, err) : find_products(j, err));
  quant_error *errors = base_new(j->arena, quant_error, (size_t)j->outputs.count + 1);
  if (!errors) return base_no_memory(err, "a report");
  if (j->layers_told || j->max_loss >= 0) TRY(quant_loss_alone(j, errors, err));
  TRY(quant_loss(j, QUANT_ALL, &j->data, j->data.count, errors, &loss, err));
  if (j->max_loss >= 0) TRY(quant_keep_costly(j, errors, &loss, err));
  double ignored;
  if (j->test_path) TRY(quant_loss(j, QUANT_ALL, &j->judged, j->judged.count, errors, &ignored, err));
  TRY(quant_report(j, errors, err));
  if (j->max_loss >= 0 && loss > j->max_loss)
    return base_fail(err, TD_ANSWER_NO, j->model_path, -1, "the loss is %g with all layers in f32", loss);
  return write_file(j, err);
}

td_status quant_run(int count, char **words, const td_allocator *allocator, FILE *to, td_error *err) {
  job j = {.engine = {.allocator = allocator},
           .to = to,
           .arena = base_arena_new(allocator),
           .exported = {.allocator = allocator},
           .folded_file = {.allocator = allocator},
           .smoothed_file = {.allocator = allocator}};
  if (!j.arena) return base_no_memory(err, "words");
  const td_status status = quantize(&j, count, words, err);
  if (status != TD_OK) quant_progress("", 0, 0);
  quant_close(&j.f32);
  sys_unmap(&j.map);
  base_text_free(&j.exported);
  base_text_free(&j.folded_file);
  base_text_free(&j.smoothed_file);
  base_arena_free(j.arena);
  return status;
}
