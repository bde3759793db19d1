/* complex.c -- complex numbers, a last axis of [real, imaginary]: arithmetic, parts, Fourier transforms. Operators that
 * are not here refuse complex operands. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

bool aten_is_complex(const aten_value *v) { return v->kind == ATEN_TENSOR && v->u.tensor->is_complex; }
static bool is_complex(const aten_value *v) { return aten_is_complex(v); }

typedef aten_pair pair;

aten_pair aten_parts(aten_args *c, const aten_value *v) {
  ir_value x = aten_read(c->a, v);
  return (pair){aten_select(c->a, x, -1, 0), aten_select(c->a, x, -1, 1)};
}
static ir_value op(aten_args *c, const char *name, ir_value x, ir_value y) { return aten_binary(c->a, name, x, y); }
static ir_value add(aten_args *c, ir_value x, ir_value y) { return op(c, "aten::add", x, y); }
static ir_value sub(aten_args *c, ir_value x, ir_value y) { return op(c, "aten::sub", x, y); }
static ir_value mul(aten_args *c, ir_value x, ir_value y) { return op(c, "aten::mul", x, y); }
static ir_value quotient(aten_args *c, ir_value x, ir_value y) { return op(c, "aten::div", x, y); }
static ir_value of(aten_args *c, const char *name, ir_value x) { return IR_EMIT(c->b, name, x); }
static ir_value times(aten_args *c, ir_value x, double by) { return aten_with_scalar(c->a, "aten::mul", x, by); }

/* Both parts broadcast together. */
static pair alike(aten_args *c, pair p) {
  if (ir_build_failed(c->b)) return p;
  const ir_type re = *ir_build_type(c->b, p.re), im = *ir_build_type(c->b, p.im);
  bool same = re.rank == im.rank;
  for (int32_t i = 0; i < re.rank && same; i++) same = re.dims[i] == im.dims[i];
  if (same) return p;
  ir_value none = ir_build_scalar(c->b, TD_BOOL, 0);
  ir_value shape = aten_shape(c->a, aten_binary(c->a, "aten::logical_or", aten_full(c->a, aten_shape(c->a, p.re), none),
                                                aten_full(c->a, aten_shape(c->a, p.im), none)));
  return (pair){aten_expand(c->a, p.re, shape), aten_expand(c->a, p.im, shape)};
}

aten_value aten_joined(aten_args *c, aten_pair p) {
  p = alike(c, p);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (aten_rank(c->a, p.re) == BASE_MAX_RANK) aten_refuse(c, "complex numbers of %d dimensions", BASE_MAX_RANK);
  ir_value v[] = {aten_unsqueeze(c->a, p.re, -1), aten_unsqueeze(c->a, p.im, -1)};
  return aten_of_complex(c->a, aten_cat(c->a, v, 2, -1));
}

/* Real tensors and numbers have no imaginary part. */
aten_pair aten_pair_of(aten_args *c, const aten_value *v, td_dtype d) {
  if (is_complex(v)) {
    pair p = aten_parts(c, v);
    return (pair){ir_build_cast(c->b, p.re, d), ir_build_cast(c->b, p.im, d)};
  }
  const aten_complex_number z = aten_complex_of(v);
  if (v->kind == ATEN_COMPLEX) return (pair){ir_build_scalar(c->b, d, z.re), ir_build_scalar(c->b, d, z.im)};
  return (pair){aten_as(c->a, v, d), ir_build_scalar(c->b, d, 0)};
}

aten_value aten_complex_full(aten_args *c, ir_value shape, const aten_value *number, td_dtype d) {
  pair p = aten_pair_of(c, number, d);
  return aten_joined(c, (pair){aten_expand(c->a, p.re, shape), aten_expand(c->a, p.im, shape)});
}

/* ---- arithmetic ---- */

static pair product(aten_args *c, pair x, pair y) {
  return (pair){sub(c, mul(c, x.re, y.re), mul(c, x.im, y.im)), add(c, mul(c, x.re, y.im), mul(c, x.im, y.re))};
}

/* The divisor is scaled by its larger part, so that its square neither overflows nor vanishes. */
static pair ratio(aten_args *c, pair x, pair y) {
  ir_value size = op(c, "aten::maximum", of(c, "aten::abs", y.re), of(c, "aten::abs", y.im));
  pair unit = {quotient(c, y.re, size), quotient(c, y.im, size)};
  ir_value square = add(c, mul(c, y.re, unit.re), mul(c, y.im, unit.im));
  return (pair){quotient(c, add(c, mul(c, x.re, unit.re), mul(c, x.im, unit.im)), square),
                quotient(c, sub(c, mul(c, x.im, unit.re), mul(c, x.re, unit.im)), square)};
}

static ir_value magnitude(aten_args *c, pair p) {
  return of(c, "aten::sqrt", add(c, mul(c, p.re, p.re), mul(c, p.im, p.im)));
}
ir_value aten_complex_size(aten_args *c, const aten_value *v) { return magnitude(c, aten_parts(c, v)); }
/* x where it is not below zero, else y */
static ir_value by_sign(aten_args *c, ir_value sign, ir_value x, ir_value y) {
  return IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::lt", sign, 0), y, x);
}

static pair negative(aten_args *c, pair x) { return (pair){of(c, "aten::neg", x.re), of(c, "aten::neg", x.im)}; }
static pair square(aten_args *c, pair x) { return product(c, x, x); }
static pair exponential(aten_args *c, pair x) {
  ir_value size = of(c, "aten::exp", x.re);
  return (pair){mul(c, size, of(c, "aten::cos", x.im)), mul(c, size, of(c, "aten::sin", x.im))};
}
static pair logarithm(aten_args *c, pair x) {
  return (pair){of(c, "aten::log", magnitude(c, x)), op(c, "aten::atan2", x.im, x.re)};
}
static pair reciprocal(aten_args *c, pair x) {
  return ratio(c, (pair){aten_scalar_like(c->a, x.re, 1), aten_scalar_like(c->a, x.re, 0)}, x);
}
/* The larger part t of the root first: the other one is im / 2 t, which loses nothing. */
static pair root(aten_args *c, pair x) {
  ir_value t = of(c, "aten::sqrt", times(c, add(c, magnitude(c, x), of(c, "aten::abs", x.re)), 0.5));
  ir_value none = aten_with_scalar(c->a, "aten::eq", t, 0);
  ir_value other = IR_EMIT(c->b, "aten::where", none, t, quotient(c, times(c, x.im, 0.5), t));
  return (pair){by_sign(c, x.re, t, of(c, "aten::abs", other)),
                by_sign(c, x.re, other, by_sign(c, x.im, t, of(c, "aten::neg", t)))};
}
static pair reciprocal_root(aten_args *c, pair x) { return reciprocal(c, root(c, x)); }
static pair sine(aten_args *c, pair x) {
  return (pair){mul(c, of(c, "aten::sin", x.re), of(c, "aten::cosh", x.im)),
                mul(c, of(c, "aten::cos", x.re), of(c, "aten::sinh", x.im))};
}
static pair cosine(aten_args *c, pair x) {
  return (pair){mul(c, of(c, "aten::cos", x.re), of(c, "aten::cosh", x.im)),
                of(c, "aten::neg", mul(c, of(c, "aten::sin", x.re), of(c, "aten::sinh", x.im)))};
}
static pair hyperbolic_sine(aten_args *c, pair x) {
  return (pair){mul(c, of(c, "aten::sinh", x.re), of(c, "aten::cos", x.im)),
                mul(c, of(c, "aten::cosh", x.re), of(c, "aten::sin", x.im))};
}
static pair hyperbolic_cosine(aten_args *c, pair x) {
  return (pair){mul(c, of(c, "aten::cosh", x.re), of(c, "aten::cos", x.im)),
                mul(c, of(c, "aten::sinh", x.re), of(c, "aten::sin", x.im))};
}
/* (sinh 2x + i sin 2y) / (cosh 2x + cos 2y); beyond 20 it is 1 to the last bit, and cosh would overflow. */
static pair hyperbolic_tangent(aten_args *c, pair x) {
  ir_value most = aten_scalar_like(c->a, x.re, 20), least = aten_scalar_like(c->a, x.re, -20);
  ir_value a = times(c, op(c, "aten::minimum", op(c, "aten::maximum", x.re, least), most), 2), b = times(c, x.im, 2);
  ir_value below = add(c, of(c, "aten::cosh", a), of(c, "aten::cos", b));
  return (pair){quotient(c, of(c, "aten::sinh", a), below), quotient(c, of(c, "aten::sin", b), below)};
}
static pair logistic(aten_args *c, pair x) {
  pair t = hyperbolic_tangent(c, (pair){times(c, x.re, 0.5), times(c, x.im, 0.5)});
  return (pair){aten_with_scalar(c->a, "aten::add", times(c, t.re, 0.5), 0.5), times(c, t.im, 0.5)};
}
static pair unit(aten_args *c, pair x) {
  ir_value size = magnitude(c, x), none = aten_with_scalar(c->a, "aten::eq", size, 0);
  return (pair){IR_EMIT(c->b, "aten::where", none, size, quotient(c, x.re, size)),
                IR_EMIT(c->b, "aten::where", none, size, quotient(c, x.im, size))};
}

typedef pair (*function)(aten_args *c, pair x);
static const struct {
  const char *name; /* of the operator on real numbers */
  function of;
} functions[] = {{"aten::neg", negative},
                 {"aten::exp", exponential},
                 {"aten::log", logarithm},
                 {"aten::sqrt", root},
                 {"aten::rsqrt", reciprocal_root},
                 {"aten::reciprocal", reciprocal},
                 {"aten::square", square},
                 {"aten::sin", sine},
                 {"aten::cos", cosine},
                 {"aten::sinh", hyperbolic_sine},
                 {"aten::cosh", hyperbolic_cosine},
                 {"aten::tanh", hyperbolic_tangent},
                 {"aten::sigmoid", logistic},
                 {"aten::sign", unit}};

aten_value aten_complex_unary(aten_args *c) {
  pair p = aten_parts(c, &c->args[0]);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (strcmp(c->row->data, "aten::abs") == 0) return aten_ret(c, magnitude(c, p));
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
    if (strcmp(functions[i].name, c->row->data) == 0) return aten_joined(c, functions[i].of(c, p));
  aten_refuse(c, "of complex numbers");
  return ATEN_NOTHING;
}

/* The dtype that the parts of two operands meet in. */
static td_dtype meet(aten_args *c) {
  aten_mix m = {0};
  for (uint32_t i = 0; i < 2; i++) {
    const aten_value *v = &c->args[i], wrapped = aten_float(0);
    if (is_complex(v)) aten_mix_tensor(c->a, &m, aten_parts(c, v).re); /* of as many dimensions as PyTorch sees */
    else aten_mix_value(c->a, &m, v->kind == ATEN_COMPLEX ? &wrapped : v);
  }
  td_dtype d = aten_mix_result(&m);
  return base_is_float(d) ? d : TD_F32;
}

/* x^n, 1 <= n */
static pair power(aten_args *c, pair x, int64_t n) {
  pair r = x;
  for (int64_t bit = 62 - __builtin_clzll((unsigned long long)n); bit >= 0; bit--) {
    r = product(c, r, r);
    if (n >> bit & 1) r = product(c, r, x);
  }
  return r;
}

/* exp(y log x), 0 where x is */
static pair general_power(aten_args *c, pair x, pair y) {
  ir_value none = aten_with_scalar(c->a, "aten::eq", magnitude(c, x), 0);
  pair r = exponential(c, product(c, logarithm(c, x), y));
  ir_value zero = aten_scalar_like(c->a, r.re, 0);
  return (pair){IR_EMIT(c->b, "aten::where", none, zero, r.re), IR_EMIT(c->b, "aten::where", none, zero, r.im)};
}

enum { MAX_POWER = 64 };

aten_value aten_complex_pow(aten_args *c) {
  const td_dtype d = meet(c);
  const aten_value *e = &c->args[1];
  pair x = aten_pair_of(c, &c->args[0], d), r;
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  const bool known = (e->kind == ATEN_INT || e->kind == ATEN_FLOAT) && aten_is_known(e);
  const double n = known ? aten_get_float(c, 1) : 0;
  if (known && n != 0 && fabs(n) <= MAX_POWER && n == (double)(int64_t)n)
    r = n < 0 ? reciprocal(c, power(c, x, (int64_t)-n)) : power(c, x, (int64_t)n);
  else r = known && n == 0.5 ? root(c, x) : general_power(c, x, aten_pair_of(c, e, d));
  return aten_joined(c, r);
}

/* y times alpha, a real number that is 1 where it is not given */
static pair weighted(aten_args *c, pair y, td_dtype d) {
  int64_t at = aten_position(c, "alpha");
  if (at < 0 || (c->args[at].kind == ATEN_INT && aten_is_known(&c->args[at]) && c->args[at].u.i == 1)) return y;
  return product(c, y, aten_pair_of(c, &c->args[at], d));
}

aten_value aten_complex_binary(aten_args *c) {
  const td_dtype d = meet(c);
  const char *name = c->row->data ? c->row->data : strstr(c->name, "mul") ? "aten::mul" : "aten::div";
  const bool reversed = name[0] == 'r';
  pair x = aten_pair_of(c, &c->args[reversed], d), y = aten_pair_of(c, &c->args[!reversed], d), r = x;
  const bool real = !is_complex(&c->args[1]) && c->args[1].kind != ATEN_COMPLEX;
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  name += reversed;
  if (strcmp(name, "aten::add") == 0) y = weighted(c, y, d), r = (pair){add(c, x.re, y.re), add(c, x.im, y.im)};
  else if (strcmp(name, "aten::sub") == 0) y = weighted(c, y, d), r = (pair){sub(c, x.re, y.re), sub(c, x.im, y.im)};
  else if (strcmp(name, "aten::mul") == 0) r = product(c, x, y);
  else if (c->schema->count > 2 && aten_has(c, 2)) aten_refuse(c, "of complex numbers, rounded");
  else r = real ? (pair){quotient(c, x.re, y.re), quotient(c, x.im, y.re)} : ratio(c, x, y);
  return aten_joined(c, r);
}

/* eq, ne */
aten_value aten_complex_compare(aten_args *c) {
  const td_dtype d = meet(c);
  const bool equal = strcmp(c->row->data, "aten::eq") == 0;
  pair x = aten_pair_of(c, &c->args[0], d), y = aten_pair_of(c, &c->args[1], d);
  if (!equal && strcmp(c->row->data, "aten::ne") != 0) aten_refuse(c, "complex numbers have no order");
  return aten_ret(c, op(c, equal ? "aten::logical_and" : "aten::logical_or", op(c, c->row->data, x.re, y.re),
                        op(c, c->row->data, x.im, y.im)));
}

/* ---- parts ---- */

/* What a TorchScript program takes is real unless the caller says otherwise. */
static void refuse_real(aten_args *c) {
  aten_refuse(c,
              "of real numbers (an input that is complex is declared so: --shape NAME=DIMS:c64, "
              "td_input_spec.is_complex, a complex example input in Python)");
}

/* real (data "0"), imag ("1"): views of the last axis */
aten_value aten_lower_complex_part(aten_args *c) {
  const aten_value *v = &c->args[0];
  int64_t which = c->row->data[0] - '0';
  if (!is_complex(v)) {
    if (which) refuse_real(c);
    return *v;
  }
  int32_t rank = aten_rank(c->a, aten_read(c->a, v));
  aten_value part =
      aten_view_slice(c->a, v, rank - 1, ir_build_ints(c->b, &which, 1), ir_build_ints(c->b, (int64_t[]){which + 1}, 1),
                      ir_build_ints(c->b, (int64_t[]){1}, 1));
  ir_value shape = aten_slice(c->a, aten_shape(c->a, aten_read(c->a, v)), 0, 0, -1, 1);
  part = aten_view_reshape(c->a, &part, shape);
  if (part.kind == ATEN_TENSOR) {
    part.u.tensor->is_complex = false;
    part.u.tensor->dense = ATEN_UNSURE;
  }
  return part;
}
/* view_as_real, view_as_complex (data "c"): the same memory under another name */
aten_value aten_lower_complex_view(aten_args *c) {
  const aten_value *v = &c->args[0];
  bool to_complex = c->row->data != NULL;
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (is_complex(v) && to_complex) aten_refuse(c, "of complex numbers");
  if (!is_complex(v) && !to_complex) refuse_real(c);
  aten_value same = aten_view_reshape(c->a, v, aten_shape(c->a, aten_read(c->a, v)));
  if (same.kind == ATEN_TENSOR) same.u.tensor->is_complex = to_complex;
  return same;
}
/* complex(real, imag); polar(abs, angle) (data) */
aten_value aten_lower_complex_make(aten_args *c) {
  pair p = {aten_in(c, 0), aten_in(c, 1)};
  if (c->row->data) {
    ir_value abs = p.re, angle = p.im;
    p = (pair){op(c, "aten::mul", abs, IR_EMIT(c->b, "aten::cos", angle)),
               op(c, "aten::mul", abs, IR_EMIT(c->b, "aten::sin", angle))};
  }
  return aten_joined(c, p);
}
aten_value aten_lower_angle(aten_args *c) {
  if (is_complex(&c->args[0])) {
    pair p = aten_parts(c, &c->args[0]);
    return aten_ret(c, op(c, "aten::atan2", p.im, p.re));
  }
  ir_value x = aten_in(c, 0);
  x = ir_build_cast(c->b, x, base_is_float(aten_value_dtype(c->a, x)) ? aten_value_dtype(c->a, x) : TD_F32);
  ir_value y = IR_EMIT(c->b, "aten::where", aten_with_scalar(c->a, "aten::lt", x, 0),
                       aten_scalar_like(c->a, x, 3.14159265358979323846), aten_scalar_like(c->a, x, 0));
  return aten_ret(c, IR_EMIT(c->b, "aten::where", IR_EMIT(c->b, "aten::isnan", x), x, y));
}
/* A real tensor as complex numbers of `d`. */
aten_value aten_complex_of_real(aten_args *c, ir_value x, td_dtype d) {
  ir_value re = ir_build_cast(c->b, x, d);
  ir_value im = aten_full(c->a, aten_shape(c->a, re), ir_build_scalar(c->b, d, 0));
  return aten_joined(c, (pair){re, im});
}
aten_value aten_lower_conj(aten_args *c) {
  if (!is_complex(&c->args[0])) return c->args[0];
  pair p = aten_parts(c, &c->args[0]);
  return aten_joined(c, (pair){p.re, of(c, "aten::neg", p.im)});
}

/* ---- Fourier transforms ---- */

/* x [..., 1 or 2] along `dim`, of `n` elements (0: as it is). Our operator wants three dimensions and more. */
static ir_value transform(aten_args *c, ir_value x, int64_t dim, const aten_value *n, bool inverse, bool onesided) {
  bool low = aten_rank(c->a, x) == 2;
  if (low) x = aten_unsqueeze(c->a, x, 0);
  ir_value length = n->kind == ATEN_NONE ? IR_NO_VALUE : aten_number_value(c->a, n, TD_I64);
  ir_value in[] = {x, length, ir_build_int(c->b, low ? dim + 1 : dim)};
  ir_value y = IR_EMIT_ARGS(c->b, "td::dft", in, 3, ARG_BOOL("inverse", inverse), ARG_BOOL("onesided", onesided));
  return low ? aten_squeeze(c->a, y, 0) : y;
}
/* 1, or the factor that `norm` asks for instead of the operator's own (none forward, 1 / n backward). */
static ir_value normalised(aten_args *c, ir_value y, const aten_value *n, const char *norm, bool inverse) {
  bool ortho = strcmp(norm, "ortho") == 0, forward = strcmp(norm, "forward") == 0;
  if (!ortho && !forward) return y;
  ir_value size = aten_number_value(c->a, n, aten_value_dtype(c->a, y));
  if (ortho) size = IR_EMIT(c->b, "aten::sqrt", size);
  return op(c, inverse ? "aten::mul" : "aten::div", y, size);
}

/* The operand with a last axis of 1 where it is real and the transform (kind) takes that, else of 2. */
static ir_value as_pairs(aten_args *c, char kind) {
  if (is_complex(&c->args[0])) return aten_read(c->a, &c->args[0]);
  ir_value x = aten_in(c, 0);
  td_dtype d = aten_value_dtype(c->a, x);
  if (!base_is_float(d)) d = TD_F32;
  if (kind != 'i') return aten_unsqueeze(c->a, ir_build_cast(c->b, x, d), -1);
  aten_value whole = aten_complex_of_real(c, x, d);
  return aten_read(c->a, &whole);
}

/* One axis; kind 'c': complex to complex, 'r': real to onesided, 'i': onesided to real. */
static ir_value along(aten_args *c, ir_value x, int64_t dim, aten_value n, char kind, bool inverse, const char *norm) {
  if (kind == 'i') {
    if (n.kind == ATEN_NONE)
      n = aten_int_op(c->a, "mul", aten_int_op(c->a, "sub", aten_size(c->a, x, dim), aten_int(1)), aten_int(2));
    return normalised(c, transform(c, x, dim, &n, true, true), &n, norm, true);
  }
  aten_value size = n.kind == ATEN_NONE ? aten_size(c->a, x, dim) : n;
  return normalised(c, transform(c, x, dim, &n, inverse, kind == 'r'), &size, norm, inverse);
}

/* fft_fft, ifft, rfft, irfft (self, n?, dim, norm?); data: kind, then "i" for the inverse */
aten_value aten_lower_fft(aten_args *c) {
  char kind = c->row->data[0];
  ir_value x = as_pairs(c, kind);
  int64_t dim = ir_build_axis(c->b, aten_get_int(c, 2), aten_rank(c->a, x) - 1);
  ir_value y = along(c, x, dim, c->args[1], kind, c->row->data[1] == 'i', aten_get_str(c, 3));
  return kind == 'i' ? aten_ret(c, aten_select(c->a, y, -1, 0)) : aten_of_complex(c->a, y);
}
/* hfft, ihfft and those of several axes: a real spectrum, from or to half of what it is the transform of. As irfft of
 * the conjugate, or the conjugate of rfft; what `norm` says of forward and backward is the other way round. data: that
 * one */
aten_value aten_lower_hermitian_fft(aten_args *c) {
  const bool to_half = strstr(c->row->data, "_rfft") != NULL;
  const char *norm = aten_get_str(c, 3);
  const bool forward = strcmp(norm, "forward") == 0, ortho = strcmp(norm, "ortho") == 0;
  aten_value args[] = {c->args[0], c->args[1], c->args[2], c->args[3]};
  if (!to_half) args[0] = aten_call(c->a, "aten::conj", NULL, args, 1, NULL, 0);
  if (!ortho) args[3] = aten_text(c->a, forward ? "backward" : "forward");
  aten_value y = aten_call(c->a, c->row->data, NULL, args, 4, NULL, 0);
  return to_half ? aten_call(c->a, "aten::conj", NULL, &y, 1, NULL, 0) : y;
}
/* fft_fft2, fftn and so on (self, s?, dim, norm?) */
aten_value aten_lower_fftn(aten_args *c) {
  char kind = c->row->data[0];
  bool inverse = c->row->data[1] == 'i';
  ir_value x = as_pairs(c, kind);
  int32_t rank = aten_rank(c->a, x) - 1;
  uint32_t sizes = aten_list_count(c, 1), count = aten_list_count(c, 2), given;
  int64_t dims[BASE_MAX_RANK];
  const int64_t *list = aten_get_ints(c, 2, &given);
  if (!aten_has(c, 2)) count = sizes ? sizes : (uint32_t)rank;
  if (count > (uint32_t)rank || (sizes && sizes != count)) aten_refuse(c, "%u axes, %u sizes", count, sizes);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  for (uint32_t i = 0; i < count; i++) dims[i] = list ? ir_build_axis(c->b, list[i], rank) : rank - (int64_t)count + i;
  const char *norm = aten_get_str(c, 3);
  const aten_value *items = aten_items(c, 1);
  /* what is real stands last: first of all from real numbers, last of all to them */
  for (uint32_t k = 0; k < count && !ir_build_failed(c->b); k++) {
    uint32_t i = kind == 'r' ? count - 1 - k : k;
    bool last = i == count - 1;
    aten_value n = sizes ? items[i] : ATEN_NOTHING;
    if (n.kind == ATEN_INT && aten_is_known(&n) && n.u.i == -1) n = ATEN_NOTHING;
    x = along(c, x, dims[i], n, last ? kind : 'c', inverse || kind == 'i', norm);
  }
  return kind == 'i' ? aten_ret(c, aten_select(c->a, x, -1, 0)) : aten_of_complex(c->a, x);
}

/* _fft_r2c(self, dim, normalization, onesided), _fft_c2r(self, dim, normalization, last_dim_size), _fft_c2c(self, dim,
 * normalization, forward); data: kind. The last axis named is the one that is real. normalization: none, by the root
 * of the number of elements, by that number. */
aten_value aten_lower_fft_core(aten_args *c) {
  static const char *const forward_norms[] = {"backward", "ortho", "forward"}, *const inverse_norms[] = {
                                                                                   "forward", "ortho", "backward"};
  char kind = c->row->data[0];
  uint32_t count;
  const int64_t *dims = aten_get_ints(c, 1, &count);
  int64_t norm = aten_get_int(c, 2);
  bool inverse = kind == 'i' || (kind == 'c' && !aten_get_bool(c, 3)), onesided = kind == 'r' && aten_get_bool(c, 3);
  ir_value x = as_pairs(c, kind);
  int32_t rank = aten_rank(c->a, x) - 1;
  if (norm < 0 || norm > 2) aten_refuse(c, "the normalisation %lld", (long long)norm);
  for (uint32_t k = 0; k < count && !ir_build_failed(c->b); k++) {
    uint32_t i = kind == 'r' ? count - 1 - k : k;
    bool last = i == count - 1;
    aten_value n = kind == 'i' && last ? c->args[3] : ATEN_NOTHING;
    x = along(c, x, ir_build_axis(c->b, dims[i], rank), n, last && (kind == 'i' || onesided) ? kind : 'c', inverse,
              (inverse ? inverse_norms : forward_norms)[norm]);
  }
  return kind == 'i' ? aten_ret(c, aten_select(c->a, x, -1, 0)) : aten_of_complex(c->a, x);
}

/* Pads at both ends of the last axis by `by`. */
static ir_value centred(aten_args *c, ir_value x, int64_t by, const char *mode) {
  int64_t pads[] = {by, by}, axis = aten_rank(c->a, x) - 1;
  ir_value at = ir_build_ints(c->b, pads, 2), on = ir_build_ints(c->b, &axis, 1);
  if (strcmp(mode, "reflect") == 0) return IR_EMIT(c->b, "aten::reflection_pad", x, at, on);
  return IR_EMIT(c->b, "aten::constant_pad_nd", x, at, aten_scalar_like(c->a, x, 0), on);
}
/* A window of `length` in the middle of a frame of n. */
static ir_value framed(aten_args *c, ir_value window, int64_t n, int64_t length) {
  if (length == n) return window;
  int64_t pads[] = {(n - length) / 2, n - length - (n - length) / 2}, axis = 0;
  return IR_EMIT(c->b, "aten::constant_pad_nd", window, ir_build_ints(c->b, pads, 2), aten_scalar_like(c->a, window, 0),
                 ir_build_ints(c->b, &axis, 1));
}
/* stft(self, n_fft, hop_length?, win_length?, window?, [center, pad_mode,] normalized, onesided?, return_complex?) */
aten_value aten_lower_stft(aten_args *c) {
  ir_value x = aten_in(c, 0), window = aten_has(c, 4) ? aten_in(c, 4) : IR_NO_VALUE;
  int64_t n = aten_get_int(c, 1), hop = aten_has(c, 2) ? aten_get_int(c, 2) : n / 4,
          length = aten_has(c, 3) ? aten_get_int(c, 3) : n;
  int64_t center = aten_position(c, "center"), mode = aten_position(c, "pad_mode"),
          norm = aten_position(c, "normalized"), one = aten_position(c, "onesided"),
          complex = aten_position(c, "return_complex");
  td_dtype d = aten_value_dtype(c->a, x);
  bool single = aten_rank(c->a, x) == 1,
       onesided = one < 0 || !aten_has(c, (uint32_t)one) || aten_get_bool(c, (uint32_t)one);
  if (n < 1 || n > (1 << 24) || hop < 1 || length < 1 || length > n) aten_refuse(c, "frames of %lld", (long long)n);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (single) x = aten_unsqueeze(c->a, x, 0);
  if (center >= 0 && aten_get_bool(c, (uint32_t)center))
    x = centred(c, x, n / 2, mode >= 0 ? aten_get_str(c, (uint32_t)mode) : "constant");
  if (!window.id) window = aten_full(c->a, ir_build_ints(c->b, &length, 1), ir_build_scalar(c->b, d, 1));
  window = framed(c, ir_build_cast(c->b, window, d), n, length);
  ir_value in[] = {aten_unsqueeze(c->a, x, -1), ir_build_int(c->b, hop), window, ir_build_int(c->b, n)};
  ir_value y = IR_EMIT_ARGS(c->b, "td::stft", in, 4, ARG_BOOL("onesided", onesided)); /* [batch, frames, bins, 2] */
  y = aten_swap(c->a, y, 1, 2);
  if (norm >= 0 && aten_get_bool(c, (uint32_t)norm)) y = aten_with_scalar(c->a, "aten::div", y, sqrt((double)n));
  if (single) y = aten_squeeze(c->a, y, 0);
  bool as_complex = complex >= 0 && aten_has(c, (uint32_t)complex) && aten_get_bool(c, (uint32_t)complex);
  return as_complex ? aten_of_complex(c->a, y) : aten_ret(c, y);
}

/* Frames [batch, n, count] added up, each `hop` behind the one before: [batch, n + (count - 1) hop] */
static ir_value overlapped(aten_args *c, ir_value frames, int64_t n, int64_t hop) {
  aten_value count = aten_size(c->a, frames, -1), one = aten_int(1);
  aten_value length = aten_int_op(
      c->a, "add", aten_int_op(c->a, "mul", aten_int_op(c->a, "sub", count, one), aten_int(hop)), aten_int(n));
  const aten_value size[] = {one, length};
  const int64_t kernel[] = {1, n}, stride[] = {1, hop};
  ir_value in[] = {frames, aten_vector(c->a, size, 2), ir_build_ints(c->b, kernel, 2)};
  ir_value y = IR_EMIT_ARGS(c->b, "aten::col2im", in, 3, ARG_INTS("strides", stride, 2));
  return aten_squeeze(c->a, aten_squeeze(c->a, y, 1), 1);
}
/* istft(self, n_fft, hop_length?, win_length?, window?, center, normalized, onesided?, length?, return_complex) */
aten_value aten_lower_istft(aten_args *c) {
  if (!is_complex(&c->args[0]) || aten_get_bool(c, 9)) aten_refuse(c, "of real numbers, or to complex ones");
  ir_value x = aten_read(c->a, &c->args[0]), window = aten_has(c, 4) ? aten_in(c, 4) : IR_NO_VALUE;
  int64_t n = aten_get_int(c, 1), hop = aten_has(c, 2) ? aten_get_int(c, 2) : n / 4,
          length = aten_has(c, 3) ? aten_get_int(c, 3) : n, edge = aten_get_bool(c, 5) ? n / 2 : 0;
  bool single = aten_rank(c->a, x) == 3, onesided = !aten_has(c, 7) || aten_get_bool(c, 7);
  td_dtype d = aten_value_dtype(c->a, x);
  if (n < 1 || n > (1 << 24) || hop < 1 || length < 1 || length > n) aten_refuse(c, "frames of %lld", (long long)n);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  if (single) x = aten_unsqueeze(c->a, x, 0);
  if (!window.id) window = aten_full(c->a, ir_build_ints(c->b, &length, 1), ir_build_scalar(c->b, d, 1));
  window = framed(c, ir_build_cast(c->b, window, d), n, length);
  ir_value frames = along(c, x, 1, aten_int(n), onesided ? 'i' : 'c', true, aten_get_bool(c, 6) ? "ortho" : "backward");
  frames = aten_select(c->a, frames, -1, 0); /* [batch, n, count] */
  ir_value column = aten_unsqueeze(c->a, window, -1), weight = aten_binary(c->a, "aten::mul", column, column);
  ir_value ones = aten_full(c->a, aten_shape(c->a, aten_slice(c->a, frames, 0, 0, 1, 1)), ir_build_scalar(c->b, d, 1));
  ir_value y = overlapped(c, aten_binary(c->a, "aten::mul", frames, column), n, hop),
           envelope = overlapped(c, aten_binary(c->a, "aten::mul", ones, weight), n, hop);
  aten_value end = aten_int_op(c->a, "sub", aten_size(c->a, y, -1), aten_int(edge)), start = aten_int(edge);
  if (aten_has(c, 8)) end = aten_int_op(c->a, "add", start, c->args[8]);
  ir_value range[] = {aten_vector(c->a, &start, 1), aten_vector(c->a, &end, 1), ir_build_ints(c->b, (int64_t[]){1}, 1)};
  y = aten_binary(c->a, "aten::div", IR_EMIT(c->b, "aten::slice", y, range[0], range[1], range[2]),
                  IR_EMIT(c->b, "aten::slice", envelope, range[0], range[1], range[2]));
  return aten_ret(c, single ? aten_squeeze(c->a, y, 0) : y);
}
