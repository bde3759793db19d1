/* attention_priv.h -- softmax(scale q k^T + masks) v over heads, and rotary position embedding of one row. */
#ifndef OPS_ATTENTION_PRIV_H
#define OPS_ATTENTION_PRIV_H
#include "kernels/kernels.h"
#include "ops/common/gemm_priv.h"

/* Rows of one operand: element 0 of row r of head h of sample b is at[b * batch + h * head + r * row]; rows are dense.
 */
typedef struct head_rows {
  base_f32 *at;
  int64_t batch, head, row;
} head_rows;

/* What `scores` receives. */
enum { SCORES_RAW, SCORES_CAPPED, SCORES_MASKED, SCORES_SOFTMAX };

enum { ATTENTION_MASKS = 2 };

/* Of rank at most 4, broadcast to [batch, heads, queries, keys]. */
typedef struct attention_mask {
  const base_tensor *at; /* NULL: there is none */
  int64_t strides[4];
  int64_t samples; /* sample b has the mask of b modulo this; 0: each has its own */
  bool replaces;   /* where it is not 0, it stands in the place of scores */
} attention_mask;

/* Query head h reads key head h * kv_heads / heads. Key j of sample b is seen by query i if j < lengths[b], and with
 * position p = offsets[b] + i: j <= p (causal), p - left <= j <= p + right (each where it is not negative); mask
 * elements are added (bool: false hides). `rows`: what rows are that are no numbers, KERN_ATTENTION_... */
typedef struct attention {
  int64_t batch, heads, kv_heads, queries, keys, size, value_size;
  head_rows q, k, v, y;
  float scale, softcap; /* softcap 0: none */
  bool causal;
  int64_t rows;
  int64_t left, right;                   /* -1: open */
  attention_mask masks[ATTENTION_MASKS]; /* applied one after the other */
  int64_t mask_keys;                     /* keys past these are hidden, where there is a first mask */
  const int64_t *lengths;                /* per sample; NULL: all */
  const int64_t *offsets;                /* per sample; NULL: 0 */
  const base_f32 *sinks; /* per head: a score that takes part in the softmax without a value; NULL: none */
  base_f32 *scores;      /* NULL, or [batch, heads, queries, keys] */
  int32_t scores_kind;
} attention;

td_status ops_attend(const base_call *call, const attention *a);
/* Rotates the first 2 * half elements of a row of `size`: pairs (i, i + half), interleaved (2i, 2i + 1). */
void ops_rotate(const base_f32 *from, int64_t size, int64_t half, bool interleaved, const base_f32 *cosine,
                const base_f32 *sine, base_f32 *to);
#endif
