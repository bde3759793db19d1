/* binary.c -- the kernels of two operands of scalar.def, and KERN_WHERE. */
#include "kernels/loops/elementwise_priv.h"
#include "kernels/simd/math_priv.h"

/* One form of a body: how a vector of each operand comes, whole and cut to n elements. */
#define EACH(at, n) v_load(at + i)
#define FIRST(at, n) v_load_n(at + i, n)
#define SAME(at, n) v_set(*(at))
#define FORM(name, value, LOAD_X, CUT_X, LOAD_Y, CUT_Y)                                               \
  static void name(float *out, const float *const *in, const int64_t *pitch, int64_t rows, int64_t n, \
                   const float *p) {                                                                  \
    (void)p;                                                                                          \
    for (int64_t r = 0; r < rows; r++, out += n) {                                                    \
      const float *from_x = in[0] + r * pitch[0], *from_y = in[1] + r * pitch[1];                     \
      int64_t i = 0;                                                                                  \
      for (; i + V_LANES <= n; i += V_LANES) {                                                        \
        vf x = LOAD_X(from_x, 0), y = LOAD_Y(from_y, 0);                                              \
        v_store(out + i, value);                                                                      \
      }                                                                                               \
      if (i < n) {                                                                                    \
        vf x = CUT_X(from_x, n - i), y = CUT_Y(from_y, n - i);                                        \
        v_store_n(out + i, value, n - i);                                                             \
      }                                                                                               \
    }                                                                                                 \
  }

#define BINARY(family, name, types, work, value)                                                   \
  FORM(both_##name, value, EACH, FIRST, EACH, FIRST)                                               \
  FORM(from_scalar_##name, value, SAME, SAME, EACH, FIRST)                                         \
  FORM(by_scalar_##name, value, EACH, FIRST, SAME, SAME)                                           \
  td_status KERN_NAME(name)(const base_call *call) {                                               \
    static const elementwise_body body = {2, {both_##name, from_scalar_##name, by_scalar_##name}}; \
    return kern_elementwise(call, &body, NULL);                                                    \
  }
#include "base/scalar.def"

static void rows_where(float *out, const float *const *in, const int64_t *pitch, int64_t rows, int64_t n,
                       const float *p) {
  (void)p;
  for (int64_t r = 0; r < rows; r++, out += n) {
    const float *c = in[0] + r * pitch[0], *x = in[1] + r * pitch[1], *y = in[2] + r * pitch[2];
    int64_t i = 0;
    for (; i + V_LANES <= n; i += V_LANES)
      v_store(out + i, v_select(v_eq(v_load(c + i), v_zero()), v_load(y + i), v_load(x + i)));
    if (i < n) {
      vm no = v_eq(v_load_n(c + i, n - i), v_zero());
      v_store_n(out + i, v_select(no, v_load_n(y + i, n - i), v_load_n(x + i, n - i)), n - i);
    }
  }
}

td_status KERN_NAME(where)(const base_call *call) {
  static const elementwise_body body = {3, {rows_where}};
  return kern_elementwise(call, &body, NULL);
}
