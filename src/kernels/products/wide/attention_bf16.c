/* attention_bf16.c -- KERN_ATTENTION on 16 bits: scaled queries, keys, values and powers are rounded to bf16, scores,
 * the softmax and sums are f32. Both products are those of attention.c, of pairs of neighbours along what is summed:
 *
 *     scores [keys, queries] = k [keys, size] x (scale q)^T [size, queries]
 *     out [queries, values]  = powers^T x v [keys, values] */
#include "kernels/products/attention_pairs_priv.h"
#include "kernels/products/attention_tile_priv.h"
#include "kernels/products/pack.h"

enum {
  POWERS = ATTENTION_KEYS / 2 + 1, /* pairs of keys, the first of which may not count */
  FEW = 32                         /* queries or keys, which take longer to round than that gains */
};

ATTENTION_TILES(true)

typedef struct pairs {
  int64_t stored;   /* numbers of a query and a key: whole pairs */
  int64_t v_pitch;  /* words from pair to pair */
  uint16_t *k;      /* [keys, stored] */
  float *v;         /* [pair of keys][value] */
  uint32_t *q;      /* [panel][pair][query of the panel] */
  uint32_t *powers; /* [pair of keys][query], ATTENTION_PITCH apart */
  int64_t taken;    /* the sample and group that k and v are of; -1: none */
} pairs;

static void take_queries(const attention_work *w, int64_t b, int64_t h, int64_t first, int64_t count) {
  const pairs *own = w->own;
  attention_pair_queries(w, b, h, first, count, own->stored / 2, own->q);
}

static void take_values(const attention_work *w, const float *from) {
  const pairs *own = w->own;
  const int64_t row = w->v->strides[ATTENTION_ROWS], step = w->v->strides[ATTENTION_SIZE];
  float *to = own->v;
  for (int64_t r = 0; r < w->keys; r += 2, to += own->v_pitch)
    for (int64_t e = 0; e < w->values; e += V_LANES) {
      const vf first = attention_some(from + r * row, step, e, w->values);
      const vf second = r + 1 < w->keys ? attention_some(from + (r + 1) * row, step, e, w->values) : v_zero();
      v_store(to + e, p_interleave(first, second));
    }
}

static void take_keys(const attention_work *w, int64_t b, int64_t g) {
  pairs *own = w->own;
  if (own->taken == b * w->groups + g) return;
  own->taken = b * w->groups + g;
  attention_pair_keys(w, attention_head(w->k, b, g), own->stored, own->stored, own->k);
  take_values(w, attention_head(w->v, b, g));
}

static void multiply_keys(const attention_work *w, int64_t first, int64_t count, int64_t queries) {
  const pairs *own = w->own;
  const int64_t depth = own->stored / 2;
  const attention_tile t = {.a = (const float *)(const void *)(own->k + first * own->stored),
                            .a_row = depth,
                            .a_step = 1,
                            .b = (const float *)(const void *)own->q,
                            .b_step = V_LANES,
                            .b_vector = depth * V_LANES,
                            .k = depth};
  KERN_NAME(attention_scores)(w, &tiles, &t, count, queries);
}

static void multiply_values(const attention_work *w, int64_t first, int64_t count, int64_t queries, int ends,
                            attention_output out) {
  const pairs *own = w->own;
  const int64_t skip = first % 2, depth = base_ceil_div(count + skip, 2);
  const attention_tile t = {.a = (const float *)(const void *)own->powers,
                            .a_row = 1,
                            .a_step = ATTENTION_PITCH,
                            .b = own->v + first / 2 * own->v_pitch,
                            .b_step = own->v_pitch,
                            .b_vector = V_LANES,
                            .k = depth};
  attention_pair_powers(w, count, skip, depth, queries, own->powers, ATTENTION_PITCH, V_LANES);
  KERN_NAME(attention_values)(w, &tiles, &t, queries, ends, out);
}

static td_status take_scratch(const base_call *call, attention_work *w) {
  pairs *own = base_call_scratch(call, 1, sizeof *own);
  if (!own) return base_no_memory(call->err, "scratch");
  const int64_t stored = kern_pairs_depth(w->size), values = base_ceil_div(w->values, V_LANES) * V_LANES;
  *own = (pairs){.stored = stored, .v_pitch = values, .taken = -1};
  own->k = base_call_scratch(call, (size_t)w->keys, (size_t)stored * sizeof *own->k);
  own->v = base_call_scratch(call, (size_t)base_ceil_div(w->keys, 2), (size_t)values * sizeof *own->v);
  own->q = base_call_scratch(call, ATTENTION_QUERIES, (size_t)stored * sizeof *own->k);
  own->powers = base_call_scratch(call, POWERS, ATTENTION_PITCH * sizeof *own->powers);
  w->own = own;
  if (!own->k || !own->v || !own->q || !own->powers) return base_no_memory(call->err, "scratch");
  return TD_OK;
}

td_status KERN_PART_NAME(attention_bf16)(const base_call *call) {
  static const attention_products products = {take_scratch,  take_queries,    take_keys,
                                              multiply_keys, multiply_values, NULL};
  const int64_t queries = base_in(call, 0)->dims[ATTENTION_ROWS], keys = base_in(call, 1)->dims[ATTENTION_ROWS];
  return queries < FEW || keys < FEW ? KERN_NAME(attention)(call) : KERN_NAME(attention_by)(call, &products);
}
