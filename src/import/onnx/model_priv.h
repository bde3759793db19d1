/* model_priv.h -- a ModelProto as records: what model.c reads and the rest of the front end walks. Names and bytes are
 * slices of the file; the records live in an arena that is freed when the import ends. */
#ifndef IMPORT_ONNX_MODEL_PRIV_H
#define IMPORT_ONNX_MODEL_PRIV_H
#include "fmt/tensor_proto.h"
#include "import/import.h"
#include "import/onnx/onnx_priv.h"

enum {
  ONNX_MAX_DEPTH = 64,  /* of nested graphs, and of function calls within function calls */
  ONNX_MAX_ATTRS = 256, /* of a node: they are searched one by one */
  ONNX_MAX_OPSETS = 256 /* of a model or function: likewise */
};

/* AttributeProto.AttributeType */
enum {
  ONNX_ATTR_FLOAT = 1,
  ONNX_ATTR_INT,
  ONNX_ATTR_STRING,
  ONNX_ATTR_TENSOR,
  ONNX_ATTR_GRAPH,
  ONNX_ATTR_FLOATS,
  ONNX_ATTR_INTS,
  ONNX_ATTR_STRINGS,
  ONNX_ATTR_TENSORS,
  ONNX_ATTR_GRAPHS,
  ONNX_ATTR_SPARSE_TENSOR
};

typedef struct onnx_graph onnx_graph;
typedef struct onnx_function onnx_function;

/* TensorProto or SparseTensorProto. */
typedef struct onnx_tensor {
  base_str name;
  fmt_wire wire;
  bool is_sparse;
  ir_value value; /* its constant, once made */
} onnx_tensor;

typedef struct onnx_attr {
  base_str name, ref, s;
  fmt_wire wire; /* the whole AttributeProto: lists are decoded when they are asked for */
  int64_t type, i;
  float f;
  onnx_tensor tensor; /* of TENSOR and SPARSE_TENSOR */
  onnx_graph *graph;
} onnx_attr;

/* What a node is lowered by: the first that is set. All NULL: not supported. */
typedef struct onnx_impl {
  const onnx_lowering *row;
  const ir_op *op;
  const ir_alias *alias; /* of `op` */
  onnx_function *function;
  int64_t version; /* of the node's domain */
} onnx_impl;

typedef struct onnx_record { /* NodeProto */
  base_str name, op_type, domain, overload;
  base_str scopes; /* of the module it was exported from, "['', 'enc', 'enc.0', 'linear']"; empty: not told */
  BASE_VEC(base_str) in, out;
  BASE_VEC(onnx_attr) attrs;
  uint32_t index; /* in its graph */
  onnx_impl impl;
  bool is_missing; /* noted as not supported: counted once, however often it is lowered */
} onnx_record;

typedef struct onnx_value_info {
  base_str name;
  fmt_wire type; /* TypeProto; empty when absent */
} onnx_value_info;

struct onnx_graph {
  BASE_VEC(onnx_record) nodes;
  BASE_VEC(onnx_tensor) initializers;
  BASE_VEC(onnx_value_info) inputs, outputs;
  uint32_t *order; /* of the nodes, each after what it uses; NULL until onnx_sort */
};

typedef struct onnx_opset_import {
  base_str domain;
  int64_t version;
} onnx_opset_import;

typedef struct onnx_opsets {
  BASE_VEC(onnx_opset_import) imports;
} onnx_opsets;

struct onnx_function {
  base_str name, domain, overload;
  BASE_VEC(base_str) inputs, outputs, attrs;
  BASE_VEC(onnx_attr) defaults;
  onnx_graph body; /* nodes alone */
  onnx_opsets opsets;
  enum { ONNX_UNSEEN, ONNX_ENTERED, ONNX_RESOLVED } state;
};

typedef struct onnx_model {
  int64_t ir_version;
  onnx_graph *graph;
  onnx_opsets opsets;
  BASE_VEC(onnx_function) functions;
} onnx_model;

/* Reads a ModelProto. `file` names it in errors. Domains are normalised: "ai.onnx" is "". */
td_status onnx_read_model(base_arena *arena, const void *bytes, size_t size, const char *file, onnx_model *model,
                          td_error *err);
#endif
