/* access.c -- how references reach elements: dense typed views of operands, rows in double or int64, elementwise loops.
 */
#include "ops/common/ops_priv.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK = 512 }; /* elements converted at a time: keeps the buffers of three operands in L1 */

td_status ops_fail(const base_call *call, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return base_fail(call->err, TD_BAD_ARGUMENT, NULL, -1, "%s: %s", ((const ir_op *)call->op)->name, text);
}

static const void *dense_as(const base_call *call, const base_tensor *t, td_dtype dtype, size_t size) {
  if (t->dtype == dtype && base_tensor_contiguous(t)) return t->data;
  int64_t count = base_tensor_numel(t);
  void *packed = t->data;
  if (!base_tensor_contiguous(t)) {
    packed = base_call_scratch(call, (size_t)count, base_dtype(t->dtype)->bits / 8);
    if (!packed) return NULL;
    base_tensor_pack(packed, t);
  }
  if (t->dtype == dtype) return packed;
  void *to = base_call_scratch(call, (size_t)count, size);
  if (to) base_convert(dtype, to, t->dtype, packed, count, false);
  return to;
}

const base_f64 *ops_dense_f64(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? dense_as(call, t, TD_F64, sizeof(double)) : NULL;
}

const base_f32 *ops_dense_f32(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? dense_as(call, t, TD_F32, sizeof(float)) : NULL;
}

const base_i64 *ops_dense_i64(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? dense_as(call, t, TD_I64, sizeof(int64_t)) : NULL;
}

const base_f32 *ops_rounded_f32(const base_call *call, uint32_t i) {
  const base_f32 *x = ops_dense_f32(call, i);
  const int64_t count = x ? base_tensor_numel(base_in(call, i)) : 0;
  base_f32 *to = x ? base_call_scratch(call, (size_t)count, sizeof *to) : NULL;
  for (int64_t k = 0; to && k < count; k++) to[k] = base_round_to_bf16(x[k]);
  return to;
}

const void *ops_dense(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? dense_as(call, t, t->dtype, 0) : NULL;
}

bool ops_dense_tensor(const base_call *call, uint32_t i, base_tensor *dense) {
  const base_tensor *t = base_in(call, i);
  *dense = (base_tensor){.dtype = TD_INVALID};
  if (!t) return true;
  *dense = base_tensor_of((void *)(uintptr_t)ops_dense(call, i), t->dtype, t->rank, t->dims);
  return dense->data != NULL;
}

static void *take(const base_call *call, uint32_t i, td_dtype dtype, size_t size) {
  const base_tensor *t = base_out(call, i);
  if (!t) return NULL;
  return t->dtype == dtype ? t->data : base_call_scratch(call, (size_t)base_tensor_numel(t), size);
}

base_f64 *ops_take_f64(const base_call *call, uint32_t i) { return take(call, i, TD_F64, sizeof(double)); }
base_f32 *ops_take_f32(const base_call *call, uint32_t i) { return take(call, i, TD_F32, sizeof(float)); }
base_i64 *ops_take_i64(const base_call *call, uint32_t i) { return take(call, i, TD_I64, sizeof(int64_t)); }

void ops_put(const base_call *call, uint32_t i, td_dtype dtype, const void *data) {
  const base_tensor *t = base_out(call, i);
  if (!t || t->data == data) return;
  base_convert(t->dtype, t->data, dtype, data, base_tensor_numel(t), false);
}

void ops_row_get_f64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, double *to) {
  if (t->dtype == TD_F32) {
    const base_f32 *from = (const base_f32 *)t->data + offset;
    for (int64_t k = 0; k < count; k++) to[k] = (double)from[k * step];
    return;
  }
  for (int64_t k = 0; k < count; k++) to[k] = base_load_f64(t->dtype, t->data, offset + k * step);
}

void ops_row_put_f64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, const double *from) {
  if (t->dtype == TD_F32) {
    base_f32 *to = (base_f32 *)t->data + offset;
    for (int64_t k = 0; k < count; k++) to[k * step] = (float)from[k];
    return;
  }
  for (int64_t k = 0; k < count; k++) base_store_f64(t->dtype, t->data, offset + k * step, from[k]);
}

void ops_row_get_i64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, int64_t *to) {
  for (int64_t k = 0; k < count; k++) to[k] = base_load_i64(t->dtype, t->data, offset + k * step);
}

void ops_row_put_i64(const base_tensor *t, int64_t offset, int64_t step, int64_t count, const int64_t *from) {
  for (int64_t k = 0; k < count; k++) base_store_i64(t->dtype, t->data, offset + k * step, from[k]);
}

void ops_broadcast_strides(const base_tensor *t, int32_t rank, const int64_t *dims, int64_t *strides) {
  for (int32_t i = 0; i < rank; i++) {
    int32_t own = i - (rank - t->rank);
    strides[i] = own < 0 || (t->dims[own] == 1 && dims[i] != 1) ? 0 : t->strides[own];
  }
}

/* Rows of the output and of each operand as the output sees it. */
typedef struct rows {
  base_walk walk;
  const base_tensor *t[BASE_WALK_MAX]; /* [0] the output */
  int64_t step[BASE_WALK_MAX];
  int64_t length;
} rows;

/* A dense output whose operands are dense of the same shape, or single elements, is one row. */
static bool one_row(const base_call *call, uint32_t operands) {
  const base_tensor *out = base_out(call, 0);
  int64_t count = base_tensor_numel(out);
  if (!base_tensor_contiguous(out)) return false;
  for (uint32_t i = 0; i < operands; i++) {
    const base_tensor *t = base_in(call, i);
    int64_t n = base_tensor_numel(t);
    if (n != 1 && (n != count || !base_tensor_contiguous(t))) return false;
  }
  return true;
}

static td_status rows_start(const base_call *call, uint32_t operands, rows *r) {
  base_tensor *out = base_out(call, 0);
  if (operands + 1 > BASE_WALK_MAX) return base_fail(call->err, TD_INTERNAL, NULL, -1, "too many elementwise operands");
  r->t[0] = out;
  for (uint32_t i = 0; i < operands; i++) r->t[i + 1] = base_in(call, i);
  if (one_row(call, operands)) {
    r->length = base_tensor_numel(out);
    base_walk_start(&r->walk, 0, NULL, 0, NULL);
    r->walk.tensors = (int32_t)operands + 1;
    r->step[0] = 1;
    for (uint32_t i = 1; i <= operands; i++) r->step[i] = base_tensor_numel(r->t[i]) == 1 ? 0 : 1;
    if (r->length == 0) r->walk.count = 0;
    return TD_OK;
  }
  int64_t strides[BASE_WALK_MAX][BASE_MAX_RANK];
  const int64_t *at[BASE_WALK_MAX];
  for (uint32_t i = 0; i <= operands; i++) {
    ops_broadcast_strides(r->t[i], out->rank, out->dims, strides[i]);
    at[i] = strides[i];
  }
  base_walk_rows(&r->walk, out->rank, out->dims, (int32_t)operands + 1, at, &r->length, r->step);
  return TD_OK;
}

td_status ops_elementwise_f64(const base_call *call, uint32_t operands, ops_map_f64 map, const void *user) {
  rows r;
  TRY(rows_start(call, operands, &r));
  if (!r.walk.count) return TD_OK;
  double buffer[BASE_WALK_MAX][CHUNK];
  const double *in[BASE_WALK_MAX] = {buffer[1], buffer[2], buffer[3], buffer[4], buffer[5]};
  do {
    for (int64_t at = 0; at < r.length; at += CHUNK) {
      int64_t n = r.length - at < CHUNK ? r.length - at : CHUNK;
      for (uint32_t i = 1; i <= operands; i++)
        ops_row_get_f64(r.t[i], r.walk.offset[i] + at * r.step[i], r.step[i], n, buffer[i]);
      map(user, n, in, buffer[0]);
      ops_row_put_f64(r.t[0], r.walk.offset[0] + at * r.step[0], r.step[0], n, buffer[0]);
    }
  } while (base_walk_next(&r.walk));
  return TD_OK;
}

td_status ops_elementwise_i64(const base_call *call, uint32_t operands, ops_map_i64 map, const void *user) {
  rows r;
  TRY(rows_start(call, operands, &r));
  if (!r.walk.count) return TD_OK;
  int64_t buffer[BASE_WALK_MAX][CHUNK];
  const int64_t *in[BASE_WALK_MAX] = {buffer[1], buffer[2], buffer[3], buffer[4], buffer[5]};
  do {
    for (int64_t at = 0; at < r.length; at += CHUNK) {
      int64_t n = r.length - at < CHUNK ? r.length - at : CHUNK;
      for (uint32_t i = 1; i <= operands; i++)
        ops_row_get_i64(r.t[i], r.walk.offset[i] + at * r.step[i], r.step[i], n, buffer[i]);
      map(user, n, in, buffer[0]);
      ops_row_put_i64(r.t[0], r.walk.offset[0] + at * r.step[0], r.step[0], n, buffer[0]);
    }
  } while (base_walk_next(&r.walk));
  return TD_OK;
}

/* `n` elements of operand `i` from `at` of the row on: in place where they are dense, else gathered into `buffer`. */
static const base_f32 *row_f32(const rows *r, uint32_t i, int64_t at, int64_t n, float *buffer) {
  const base_f32 *from = (const base_f32 *)r->t[i]->data + r->walk.offset[i] + at * r->step[i];
  if (r->step[i] == 1) return from;
  for (int64_t k = 0; k < n; k++) buffer[k] = from[k * r->step[i]];
  return buffer;
}

td_status ops_elementwise_f32(const base_call *call, uint32_t operands, ops_map_f32 map, const void *user) {
  rows r;
  TRY(rows_start(call, operands, &r));
  if (!r.walk.count) return TD_OK;
  float buffer[BASE_WALK_MAX][CHUNK];
  const base_f32 *in[BASE_WALK_MAX] = {0};
  do {
    for (int64_t at = 0; at < r.length; at += CHUNK) {
      int64_t n = r.length - at < CHUNK ? r.length - at : CHUNK;
      for (uint32_t i = 1; i <= operands; i++) in[i - 1] = row_f32(&r, i, at, n, buffer[i]);
      base_f32 *to = (base_f32 *)r.t[0]->data + r.walk.offset[0] + at * r.step[0];
      map(user, n, in, buffer[0]);
      if (r.step[0] == 1) memcpy(to, buffer[0], (size_t)n * sizeof(float));
      else
        for (int64_t k = 0; k < n; k++) to[k * r.step[0]] = buffer[0][k];
    }
  } while (base_walk_next(&r.walk));
  return TD_OK;
}

td_status ops_view_reference(const base_call *call) {
  base_value shown = {.kind = BASE_TENSOR, .tensor = *base_out(call, 0)};
  base_value *out[] = {&shown};
  base_call as_view = *call;
  as_view.out = out;
  as_view.out_count = 1;
  const ir_op *op = call->op;
  if ((op->flags & IR_OP_VIEW_DENSE) && !base_tensor_contiguous(base_in(call, 0))) {
    base_tensor_pack(base_out(call, 0)->data, base_in(call, 0)); /* element order is kept: packing is all there is */
    return TD_OK;
  }
  TRY(op->view(&as_view));
  base_tensor_pack(base_out(call, 0)->data, &shown.tensor);
  return TD_OK;
}

td_status ops_read_ints(const base_call *call, uint32_t i, uint32_t max, int64_t *ints, uint32_t *count) {
  const base_tensor *t = base_in(call, i);
  *count = 0;
  if (!t) return TD_OK;
  int64_t n = base_tensor_numel(t);
  if (!base_is_int(t->dtype))
    return ops_fail(call, "operand %u is %s; integers are needed", i, td_dtype_name(t->dtype));
  if (n > max) return ops_fail(call, "operand %u has %lld integers; at most %u are supported", i, (long long)n, max);
  const void *from = ops_dense(call, i); /* as it lies, where it is dense: who asks a view how it lies has no scratch */
  if (n && !from) return base_no_memory(call->err, "scratch");
  for (int64_t k = 0; k < n; k++) ints[k] = base_load_i64(t->dtype, from, k);
  *count = (uint32_t)n;
  return TD_OK;
}
