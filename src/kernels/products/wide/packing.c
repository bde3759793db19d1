/* packing.c -- weights into panels as wide as a vector: the channels of a panel are read side by side and transposed in
 * registers, a square at a time. Weights whose strides are not those that models mostly have, and other panels, take
 * the plain way; on narrow levels all do. */
#include "kernels/products/packing.h"
#include "kernels/products/gemm_tile_priv.h"

#if V_NATIVE
#define WEIGHTS_LANES (V_LANES / 2)
#include "kernels/products/winograd_weights_priv.h"

/* As kern_normal. */
V_INLINE vf normal(vf w) { return v_select(v_lt(v_abs(w), v_set(0x1p-126F)), v_copysign(v_zero(), w), w); }

/* `rows` rows of n floats, `stride` apart, as the columns of a square; zeros in the rest of it. */
static void transpose_square(const float *from, int64_t stride, int64_t rows, int64_t n, float to[V_LANES][V_LANES]) {
  float some[V_LANES][V_LANES];
  if (rows < V_LANES || n < V_LANES) {
    for (int64_t i = 0; i < V_LANES; i++) v_store(some[i], i < rows ? v_load_n(from + i * stride, n) : v_zero());
    from = some[0];
    stride = V_LANES;
  }
  v_transpose_square(to[0], V_LANES, from, stride);
}

/* Factors of a panel's columns. */
V_INLINE vf scale_of(const base_f32 *scale, int64_t first, int64_t columns) {
  return scale ? v_load_n((const float *)scale + first, columns) : v_set(1);
}

/* Squares of a whole panel of channels of one tap, in their places. Gives how many elements of a channel they are. */
static int64_t transpose_squares(const float *from, int64_t stride, int64_t in, vf scale, float *to) {
  int64_t at = 0;
  for (; at + V_LANES <= in; at += V_LANES) {
    vf square[V_LANES];
    V_FOR(i, V_LANES) square[i] = v_load(from + at + i * stride);
    v_transpose(square);
    V_FOR(i, V_LANES) v_store(to + (at + i) * V_LANES, normal(v_mul(square[i], scale)));
  }
  return at;
}

/* A panel of `columns` channels, `stride` apart, each [channel in][tap], to [tap][channel in][lane]. */
static void transpose_panel(const float *from, int64_t stride, int64_t columns, int64_t in, int64_t taps, vf scale,
                            float *to) {
  int64_t tap = 0, channel = taps == 1 && columns == V_LANES ? transpose_squares(from, stride, in, scale, to) : 0;
  for (int64_t at = channel; at < in * taps; at += V_LANES) {
    float square[V_LANES][V_LANES];
    const int64_t n = base_min_i64(V_LANES, in * taps - at);
    transpose_square(from + at, stride, columns, n, square);
    for (int64_t i = 0; i < n; i++) {
      v_store(to + (tap * in + channel) * V_LANES, normal(v_mul(v_load(square[i]), scale)));
      if (++tap == taps) tap = 0, channel++;
    }
  }
}

/* ---- matrices ---- */

/* Rows of a panel. What is large is written past the caches: it would not stay there. */
V_INLINE void copy_rows(float *to, const float *from, int64_t stride, int64_t rows, int64_t columns, vf scale,
                        bool stream) {
  for (int64_t k = 0; k < rows; k++) {
    const float *row = from + k * stride;
    const vf x = normal(v_mul(columns == V_LANES ? v_load(row) : v_load_n(row, columns), scale));
    if (stream) v_stream(to + k * V_LANES, x);
    else v_store(to + k * V_LANES, x);
  }
}

/* Dense rows, as many at a time as a core follows. */
static void pack_rows(float *to, const kern_matrix *m, const base_f32 *scale, int64_t first, int64_t last) {
  enum { ROWS = 8, LARGE = 1 << 18 };
  const bool stream = m->k * m->n >= LARGE && (uintptr_t)to % sizeof(vf) == 0;
  for (int64_t k = 0; k < m->k; k += ROWS)
    for (int64_t p = first; p < last; p++) {
      const int64_t rows = base_min_i64(ROWS, m->k - k), columns = base_min_i64(V_LANES, m->n - p * V_LANES);
      copy_rows(to + (p * m->k + k) * V_LANES, m->data + k * m->k_stride + p * V_LANES, m->k_stride, rows, columns,
                scale_of(scale, p * V_LANES, columns), stream);
    }
  if (stream) v_fence();
}

static void pack_matrix(float *to, const kern_matrix *m, const base_f32 *scale, int64_t panel, int64_t first,
                        int64_t last) {
  if (panel != V_LANES || (m->n_stride != 1 && m->k_stride != 1)) {
    kern_pack(to, m, scale, panel, first, last);
    return;
  }
  if (m->n_stride == 1) {
    pack_rows(to, m, scale, first, last);
    return;
  }
  for (int64_t p = first; p < last; p++) {
    const int64_t columns = base_min_i64(V_LANES, m->n - p * V_LANES);
    transpose_panel(m->data + p * V_LANES * m->n_stride, m->n_stride, columns, m->k, 1,
                    scale_of(scale, p * V_LANES, columns), to + p * m->k * V_LANES);
  }
}

/* ---- convolutions ---- */

/* Do the elements of an output channel lie side by side, [channel in][tap]? */
static bool dense_channels(const base_tensor *w) {
  int64_t step = 1;
  for (int32_t i = w->rank - 1; i > 0; step *= w->dims[i--])
    if (w->dims[i] != 1 && w->strides[i] != step) return false;
  return true;
}

static void pack_conv(const base_tensor *w, const base_f32 *scale, bool transposed, int64_t groups, int64_t panel,
                      float *to) {
  const int64_t out = w->dims[0] / groups, in = w->dims[1];
  if (panel != V_LANES || transposed || kern_conv_shared(false, groups, out, in, panel) != 1 || !dense_channels(w)) {
    kern_pack_conv(w, scale, transposed, groups, panel, to);
    return;
  }
  int64_t taps = 1;
  for (int32_t i = 2; i < w->rank; i++) taps *= w->dims[i];
  for (int64_t g = 0; g < groups; g++)
    for (int64_t first = 0; first < out; first += V_LANES, to += taps * in * V_LANES) {
      const int64_t channel = g * out + first, columns = base_min_i64(V_LANES, out - first);
      transpose_panel((const float *)w->data + channel * w->strides[0], w->strides[0], columns, in, taps,
                      scale_of(scale, channel, columns), to);
    }
}

/* ---- Winograd's ---- */

enum { KERNEL = 9, KERNELS = V_LANES /* transformed in a row */ };
typedef float half_lanes __attribute__((vector_size(WEIGHTS_LANES * sizeof(float))));

/* The kernels of a panel's channels that belong to one channel in, times `scale`. */
static void transform_kernels(float from[KERNEL][V_LANES], const float *scale,
                              float to[WEIGHTS_ELEMENTS][KERNELS][V_LANES], int64_t number, int64_t tile) {
  for (int half = 0; half < V_LANES; half += WEIGHTS_LANES) {
    weights_lanes kernel[9], u[WEIGHTS_ELEMENTS];
    half_lanes x;
    memcpy(&x, scale + half, sizeof x);
    const weights_lanes factor = __builtin_convertvector(x, weights_lanes);
    for (int k = 0; k < KERNEL; k++) {
      memcpy(&x, from[k] + half, sizeof x);
      kernel[k] = __builtin_convertvector(x, weights_lanes) * factor;
    }
    weights_transform(kernel, u, tile);
    for (int64_t e = 0; e < (tile + 2) * (tile + 2); e++) {
      x = __builtin_convertvector(u[e], half_lanes);
      memcpy(to[e][number] + half, &x, sizeof x);
    }
  }
}

/* The weights of a panel of `columns` channels, `stride` apart, each [channel in][depth][kernel]. */
static void transform_panel(const float *from, int64_t stride, int64_t columns, int64_t in, int64_t depth,
                            const float *scale, float *to, int64_t plane, int64_t tile) {
  float kernels[KERNELS * KERNEL][V_LANES], u[WEIGHTS_ELEMENTS][KERNELS][V_LANES];
  for (int64_t first = 0; first < in * depth; first += KERNELS) {
    const int64_t count = base_min_i64(KERNELS, in * depth - first), floats = count * KERNEL;
    for (int64_t at = 0; at < floats; at += V_LANES)
      transpose_square(from + first * KERNEL + at, stride, columns, base_min_i64(V_LANES, floats - at), kernels + at);
    for (int64_t i = 0; i < count; i++) transform_kernels(kernels + i * KERNEL, scale, u, i, tile);
    for (int64_t e = 0; e < (tile + 2) * (tile + 2); e++)
      for (int64_t i = 0; i < count; i++) {
        const int64_t k = (first + i) % depth * in + (first + i) / depth;
        v_store(to + e * plane + k * V_LANES, normal(v_load(u[e][i])));
      }
  }
}

static void pack_winograd(const base_tensor *w, const base_f32 *scale, int64_t groups, int64_t tile, int64_t panel,
                          float *to) {
  if (panel != V_LANES || !dense_channels(w)) {
    kern_pack_winograd(w, scale, groups, tile, panel, to);
    return;
  }
  const int64_t in = w->dims[1], depth = w->rank > 4 ? w->dims[2] : 1, panel_floats = in * depth * V_LANES;
  const int64_t products = groups / kern_conv_shared(false, groups, w->dims[0] / groups, in * depth, V_LANES);
  const int64_t out = w->dims[0] / products, panels = (out + V_LANES - 1) / V_LANES;
  for (int64_t p = 0; p < products * panels; p++, to += panel_floats) {
    const int64_t before = p % panels * V_LANES, first = p / panels * out + before;
    const int64_t columns = base_min_i64(V_LANES, out - before);
    float factors[V_LANES];
    v_store(factors, scale_of(scale, first, columns));
    transform_panel((const float *)w->data + first * w->strides[0], w->strides[0], columns, in, depth, factors, to,
                    products * panels * panel_floats, tile);
  }
}

const kern_packing KERN_NAME(packing) = {pack_matrix, pack_conv, pack_winograd};
#else
const kern_packing KERN_NAME(packing) = {kern_pack, kern_pack_conv, kern_pack_winograd};
#endif
