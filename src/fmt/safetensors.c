/* safetensors: the length of a JSON header (8 bytes), the header, then the data, which the tensors' ranges cover
 * without hole or overlap to the last byte. */
#include <stdlib.h>

#include "fmt/bytes_priv.h"
#include "fmt/json.h"
#include "fmt/state_dict_priv.h"

enum { HEADER_MAX = 100000000 };

static const struct {
  const char *name;
  td_dtype dtype;
} dtypes[] = {
    {"BOOL", TD_BOOL},      {"U8", TD_U8},     {"I8", TD_I8},   {"I16", TD_I16},        {"U16", TD_U16},
    {"F16", TD_F16},        {"BF16", TD_BF16}, {"I32", TD_I32}, {"U32", TD_U32},        {"F32", TD_F32},
    {"F64", TD_F64},        {"I64", TD_I64},   {"U64", TD_U64}, {"F8_E5M2", TD_F8E5M2}, {"F8_E4M3", TD_F8E4M3FN},
    {"F8_E8M0", TD_F8E8M0}, {"F4", TD_F4E2M1}};

typedef struct range {
  uint64_t begin, end;
} range;

static int compare_ranges(const void *a, const void *b) {
  const range *x = a, *y = b;
  if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
  return x->end < y->end ? -1 : x->end > y->end;
}

/* A number of a JSON array, >= 0. */
static bool size_at(const fmt_json *array, size_t index, int64_t *value) {
  const fmt_json *number = fmt_json_at(array, index);
  *value = fmt_json_is(number, FMT_JSON_INT) ? number->u.i : -1;
  return *value >= 0;
}

static td_status read_dtype(const fmt_json *info, td_dtype *dtype, td_error *err) {
  const char *name = fmt_json_text(fmt_json_get(info, "dtype"));
  if (!name) return base_fail(err, TD_BAD_FILE, NULL, -1, "it has no dtype");
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++)
    if (strcmp(name, dtypes[i].name) == 0) {
      *dtype = dtypes[i].dtype;
      return TD_OK;
    }
  return base_fail(err, TD_UNSUPPORTED, NULL, -1, "its dtype %.40s is not supported", name);
}

static td_status read_shape(const fmt_json *info, base_tensor *t, td_error *err) {
  const fmt_json *shape = fmt_json_get(info, "shape");
  size_t rank = fmt_json_count(shape);
  if (!fmt_json_is(shape, FMT_JSON_ARRAY)) return base_fail(err, TD_BAD_FILE, NULL, -1, "it has no shape");
  if (rank > BASE_MAX_RANK)
    return base_fail(err, TD_UNSUPPORTED, NULL, -1, "it has %zu dimensions, more than %d", rank, BASE_MAX_RANK);
  for (size_t i = 0; i < rank; i++)
    if (!size_at(shape, i, &t->dims[i]))
      return base_fail(err, TD_BAD_FILE, NULL, -1, "its shape holds what is no size");
  t->rank = (int32_t)rank;
  return TD_OK;
}

/* One tensor of the header; `data` has `size` bytes. */
static td_status read_info(base_arena *arena, const fmt_json *info, const uint8_t *data, size_t size, base_tensor *t,
                           range *r, td_error *err) {
  int64_t begin, end, numel;
  size_t bytes;
  const fmt_json *offsets = fmt_json_get(info, "data_offsets");
  *t = (base_tensor){.rank = 0};
  TRY(read_dtype(info, &t->dtype, err));
  TRY(read_shape(info, t, err));
  if (fmt_json_count(offsets) != 2 || !size_at(offsets, 0, &begin) || !size_at(offsets, 1, &end) || begin > end)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "its data_offsets are no range");
  if ((uint64_t)end > size) return base_fail(err, TD_BAD_FILE, NULL, -1, "its data reaches beyond the end of the file");
  if (!fmt_tensor_size(t->dtype, t->rank, t->dims, &numel, &bytes) || bytes != (uint64_t)(end - begin))
    return base_fail(err, TD_BAD_FILE, NULL, -1, "its dtype and shape do not fit its data_offsets");
  base_strides(t->rank, t->dims, t->strides);
  t->data = fmt_view(data + begin);
  if (t->dtype == TD_BOOL) t->data = fmt_bools(arena, t->data, bytes);
  *r = (range){(uint64_t)begin, (uint64_t)end};
  return t->data ? TD_OK : base_no_memory(err, "weights");
}

static td_status check_cover(range *ranges, size_t count, size_t size, td_error *err) {
  uint64_t at = 0;
  if (count) qsort(ranges, count, sizeof *ranges, compare_ranges);
  for (size_t i = 0; i < count; i++) {
    if (ranges[i].begin != at)
      return base_fail(err, TD_BAD_FILE, NULL, -1, "the tensors leave a hole or overlap at byte %llu of the data",
                       (unsigned long long)at);
    at = ranges[i].end;
  }
  if (at != size)
    return base_fail(err, TD_BAD_FILE, NULL, -1, "the tensors take %llu bytes of the %zu there are",
                     (unsigned long long)at, size);
  return TD_OK;
}

static td_status read_tensors(fmt_state_dict *dict, const fmt_json *header, const uint8_t *data, size_t size,
                              td_error *err) {
  const char *key;
  const fmt_json *info;
  size_t count = 0;
  range *ranges = base_new(dict->arena, range, header->count);
  if (!ranges) return base_no_memory(err, "weights");
  for (size_t i = 0; (info = fmt_json_member(header, i, &key)); i++) {
    base_tensor tensor;
    if (strcmp(key, "__metadata__") == 0) continue;
    td_status status = read_info(dict->arena, info, data, size, &tensor, &ranges[count++], err);
    if (status != TD_OK) return base_error_name(err, status, "tensor %.200s", key);
    TRY(fmt_dict_add(dict, base_str_of(key), &tensor, err));
  }
  return check_cover(ranges, count, size, err);
}

static td_status fill(fmt_state_dict *dict, const uint8_t *file, size_t size, td_dtype raw_as, td_error *err) {
  (void)raw_as;
  const fmt_json *header;
  uint64_t length = size >= 8 ? fmt_le64(file) : 0;
  if (size < 9 || length > size - 8 || length > HEADER_MAX || file[8] != '{')
    return base_fail(err, TD_BAD_FILE, NULL, 0, "this is no safetensors file, or it is cut off inside its header");
  const td_status status = fmt_json_read(dict->arena, "the safetensors header", file + 8, length, &header, err);
  if (status == TD_BAD_FILE && err) err->offset += 8;
  if (status != TD_OK) return status;
  return read_tensors(dict, header, file + 8 + length, size - 8 - length, err);
}

td_status fmt_safetensors_open(const td_allocator *allocator, const void *bytes, size_t size, fmt_state_dict **out,
                               td_error *err) {
  return fmt_dict_open(allocator, bytes, size, fill, TD_INVALID, out, err);
}
