/* pool_bf16_priv.h -- KERN_MAX_POOL of bf16, for what stands between products of bf16: td::max_pool over [N,
 * spatial..., C], a row of the result at a time. Rounded to bf16 they are what they were. */
#ifndef KERNELS_WIDE_POOL_BF16_PRIV_H
#define KERNELS_WIDE_POOL_BF16_PRIV_H
#include "kernels/simd/pairs_priv.h"
#include "kernels/rows/rows.h"

enum { BLOCK = 4 }; /* vectors of channels at a time */

typedef struct window {
  const kern_pool_axis *axis;
  kern_pool_span span[KERN_POOL_AXES];
  const uint16_t *image;
  int64_t channels;
} window;

/* The maxima of `vectors` vectors of channels from `c` on, n of them of the last vector. */
V_TEMPLATE void pool_block(const window *w, int64_t c, int64_t n, uint16_t *to, const int vectors) {
  const kern_pool_axis *a = w->axis;
  const kern_pool_span *d = &w->span[0], *h = &w->span[1], *v = &w->span[2];
  vf best[BLOCK];
  V_FOR(u, vectors) best[u] = v_set(-INFINITY);
  for (int64_t i = d->first; i < d->last; i++)
    for (int64_t j = h->first; j < h->last; j++) {
      const int64_t line = (d->start + i * a[0].dilation) * a[1].in + h->start + j * a[1].dilation;
      const uint16_t *at = w->image + (line * a[2].in + v->start + v->first * a[2].dilation) * w->channels + c;
      for (int64_t k = v->first; k < v->last; k++, at += a[2].dilation * w->channels) V_FOR(u, vectors) {
          const vf x = p_load(at + u * V_LANES, u + 1 < vectors ? V_LANES : n);
          best[u] = v_select(v_eq(x, x), v_max(x, best[u]), x); /* NaN is above all */
        }
    }
  V_FOR(u, vectors) p_store(to + c + u * V_LANES, best[u], u + 1 < vectors ? V_LANES : n);
}

static void pool_row(window *w, uint16_t *to) {
  for (int64_t o = 0; o < w->axis[2].out; o++, to += w->channels) {
    int64_t c = 0;
    w->span[2] = kern_pool_span_of(&w->axis[2], o);
    for (; c + BLOCK * V_LANES <= w->channels; c += BLOCK * V_LANES) pool_block(w, c, V_LANES, to, BLOCK);
    for (; c < w->channels; c += V_LANES) pool_block(w, c, base_min_i64(V_LANES, w->channels - c), to, 1);
  }
}

static td_status pool_bf16(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  kern_pool_axis a[KERN_POOL_AXES];
  kern_pool_axes_of(call, a);
  window w = {.axis = a, .channels = x->dims[x->rank - 1]};
  const int64_t rows = a[0].out * a[1].out, size = a[0].in * a[1].in * a[2].in * w.channels;
  const int64_t tasks = base_tensor_numel(y) ? x->dims[0] * rows : 0;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks)) {
    w.image = (const uint16_t *)x->data + t / rows * size;
    w.span[0] = kern_pool_span_of(&a[0], t % rows / a[1].out);
    w.span[1] = kern_pool_span_of(&a[1], t % a[1].out);
    pool_row(&w, (uint16_t *)y->data + t * a[2].out * w.channels);
  }
  return TD_OK;
}
#endif
