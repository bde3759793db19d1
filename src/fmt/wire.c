/* wire.c -- protobuf fields, one at a time; every length is checked against the message around it. */
#include "fmt/wire.h"
#include "fmt/bytes_priv.h"

fmt_wire fmt_wire_of(const void *bytes, size_t size) {
  const uint8_t *at = bytes ? bytes : (const uint8_t *)"";
  return (fmt_wire){.at = at, .end = at + (bytes ? size : 0), .file = at};
}

static td_status truncated(const fmt_wire *w, const char *what, td_error *err) {
  return base_fail(err, TD_BAD_FILE, NULL, fmt_wire_offset(w), "the file ends inside %s", what);
}

static td_status read_varint(fmt_wire *w, uint64_t *value, td_error *err) {
  uint64_t v = 0;
  for (unsigned i = 0; i < 10; i++) {
    if (w->at + i == w->end) return truncated(w, "a number", err);
    uint64_t byte = w->at[i];
    if (i == 9 && byte > 1) break;
    v |= (byte & 127) << (7 * i);
    if (byte < 128) {
      w->at += i + 1;
      *value = v;
      return TD_OK;
    }
  }
  return base_fail(err, TD_BAD_FILE, NULL, fmt_wire_offset(w), "a number has more than 64 bits");
}

static td_status read_fixed(fmt_wire *w, size_t bytes, uint64_t *value, td_error *err) {
  if (fmt_wire_left(w) < bytes) return truncated(w, "a number", err);
  *value = bytes == 4 ? fmt_le32(w->at) : fmt_le64(w->at);
  w->at += bytes;
  return TD_OK;
}

td_status fmt_wire_scalar(fmt_wire *values, fmt_wire_type type, uint64_t *bits, td_error *err) {
  if (type == FMT_VARINT) return read_varint(values, bits, err);
  return read_fixed(values, type == FMT_FIXED32 ? 4 : 8, bits, err);
}

td_status fmt_wire_next(fmt_wire *w, fmt_field *field, td_error *err) {
  uint64_t tag, length;
  *field = (fmt_field){.offset = fmt_wire_offset(w)};
  TRY(read_varint(w, &tag, err));
  if (tag > UINT32_MAX || tag < 8)
    return base_fail(err, TD_BAD_FILE, NULL, field->offset, "no protobuf field starts here (tag %#llx)",
                     (unsigned long long)tag);
  field->number = (uint32_t)(tag >> 3);
  field->type = (fmt_wire_type)(tag & 7);
  field->bytes = *w;
  if (field->type == FMT_BYTES) {
    TRY(read_varint(w, &length, err));
    if (length > fmt_wire_left(w))
      return base_fail(err, TD_BAD_FILE, NULL, field->offset, "field %u claims %llu bytes where %zu are left",
                       field->number, (unsigned long long)length, fmt_wire_left(w));
    field->bytes.at = w->at;
    w->at += length;
  } else if (field->type == FMT_VARINT || field->type == FMT_FIXED32 || field->type == FMT_FIXED64) {
    TRY(fmt_wire_scalar(w, field->type, &field->value, err));
  } else {
    return base_fail(err, TD_BAD_FILE, NULL, field->offset, "field %u has wire type %u, which no model uses",
                     field->number, (unsigned)field->type);
  }
  field->bytes.end = w->at;
  return TD_OK;
}

static td_status wrong_type(const fmt_field *field, const char *what, td_error *err) {
  return base_fail(err, TD_BAD_FILE, NULL, field->offset, "%s (field %u) has wire type %u, which is not its own", what,
                   field->number, (unsigned)field->type);
}

td_status fmt_field_int(const fmt_field *field, const char *what, int64_t *value, td_error *err) {
  if (field->type != FMT_VARINT) return wrong_type(field, what, err);
  *value = (int64_t)field->value;
  return TD_OK;
}

td_status fmt_field_float(const fmt_field *field, const char *what, float *value, td_error *err) {
  if (field->type != FMT_FIXED32) return wrong_type(field, what, err);
  uint32_t bits = (uint32_t)field->value;
  memcpy(value, &bits, sizeof bits);
  return TD_OK;
}

td_status fmt_field_str(const fmt_field *field, const char *what, base_str *value, td_error *err) {
  if (field->type != FMT_BYTES) return wrong_type(field, what, err);
  *value = (base_str){(const char *)field->bytes.at, fmt_wire_left(&field->bytes)};
  return TD_OK;
}

td_status fmt_field_message(const fmt_field *field, const char *what, fmt_wire *value, td_error *err) {
  if (field->type != FMT_BYTES) return wrong_type(field, what, err);
  *value = field->bytes;
  return TD_OK;
}

td_status fmt_field_scalars(const fmt_field *field, fmt_wire_type type, const char *what, fmt_wire *values,
                            td_error *err) {
  if (field->type != FMT_BYTES && field->type != type) return wrong_type(field, what, err);
  size_t bytes = fmt_wire_left(&field->bytes), each = type == FMT_FIXED32 ? 4 : type == FMT_FIXED64 ? 8 : 1;
  if (bytes % each)
    return base_fail(err, TD_BAD_FILE, NULL, field->offset, "%s has %zu bytes, no multiple of %zu", what, bytes, each);
  *values = field->bytes;
  return TD_OK;
}

size_t fmt_wire_count(const fmt_wire *values, fmt_wire_type type) {
  if (type != FMT_VARINT) return fmt_wire_left(values) / (type == FMT_FIXED32 ? 4 : 8);
  size_t count = 0;
  for (const uint8_t *p = values->at; p < values->end; p++) count += *p < 128;
  return count;
}

void fmt_put_varint(base_text *out, uint64_t value) {
  char bytes[10];
  size_t count = 0;
  do {
    unsigned low = value & 127;
    value >>= 7;
    bytes[count++] = (char)(low | (value ? 128 : 0));
  } while (value);
  base_text_add(out, bytes, count);
}

static void put_tag(base_text *out, uint32_t number, fmt_wire_type type) {
  fmt_put_varint(out, (uint64_t)number << 3 | type);
}

void fmt_put_int(base_text *out, uint32_t number, int64_t value) {
  put_tag(out, number, FMT_VARINT);
  fmt_put_varint(out, (uint64_t)value);
}

void fmt_put_float(base_text *out, uint32_t number, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  char bytes[4] = {(char)bits, (char)(bits >> 8), (char)(bits >> 16), (char)(bits >> 24)};
  put_tag(out, number, FMT_FIXED32);
  base_text_add(out, bytes, sizeof bytes);
}

void fmt_put_header(base_text *out, uint32_t number, size_t count) {
  put_tag(out, number, FMT_BYTES);
  fmt_put_varint(out, count);
}

void fmt_put_bytes(base_text *out, uint32_t number, const void *bytes, size_t count) {
  fmt_put_header(out, number, count);
  base_text_add(out, bytes, count);
}

void fmt_put_str(base_text *out, uint32_t number, const char *text) { fmt_put_bytes(out, number, text, strlen(text)); }
