/* unary.c -- the kernels of one operand of scalar.def. */
#include "kernels/loops/elementwise_priv.h"
#include "kernels/simd/math_priv.h"

#define UNARY(family, name, types, work, value)                                                                    \
  static void rows_##name(float *out, const float *const *in, const int64_t *pitch, int64_t rows, int64_t n,       \
                          const float *p) {                                                                        \
    const vf a = v_set(p[0]), b = v_set(p[1]), c = v_set(p[2]);                                                    \
    (void)a, (void)b, (void)c;                                                                                     \
    for (int64_t r = 0; r < rows; r++, out += n) {                                                                 \
      const float *from = in[0] + r * pitch[0];                                                                    \
      for (int64_t i = 0; i < n; i += V_LANES) { /* functions are long: one loop for whole vectors and the rest */ \
        const bool whole = n - i >= V_LANES;                                                                       \
        vf x = whole ? v_load(from + i) : v_load_n(from + i, n - i);                                               \
        x = value;                                                                                                 \
        if (whole) v_store(out + i, x);                                                                            \
        else v_store_n(out + i, x, n - i);                                                                         \
      }                                                                                                            \
    }                                                                                                              \
  }                                                                                                                \
  static const elementwise_body body_##name = {1, {rows_##name}};
#include "base/scalar.def"

static const float no_params[3];

#define PLAIN(name) \
  td_status KERN_NAME(name)(const base_call *call) { return kern_elementwise(call, &body_##name, no_params); }
PLAIN(abs)
PLAIN(ceil)
PLAIN(cube)
PLAIN(erf)
PLAIN(exp)
PLAIN(floor)
PLAIN(gelu)
PLAIN(gelu_tanh)
PLAIN(hardswish)
PLAIN(log)
PLAIN(mish)
PLAIN(neg)
PLAIN(pow_half)
PLAIN(reciprocal)
PLAIN(relu)
PLAIN(round)
PLAIN(rsqrt)
PLAIN(sigmoid)
PLAIN(sign)
PLAIN(silu)
PLAIN(softplus)
PLAIN(softsign)
PLAIN(sqrt)
PLAIN(square)
PLAIN(tanh)
PLAIN(trunc)

/* Parameters are the attributes, in order. */
static td_status with_attributes(const base_call *call, const elementwise_body *body) {
  float p[3] = {0};
  for (uint32_t i = 0; i < call->attrs->count && i < 3; i++) p[i] = (float)base_attr_float(call->attrs, i);
  return kern_elementwise(call, body, p);
}
td_status KERN_NAME(hard_sigmoid)(const base_call *call) { return with_attributes(call, &body_hard_sigmoid); }
td_status KERN_NAME(leaky_relu)(const base_call *call) { return with_attributes(call, &body_leaky_relu); }
td_status KERN_NAME(threshold)(const base_call *call) { return with_attributes(call, &body_threshold); }

td_status KERN_NAME(elu)(const base_call *call) {
  double alpha = base_attr_float(call->attrs, KERN_ELU_ALPHA), scale = base_attr_float(call->attrs, KERN_ELU_SCALE);
  const float p[3] = {(float)(alpha * scale), (float)scale, (float)base_attr_float(call->attrs, KERN_ELU_INPUT_SCALE)};
  return kern_elementwise(call, &body_elu, p);
}

td_status KERN_NAME(clamp)(const base_call *call) {
  const base_tensor *low = base_in(call, 1), *high = base_in(call, 2);
  const float p[3] = {low ? *(const float *)low->data : -INFINITY, high ? *(const float *)high->data : INFINITY};
  return kern_elementwise(call, &body_clamp, p);
}
