/* pool_i8.c -- KERN_MAX_POOL of bytes: td::max_pool over [N, spatial..., C], a row of the result at a time, vectors of
 * channels in registers. Signed bytes are compared as unsigned ones, with their highest bit inverted. */
#include "kernels/simd/bytes_priv.h"
#include "kernels/rows/rows.h"

enum { VECTOR = 4 * V_LANES, BLOCK = 4 }; /* channels of a vector; vectors at a time */

typedef struct window {
  const kern_pool_axis *axis;
  kern_pool_span span[KERN_POOL_AXES];
  const uint8_t *image;
  int64_t channels;
  vi flip;
} window;

/* The maxima of `vectors` vectors of channels from `c` on, n channels of the last one. */
V_TEMPLATE void pool_block(const window *w, int64_t c, int64_t n, uint8_t *to, const int vectors) {
  const kern_pool_axis *a = w->axis;
  const kern_pool_span *d = &w->span[0], *h = &w->span[1], *v = &w->span[2];
  vi best[BLOCK];
  V_FOR(u, vectors) best[u] = vi_set(0);
  for (int64_t i = d->first; i < d->last; i++)
    for (int64_t j = h->first; j < h->last; j++) {
      const int64_t line = (d->start + i * a[0].dilation) * a[1].in + h->start + j * a[1].dilation;
      const uint8_t *at = w->image + (line * a[2].in + v->start + v->first * a[2].dilation) * w->channels + c;
      for (int64_t k = v->first; k < v->last; k++, at += a[2].dilation * w->channels) V_FOR(u, vectors)
      best[u] = b_max(best[u], vi_xor(b_load_some(at + u * VECTOR, u + 1 < vectors ? VECTOR : n), w->flip));
    }
  V_FOR(u, vectors) b_store_some(to + c + u * VECTOR, vi_xor(best[u], w->flip), u + 1 < vectors ? VECTOR : n);
}

static void pool_row(window *w, uint8_t *to) {
  for (int64_t o = 0; o < w->axis[2].out; o++, to += w->channels) {
    int64_t c = 0;
    w->span[2] = kern_pool_span_of(&w->axis[2], o);
    for (; c + BLOCK * VECTOR <= w->channels; c += BLOCK * VECTOR) pool_block(w, c, VECTOR, to, BLOCK);
    for (; c + VECTOR <= w->channels; c += VECTOR) pool_block(w, c, VECTOR, to, 1);
    if (c < w->channels) pool_block(w, c, w->channels - c, to, 1);
  }
}

td_status KERN_PART_NAME(max_pool_i8)(const base_call *call) {
  const base_tensor *x = base_in(call, 0), *y = base_out(call, 0);
  kern_pool_axis a[KERN_POOL_AXES];
  kern_pool_axes_of(call, a);
  window w = {.axis = a, .channels = x->dims[x->rank - 1], .flip = vi_set(x->dtype == TD_I8 ? (int32_t)0x80808080 : 0)};
  const int64_t rows = a[0].out * a[1].out, size = a[0].in * a[1].in * a[2].in * w.channels;
  const int64_t tasks = base_tensor_numel(y) ? x->dims[0] * rows : 0;
  for (int64_t t = base_call_first(call, tasks); t < tasks; t = base_call_next(call, t, tasks)) {
    w.image = (const uint8_t *)x->data + t / rows * size;
    w.span[0] = kern_pool_span_of(&a[0], t % rows / a[1].out);
    w.span[1] = kern_pool_span_of(&a[1], t % a[1].out);
    pool_row(&w, (uint8_t *)y->data + t * a[2].out * w.channels);
  }
  return TD_OK;
}
