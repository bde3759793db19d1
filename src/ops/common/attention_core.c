/* attention_core.c -- the loop of attention: one head of one sample at a time, scores in scratch. Summed in f32. */
#include "ops/common/attention_priv.h"

#include <math.h>

typedef struct head {
  const attention *a;
  int64_t b, h;
  float *scores; /* [queries, keys] */
} head;

static void keep_scores(const head *w, int32_t kind) {
  const attention *a = w->a;
  int64_t count = a->queries * a->keys;
  if (!a->scores || a->scores_kind != kind) return;
  base_f32 *to = a->scores + (w->b * a->heads + w->h) * count;
  for (int64_t k = 0; k < count; k++) to[k] = w->scores[k];
}

static void cap_scores(const head *w) {
  float cap = w->a->softcap;
  if (cap <= 0) return;
  for (int64_t k = 0; k < w->a->queries * w->a->keys; k++) w->scores[k] = cap * tanhf(w->scores[k] / cap);
}

/* First and last + 1 key that query i may see by position alone. */
static void visible(const head *w, int64_t i, int64_t *first, int64_t *last) {
  const attention *a = w->a;
  int64_t p = (a->offsets ? a->offsets[w->b] : 0) + i;
  *first = a->left >= 0 ? base_max_i64(p - a->left, 0) : 0;
  *last = a->lengths ? base_min_i64(a->keys, a->lengths[w->b]) : a->keys;
  if (a->masks[0].at) *last = base_min_i64(*last, a->mask_keys);
  if (a->causal) *last = base_min_i64(*last, p + 1);
  if (a->right >= 0) *last = base_min_i64(*last, p + a->right + 1);
}

static void apply_mask(const head *w, const attention_mask *mask, int64_t i, int64_t first, int64_t last, float *row) {
  const int64_t *strides = mask->strides, sample = mask->samples ? w->b % mask->samples : w->b,
                at = sample * strides[0] + w->h * strides[1] + i * strides[2], step = strides[3];
  const base_tensor *m = mask->at;
  if (mask->replaces) {
    for (int64_t j = first; j < last; j++) {
      const float element = (float)base_load_f64(m->dtype, m->data, at + j * step);
      if (element != 0) row[j] = element;
    }
  } else if (m->dtype == TD_BOOL) {
    for (int64_t j = first; j < last; j++)
      if (!((const uint8_t *)m->data)[at + j * step]) row[j] += -INFINITY; /* what is no number shows */
  } else if (m->dtype == TD_F32) {
    for (int64_t j = first; j < last; j++) row[j] += ((const base_f32 *)m->data)[at + j * step];
  } else {
    for (int64_t j = first; j < last; j++) row[j] += (float)base_load_f64(m->dtype, m->data, at + j * step);
  }
}

static void mask_scores(const head *w) {
  const attention *a = w->a;
  for (int64_t i = 0; i < a->queries; i++) {
    float *row = w->scores + i * a->keys;
    int64_t first, last;
    visible(w, i, &first, &last);
    for (int64_t j = 0; j < base_min_i64(first, a->keys); j++) row[j] = -INFINITY;
    for (int64_t j = base_max_i64(last, 0); j < a->keys; j++) row[j] = -INFINITY;
    for (int m = 0; m < ATTENTION_MASKS; m++)
      if (a->masks[m].at) apply_mask(w, &a->masks[m], i, first, last, row);
  }
}

static void softmax_row(float *row, int64_t count, const base_f32 *sink, int64_t rows) {
  float most = sink ? *sink : -INFINITY, sum = 0;
  for (int64_t j = 0; j < count; j++) most = row[j] > most || isnan(row[j]) ? row[j] : most;
  const bool hidden = most == -INFINITY;
  for (int64_t j = 0; j < count; j++) sum += row[j] = expf(row[j] - most);
  if (sink) sum += expf(*sink - most);
  const bool zeros = (hidden && rows == KERN_ATTENTION_SAFE) || (isnan(sum) && rows == KERN_ATTENTION_GUARDED);
  for (int64_t j = 0; j < count; j++) row[j] = zeros ? 0 : row[j] / sum;
}

static td_status attend_head(const base_call *call, const head *w, float *block) {
  const attention *a = w->a;
  int64_t kv = w->h * a->kv_heads / a->heads, b = w->b;
  base_f32 *y = a->y.at + b * a->y.batch + w->h * a->y.head;
  gemm_f32 scores = {.m = a->queries,
                     .n = a->keys,
                     .k = a->size,
                     .a = a->q.at + b * a->q.batch + w->h * a->q.head,
                     .a_row = a->q.row,
                     .a_column = 1,
                     .b = a->k.at + b * a->k.batch + kv * a->k.head,
                     .b_row = 1,
                     .b_column = a->k.row,
                     .block = block,
                     .c = w->scores,
                     .c_row = a->keys};
  gemm_f32 values = {.m = a->queries,
                     .n = a->value_size,
                     .k = a->keys,
                     .a = w->scores,
                     .a_row = a->keys,
                     .a_column = 1,
                     .b = a->v.at + b * a->v.batch + kv * a->v.head,
                     .b_row = a->v.row,
                     .b_column = 1,
                     .c = y,
                     .c_row = a->y.row};
  for (int64_t k = 0; k < a->queries * a->keys; k++) w->scores[k] = 0;
  if (!ops_gemm_matrix_f32(call, &scores)) return base_no_memory(call->err, "scratch");
  ops_gemm_f32(&scores);
  for (int64_t k = 0; k < a->queries * a->keys; k++) w->scores[k] *= a->scale;
  keep_scores(w, SCORES_RAW);
  cap_scores(w);
  keep_scores(w, SCORES_CAPPED);
  mask_scores(w);
  keep_scores(w, SCORES_MASKED);
  for (int64_t i = 0; i < a->queries; i++)
    softmax_row(w->scores + i * a->keys, a->keys, a->sinks ? a->sinks + w->h : NULL, a->rows);
  keep_scores(w, SCORES_SOFTMAX);
  for (int64_t i = 0; i < a->queries; i++)
    for (int64_t k = 0; k < a->value_size; k++) y[i * a->y.row + k] = 0;
  ops_gemm_f32(&values);
  return TD_OK;
}

td_status ops_attend(const base_call *call, const attention *a) {
  if (a->queries == 0) return TD_OK;
  float *block = base_call_scratch(call, GEMM_BLOCK, sizeof *block);
  float *scores = base_call_scratch(call, (size_t)a->queries, (size_t)a->keys * sizeof *scores);
  if (!block || !scores) return base_no_memory(call->err, "scratch");
  for (int64_t b = 0; b < a->batch; b++)
    for (int64_t h = 0; h < a->heads; h++) {
      head w = {a, b, h, scores};
      TRY(attend_head(call, &w, block));
    }
  return TD_OK;
}

void ops_rotate(const base_f32 *from, int64_t size, int64_t half, bool interleaved, const base_f32 *cosine,
                const base_f32 *sine, base_f32 *to) {
  for (int64_t i = 0; i < half; i++) {
    int64_t p = interleaved ? 2 * i : i, q = interleaved ? 2 * i + 1 : i + half;
    float x = from[p], y = from[q];
    to[p] = cosine[i] * x - sine[i] * y;
    to[q] = sine[i] * x + cosine[i] * y;
  }
  for (int64_t i = 2 * half; i < size; i++) to[i] = from[i];
}
