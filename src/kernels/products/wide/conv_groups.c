/* conv_groups.c -- the tile of convolutions in small groups: one function for every number of rows. */
#include "kernels/products/conv_groups_priv.h"
#include "kernels/products/epilogue_priv.h"

/* `lanes`: where the group of a lane begins in the input of a panel. */
V_INLINE void multiply(const conv_groups *t, vi lanes, int64_t panel, const int rows) {
  int64_t channels = V_LANES / t->group_out * t->group_in;
  const float *b = t->b + panel * t->b_panel;
  const float *const *a = t->a;
  vf sums[CONV_GROUPS_ROWS];
  V_FOR(r, rows) sums[r] = v_zero();
  for (int64_t tap = 0; tap < t->taps; tap++, a += t->a_pitch) {
    vf x[CONV_GROUPS_ROWS];
    vi from = lanes;
    V_FOR(r, rows) x[r] = v_load_n(a[r] + panel * channels, channels);
    for (int64_t k = 0; k < t->group_in; k++, b += V_LANES) {
      vf w = v_load(b);
      V_FOR(r, rows) sums[r] = v_fma(v_permute(x[r], from), w, sums[r]);
      from = vi_add(from, vi_set(1));
    }
  }
  V_FOR(r, rows) v_store(t->c + r * t->c_pitch + panel * V_LANES, sums[r]);
}

typedef void (*rows_function)(const conv_groups *t, vi lanes);

#define ROWS(n)                                                                       \
  static void rows_##n(const conv_groups *t, vi lanes) {                              \
    for (int64_t panel = 0; panel < t->panels; panel++) multiply(t, lanes, panel, n); \
  }
#define EVERY_ROWS(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#define NAME(n) rows_##n,
EVERY_ROWS(ROWS)
static const rows_function functions[CONV_GROUPS_ROWS] = {EVERY_ROWS(NAME)};

void KERN_NAME(conv_groups)(const conv_groups *t, int64_t rows, const kern_epilogue *e) {
  int32_t first[V_LANES];
  vi lanes;
  for (int64_t i = 0; i < V_LANES; i++) first[i] = (int32_t)(i / t->group_out * t->group_in);
  memcpy(&lanes, first, sizeof lanes);
  functions[rows - 1](t, lanes);
  if (e) KERN_NAME(epilogue_rows)(e, t->c, t->c_pitch, rows, t->panels * V_LANES);
}
