/* wire.h -- protobuf wire format over bytes in memory, without a schema and without copies: a cursor gives one field
 * after the other, a nested message is again a cursor. The caller knows the field numbers and bounds its own depth. */
#ifndef FMT_WIRE_H
#define FMT_WIRE_H
#include "base/base.h"

typedef enum fmt_wire_type { FMT_VARINT = 0, FMT_FIXED64 = 1, FMT_BYTES = 2, FMT_FIXED32 = 5 } fmt_wire_type;

/* A cursor over one message: file <= at <= end. */
typedef struct fmt_wire {
  const uint8_t *at, *end;
  const uint8_t *file; /* first byte of the file, for the offsets of errors */
} fmt_wire;

typedef struct fmt_field {
  uint32_t number;
  fmt_wire_type type;
  uint64_t value; /* the bits, unless type is FMT_BYTES */
  fmt_wire
      bytes; /* FMT_BYTES: the payload; else the encoded value, so that repeated scalars read alike in both forms */
  int64_t offset; /* of the field's tag in the file */
} fmt_field;

/* A cursor over a whole file. */
fmt_wire fmt_wire_of(const void *bytes, size_t size);
static inline bool fmt_wire_more(const fmt_wire *w) { return w->at < w->end; }
static inline size_t fmt_wire_left(const fmt_wire *w) { return (size_t)(w->end - w->at); }
static inline int64_t fmt_wire_offset(const fmt_wire *w) { return w->at - w->file; }

/* The next field; call while fmt_wire_more. Unknown fields are skipped by not looking at them. TD_BAD_FILE: truncated,
 * a varint of more than 64 bits, field number 0, a group (proto1; ONNX has none) or an unknown wire type. */
td_status fmt_wire_next(fmt_wire *w, fmt_field *field, td_error *err);

/* The value of a singular field, TD_BAD_FILE when its wire type is another. `what` names the field in the error. */
td_status fmt_field_int(const fmt_field *field, const char *what, int64_t *value, td_error *err);
td_status fmt_field_float(const fmt_field *field, const char *what, float *value, td_error *err);
td_status fmt_field_str(const fmt_field *field, const char *what, base_str *value, td_error *err); /* a view */
td_status fmt_field_message(const fmt_field *field, const char *what, fmt_wire *value, td_error *err);

/* One occurrence of a repeated scalar field, packed or not: a cursor to read with fmt_wire_scalar while fmt_wire_more.
 * `type` is the scalar's own: FMT_VARINT, FMT_FIXED32 or FMT_FIXED64. */
td_status fmt_field_scalars(const fmt_field *field, fmt_wire_type type, const char *what, fmt_wire *values,
                            td_error *err);
td_status fmt_wire_scalar(fmt_wire *values, fmt_wire_type type, uint64_t *bits, td_error *err);
/* How many scalars `values` holds at most; exact unless its last varint is truncated. O(bytes), allocates nothing. */
size_t fmt_wire_count(const fmt_wire *values, fmt_wire_type type);

/* Writers: each appends one field to `out` (see base_text for lack of memory). A nested message is written to a
 * base_text of its own first and then put as bytes. */
void fmt_put_varint(base_text *out, uint64_t value); /* the bare number, as inside a packed field */
void fmt_put_int(base_text *out, uint32_t number, int64_t value);
void fmt_put_float(base_text *out, uint32_t number, float value);
void fmt_put_bytes(base_text *out, uint32_t number, const void *bytes, size_t count);
void fmt_put_str(base_text *out, uint32_t number, const char *text);
/* Only tag and length: the caller appends exactly `count` bytes. */
void fmt_put_header(base_text *out, uint32_t number, size_t count);
#endif
