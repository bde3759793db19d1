/* onnx_priv.h -- what the lowering files of the ONNX front end see. A lowering turns one ONNX node into nodes of the
 * graph. Errors are sticky: after a failure every function here does nothing and gives zero values (texts: ""), so a
 * lowering reads as straight code and its caller checks once. */
#ifndef IMPORT_ONNX_ONNX_PRIV_H
#define IMPORT_ONNX_ONNX_PRIV_H
#include "ir/ir.h"

typedef struct onnx_node onnx_node; /* a node being lowered, with its model, scope, opset version and target block */

/* A row of the lowering tables: ONNX operator `name` of `domain` ("" for ai.onnx) from version `since` on. Of several
 * rows the one with the highest since <= the model's opset is used. Plain 1:1 operators need no row: they are aliases
 * in the operator's descriptor. */
typedef struct onnx_lowering {
  const char *domain, *name;
  int since;
  void (*lower)(onnx_node *n);
} onnx_lowering;
/* Each file lower_<family>.c exports `const onnx_lowering onnx_lower_<family>[]` and its count, and has a line
 * LOWER(<family>) in lower.def. */
#define ONNX_TABLE(family) \
  const uint32_t onnx_lower_##family##_count = sizeof onnx_lower_##family / sizeof *onnx_lower_##family
#define ONNX_DECLARE(family)                        \
  extern const onnx_lowering onnx_lower_##family[]; \
  extern const uint32_t onnx_lower_##family##_count

/* Every family's table; *count of them. */
typedef struct onnx_family {
  const onnx_lowering *rows;
  const uint32_t *count;
} onnx_family;
const onnx_family *onnx_families(uint32_t *count);

/* ---- the node ---- */
int64_t onnx_opset(const onnx_node *n); /* version of the node's domain in force here */
const char *onnx_op_type(const onnx_node *n);
uint32_t onnx_in_count(const onnx_node *n); /* trailing absent inputs not counted */
uint32_t onnx_out_count(const onnx_node *n);
ir_value onnx_in(onnx_node *n, uint32_t i); /* none when absent */
bool onnx_has(const onnx_node *n, uint32_t i);
bool onnx_wants(const onnx_node *n, uint32_t i);         /* output i has a name */
void onnx_out(onnx_node *n, uint32_t i, ir_value value); /* output i is `value` */

bool onnx_attr_has(const onnx_node *n, const char *name);
int64_t onnx_attr_int(onnx_node *n, const char *name, int64_t fallback); /* fails when the attribute has another type */
double onnx_attr_float(onnx_node *n, const char *name, double fallback);
const char *onnx_attr_str(onnx_node *n, const char *name, const char *fallback);
/* *count 0 and NULL when absent. The arrays live as long as the graph. */
const int64_t *onnx_attr_ints(onnx_node *n, const char *name, uint32_t *count);
const double *onnx_attr_floats(onnx_node *n, const char *name, uint32_t *count);
const char *const *onnx_attr_strs(onnx_node *n, const char *name, uint32_t *count);
ir_value onnx_attr_tensor(onnx_node *n, const char *name); /* a constant; none when absent. sparse_value works too */
td_dtype onnx_dtype(onnx_node *n, int64_t element_type);   /* ONNX number to dtype; fails on unsupported ones */

/* ---- building: ir/build.h on the node's own builder, whose origin is the node ---- */
ir_build *onnx_build(onnx_node *n);
static inline const ir_type *onnx_type(onnx_node *n, ir_value v) { return ir_build_type(onnx_build(n), v); }
static inline td_dtype onnx_type_dtype(onnx_node *n, ir_value v) { return ir_build_dtype(onnx_build(n), v); }
static inline int32_t onnx_rank(onnx_node *n, ir_value v) { return ir_build_rank(onnx_build(n), v); }
static inline int64_t onnx_axis(onnx_node *n, int64_t axis, int32_t rank) {
  return ir_build_axis(onnx_build(n), axis, rank);
}
static inline bool onnx_known_ints(onnx_node *n, ir_value v, const int64_t **ints, uint32_t *count) {
  return ir_build_known_ints(onnx_build(n), v, ints, count);
}
static inline ir_value onnx_ints(onnx_node *n, const int64_t *ints, uint32_t count) {
  return ir_build_ints(onnx_build(n), ints, count);
}
static inline ir_value onnx_int(onnx_node *n, int64_t value) { return ir_build_int(onnx_build(n), value); }
static inline ir_value onnx_scalar(onnx_node *n, td_dtype dtype, double value) {
  return ir_build_scalar(onnx_build(n), dtype, value);
}
/* The constant that `v` is; NULL: it is absent, or none. */
static inline const base_tensor *onnx_constant_of(onnx_node *n, ir_value v) {
  return v.id ? ir_value_of(onnx_build(n)->graph, v)->info.constant : NULL;
}
static inline ir_value onnx_constant(onnx_node *n, const base_tensor *tensor) {
  return ir_build_constant(onnx_build(n), tensor);
}
/* The same, its elements staying where they are: in the model's file or another constant. */
ir_value onnx_constant_in_place(onnx_node *n, const base_tensor *tensor);
static inline ir_value onnx_emit(onnx_node *n, const char *op, const ir_value *in, uint32_t in_count,
                                 const base_arg *args, uint32_t arg_count) {
  return ir_emit(onnx_build(n), op, in, in_count, args, arg_count);
}
static inline void onnx_emit_many(onnx_node *n, const char *op, const ir_value *in, uint32_t in_count,
                                  const base_arg *args, uint32_t arg_count, ir_value *outs, uint32_t out_count) {
  ir_emit_many(onnx_build(n), op, in, in_count, args, arg_count, outs, out_count);
}
#define ONNX_EMIT(n, op, ...) IR_EMIT(onnx_build(n), op, __VA_ARGS__)
#define ONNX_EMIT_ARGS(n, op, ins, in_count, ...) IR_EMIT_ARGS(onnx_build(n), op, ins, in_count, __VA_ARGS__)
static inline ir_value onnx_cast(onnx_node *n, ir_value v, td_dtype dtype) {
  return ir_build_cast(onnx_build(n), v, dtype);
}
#define onnx_fail(n, ...) ir_build_fail(onnx_build(n), __VA_ARGS__)
static inline void *onnx_alloc(onnx_node *n, size_t bytes) { return ir_build_alloc(onnx_build(n), bytes); }
bool onnx_failed(const onnx_node *n);
#endif
