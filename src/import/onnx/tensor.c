/* tensor.c -- TensorProto to constants: views into the model file or into an external file, but for what must be
 * decoded (numbers in typed fields, strings) or laid out (sparse tensors), which goes into the graph's arena. */
#include "import/onnx/state_priv.h"
#include "base/size.h"

#include <string.h>

/* ---- external data ---- */

/* What an opener may be asked for: relative, no "..", no empty or "." parts but a leading "./", nothing a system could
 * read differently. */
static bool is_safe_location(base_str s) {
  if (!s.length || s.length > 4096 || memchr(s.at, 0, s.length) || memchr(s.at, '\\', s.length) ||
      memchr(s.at, ':', s.length))
    return false;
  for (size_t start = 0, at = 0; at <= s.length; at++) {
    if (at < s.length && s.at[at] != '/') continue;
    base_str part = {s.at + start, at - start};
    if (!part.length || base_str_is(part, "..") || base_str_is(part, ".")) return false;
    start = at + 1;
  }
  return true;
}

static td_status open_segment(onnx_import *im, base_str location, uint32_t *segment) {
  const char *name = base_arena_slice(im->graph->arena, location.at, location.length);
  ir_segment *slot;
  if (!name) return base_no_memory(im->err, "a file name");
  if (!im->source->open)
    return base_fail(
        im->err, TD_BAD_FILE, im->source->file, -1,
        "the model keeps data in the file \"%s\", which can only be read when the model is loaded from a folder", name);
  const void *bytes = NULL;
  size_t size = 0;
  TRY(im->source->open(im->source->user, name, &bytes, &size, im->err));
  slot = base_vec_push(im->graph->arena, &im->graph->segments);
  if (!slot) return base_no_memory(im->err, "a file");
  *slot = (ir_segment){.name = name, .base = bytes, .bytes = size};
  *segment = im->graph->segments.count - 1;
  return base_map_put(&im->files, im->arena, base_str_of(name), *segment, NULL) ? TD_OK
                                                                                : base_no_memory(im->err, "a file");
}

static td_status find_external(onnx_import *im, fmt_tensor_proto *t) {
  base_str location = t->external.location;
  while (base_str_starts(location, "./")) location = (base_str){location.at + 2, location.length - 2};
  if (!is_safe_location(location))
    return base_fail(im->err, TD_BAD_FILE, im->source->file, t->offset,
                     "external data must lie in the model's own folder, \"%.*s\" does not", (int)location.length,
                     location.at);
  if (t->external.length >= 0 && (uint64_t)t->external.length != t->bytes)
    return base_fail(im->err, TD_BAD_FILE, im->source->file, t->offset,
                     "external data of %lld bytes for a tensor of %zu bytes", (long long)t->external.length, t->bytes);
  const uint32_t *known = base_map_get(&im->files, location);
  uint32_t segment = known ? *known : 0;
  if (!known) TRY(open_segment(im, location, &segment));
  const ir_segment *s = &im->graph->segments.at[segment];
  if (!base_in_range((uint64_t)t->external.offset, t->bytes, s->bytes))
    return base_fail(im->err, TD_BAD_FILE, s->name, t->external.offset,
                     "a tensor wants %zu bytes from offset %lld of a file of %zu bytes", t->bytes,
                     (long long)t->external.offset, s->bytes);
  const char *at = s->bytes ? (const char *)s->base + t->external.offset : "";
  t->tensor.data = (void *)(uintptr_t)at; /* constants are never written to */
  return TD_OK;
}

static td_status read_dense(onnx_import *im, fmt_wire wire, base_tensor *tensor) {
  fmt_tensor_proto t;
  TRY(base_error_name(im->err, fmt_tensor_proto_read(im->graph->arena, wire, &t, im->err), "%s", im->source->file));
  if (t.is_external) TRY(find_external(im, &t));
  *tensor = t.tensor;
  return TD_OK;
}

/* ---- sparse tensors: values 1, indices 2, dims 3 ---- */

typedef struct sparse {
  base_tensor values, indices, dense;
  bool has_values, has_indices;
} sparse;

static td_status fail_sparse(onnx_import *im, fmt_wire wire, const char *what) {
  return base_fail(im->err, TD_BAD_FILE, im->source->file, fmt_wire_offset(&wire), "a sparse tensor %s", what);
}

static td_status read_sparse_dims(onnx_import *im, const fmt_field *f, base_tensor *dense) {
  fmt_wire values;
  TRY(fmt_field_scalars(f, FMT_VARINT, "dims", &values, im->err));
  while (fmt_wire_more(&values)) {
    uint64_t bits;
    TRY(fmt_wire_scalar(&values, FMT_VARINT, &bits, im->err));
    if (dense->rank == BASE_MAX_RANK) return fail_sparse(im, values, "has too many dimensions");
    dense->dims[dense->rank++] = (int64_t)bits;
  }
  return TD_OK;
}

static td_status read_sparse_parts(onnx_import *im, fmt_wire wire, sparse *s) {
  for (fmt_wire w = wire; fmt_wire_more(&w);) {
    fmt_field f;
    fmt_wire inner;
    TRY(fmt_wire_next(&w, &f, im->err));
    if (f.number == 3) TRY(read_sparse_dims(im, &f, &s->dense));
    if (f.number != 1 && f.number != 2) continue;
    TRY(fmt_field_message(&f, "a part of a sparse tensor", &inner, im->err));
    TRY(read_dense(im, inner, f.number == 1 ? &s->values : &s->indices));
    *(f.number == 1 ? &s->has_values : &s->has_indices) = true;
  }
  return TD_OK;
}

/* Row-major position of value `i`; indices are linear, or one per dimension. -1: outside. */
static int64_t sparse_position(const sparse *s, int64_t i, int64_t numel) {
  const base_tensor *indices = &s->indices;
  int64_t at = 0;
  if (indices->rank == 1) {
    at = base_load_i64(TD_I64, indices->data, i);
    return at >= 0 && at < numel ? at : -1;
  }
  for (int32_t d = 0; d < s->dense.rank; d++) {
    int64_t index = base_load_i64(TD_I64, indices->data, i * s->dense.rank + d);
    if (index < 0 || index >= s->dense.dims[d]) return -1;
    at = at * s->dense.dims[d] + index;
  }
  return at;
}

static td_status read_sparse(onnx_import *im, fmt_wire wire, base_tensor *tensor) {
  sparse s = {0};
  int64_t numel;
  size_t bytes;
  TRY(read_sparse_parts(im, wire, &s));
  base_tensor *indices = &s.indices;
  td_dtype dtype = s.values.dtype;
  if (!s.has_values || s.values.rank != 1) return fail_sparse(im, wire, "needs a vector of values");
  int64_t count = s.values.dims[0];
  if (!s.has_indices && count) return fail_sparse(im, wire, "has no indices");
  if (count && (indices->dtype != TD_I64 || indices->dims[0] != count ||
                !(indices->rank == 1 || (indices->rank == 2 && indices->dims[1] == s.dense.rank))))
    return fail_sparse(im, wire, "has indices that do not fit its values and dimensions");
  if (dtype == TD_STRING || base_dtype(dtype)->bits < 8)
    return fail_sparse(im, wire, "cannot hold this type of element");
  if (!base_numel(s.dense.rank, s.dense.dims, &numel) || !base_dtype_bytes(dtype, numel, &bytes))
    return fail_sparse(im, wire, "has dimensions that are negative or larger than memory");
  if (bytes > im->memory_limit) return fail_sparse(im, wire, "is too large for a file of this size");
  void *data = base_arena_alloc(im->graph->arena, bytes ? bytes : 1);
  if (!data) return base_no_memory(im->err, "a sparse tensor");
  size_t each = base_dtype(dtype)->bits / 8u;
  for (int64_t i = 0; i < count; i++) {
    int64_t at = sparse_position(&s, i, numel);
    if (at < 0) return fail_sparse(im, wire, "has an index outside of its dimensions");
    memcpy((char *)data + (size_t)at * each, (const char *)s.values.data + (size_t)i * each, each);
  }
  *tensor = base_tensor_of(data, dtype, s.dense.rank, s.dense.dims);
  return onnx_check_memory(im);
}

td_status onnx_tensor_value(onnx_import *im, onnx_tensor *tensor, ir_value *value) {
  if (!tensor->value.id) {
    base_tensor t;
    TRY(tensor->is_sparse ? read_sparse(im, tensor->wire, &t) : read_dense(im, tensor->wire, &t));
    TRY(ir_add_constant(im->graph, &t, NULL, &tensor->value, im->err));
  }
  *value = tensor->value;
  return TD_OK;
}
