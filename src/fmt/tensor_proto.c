/* tensor_proto.c -- two walks over a message: the first checks and counts, the second decodes into memory of known
 * size; most data needs none and stays where it is. */
#include "fmt/tensor_proto.h"
#include "fmt/bytes_priv.h"

enum { MAX_DEPTH = 16 };

/* Field numbers of TensorProto. */
enum {
  DIMS = 1,
  DATA_TYPE = 2,
  SEGMENT = 3,
  FLOAT_DATA = 4,
  INT32_DATA = 5,
  STRING_DATA = 6,
  INT64_DATA = 7,
  NAME = 8,
  RAW_DATA = 9,
  DOUBLE_DATA = 10,
  UINT64_DATA = 11,
  EXTERNAL_DATA = 13,
  DATA_LOCATION = 14,
  TENSOR_FIELDS = 15
};

/* By ONNX element number; typed_field carries the data where raw_data does not. */
static const struct {
  td_dtype dtype;
  uint8_t typed_field;
} elements[] = {{TD_INVALID, 0},
                {TD_F32, FLOAT_DATA},
                {TD_U8, INT32_DATA},
                {TD_I8, INT32_DATA},
                {TD_U16, INT32_DATA},
                {TD_I16, INT32_DATA},
                {TD_I32, INT32_DATA},
                {TD_I64, INT64_DATA},
                {TD_STRING, STRING_DATA},
                {TD_BOOL, INT32_DATA},
                {TD_F16, INT32_DATA},
                {TD_F64, DOUBLE_DATA},
                {TD_U32, UINT64_DATA},
                {TD_U64, UINT64_DATA},
                {TD_INVALID, 0},
                {TD_INVALID, 0},
                {TD_BF16, INT32_DATA},
                {TD_F8E4M3FN, INT32_DATA},
                {TD_F8E4M3FNUZ, INT32_DATA},
                {TD_F8E5M2, INT32_DATA},
                {TD_F8E5M2FNUZ, INT32_DATA},
                {TD_U4, INT32_DATA},
                {TD_I4, INT32_DATA},
                {TD_F4E2M1, INT32_DATA},
                {TD_F8E8M0, INT32_DATA},
                {TD_U2, INT32_DATA},
                {TD_I2, INT32_DATA}};
enum { ELEMENTS = sizeof elements / sizeof *elements };

/* How the scalars of a data field are encoded; 0 rows hold none. */
static const struct {
  bool is_data;
  fmt_wire_type type;
  const char *name;
} data_fields[TENSOR_FIELDS] = {
    [FLOAT_DATA] = {true, FMT_FIXED32, "float_data"}, [INT32_DATA] = {true, FMT_VARINT, "int32_data"},
    [STRING_DATA] = {true, FMT_BYTES, "string_data"}, [INT64_DATA] = {true, FMT_VARINT, "int64_data"},
    [RAW_DATA] = {true, FMT_BYTES, "raw_data"},       [DOUBLE_DATA] = {true, FMT_FIXED64, "double_data"},
    [UINT64_DATA] = {true, FMT_VARINT, "uint64_data"}};

td_dtype fmt_onnx_dtype(int64_t element) {
  return element > 0 && element < ELEMENTS ? elements[element].dtype : TD_INVALID;
}

int32_t fmt_onnx_element(td_dtype dtype) {
  for (int32_t i = 1; i < ELEMENTS; i++)
    if (dtype != TD_INVALID && elements[i].dtype == dtype) return i;
  return 0;
}

/* What the first walk over the message found; data is read in a second one, when its size is known to be right. */
typedef struct proto {
  fmt_wire wire;
  fmt_tensor_proto *out;
  int64_t element;      /* data_type */
  bool located_outside; /* data_location = EXTERNAL */
  bool has_external;
  uint32_t data_field;  /* the one that carries data, 0 when none does */
  size_t count, pieces; /* scalars, strings or raw bytes in it, and in how many occurrences */
  fmt_wire last;        /* the last occurrence */
} proto;

static td_status read_dims(const fmt_field *f, base_tensor *t, td_error *err) {
  fmt_wire values;
  TRY(fmt_field_scalars(f, FMT_VARINT, "dims", &values, err));
  while (fmt_wire_more(&values)) {
    uint64_t bits;
    TRY(fmt_wire_scalar(&values, FMT_VARINT, &bits, err));
    if (t->rank == BASE_MAX_RANK)
      return base_fail(err, TD_UNSUPPORTED, NULL, f->offset, "the tensor has more than %d dimensions", BASE_MAX_RANK);
    if ((int64_t)bits < 0)
      return base_fail(err, TD_BAD_FILE, NULL, f->offset, "dimension %d is %lld", (int)t->rank, (long long)bits);
    t->dims[t->rank++] = (int64_t)bits;
  }
  return TD_OK;
}

static td_status read_external_entry(const fmt_field *f, fmt_external *out, td_error *err) {
  fmt_wire entry;
  fmt_field part;
  base_str key = {"", 0}, value = {"", 0};
  TRY(fmt_field_message(f, "external_data", &entry, err));
  while (fmt_wire_more(&entry)) {
    TRY(fmt_wire_next(&entry, &part, err));
    if (part.number == 1) TRY(fmt_field_str(&part, "key", &key, err));
    if (part.number == 2) TRY(fmt_field_str(&part, "value", &value, err));
  }
  if (base_str_is(key, "location")) out->location = value;
  int64_t *number = base_str_is(key, "offset") ? &out->offset : base_str_is(key, "length") ? &out->length : NULL;
  if (number && (!base_str_int(value, number) || *number < 0))
    return base_fail(err, TD_BAD_FILE, NULL, f->offset, "the %.*s of external data is no size: \"%.*s\"",
                     (int)key.length, key.at, (int)(value.length < 40 ? value.length : 40), value.at);
  return TD_OK;
}

static td_status count_data(proto *p, const fmt_field *f, td_error *err) {
  const char *name = data_fields[f->number].name;
  fmt_wire_type type = data_fields[f->number].type;
  fmt_wire values;
  if (type == FMT_BYTES) {
    TRY(fmt_field_message(f, name, &values, err));
  } else {
    TRY(fmt_field_scalars(f, type, name, &values, err));
    if (!fmt_wire_more(&values)) return TD_OK;
  }
  if (p->data_field && p->data_field != f->number)
    return base_fail(err, TD_BAD_FILE, NULL, f->offset, "the tensor has data in both %s and %s",
                     data_fields[p->data_field].name, name);
  p->data_field = f->number;
  p->last = values;
  p->pieces++;
  if (f->number == RAW_DATA) {
    p->count = fmt_wire_left(&values);
    return TD_OK;
  }
  p->count += type == FMT_BYTES ? 1 : fmt_wire_count(&values, type);
  return TD_OK;
}

static td_status read_field(proto *p, const fmt_field *f, td_error *err) {
  int64_t location;
  if (f->number == DIMS) return read_dims(f, &p->out->tensor, err);
  if (f->number == DATA_TYPE) return fmt_field_int(f, "data_type", &p->element, err);
  if (f->number == NAME) return fmt_field_str(f, "name", &p->out->name, err);
  if (f->number == SEGMENT)
    return base_fail(err, TD_UNSUPPORTED, NULL, f->offset, "the tensor is a segment of a larger one");
  if (f->number == EXTERNAL_DATA) {
    p->has_external = true;
    return read_external_entry(f, &p->out->external, err);
  }
  if (f->number == DATA_LOCATION) {
    TRY(fmt_field_int(f, "data_location", &location, err));
    p->located_outside = location == 1;
    return TD_OK;
  }
  if (f->number < TENSOR_FIELDS && data_fields[f->number].is_data) return count_data(p, f, err);
  return TD_OK;
}

/* Data type and dims make sense together; sets out->bytes. */
static td_status check_type(proto *p, int64_t *numel, td_error *err) {
  base_tensor *t = &p->out->tensor;
  t->dtype = fmt_onnx_dtype(p->element);
  if (p->element == 0) return base_fail(err, TD_BAD_FILE, NULL, p->out->offset, "the tensor has no data type");
  if (p->element == 14 || p->element == 15)
    return base_fail(err, TD_UNSUPPORTED, NULL, p->out->offset, "complex tensors are not supported");
  if (t->dtype == TD_INVALID)
    return base_fail(err, TD_UNSUPPORTED, NULL, p->out->offset, "element type %lld is not known",
                     (long long)p->element);
  if (!fmt_tensor_size(t->dtype, t->rank, t->dims, numel, &p->out->bytes))
    return base_fail(err, TD_BAD_FILE, NULL, p->out->offset, "the dimensions of the tensor are larger than memory");
  base_strides(t->rank, t->dims, t->strides);
  return TD_OK;
}

/* The data is there and has the size that dims ask for. */
static td_status check_data(const proto *p, int64_t numel, td_error *err) {
  td_dtype dtype = p->out->tensor.dtype;
  bool raw = p->data_field == RAW_DATA;
  if (raw && dtype == TD_STRING)
    return base_fail(err, TD_BAD_FILE, NULL, p->out->offset, "strings are in raw_data; they belong in string_data");
  if (!raw && p->data_field && p->data_field != elements[p->element].typed_field)
    return base_fail(err, TD_BAD_FILE, NULL, p->out->offset, "a tensor of %s has its data in %s", td_dtype_name(dtype),
                     data_fields[p->data_field].name);
  size_t want = raw || base_dtype(dtype)->bits < 8 ? p->out->bytes : (size_t)numel;
  if (dtype == TD_STRING) want = (size_t)numel;
  if (p->count != want)
    return base_fail(err, TD_BAD_FILE, NULL, p->out->offset,
                     "dimensions and type ask for %zu %s of data, there are %zu", want, raw ? "bytes" : "elements",
                     p->count);
  return TD_OK;
}

/* Second walk: every scalar or string of the data field, in order. Counts were checked. */
static td_status decode(const proto *p, void *to, td_error *err) {
  td_dtype dtype = p->out->tensor.dtype;
  fmt_wire_type type = data_fields[p->data_field].type;
  size_t at = 0, each = base_dtype(dtype)->bits / 8u;
  if (each == 0) each = 1; /* packed types come as bytes */
  for (fmt_wire w = p->wire, values; fmt_wire_more(&w);) {
    fmt_field f;
    uint64_t bits;
    TRY(fmt_wire_next(&w, &f, err));
    if (f.number != p->data_field) continue;
    if (dtype == TD_STRING) {
      TRY(fmt_field_str(&f, "string_data", &((base_str *)to)[at++], err));
      continue;
    }
    TRY(fmt_field_scalars(&f, type, data_fields[f.number].name, &values, err));
    for (; fmt_wire_more(&values); at++) {
      TRY(fmt_wire_scalar(&values, type, &bits, err));
      if (dtype == TD_BOOL) bits = bits != 0;
      memcpy((uint8_t *)to + at * each, &bits, each); /* the low bytes come first */
    }
  }
  return TD_OK;
}

static td_status read_data(base_arena *arena, const proto *p, td_error *err) {
  base_tensor *t = &p->out->tensor;
  bool exact = p->data_field == RAW_DATA || (p->pieces == 1 && (t->dtype == TD_F32 || t->dtype == TD_F64));
  if (p->out->bytes == 0 || exact) {
    t->data = fmt_view(p->data_field ? p->last.at : p->wire.at);
    if (t->dtype == TD_BOOL && p->out->bytes) t->data = fmt_bools(arena, t->data, p->out->bytes);
    return t->data ? TD_OK : base_no_memory(err, "data of a tensor");
  }
  t->data = base_arena_alloc(arena, p->out->bytes);
  if (!t->data) return base_no_memory(err, "data of a tensor");
  return decode(p, t->data, err);
}

static td_status read_tensor(base_arena *arena, proto *p, td_error *err) {
  int64_t numel;
  for (fmt_wire w = p->wire; fmt_wire_more(&w);) {
    fmt_field f;
    TRY(fmt_wire_next(&w, &f, err));
    TRY(read_field(p, &f, err));
  }
  TRY(check_type(p, &numel, err));
  if (!p->located_outside) {
    TRY(check_data(p, numel, err));
    return read_data(arena, p, err);
  }
  if (!p->has_external || p->out->external.location.length == 0)
    return base_fail(err, TD_BAD_FILE, NULL, p->out->offset, "the tensor's data is external but has no location");
  if (p->out->tensor.dtype == TD_STRING)
    return base_fail(err, TD_BAD_FILE, NULL, p->out->offset, "strings cannot be external data");
  p->out->is_external = true;
  return TD_OK;
}

/* The name stands behind what is read first, so an error looks for it. */
static base_str find_name(fmt_wire w) {
  base_str name = {"", 0};
  fmt_field f;
  while (fmt_wire_more(&w) && fmt_wire_next(&w, &f, NULL) == TD_OK)
    if (f.number == NAME && fmt_field_str(&f, "name", &name, NULL) != TD_OK) break;
  return name;
}

td_status fmt_tensor_proto_read(base_arena *arena, fmt_wire wire, fmt_tensor_proto *out, td_error *err) {
  *out = (fmt_tensor_proto){.name = {"", 0}, .external = {{"", 0}, 0, -1}, .offset = fmt_wire_offset(&wire)};
  proto p = {.wire = wire, .out = out};
  td_status status = read_tensor(arena, &p, err);
  if (status == TD_OK) return TD_OK;
  base_str name = find_name(wire);
  if (name.length) base_error_name(err, status, "tensor %.*s", (int)(name.length < 200 ? name.length : 200), name.at);
  return status;
}

/* ---- sequences and optionals ------------------------------------------------------------------------------------- */

/* Both messages: elem_type 2, tensor 3, sparse 4, sequence 5, map 6, optional 7. */
enum { ELEM_TYPE = 2, ITEM_TENSOR = 3, ITEM_SPARSE = 4, ITEM_SEQUENCE = 5, ITEM_MAP = 6, ITEM_OPTIONAL = 7 };

static td_status read_value(base_arena *arena, fmt_wire wire, fmt_value_form form, int depth, base_value *out,
                            td_error *err);

static td_status read_item(base_arena *arena, const fmt_field *f, int depth, base_value *out, td_error *err) {
  fmt_wire message;
  TRY(fmt_field_message(f, "an item", &message, err));
  fmt_value_form form = f->number == ITEM_TENSOR     ? FMT_FORM_TENSOR
                        : f->number == ITEM_SEQUENCE ? FMT_FORM_SEQUENCE
                                                     : FMT_FORM_OPTIONAL;
  return read_value(arena, message, form, depth + 1, out, err);
}

static td_status count_items(fmt_wire wire, size_t *count, td_error *err) {
  *count = 0;
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number == ITEM_SPARSE || f.number == ITEM_MAP)
      return base_fail(err, TD_UNSUPPORTED, NULL, f.offset, "sparse tensors and maps are not supported as values");
    *count += f.number == ITEM_TENSOR || f.number == ITEM_SEQUENCE || f.number == ITEM_OPTIONAL;
  }
  return TD_OK;
}

static td_status read_items(base_arena *arena, fmt_wire wire, int depth, base_value *items, td_error *err) {
  while (fmt_wire_more(&wire)) {
    fmt_field f;
    TRY(fmt_wire_next(&wire, &f, err));
    if (f.number == ITEM_TENSOR || f.number == ITEM_SEQUENCE || f.number == ITEM_OPTIONAL)
      TRY(read_item(arena, &f, depth, items++, err));
  }
  return TD_OK;
}

static td_status read_tensor_value(base_arena *arena, fmt_wire wire, base_value *out, td_error *err) {
  fmt_tensor_proto t;
  TRY(fmt_tensor_proto_read(arena, wire, &t, err));
  if (t.is_external)
    return base_fail(err, TD_UNSUPPORTED, NULL, t.offset, "a recorded value has its data outside of its file");
  *out = (base_value){.kind = BASE_TENSOR, .tensor = t.tensor};
  return TD_OK;
}

static td_status read_value(base_arena *arena, fmt_wire wire, fmt_value_form form, int depth, base_value *out,
                            td_error *err) {
  size_t count;
  if (depth > MAX_DEPTH)
    return base_fail(err, TD_UNSUPPORTED, NULL, fmt_wire_offset(&wire), "values are nested more than %d deep",
                     (int)MAX_DEPTH);
  if (form == FMT_FORM_TENSOR) return read_tensor_value(arena, wire, out, err);
  TRY(count_items(wire, &count, err));
  *out = (base_value){.kind = form == FMT_FORM_SEQUENCE ? BASE_LIST : BASE_NOTHING};
  if (form == FMT_FORM_OPTIONAL) {
    if (count > 1)
      return base_fail(err, TD_BAD_FILE, NULL, fmt_wire_offset(&wire), "an optional holds %zu values", count);
    return read_items(arena, wire, depth, out, err);
  }
  out->list.count = (int64_t)count;
  out->list.items = base_new(arena, base_value, count);
  if (!out->list.items) return base_no_memory(err, "items of a sequence");
  return read_items(arena, wire, depth, out->list.items, err);
}

td_status fmt_value_proto_read(base_arena *arena, fmt_wire wire, fmt_value_form form, base_value *out, td_error *err) {
  return read_value(arena, wire, form, 0, out, err);
}

/* ---- writers ----------------------------------------------------------------------------------------------------- */

static void put_strings(base_text *out, const base_tensor *t) {
  const int64_t *strides[] = {t->strides};
  base_walk w;
  base_walk_start(&w, t->rank, t->dims, 1, strides);
  if (w.count == 0) return;
  do {
    base_str s = ((const base_str *)t->data)[w.offset[0]];
    fmt_put_bytes(out, STRING_DATA, s.at, s.length);
  } while (base_walk_next(&w));
}

void fmt_put_tensor_proto(base_text *out, const char *name, const base_tensor *tensor) {
  for (int32_t i = 0; i < tensor->rank; i++) fmt_put_int(out, DIMS, tensor->dims[i]);
  fmt_put_int(out, DATA_TYPE, fmt_onnx_element(tensor->dtype));
  fmt_put_str(out, NAME, name);
  if (tensor->dtype == TD_STRING) {
    put_strings(out, tensor);
    return;
  }
  size_t bytes = base_tensor_bytes(tensor);
  if (base_tensor_contiguous(tensor) || bytes == 0) {
    fmt_put_bytes(out, RAW_DATA, tensor->data, bytes);
    return;
  }
  void *packed = base_alloc(out->allocator, bytes);
  if (!packed) {
    out->failed = true;
    return;
  }
  base_tensor_pack(packed, tensor);
  fmt_put_bytes(out, RAW_DATA, packed, bytes);
  base_free(out->allocator, packed, bytes);
}

/* One item of a sequence or optional, as a field of `out`. */
static void put_item(base_text *out, const base_value *item) {
  base_text message = {.allocator = out->allocator};
  fmt_value_form form = item->kind == BASE_TENSOR ? FMT_FORM_TENSOR
                        : item->kind == BASE_LIST ? FMT_FORM_SEQUENCE
                                                  : FMT_FORM_OPTIONAL;
  static const uint32_t fields[] = {ITEM_TENSOR, ITEM_SEQUENCE, ITEM_OPTIONAL};
  fmt_put_value_proto(&message, "", form, item);
  fmt_put_bytes(out, fields[form], message.at, message.length);
  out->failed |= message.failed;
  base_text_free(&message);
}

/* elem_type: 1 tensor, 3 sequence, 5 optional; 0 when there is nothing to tell by. */
static int64_t element_kind(const base_value *item) {
  return item->kind == BASE_TENSOR ? 1 : item->kind == BASE_LIST ? 3 : 5;
}

void fmt_put_value_proto(base_text *out, const char *name, fmt_value_form form, const base_value *value) {
  if (form == FMT_FORM_TENSOR) {
    fmt_put_tensor_proto(out, name, &value->tensor);
    return;
  }
  fmt_put_str(out, 1, name);
  if (form == FMT_FORM_OPTIONAL) {
    fmt_put_int(out, ELEM_TYPE, value->kind == BASE_NOTHING ? 0 : element_kind(value));
    if (value->kind != BASE_NOTHING) put_item(out, value);
    return;
  }
  int64_t count = value->kind == BASE_LIST ? value->list.count : 0;
  fmt_put_int(out, ELEM_TYPE, count ? element_kind(&value->list.items[0]) : 0);
  for (int64_t i = 0; i < count; i++) put_item(out, &value->list.items[i]);
}
