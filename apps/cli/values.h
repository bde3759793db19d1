/* values.h -- values outside the engine: read from files, made from a description, bound to a session, read back. */
#ifndef CLI_VALUES_H
#define CLI_VALUES_H
#include "cli.h"

/* ---- files (values_file.c) ---- */

/* A value and the name its file gives it ("" where it gives none). */
typedef struct cli_named {
  const char *name;
  base_value value;
  int64_t rate; /* of a sound, samples a second; else 0 */
} cli_named;

typedef BASE_VEC(cli_named) cli_named_vec;

/* What a reader may need to know beyond the bytes. */
typedef struct cli_read_how {
  base_arena *arena;         /* the values live here, or in a mapping that lives as long as the process */
  const td_value_info *info; /* the input the file is meant for; NULL: not known yet */
  const char *preprocess;    /* the preset that makes pictures an input */
} cli_read_how;

/* Reads every value of `path`; the format is found from the end of the name. Adds to `out`. */
td_status cli_read_values(const char *path, const cli_read_how *how, cli_named_vec *out, td_error *err);
/* Reads one recorded ONNX value: TensorProto, SequenceProto or OptionalProto according to info->kind. A u16 tensor for
 * what is declared as bf16 holds its bits. */
td_status cli_read_recorded(const char *path, const cli_read_how *how, base_value *value, td_error *err);
/* Writes a .npy file. TD_UNSUPPORTED: strings. */
td_status cli_write_npy(const char *path, const base_tensor *tensor, td_error *err);

/* ---- a model and its sessions (engine.c) ---- */

/* Fills the fields for generated code: compiler, cache, warnings. The texts live as long as `args`. */
td_status cli_code_options(const cli_args *args, td_load_options *options, td_error *err);
/* With --tune: sets which nodes of the model in operand 0 are left unfused because they are faster so: found earlier on
 * this CPU, or now (forms.c). The text lives as long as `args`. */
td_status cli_tune_forms(cli_args *args, td_load_options *options, td_error *err);
/* Prints what --verbose asks for, now and with every run (verbose.c). */
td_status cli_verbose(const cli_args *args, const td_model *model, td_session *session, td_error *err);
/* Has the model's files for people written to `folder`, which is made, with the command that made them; see
 * docs/debugging.md (debug_folder.c). */
td_status cli_debug_folder(const cli_args *args, const char *folder, td_load_options *options, td_error *err);
/* How the options of a command ask for operand 0 to be loaded; makes it the subject of errors. What the options point
 * to lives as long as `args`. */
td_status cli_load_options(cli_args *args, td_load_options *options, td_error *err);
/* Loads it that way. */
td_status cli_open_model(cli_args *args, td_model **model, td_error *err);
td_status cli_open_session(const cli_args *args, const td_model *model, td_session **session, td_error *err);
/* The same where what the model prints goes to `prints`; NULL: nowhere. */
td_status cli_open_printing_session(const cli_args *args, FILE *prints, const td_model *model, td_session **session,
                                    td_error *err);
/* TD_BAD_ARGUMENT: --inject asks for a fault that is nowhere in the compiled model, though no kernel or pass is left
 * out. */
td_status cli_check_fault(const cli_args *args, const td_model *model, const td_session *session, td_error *err);
/* Binds a value to input `index`; its memory must live until the run is over. Uneven strides are packed into `arena`.
 */
/* `from` as the library takes tensors: dense and row-major; a copy lies in the arena. */
td_status cli_dense_tensor(const base_tensor *from, base_arena *arena, td_tensor *to, td_error *err);
td_status cli_bind(td_session *session, size_t index, const base_value *value, base_arena *arena, td_error *err);
/* Output `index` of the last run: a tensor, or a list for what is not declared as a tensor. */
td_status cli_fetch(const td_model *model, td_session *session, size_t index, base_arena *arena, base_value *value,
                    td_error *err);
/* "f32[batch,3,224,224]", "list of ..." into `text`; returns text. */
char *cli_info_text(const td_value_info *info, char *text, size_t size);
json_t *cli_info_json(const td_value_info *info);

/* ---- what a model is given, for formats that do not say it (specs.c) ---- */

td_status cli_spec_of_value(const base_value *value, const char *name, td_input_spec *spec, td_error *err);
/* The type of the parts of complex numbers called `name` ("c64", "c128"); TD_INVALID: of none. */
td_dtype cli_part_of_complex(base_str name);
/* And back: of f32 "c64". */
const char *cli_complex_of_part(td_dtype part);
/* From --input and --shape, in the order of the options; none where the model's format says its inputs. */
td_status cli_make_specs(const cli_args *args, td_input_spec **specs, size_t *count, td_error *err);

/* ---- the inputs of one run (feed.c) ---- */

typedef struct cli_feed {
  size_t count;
  td_value_info *infos;
  base_value *values;
  bool *given; /* has a value; the others have the model's default */
} cli_feed;

/* Values for every input, from --input, --shape, --preprocess, --batch and --seed. Inputs that nothing is given for
 * keep the model's default, or get random data of their declared shape; with `notes`, standard error says so. */
td_status cli_feed_make(const cli_args *args, const td_model *model, bool notes, cli_feed *feed, td_error *err);
td_status cli_feed_bind(const cli_feed *feed, td_session *session, base_arena *arena, td_error *err);

/* ---- what is no number (nan.c) ---- */

/* How many elements, of a list those of its tensors, are NaN. */
int64_t cli_count_nan(const base_value *value);
/* Says on standard error which of the results hold NaN, and whether an input or a weight does. */
void cli_note_nan(const cli_args *args, const td_model *model, const cli_feed *feed, const char *const *names,
                  const base_value *values, size_t count);

/* ---- made-up data (random.c) ---- */

/* Fills a contiguous tensor from `seed`: floats from the standard normal distribution, integers 0 to 2, bools either.
 */
td_status cli_fill_random(base_tensor *tensor, uint64_t seed, td_error *err);
/* "SHAPE:DTYPE:FILL", FILL a number or `random`. False in *is_description when `text` is not of that form. */
td_status cli_describe_value(base_str text, uint64_t seed, base_arena *arena, base_value *value, bool *is_description,
                             td_error *err);
#endif
