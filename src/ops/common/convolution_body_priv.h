/* convolution_body_priv.h -- the body of convolution.c for one element type: CONV_T, CONV_U (any alignment),
 * CONV(name). */

typedef struct CONV(patches) {
  const convolution *conv;
  const CONV_U *x; /* of one sample and group */
} CONV(patches);

/* One run of output elements [o, o + count) of an output row: kernel element at `start`, `stride` apart, in a row of
 * `in` elements; outside it is zero. */
static void CONV(patch_run)(const CONV_U *row, int64_t in, int64_t start, int64_t stride, int64_t count, CONV_T *to) {
  int64_t first = start >= 0 ? 0 : base_min_i64((-start + stride - 1) / stride, count);
  int64_t last = in <= start ? 0 : base_min_i64((in - start + stride - 1) / stride, count);
  int64_t i = 0;
  for (; i < first; i++) to[i] = 0;
  if (stride == 1) {
    for (; i < last; i++) to[i] = row[start + i];
  } else {
    for (; i < last; i++) to[i] = row[start + i * stride];
  }
  for (; i < count; i++) to[i] = 0;
}

/* A row of the patch matrix (one input channel, one kernel element), columns [j0, j0 + jn): output elements in order.
 */
static void CONV(patch_row)(const window *w, const CONV_U *channel, int64_t tap, int64_t j0, int64_t jn, CONV_T *to) {
  const window_axis *d = &w->axis[0], *h = &w->axis[1], *v = &w->axis[2];
  int64_t kv = tap % v->kernel, kh = tap / v->kernel % h->kernel, kd = tap / v->kernel / h->kernel;
  int64_t ov = j0 % v->out, oh = j0 / v->out % h->out, od = j0 / v->out / h->out;
  while (jn > 0) {
    int64_t count = base_min_i64(jn, v->out - ov);
    int64_t id = od * d->stride - d->begin + kd * d->dilation, ih = oh * h->stride - h->begin + kh * h->dilation;
    bool inside = id >= 0 && id < d->in && ih >= 0 && ih < h->in;
    int64_t start = ov * v->stride - v->begin + kv * v->dilation;
    CONV(patch_run)
    (inside ? channel + (id * h->in + ih) * v->in : channel, inside ? v->in : 0, start, v->stride, count, to);
    to += count;
    jn -= count;
    ov = 0;
    if (++oh == h->out) oh = 0, od++;
  }
}

static void CONV(pack_patches)(const CONV(gemm) * g, int64_t k0, int64_t kn, int64_t j0, int64_t jn, CONV_T *to) {
  const CONV(patches) *p = g->user;
  const window *w = &p->conv->window;
  for (int64_t k = 0; k < kn; k++) {
    const CONV_U *channel = p->x + (k0 + k) / w->kernel_size * w->in_size;
    CONV(patch_row)(w, channel, (k0 + k) % w->kernel_size, j0, jn, to + k * GEMM_COLUMNS);
  }
}

static bool CONV(is_pointwise)(const window *w) {
  for (int i = 0; i < WINDOW_MAX; i++) {
    const window_axis *a = &w->axis[i];
    if (a->kernel != 1 || a->stride != 1 || a->begin != 0 || a->out != a->in) return false;
  }
  return true;
}

/* A 1x1 convolution of stride 1 is a plain product with the image itself. */
static td_status CONV(forward)(const base_call *call, const convolution *c, const CONV_U *x, const CONV_U *w,
                               CONV_U *y) {
  const window *win = &c->window;
  int64_t taps = c->group_in * win->kernel_size;
  CONV(patches) p = {.conv = c};
  CONV(gemm)
  g = {.m = c->group_out,
       .n = win->out_size,
       .k = taps,
       .a_row = taps,
       .a_column = 1,
       .b_row = win->in_size,
       .b_column = 1,
       .c_row = win->out_size,
       .user = &p};
  if (!CONV(is_pointwise)(win)) {
    g.pack = CONV(pack_patches);
    g.block = base_call_scratch(call, GEMM_BLOCK, sizeof *g.block);
    if (!g.block) return base_no_memory(call->err, "scratch");
  }
  for (int64_t i = 0; i < c->batch * c->groups; i++) {
    p.x = g.b = x + i * c->group_in * win->in_size;
    g.a = w + i % c->groups * c->group_out * taps;
    g.c = y + i * c->group_out * win->out_size;
    CONV(ops_gemm)(&g);
  }
  return TD_OK;
}

/* Adds one row of products (an output channel and kernel element over all input elements) into the output image. */
static void CONV(scatter_row)(const window *w, int64_t tap, const CONV_U *from, CONV_U *channel) {
  const window_axis *d = &w->axis[0], *h = &w->axis[1], *v = &w->axis[2];
  int64_t kv = tap % v->kernel, kh = tap / v->kernel % h->kernel, kd = tap / v->kernel / h->kernel;
  for (int64_t id = 0; id < d->in; id++) {
    int64_t od = id * d->stride - d->begin + kd * d->dilation;
    for (int64_t ih = 0; ih < h->in; ih++, from += v->in) {
      int64_t oh = ih * h->stride - h->begin + kh * h->dilation, start = kv * v->dilation - v->begin;
      if (od < 0 || od >= d->out || oh < 0 || oh >= h->out) continue;
      CONV_U *to = channel + (od * h->out + oh) * v->out;
      for (int64_t i = 0; i < v->in; i++) {
        int64_t ov = start + i * v->stride;
        if (ov >= 0 && ov < v->out) to[ov] += from[i];
      }
    }
  }
}

/* Transposed: products of w (as [group_out * kernel, group_in]) with the image, then each row is added where it
 * belongs. */
static td_status CONV(transposed)(const base_call *call, const convolution *c, const CONV_U *x, const CONV_U *w,
                                  CONV_U *y) {
  const window *win = &c->window;
  int64_t rows = c->group_out * win->kernel_size;
  CONV_T *products = base_call_scratch(call, (size_t)win->in_size, (size_t)rows * sizeof *products);
  if (!products) return base_no_memory(call->err, "scratch");
  CONV(gemm)
  g = {.m = rows,
       .n = win->in_size,
       .k = c->group_in,
       .a_row = 1,
       .a_column = rows,
       .b_row = win->in_size,
       .b_column = 1,
       .c = products,
       .c_row = win->in_size};
  for (int64_t i = 0; i < c->batch * c->groups; i++) {
    for (int64_t k = 0; k < rows * win->in_size; k++) products[k] = 0;
    g.b = x + i * c->group_in * win->in_size;
    g.a = w + i % c->groups * c->group_in * rows;
    CONV(ops_gemm)(&g);
    for (int64_t r = 0; r < rows; r++) CONV(scatter_row)
    (win, r % win->kernel_size, products + r * win->in_size,
     y + (i * c->group_out + r / win->kernel_size) * win->out_size);
  }
  return TD_OK;
}

td_status CONV(ops_convolve)(const base_call *call, const convolution *c, const CONV_U *x, const CONV_U *w, CONV_U *y) {
  return c->transposed ? CONV(transposed)(call, c, x, w, y) : CONV(forward)(call, c, x, w, y);
}
