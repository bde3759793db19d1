/* dtype.h -- element types: facts, and exact conversions (round to nearest, ties to even). */
#ifndef BASE_DTYPE_H
#define BASE_DTYPE_H
#include "base/text.h"

typedef struct base_dtype_info {
  const char *name;
  uint8_t bits;  /* per element in memory; 0 for TD_INVALID */
  bool is_float; /* storage floats included */
  bool is_int;   /* integers, bool excluded */
  bool is_signed;
  bool is_storage; /* cast and dequantise only */
} base_dtype_info;

const base_dtype_info *base_dtype(td_dtype dtype); /* never NULL: TD_INVALID's row for what is none */
td_dtype base_dtype_from_name(base_str name);      /* "f32", "float32", "int64", ...; TD_INVALID for what is none */
static inline bool base_is_float(td_dtype d) { return base_dtype(d)->is_float; }
static inline bool base_is_int(td_dtype d) { return base_dtype(d)->is_int; }

/* Bytes that `count` elements take: packed types round up to a byte. False on overflow or count < 0. */
bool base_dtype_bytes(td_dtype dtype, int64_t count, size_t *bytes);

/* Element types whose address may have any alignment: model files do not align weights. */
typedef double base_f64 __attribute__((aligned(1), may_alias));
typedef float base_f32 __attribute__((aligned(1), may_alias));
typedef int64_t base_i64 __attribute__((aligned(1), may_alias));
typedef int32_t base_i32 __attribute__((aligned(1), may_alias));
typedef int16_t base_i16 __attribute__((aligned(1), may_alias));
typedef uint64_t base_u64 __attribute__((aligned(1), may_alias));
typedef uint32_t base_u32 __attribute__((aligned(1), may_alias));
typedef uint16_t base_u16 __attribute__((aligned(1), may_alias));
typedef struct base_u128 {
  base_u64 low, high;
} base_u128; /* to be moved */

/* Reads or writes element `index` of an array of `dtype` (packed types included). Not for TD_STRING. Reading an integer
 * as f64 rounds; reading a float as i64 truncates toward zero and saturates (NaN gives 0). Writing rounds to nearest
 * even into floats (overflow: infinity, or NaN where the type has no infinity); integers wrap, as a C cast of i64 does;
 * bool is value != 0. */
double base_load_f64(td_dtype dtype, const void *data, int64_t index);
int64_t base_load_i64(td_dtype dtype, const void *data, int64_t index);
void base_store_f64(td_dtype dtype, void *data, int64_t index, double value);
void base_store_i64(td_dtype dtype, void *data, int64_t index, int64_t value);

/* ONNX Cast of `count` elements, contiguous on both sides. `saturate`: floats too large for an 8-bit float type become
 * its largest finite value instead of infinity or NaN (ONNX Cast-19). float to integer truncates; out of range
 * saturates. Strings are not handled here. `from` and `to` may not overlap. */
void base_convert(td_dtype to_type, void *to, td_dtype from_type, const void *from, int64_t count, bool saturate);

/* Single values. */
float base_f16_to_f32(uint16_t bits);
uint16_t base_f32_to_f16(float value);
uint16_t base_f64_to_f16(double value);
static inline float base_bf16_to_f32(uint16_t bits) {
  union {
    uint32_t u;
    float f;
  } v = {(uint32_t)bits << 16};
  return v.f;
}
uint16_t base_f32_to_bf16(float value);
static inline float base_round_to_bf16(float value) { return base_bf16_to_f32(base_f32_to_bf16(value)); }
uint16_t base_f64_to_bf16(double value);
/* 8- and 4-bit floats: `dtype` says which. */
double base_small_to_f64(td_dtype dtype, uint8_t bits);
uint8_t base_f64_to_small(td_dtype dtype, double value, bool saturate);
#endif
