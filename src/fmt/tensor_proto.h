/* tensor_proto.h -- ONNX TensorProto, and the SequenceProto and OptionalProto of recorded test data.
 *
 * Memory: raw_data, and float_data or double_data in one packed piece, are views into the file. All else is decoded
 * into the arena: at most 8 bytes per byte of file (a one-byte varint that becomes an i64), 96 for items of a sequence
 * (an item takes at least two bytes and makes a base_value). Nothing is allocated before the data has been counted. */
#ifndef FMT_TENSOR_PROTO_H
#define FMT_TENSOR_PROTO_H
#include "fmt/wire.h"

/* Where data outside the file lies; as written there, nothing checked but that the numbers are >= 0. */
typedef struct fmt_external {
  base_str location;
  int64_t offset; /* bytes; 0 when absent */
  int64_t length; /* bytes, or -1 when absent: to the end */
} fmt_external;

typedef struct fmt_tensor_proto {
  base_str name;      /* a view, "" when absent */
  base_tensor tensor; /* contiguous; data is NULL when is_external, and only then */
  size_t bytes;       /* of the data, as dtype and dims say */
  bool is_external;
  fmt_external external;
  int64_t offset; /* of the message in the file */
} fmt_tensor_proto;

/* The dtype of an ONNX element number (1 is f32, ...), TD_INVALID for complex and unknown ones; and back, 0 for none.
 */
td_dtype fmt_onnx_dtype(int64_t element);
int32_t fmt_onnx_element(td_dtype dtype);

/* Reads the message under `wire`. TD_BAD_FILE: damaged, or dims and data disagree. TD_UNSUPPORTED: complex and unknown
 * types, segments, more than 8 dimensions. Errors name the tensor when its name is known. */
td_status fmt_tensor_proto_read(base_arena *arena, fmt_wire wire, fmt_tensor_proto *out, td_error *err);

typedef enum fmt_value_form { FMT_FORM_TENSOR, FMT_FORM_SEQUENCE, FMT_FORM_OPTIONAL } fmt_value_form;

/* A recorded value. The bytes do not say which message they are: `form` comes from the type of the graph's input.
 * Nested sequences and optionals up to 16 deep; maps and sparse tensors are TD_UNSUPPORTED, as is external data. */
td_status fmt_value_proto_read(base_arena *arena, fmt_wire wire, fmt_value_form form, base_value *out, td_error *err);

/* Appends a TensorProto message (raw_data, or string_data). Strides are honoured. */
void fmt_put_tensor_proto(base_text *out, const char *name, const base_tensor *tensor);
/* Appends the message for `form`; what is no list in FMT_FORM_SEQUENCE is written as an empty sequence. */
void fmt_put_value_proto(base_text *out, const char *name, fmt_value_form form, const base_value *value);
#endif
