/* complex.c -- complex numbers, a last axis of [real, imaginary]: arithmetic, parts, Fourier transforms. Operators that
 * are not here refuse complex operands. */
#include "import/aten/aten_priv.h"

#include <math.h>
#include <string.h>

static bool is_complex(const aten_value *v) { return v->kind == ATEN_TENSOR && v->u.tensor->is_complex; }

typedef struct pair {
  ir_value re, im;
} pair;

static pair parts_of(aten_args *c, ir_value v) {
  return (pair){aten_select(c->a, v, -1, 0), aten_select(c->a, v, -1, 1)};
}
static ir_value joined(aten_args *c, pair p) {
  ir_value v[] = {aten_unsqueeze(c->a, p.re, -1), aten_unsqueeze(c->a, p.im, -1)};
  return aten_cat(c->a, v, 2, -1);
}
static ir_value op(aten_args *c, const char *name, ir_value x, ir_value y) { return aten_binary(c->a, name, x, y); }

/* Both parts broadcast together. */
static pair alike(aten_args *c, pair p) {
  const ir_type re = *ir_build_type(c->b, p.re), im = *ir_build_type(c->b, p.im);
  bool same = re.rank == im.rank;
  for (int32_t i = 0; i < re.rank && same; i++) same = re.dims[i] == im.dims[i];
  if (same || ir_build_failed(c->b)) return p;
  ir_value none = ir_build_scalar(c->b, TD_BOOL, 0);
  ir_value shape = aten_shape(c->a, aten_binary(c->a, "aten::logical_or", aten_full(c->a, aten_shape(c->a, p.re), none),
                                                aten_full(c->a, aten_shape(c->a, p.im), none)));
  return (pair){aten_expand(c->a, p.re, shape), aten_expand(c->a, p.im, shape)};
}

/* An operand as a pair of `d`: real tensors and numbers have no imaginary part. */
static pair operand(aten_args *c, const aten_value *v, td_dtype d) {
  if (is_complex(v)) return parts_of(c, ir_build_cast(c->b, aten_read(c->a, v), d));
  if (v->kind == ATEN_COMPLEX)
    return (pair){ir_build_scalar(c->b, d, v->u.complex.re), ir_build_scalar(c->b, d, v->u.complex.im)};
  return (pair){aten_as(c->a, v, d), ir_build_scalar(c->b, d, 0)};
}

aten_value aten_complex_binary(aten_args *c) {
  td_dtype d = TD_F32;
  for (uint32_t i = 0; i < 2; i++)
    if (is_complex(&c->args[i])) d = aten_promote_types(d, aten_value_dtype(c->a, aten_read(c->a, &c->args[i])));
  pair x = operand(c, &c->args[0], d), y = operand(c, &c->args[1], d), r = {IR_NO_VALUE, IR_NO_VALUE};
  const char *name = strstr(c->name, "::") ? strstr(c->name, "::") + 2 : c->name;
  if (strncmp(name, "add", 3) == 0) r = (pair){op(c, "aten::add", x.re, y.re), op(c, "aten::add", x.im, y.im)};
  else if (strncmp(name, "sub", 3) == 0) r = (pair){op(c, "aten::sub", x.re, y.re), op(c, "aten::sub", x.im, y.im)};
  else if (strncmp(name, "mul", 3) == 0 || strncmp(name, "multiply", 8) == 0) {
    r.re = op(c, "aten::sub", op(c, "aten::mul", x.re, y.re), op(c, "aten::mul", x.im, y.im));
    r.im = op(c, "aten::add", op(c, "aten::mul", x.re, y.im), op(c, "aten::mul", x.im, y.re));
  } else if (strncmp(name, "div", 3) == 0 && !is_complex(&c->args[1]) && c->args[1].kind != ATEN_COMPLEX)
    r = (pair){op(c, "aten::div", x.re, y.re), op(c, "aten::div", x.im, y.re)};
  else aten_refuse(c, "of complex numbers");
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  return aten_of_complex(c->a, joined(c, alike(c, r)));
}

/* mm, bmm, matmul: of the parts */
aten_value aten_complex_matmul(aten_args *c) {
  td_dtype d = TD_F32;
  for (uint32_t i = 0; i < 2; i++) d = aten_promote_types(d, aten_value_dtype(c->a, aten_read(c->a, &c->args[i])));
  pair x = operand(c, &c->args[0], d), y = operand(c, &c->args[1], d), r = {IR_NO_VALUE, IR_NO_VALUE};
  bool both = is_complex(&c->args[0]) && is_complex(&c->args[1]);
  if (ir_build_failed(c->b)) return ATEN_NOTHING;
  r.re = op(c, "aten::matmul", x.re, y.re);
  if (is_complex(&c->args[1])) r.im = op(c, "aten::matmul", x.re, y.im);
  else r.im = op(c, "aten::matmul", x.im, y.re);
  if (both) {
    r.re = op(c, "aten::sub", r.re, op(c, "aten::matmul", x.im, y.im));
    r.im = op(c, "aten::add", r.im, op(c, "aten::matmul", x.im, y.re));
  }
  return aten_of_complex(c->a, joined(c, r));
}

static ir_value magnitude(aten_args *c, pair p) {
  return IR_EMIT(c->b, "aten::sqrt",
                 op(c, "aten::add", op(c, "aten::mul", p.re, p.re), op(c, "aten::mul", p.im, p.im)));
}

aten_value aten_complex_unary(aten_args *c) {
  pair p = parts_of(c, aten_read(c->a, &c->args[0]));
  if (strcmp(c->row->data, "aten::abs") == 0) return aten_ret(c, magnitude(c, p));
  if (strcmp(c->row->data, "aten::exp") == 0) {
    ir_value size = IR_EMIT(c->b, "aten::exp", p.re);
    p = (pair){op(c, "aten::mul", size, IR_EMIT(c->b, "aten::cos", p.im)),
               op(c, "aten::mul", size, IR_EMIT(c->b, "aten::sin", p.im))};
    return aten_of_complex(c->a, joined(c, p));
  }
  if (strcmp(c->row->data, "aten::neg") == 0)
    return aten_of_complex(c->a, joined(c, (pair){IR_EMIT(c->b, "aten::neg", p.re), IR_EMIT(c->b, "aten::neg", p.im)}));
  aten_refuse(c, "of complex numbers");
  return ATEN_NOTHING;
}

/* ---- parts ---- */

/* real (data "0"), imag ("1"): views of the last axis */
aten_value aten_lower_complex_part(aten_args *c) {
  const aten_value *v = &c->args[0];
  int64_t which = c->row->data[0] - '0';
  if (!is_complex(v)) {
    if (which) aten_refuse(c, "of real numbers");
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
  if (is_complex(v) == to_complex) aten_refuse(c, "of %s numbers", to_complex ? "complex" : "real");
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
  return aten_of_complex(c->a, joined(c, alike(c, p)));
}
aten_value aten_lower_angle(aten_args *c) {
  if (is_complex(&c->args[0])) {
    pair p = parts_of(c, aten_read(c->a, &c->args[0]));
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
  return aten_of_complex(c->a, joined(c, (pair){re, im}));
}
aten_value aten_lower_conj(aten_args *c) {
  if (!is_complex(&c->args[0])) return c->args[0];
  pair p = parts_of(c, aten_read(c->a, &c->args[0]));
  return aten_of_complex(c->a, joined(c, (pair){p.re, IR_EMIT(c->b, "aten::neg", p.im)}));
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

/* The other half of a spectrum of n elements, from the onesided one: X[n - k] is X[k] conjugated. */
static ir_value whole_spectrum(aten_args *c, ir_value x, int64_t dim, const aten_value *n) {
  aten_value half = aten_int_op(c->a, "floor_divide", *n, aten_int(2)),
             kept = aten_int_op(c->a, "add", half, aten_int(1));
  aten_value rest = aten_int_op(c->a, "sub", *n, kept), zero = aten_int(0), one = aten_int(1),
             end = aten_int_op(c->a, "add", rest, one);
  ir_value axis = ir_build_ints(c->b, &dim, 1);
  ir_value front = IR_EMIT(c->b, "aten::slice", x, aten_vector(c->a, &zero, 1), aten_vector(c->a, &kept, 1), axis);
  ir_value back = IR_EMIT(c->b, "aten::slice", x, aten_vector(c->a, &one, 1), aten_vector(c->a, &end, 1), axis);
  back = IR_EMIT_ARGS(c->b, "aten::flip", &back, 1, ARG_INTS("dims", &dim, 1));
  float sign[] = {1, -1};
  base_tensor t = base_tensor_of(sign, TD_F32, 1, (int64_t[]){2});
  back = op(c, "aten::mul", back, ir_build_cast(c->b, ir_build_constant(c->b, &t), aten_value_dtype(c->a, x)));
  return aten_cat(c->a, (ir_value[]){front, back}, 2, dim);
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
    aten_value none = ATEN_NOTHING;
    ir_value y = transform(c, whole_spectrum(c, x, dim, &n), dim, &none, true, false);
    return normalised(c, y, &n, norm, true);
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
