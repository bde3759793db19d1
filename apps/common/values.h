/* values.h -- values outside the engine: read from files, made from a description or at random. */
#ifndef COMMON_VALUES_H
#define COMMON_VALUES_H
#include "base/base.h"

/* ---- files (values.c) ---- */

/* A value and the name its file gives it ("" where it gives none). */
typedef struct app_named {
  const char *name;
  base_value value;
  int64_t rate; /* of a sound, samples a second; else 0 */
} app_named;

typedef BASE_VEC(app_named) app_named_vec;

/* What a reader may need to know beyond the bytes. */
typedef struct app_read_how {
  base_arena *arena;         /* the values live here, or in a mapping that lives as long as the process */
  const td_value_info *info; /* the input the file is meant for; NULL: not known yet */
  const char *preprocess;    /* the preset that makes pictures an input */
} app_read_how;

/* Reads every value of `path`; the format is found from the end of the name. Adds to `out`. */
td_status app_read_values(const char *path, const app_read_how *how, app_named_vec *out, td_error *err);
/* Reads one recorded ONNX value: TensorProto, SequenceProto or OptionalProto according to info->kind. A u16 tensor for
 * what is declared as bf16 holds its bits. */
td_status app_read_recorded(const char *path, const app_read_how *how, base_value *value, td_error *err);
/* Writes a .npy file. TD_UNSUPPORTED: strings. */
td_status app_write_npy(const char *path, const base_tensor *tensor, td_error *err);

/* ---- made-up data (random.c) ---- */

/* Fills a contiguous tensor from `seed`: floats from the standard normal distribution, integers 0 to 2, bools either.
 */
td_status app_fill_random(base_tensor *tensor, uint64_t seed, td_error *err);
/* "SHAPE:DTYPE:FILL", FILL a number or `random`. False in *is_description when `text` is not of that form. */
td_status app_describe_value(base_str text, uint64_t seed, base_arena *arena, base_value *value, bool *is_description,
                             td_error *err);

/* ---- words (dims.c) ---- */

/* "1x3x224x224" or "" (a scalar). */
td_status app_dims(base_str text, int32_t *rank, int64_t *dims, td_error *err);
/* The same where a dimension may be a name: -1, and the name, of the arena, in symbols (room for TD_MAX_RANK). */
td_status app_open_dims(base_str text, base_arena *arena, int32_t *rank, int64_t *dims, const char **symbols,
                        td_error *err);
/* The type of the parts of complex numbers called `name` ("c64", "c128"); TD_INVALID: of none. */
td_dtype app_part_of_complex(base_str name);
/* And back: of f32 "c64". */
const char *app_complex_of_part(td_dtype part);
#endif
