/* epilogue.c -- reading an epilogue from a call, and what the activations mean. */
#include "kernels/kernels.h"

#include <math.h>
#include <string.h>

static const char *const names[] = {
#define ACT(name) #name,
#include "kernels/acts.def"
#undef ACT
};

kern_act kern_act_find(const char *name) {
  uint32_t act = 0;
  while (act < KERN_ACT_COUNT && strcmp(names[act], name) != 0) act++;
  return (kern_act)act;
}

bool kern_chain_in_front(const base_attrs *attrs) {
  const uint32_t at = attrs->count - KERN_EPILOGUE_ATTRS + KERN_EPILOGUE_FRONT;
  return attrs->count >= KERN_EPILOGUE_ATTRS && base_attr_int(attrs, at) && base_attr_has(attrs, attrs->count - 1);
}

td_dtype kern_result_type(const base_attrs *attrs) {
  const uint32_t at = attrs->count - KERN_EPILOGUE_ATTRS + KERN_EPILOGUE_RESULT;
  return base_attr_has(attrs, at) ? (td_dtype)base_attr_int(attrs, at) : TD_F32;
}

const char *kern_act_name(kern_act act) { return names[act]; }

int64_t kern_pitch(const base_tensor *t) {
  if (t->rank == 0) return 1;
  for (int32_t i = t->rank - 2; i >= 0; i--)
    if (t->dims[i] != 1) return t->strides[i];
  return t->dims[t->rank - 1];
}

static const float *vector(const base_call *call, uint32_t i) {
  const base_tensor *t = base_in(call, i);
  return t ? t->data : NULL;
}

kern_act_of kern_act_at(const base_attrs *attrs, uint32_t first) {
  if (!base_attr_has(attrs, first)) return (kern_act_of){KERN_ACT_none, 0, 0};
  return (kern_act_of){.act = kern_act_find(base_attr_str(attrs, first)),
                       .a = (float)base_attr_float(attrs, first + 1),
                       .b = (float)base_attr_float(attrs, first + 2)};
}

kern_epilogue kern_epilogue_of(const base_call *call) {
  uint32_t first = call->attrs->count - KERN_EPILOGUE_ATTRS;
  const kern_act_of act = kern_act_at(call->attrs, first + KERN_EPILOGUE_ACT);
  const base_tensor *residual = base_in(call, KERN_IN_RESIDUAL);
  return (kern_epilogue){.act = act.act,
                         .a = act.a,
                         .b = act.b,
                         .late = base_attr_int(call->attrs, first + KERN_EPILOGUE_LATE) != 0,
                         .near = base_out(call, 0)->dtype == TD_BF16,
                         .bias = vector(call, KERN_IN_BIAS),
                         .residual = vector(call, KERN_IN_RESIDUAL),
                         .scale = vector(call, KERN_IN_SCALE),
                         .shift = vector(call, KERN_IN_SHIFT),
                         .residual_pitch = residual ? kern_pitch(residual) : 0,
                         .row_step = 1};
}

static double apply_none(double a, double b, double x) { return (void)a, (void)b, x; }
static double apply_relu(double a, double b, double x) { return (void)a, (void)b, x < 0 ? 0 : x; }
static double apply_clamp(double a, double b, double x) { return x < a ? a : x > b ? b : x; }
static double apply_leaky_relu(double a, double b, double x) { return (void)b, x < 0 ? a * x : x; }
static double apply_sigmoid(double a, double b, double x) { return (void)a, (void)b, 1 / (1 + exp(-x)); }
static double apply_tanh(double a, double b, double x) { return (void)a, (void)b, tanh(x); }
static double apply_gelu(double a, double b, double x) {
  return (void)a, (void)b, 0.5 * x * (1 + erf(x * 0.70710678118654752440));
}
static double apply_gelu_tanh(double a, double b, double x) {
  return (void)a, (void)b, 0.5 * x * (1 + tanh(0.79788456080286535588 * (x + 0.044715 * x * x * x)));
}
static double apply_silu(double a, double b, double x) { return (void)a, (void)b, x / (1 + exp(-x)); }
static double apply_hard_sigmoid(double a, double b, double x) { return isnan(x) ? x : fmin(fmax(a * x + b, 0), 1); }
static double apply_hardswish(double a, double b, double x) {
  return (void)a, (void)b, x * (fmin(fmax(x + 3, 0), 6) / 6);
}

static double apply_clamp_f16(double a, double b, double x) {
  return apply_clamp(a, b, base_f16_to_f32(base_f64_to_f16(x)));
}
static double apply_silu_f16(double a, double b, double x) {
  return apply_silu(a, b, base_f16_to_f32(base_f64_to_f16(x)));
}

double kern_act_apply(kern_act act, double a, double b, double x) {
  static double (*const table[])(double, double, double) = {
#define ACT(name) apply_##name,
#include "kernels/acts.def"
#undef ACT
  };
  return table[act](a, b, x);
}
