/* pickle.h -- the part of Python's pickle, protocol 2, that PyTorch's files use, as plain data. Nothing is imported or
 * called: a global is a row of a fixed table (pickle_globals.c) or the file is refused, and REDUCE on such a row builds
 * data. Only classes below __torch__ (TorchScript) become instances: a name and a state.
 *
 * Memory: at most 100 bytes per byte of pickle; strings are views. Objects may be shared and, through lists and
 * dictionaries, contain themselves: who walks them bounds the depth. */
#ifndef FMT_PICKLE_H
#define FMT_PICKLE_H
#include "base/base.h"

typedef enum fmt_object_kind {
  FMT_OBJ_NONE,
  FMT_OBJ_BOOL,
  FMT_OBJ_INT,
  FMT_OBJ_LONG, /* more than 64 bits: str holds its little-endian two's complement */
  FMT_OBJ_FLOAT,
  FMT_OBJ_STR,
  FMT_OBJ_TUPLE,
  FMT_OBJ_LIST,
  FMT_OBJ_DICT,   /* items: key, value, key, value; in the file's order, keys may repeat */
  FMT_OBJ_GLOBAL, /* str: "module name" as the table has it, or the class */
  FMT_OBJ_STORAGE,
  FMT_OBJ_TENSOR,
  FMT_OBJ_INSTANCE, /* items: the class (GLOBAL) and, once it is built, its state */
  FMT_OBJ_ENUM,     /* items: the class (GLOBAL) and the value */
  FMT_OBJ_DEVICE,   /* str: "cpu", "cuda:0" */
  FMT_OBJ_COMPLEX   /* items: real and imaginary part */
} fmt_object_kind;

typedef struct fmt_object fmt_object;

/* What a persistent id names: bytes elsewhere in the file. */
typedef struct fmt_storage {
  td_dtype dtype; /* TD_INVALID: untyped, count is in bytes. The integers of a quantised tensor are I8, U8, I32 */
  base_str key;
  int64_t count;   /* elements, >= 0; of complex numbers two each */
  bool is_complex; /* pairs of `dtype` */
} fmt_storage;

/* How the integers of a quantised tensor are numbers: of the whole tensor (scale, zero_point), or along `axis`. */
typedef struct fmt_quantiser {
  bool per_channel;
  double scale;
  int64_t zero_point, axis;
  const struct fmt_stored_tensor *scales, *zero_points;
} fmt_quantiser;

/* A tensor as written: rank and signs are checked, that it lies inside its storage is not. Complex numbers are pairs
 * along a last axis of 2. */
typedef struct fmt_stored_tensor {
  const fmt_storage *storage;
  const fmt_quantiser *quantiser; /* NULL: plain numbers */
  bool is_complex;
  td_dtype dtype;
  int64_t offset; /* elements */
  int32_t rank;
  int64_t dims[BASE_MAX_RANK], strides[BASE_MAX_RANK];
} fmt_stored_tensor;

typedef BASE_VEC(fmt_object *) fmt_objects;

struct fmt_object {
  fmt_object_kind kind;
  bool seen;             /* for who walks the objects; false at first */
  const fmt_object *tag; /* of containers: a STR, "List[int]", where the file says what they hold; else NULL */
  union {
    int64_t i; /* INT, BOOL */
    double f;
    base_str str;
    fmt_objects items;
    const struct fmt_global *global;
    fmt_storage *storage;
    fmt_stored_tensor *tensor;
  } u;
};

/* A row of the table of globals, or a class of the file. */
typedef struct fmt_global {
  base_str module, name;
  const struct fmt_global_row *row; /* private; NULL: a class below __torch__ */
} fmt_global;

/* Reads one pickle that starts at *at of the file, and moves *at behind it. TD_BAD_FILE: damaged, truncated.
 * TD_UNSUPPORTED: another protocol, opcode or global; the error names it. */
td_status fmt_pickle_read(base_arena *arena, const void *file, size_t size, size_t *at, fmt_object **out,
                          td_error *err);

/* The storages that the pickles read with this `list` mention are appended to it, in order of mention. */
typedef BASE_VEC(fmt_storage *) fmt_storages;
td_status fmt_pickle_read_storages(base_arena *arena, const void *file, size_t size, size_t *at, fmt_storages *list,
                                   fmt_object **out, td_error *err);
#endif
