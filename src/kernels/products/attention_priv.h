/* attention_priv.h -- what all forms of td::attention share: masks and the softmax of a block of queries, whose two
 * products come from a table. */
#ifndef KERNELS_ATTENTION_PRIV_H
#define KERNELS_ATTENTION_PRIV_H
#include "kernels/simd/simd_priv.h"

enum { ATTENTION_BATCH, ATTENTION_ROWS, ATTENTION_HEADS, ATTENTION_SIZE }; /* dimensions of q, k, v and out */
enum {
  ATTENTION_MASKS = 2,
  ATTENTION_QUERIES = V_LANES == 8   ? 48
                      : V_LANES == 1 ? 24
                                     : 64,       /* of a block: whole tiles of either side */
  ATTENTION_PITCH = ATTENTION_QUERIES + V_LANES, /* of rows of queries: no power of two, which would crowd few sets */
  ATTENTION_KEYS = 528                           /* of a block */
};

/* What is added to scores, or stands in their place where it is not 0, over [batch, heads, queries, keys]; of sample b
 * that of b modulo `samples`. `data` NULL: there is none. */
typedef struct attention_mask {
  const float *data;
  int64_t strides[4], samples;
  bool replaces;
} attention_mask;

/* What all tasks share, and the scratch of this worker. */
typedef struct attention_work {
  base_tensor q;
  const base_tensor *k, *v;
  attention_mask masks[ATTENTION_MASKS];
  float *out;
  int64_t out_sample, out_head, out_row; /* steps of `out` */
  int64_t queries, keys, heads, groups, size, values;
  float scale, softcap;
  bool causal;
  const base_tensor *last;  /* of each sample, the last key that is in use; NULL: all keys are */
  const float *sinks;       /* of each head; NULL: there are none */
  int64_t left;             /* keys that a query sees before its place; negative: all */
  int64_t places;           /* of the queries of a head: `queries`, or 1 where heads of a group are taken as queries */
  int64_t block;            /* queries of a task, at most ATTENTION_QUERIES */
  int64_t rows;             /* KERN_ATTENTION_... */
  float *scores;            /* [ATTENTION_KEYS, ATTENTION_PITCH] */
  float *most, *sum, *keep; /* [ATTENTION_QUERIES]: of what was seen so far; what the sums are multiplied by next */
  void *own;                /* of the products */
} attention_work;

/* The first row of a head of q, k or v. */
V_INLINE const float *attention_head(const base_tensor *t, int64_t b, int64_t h) {
  return (const float *)t->data + b * t->strides[ATTENTION_BATCH] + h * t->strides[ATTENTION_HEADS];
}
/* n numbers of stride `step`, at most a vector's lanes; 0 in the rest. */
V_INLINE vf attention_load(const float *at, int64_t step, int64_t n) {
  float gathered[V_LANES];
  if (step == 1) return n == V_LANES ? v_load(at) : v_load_n(at, n);
  for (int64_t i = 0; i < n; i++) gathered[i] = at[i * step];
  return v_load_n(gathered, n);
}

/* Rows of one head. */
typedef struct attention_output {
  float *at;
  int64_t pitch;
} attention_output;

enum { ATTENTION_BEGIN = 1, ATTENTION_END = 2 }; /* a block of keys is the first, the last that queries see */
typedef struct attention_products {
  td_status (*take_scratch)(const base_call *call, attention_work *w); /* sets `own` */
  /* Those that follow are of these queries of a head, and of the keys and values of a group. */
  void (*take_queries)(const attention_work *w, int64_t b, int64_t h, int64_t first, int64_t count);
  void (*take_keys)(const attention_work *w, int64_t b, int64_t g);
  /* scores[key - first, query] of keys [first, first + count). */
  void (*multiply_keys)(const attention_work *w, int64_t first, int64_t count, int64_t queries);
  /* out = out keep, or 0 with BEGIN, + scores^T v; with END, rows times `sum` in the end. */
  void (*multiply_values)(const attention_work *w, int64_t first, int64_t count, int64_t queries, int ends,
                          attention_output out);
  void (*end)(void); /* of all tasks; NULL: there is nothing to do */
} attention_products;
td_status KERN_NAME(attention_by)(const base_call *call, const attention_products *p);
td_status KERN_NAME(attention)(const base_call *call);
#endif
