/* lower_signal.c -- ONNX's Fourier transforms, windows and mel filters, and com.microsoft's Rfft and Irfft. */
#include "import/onnx/onnx_priv.h"

static ir_value dft(onnx_node *n, ir_value x, ir_value length, ir_value axis, bool inverse, bool onesided) {
  ir_value in[] = {x, length, axis};
  return ONNX_EMIT_ARGS(n, "td::dft", in,
                        axis.id     ? 3
                        : length.id ? 2
                                    : 1,
                        ARG_BOOL("inverse", inverse), ARG_BOOL("onesided", onesided));
}

/* Until opset 20 the axis was an attribute, 1 by default. */
static void lower_dft17(onnx_node *n) {
  ir_value axis = onnx_int(n, onnx_attr_int(n, "axis", 1));
  onnx_out(n, 0,
           dft(n, onnx_in(n, 0), onnx_in(n, 1), axis, onnx_attr_int(n, "inverse", 0), onnx_attr_int(n, "onesided", 0)));
}

static void lower_dft(onnx_node *n) {
  onnx_out(n, 0,
           dft(n, onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_attr_int(n, "inverse", 0),
               onnx_attr_int(n, "onesided", 0)));
}

static void lower_stft(onnx_node *n) {
  ir_value in[] = {onnx_in(n, 0), onnx_in(n, 1), onnx_in(n, 2), onnx_in(n, 3)};
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::stft", in, onnx_in_count(n) < 4 ? onnx_in_count(n) : 4,
                          ARG_BOOL("onesided", onnx_attr_int(n, "onesided", 1) != 0)));
}

static void window(onnx_node *n, double a0, double a1, double a2) {
  ir_value size = onnx_in(n, 0);
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::window", &size, 1, ARG_BOOL("periodic", onnx_attr_int(n, "periodic", 1) != 0),
                          ARG_FLOAT("a0", a0), ARG_FLOAT("a1", a1), ARG_FLOAT("a2", a2),
                          ARG_DTYPE("dtype", onnx_dtype(n, onnx_attr_int(n, "output_datatype", 1)))));
}
static void lower_hann(onnx_node *n) { window(n, 0.5, 0.5, 0); }
static void lower_hamming(onnx_node *n) { window(n, 25.0 / 46, 21.0 / 46, 0); }
static void lower_blackman(onnx_node *n) { window(n, 0.42, 0.5, 0.08); }

static void lower_mel(onnx_node *n) {
  ir_value in[5];
  for (uint32_t i = 0; i < 5; i++) in[i] = onnx_in(n, i);
  onnx_out(n, 0,
           ONNX_EMIT_ARGS(n, "td::mel_weights", in, 5,
                          ARG_DTYPE("dtype", onnx_dtype(n, onnx_attr_int(n, "output_datatype", 1)))));
}

/* One signal axis, the last; half the spectrum. */
static bool one_axis(onnx_node *n) {
  if (onnx_attr_int(n, "signal_ndim", 1) == 1 && onnx_attr_int(n, "onesided", 1) == 1 &&
      onnx_attr_int(n, "normalized", 0) == 0)
    return true;
  onnx_fail(n, TD_UNSUPPORTED, "only one-sided transforms of one axis without normalisation are supported");
  return false;
}

static void lower_rfft(onnx_node *n) {
  int64_t last[] = {-1};
  if (!one_axis(n)) return;
  ir_value x = ONNX_EMIT(n, "aten::unsqueeze", onnx_in(n, 0), onnx_ints(n, last, 1));
  onnx_out(n, 0, dft(n, x, IR_NO_VALUE, onnx_int(n, -2), false, true));
}

static void lower_irfft(onnx_node *n) {
  int64_t last[] = {-1};
  if (!one_axis(n)) return;
  ir_value y = dft(n, onnx_in(n, 0), IR_NO_VALUE, onnx_int(n, -2), true, true);
  onnx_out(n, 0, ONNX_EMIT(n, "aten::squeeze", y, onnx_ints(n, last, 1)));
}

ONNX_DECLARE(signal);
const onnx_lowering onnx_lower_signal[] = {
    {"", "DFT", 17, lower_dft17},
    {"", "DFT", 20, lower_dft},
    {"", "STFT", 17, lower_stft},
    {"", "HannWindow", 17, lower_hann},
    {"", "HammingWindow", 17, lower_hamming},
    {"", "BlackmanWindow", 17, lower_blackman},
    {"", "MelWeightMatrix", 17, lower_mel},
    {"com.microsoft", "Rfft", 1, lower_rfft},
    {"com.microsoft", "Irfft", 1, lower_irfft},
};
ONNX_TABLE(signal);
