#!/usr/bin/env python3
"""Writes the cases of this folder: one node each, with random inputs and the outputs that ONNX Runtime gives for them; what
ONNX's own node tests leave out, and com.microsoft's operators. Every size of an input is open but where `fixed` says
otherwise. Needs onnx, onnxruntime and numpy; `treadle check` reads the result, so that running the tests needs none."""
import itertools
import json
import os
import shutil

import numpy as np
import onnx
import onnxruntime
from onnx import helper as h
from onnx import numpy_helper as nh

ROOT = os.path.dirname(os.path.abspath(__file__))
MS = "com.microsoft"
random = np.random.default_rng(0)


def f(*shape):
    return random.standard_normal(shape).astype(np.float32)


def u8(*shape):
    return random.integers(0, 256, shape).astype(np.uint8)


def i8(*shape):
    return random.integers(-128, 128, shape).astype(np.int8)


def bits(*shape):
    return random.integers(0, 2, shape).astype(np.int32)


def n(value, dtype=np.float32):
    return np.array(value, dtype)


def save(name, op, inputs, outputs=1, domain="", opset=17, constant=(), fixed=False, **attributes):
    """`inputs`: arrays, None where absent; `constant`: the positions of those that are initializers."""
    names = [f"i{k}" if x is not None else "" for k, x in enumerate(inputs)]
    while not names[-1]:
        names.pop()
    results = [f"o{k}" for k in range(outputs)]
    fed = [k for k, x in enumerate(inputs) if x is not None and k not in constant]
    values = [h.make_tensor_value_info(names[k], h.np_dtype_to_tensor_dtype(inputs[k].dtype),
                                       inputs[k].shape if fixed else [f"d{k}_{i}" for i in range(inputs[k].ndim)]) for k in fed]
    graph = h.make_graph([h.make_node(op, names, results, domain=domain, **attributes)], "g", values,
                         [onnx.ValueInfoProto(name=r) for r in results], [nh.from_array(inputs[k], names[k]) for k in constant])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", opset)] + [h.make_opsetid(domain, 1)] * bool(domain),
                         ir_version=8 if opset < 21 else 10)
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    recorded = session.run(None, {names[k]: inputs[k] for k in fed})
    folder = f"{ROOT}/{name}/test_data_set_0"
    shutil.rmtree(f"{ROOT}/{name}", ignore_errors=True)
    os.makedirs(folder)
    onnx.save(model, f"{ROOT}/{name}/model.onnx")
    with open(f"{ROOT}/{name}/data.json", "w") as file:
        json.dump({"rtol": 1e-3, "atol": 1e-5}, file)
    for i, k in enumerate(fed):
        onnx.save_tensor(nh.from_array(inputs[k], names[k]), f"{folder}/input_{i}.pb")
    for i, value in enumerate(recorded):
        onnx.save_tensor(nh.from_array(np.asarray(value), results[i]), f"{folder}/output_{i}.pb")


def products():
    save("matmul_row_by_batch", "MatMul", [f(5), f(2, 5, 3)])
    save("matmul_broadcast", "MatMul", [f(2, 1, 3, 4), f(5, 4, 2)])
    save("gemm6_transposed", "Gemm", [f(5, 4), f(6, 5), f(4, 1)], opset=9, transA=1, transB=1, alpha=0.3, beta=1.7)
    for equation, shapes in (("abc,ab->", [(2, 3, 4), (2, 3)]), ("ijk,ilm,njm,nlk->i", [(2, 3, 4), (2, 5, 6), (7, 3, 6), (7, 5, 4)]),
                             ("ii->i", [(4, 4)]), ("a...b->b...a", [(2, 3, 4)])):
        save("einsum_" + "".join(c if c.isalpha() else "_" for c in equation), "Einsum", [f(*s) for s in shapes], equation=equation)
    for a, b in itertools.product((0, 1), (0, 1)):
        save(f"fused_matmul_{a}{b}", "FusedMatMul", [f(2, 5, 4) if a else f(2, 4, 5), f(2, 6, 5) if b else f(2, 5, 6)], domain=MS,
             transA=a, transB=b, alpha=0.5)
    save("fused_matmul_batches", "FusedMatMul", [f(4, 2, 5), f(5, 2, 6)], domain=MS, transBatchA=1, transBatchB=1)
    save("fused_gemm_leaky", "FusedGemm", [f(3, 4), f(4, 5), f(5)], domain=MS, activation="LeakyRelu", activation_alpha=0.2, alpha=0.7)
    for kind, zeros in ((2, None), (4, "u8"), (4, "f"), (8, "u8")):
        blocks = 3
        z = None if zeros is None else u8(5, (blocks * kind + 7) // 8) if zeros == "u8" else f(5, blocks)
        save(f"matmul_nbits_{kind}_{zeros}", "MatMulNBits", [f(2, 70), u8(5, blocks, 4 * kind), np.abs(f(5, blocks)), z], domain=MS,
             constant=(1, 2, 3) if zeros else (1, 2), K=70, N=5, bits=kind, block_size=32)
    save("gather_block_quantized", "GatherBlockQuantized", [u8(6, 16), random.integers(0, 6, (2, 3)), np.abs(f(6, 2)), u8(6, 1)],
         domain=MS, constant=(0, 2, 3), gather_axis=0, quantize_axis=1, block_size=16, bits=4)


def quantised():
    for name, a, b in (("uu", u8, u8), ("ui", u8, i8), ("ii", i8, i8)):
        save(f"integer_to_float_{name}", "MatMulIntegerToFloat", [a(2, 7, 8), b(8, 6), n(0.02), np.abs(f(6)), a(), b(6), f(6)], domain=MS)
        save(f"qgemm_{name}", "QGemm", [a(7, 8), n(0.02), a(), b(8, 6), n(0.03), b(), random.integers(-999, 999, 6).astype(np.int32),
                                        n(0.5), a()], domain=MS, constant=(3, 4, 5))
        save(f"qlinear_matmul_{name}", "QLinearMatMul", [a(5, 8), n(0.02), a(), b(8, 7), np.abs(f(7)) * 0.05, b(7), n(0.9), a()],
             constant=(3, 4, 5))
        zero = np.full(6, 128, np.uint8) if b is u8 else np.zeros(6, np.int8)
        save(f"qlinear_conv_{name}", "QLinearConv", [a(1, 4, 5, 6), n(0.02), a(), b(6, 2, 3, 3), np.abs(f(6)) * 0.05, zero, n(0.9), a()],
             constant=(1, 2, 3, 4, 5, 6, 7), group=2, strides=[2, 1], pads=[1, 1, 0, 1])
    save("qgemm_float", "QGemm", [u8(7, 8), n(0.02), u8(), i8(6, 8), np.abs(f(6)) * 0.01, np.zeros(6, np.int8), None, None, None],
         domain=MS, constant=(3, 4, 5), transB=1, alpha=0.5)
    save("dynamic_quantize_matmul", "DynamicQuantizeMatMul", [f(2, 3, 8), i8(8, 6), np.abs(f(6)), i8(6), f(6)], domain=MS)
    for last in (0, 1):
        save(f"qlinear_average_pool_{last}", "QLinearAveragePool", [u8(1, 3, 6, 5), n(0.02), u8(), n(0.025), u8()], domain=MS, fixed=True,
             channels_last=last, kernel_shape=[2, 3], pads=[1, 1, 0, 1], strides=[2, 1], count_include_pad=last)
        save(f"qlinear_global_pool_{last}", "QLinearGlobalAveragePool", [i8(1, 3, 6, 5), n(0.02), i8(), n(0.01), i8()], domain=MS,
             fixed=True, channels_last=last)
    size = 4
    for name, weights, columns in (("whole", u8, 1), ("columns", i8, 4 * size)):
        shape = (1,) if columns == 1 else (1, columns)
        zero = np.full(shape, 128, np.uint8) if weights is u8 else np.zeros(shape, np.int8)
        scale = np.full(shape, 0.01, np.float32)
        save(f"dynamic_quantize_lstm_{name}", "DynamicQuantizeLSTM",
             [f(3, 1, 5), weights(1, 5, 4 * size), weights(1, size, 4 * size), f(1, 8 * size), None, None, None, None, scale, zero, scale,
              zero], outputs=3, domain=MS, constant=(1, 2, 8, 9, 10, 11), hidden_size=size)


def windows():
    for pad, stride in itertools.product(("SAME_UPPER", "SAME_LOWER"), ([1, 1], [2, 3])):
        tail = f"{pad.lower()}_{stride[0]}"
        save(f"conv_{tail}", "Conv", [f(1, 4, 6, 7), f(2, 2, 3, 2)], auto_pad=pad, strides=stride, group=2)
        save(f"conv_transpose_{tail}", "ConvTranspose", [f(1, 2, 3, 4), f(2, 1, 3, 2), f(2)], auto_pad=pad, strides=stride, group=2)
        save(f"max_pool_{tail}", "MaxPool", [f(1, 2, 6, 7)], outputs=2, auto_pad=pad, strides=stride, kernel_shape=[3, 2])
        save(f"lp_pool_{tail}", "LpPool", [f(1, 2, 6, 7)], auto_pad=pad, strides=stride, kernel_shape=[3, 3], p=3)
    for ceil, order in itertools.product((0, 1), (0, 1)):
        save(f"max_pool_ceil{ceil}_order{order}", "MaxPool", [f(1, 2, 7, 6)], outputs=2, kernel_shape=[3, 3], strides=[2, 2],
             pads=[1, 1, 1, 1], ceil_mode=ceil, storage_order=order, dilations=[1, 2])
        save(f"average_pool_ceil{ceil}_pad{order}", "AveragePool", [f(1, 2, 7, 6)], opset=19, kernel_shape=[3, 3], strides=[3, 2],
             pads=[1, 0, 1, 2], ceil_mode=ceil, count_include_pad=order, dilations=[2, 1])
    save("max_pool_solid", "MaxPool", [f(1, 2, 4, 5, 4)], outputs=2, kernel_shape=[2, 3, 2], strides=[2, 1, 2], pads=[0, 1, 1, 1, 1, 0],
         storage_order=1)
    save("conv_line", "Conv", [f(2, 3, 12), f(4, 3, 3)], dilations=[3], strides=[2], pads=[2, 3])
    save("conv_transpose_line", "ConvTranspose", [f(1, 3, 5), f(3, 2, 4)], strides=[3], output_padding=[2], pads=[1, 2])
    save("conv_transpose_size", "ConvTranspose", [f(1, 2, 3, 4), f(2, 1, 3, 3)], strides=[2, 2], output_shape=[6, 8])
    for activation, params in (("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.8]), ("HardSigmoid", [0.3, 0.4]), ("Tanh", [])):
        extra = {"activation_params": params} if params else {}
        save(f"fused_conv_{activation.lower()}", "FusedConv", [f(1, 2, 4, 4), f(3, 2, 3, 3), f(3)], domain=MS, activation=activation, **extra)
    save("fused_conv_sum", "FusedConv", [f(1, 2, 4, 4), f(3, 2, 3, 3), f(3), f(1, 3, 2, 2)], domain=MS, activation="Relu")
    save("nhwc_max_pool", "NhwcMaxPool", [u8(1, 6, 5, 2)], domain=MS, fixed=True, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    corner = np.abs(f(3, 2)) * 2
    boxes = np.concatenate([corner, corner + np.abs(f(3, 2)) * 4], 1).astype(np.float32)
    image = np.array([[0], [1], [1]], np.float32)
    save("max_roi_pool", "MaxRoiPool", [f(2, 2, 6, 7), np.concatenate([image, np.round(boxes)], 1)], pooled_shape=[3, 2], spatial_scale=0.8)
    save("roi_align_old", "RoiAlign", [f(2, 2, 6, 7), boxes, np.array([0, 1, 1])], opset=10, output_height=3, output_width=2,
         spatial_scale=0.7)
    save("deform_conv", "DeformConv", [f(1, 4, 4, 5), f(6, 2, 2, 2), f(1, 16, 3, 4), f(6), f(1, 8, 3, 4)], opset=19, group=2, offset_group=2)


def recurrences():
    time, batch, size, hidden = 4, 3, 2, 3
    for op, gates in (("RNN", 1), ("GRU", 3), ("LSTM", 4)):
        for direction in ("reverse", "bidirectional"):
            d = 1 + (direction == "bidirectional")
            inputs = [f(time, batch, size), f(d, gates * hidden, size), f(d, gates * hidden, hidden), f(d, 2 * gates * hidden),
                      np.array([4, 2, 1], np.int32), f(d, batch, hidden)]
            if op == "LSTM":
                inputs += [f(d, batch, hidden), f(d, 3 * hidden)]
            outputs = 3 if op == "LSTM" else 2
            save(f"{op.lower()}_{direction}", op, inputs, outputs, opset=14, hidden_size=hidden, direction=direction, clip=0.7)
        if op == "GRU":
            save("gru_after", op, inputs, 2, hidden_size=hidden, direction=direction, linear_before_reset=1)
            save("gru_activations", op, inputs, 2, hidden_size=hidden, direction=direction, activations=["HardSigmoid", "ScaledTanh"] * 2,
                 activation_alpha=[0.3, 0.5] * 2, activation_beta=[0.4, 1.2] * 2)
        if op == "LSTM":
            save("lstm_activations", op, inputs, 3, hidden_size=hidden, direction=direction,
                 activations=["Sigmoid", "LeakyRelu", "Softsign"] * 2, activation_alpha=[0.3] * 2)
            save("lstm_input_forget", op, inputs, 3, hidden_size=hidden, direction=direction, input_forget=1)


def attention():
    b, s, heads, size = 2, 4, 2, 4
    wide = heads * size
    x, w, bias = f(b, s, wide), f(wide, 3 * wide), f(3 * wide)
    past = f(2, b, heads, 3, size)
    for name, extra, more in (("plain", [], {}), ("causal", [], {"unidirectional": 1}), ("lengths", [np.array([2, 4], np.int32)], {}),
                              ("keys", [bits(b, s)], {}), ("rows", [bits(b, s, s)], {"mask_filter_value": -100.0}),
                              ("bias", [bits(b, s), None, f(1, heads, s, s)], {"scale": 0.7})):
        save(f"attention_{name}", "Attention", [x, w, bias] + extra, domain=MS, constant=(1, 2), num_heads=heads, **more)
    save("attention_past", "Attention", [x, w, bias, None, past], 2, domain=MS, constant=(1, 2), num_heads=heads, unidirectional=1)
    save("attention_sizes", "Attention", [x, f(wide, 4 * wide), f(4 * wide)], domain=MS, constant=(1, 2), num_heads=heads,
         qkv_hidden_sizes=[wide, wide, 2 * wide])
    save("qattention", "QAttention", [u8(b, s, wide), u8(wide, 3 * wide), bias, n(0.02), n(0.01), bits(b, s), n(120, np.uint8),
                                      n(130, np.uint8)], domain=MS, constant=(1,), num_heads=heads)
    q, k, v = f(b, s, wide), f(b, 5, wide), f(b, 5, wide)
    old = [f(b, heads, 3, size), f(b, heads, 3, size)]
    for name, inputs, outputs, more in (
            ("plain", [q, k, v], 1, {}), ("bias", [q, k, v, f(3 * wide)], 1, {}), ("keys", [q, k, v, None, bits(b, 5)], 1, {}),
            ("rows", [q, k, v, None, bits(b, s, 5), f(1, heads, s, 5)], 1, {}), ("heads", [q, f(b, heads, 5, size), f(b, heads, 5, size)], 1, {}),
            ("past", [q, f(b, s, wide), f(b, s, wide), None, None, None] + old, 3, {"unidirectional": 1})):
        save(f"multi_head_{name}", "MultiHeadAttention", inputs, outputs, domain=MS, fixed=name == "bias", num_heads=heads, **more)


def group_query():
    b, s, heads, kv, size, room = 2, 3, 4, 2, 16, 5
    cos, sin = np.cos(f(9, size // 2)), np.sin(f(9, size // 2))

    def new(rows):
        return [f(b, rows, heads * size), f(b, rows, kv * size), f(b, rows, kv * size)]

    def keys(*counts):
        return [np.array(counts, np.int32) - 1, n(max(counts), np.int32)]

    def case(name, inputs, **more):
        save(f"group_query_{name}", "GroupQueryAttention", inputs, 3, domain=MS, num_heads=heads, kv_num_heads=kv, **more)

    past = [f(b, kv, room, size), f(b, kv, room, size)]
    case("prompt", new(s) + [None, None] + keys(3, 2))
    case("packed", [f(b, s, (heads + 2 * kv) * size), None, None, None, None] + keys(3, 3) + [cos, sin], do_rotary=1)
    case("step", new(1) + past + keys(6, 4) + [cos, sin], do_rotary=1, rotary_interleaved=1)
    case("window", new(1) + past + keys(6, 6) + [cos, sin], do_rotary=1, local_window_size=3, softcap=2.0, scale=0.4)
    case("smooth", new(s) + [None, None] + keys(3, 3), smooth_softmax=1)
    at = random.integers(0, 9, (b, s))
    save("rotary_rows", "RotaryEmbedding", [f(b, s, heads * size), at, cos, sin], domain=MS, fixed=True)
    save("rotary_heads", "RotaryEmbedding", [f(b, heads, s, size), at, cos, sin], domain=MS, interleaved=1)
    save("rotary_part", "RotaryEmbedding", [f(b, s, heads * 24), n([3], np.int64), cos, sin], domain=MS, num_heads=heads,
         rotary_embedding_dim=size)


def images():
    x = f(1, 1, 5, 6)
    for mode, at in itertools.product(("nearest", "linear", "cubic"), ("half_pixel", "pytorch_half_pixel", "asymmetric")):
        for k, scales in enumerate(([1, 1, 2, 3], [1, 1, 0.6, 0.7])):
            save(f"resize_{mode}_{at}_{k}", "Resize", [x, None, n(scales)], opset=13, constant=(2,), mode=mode,
                 coordinate_transformation_mode=at)
        save(f"resize_{mode}_{at}_sizes", "Resize", [x, None, None, np.array([1, 1, 4, 11])], opset=13, fixed=True, mode=mode,
             coordinate_transformation_mode=at, nearest_mode="floor")
    save("resize_crop", "Resize", [x, n([0, 0, 0.2, 0.3, 1, 1, 0.8, 1.2]), None, np.array([1, 1, 4, 5])], opset=13, fixed=True, mode="linear",
         coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=7.0)
    save("resize_first", "Resize", [x, n([1, 1, 2, 0.5])], opset=10, mode="linear")
    save("upsample_attribute", "Upsample", [x], opset=7, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest")
    for mode, padding in itertools.product(("linear", "cubic", "nearest"), ("border", "reflection")):
        save(f"grid_{mode}_{padding}", "GridSample", [f(1, 2, 4, 5), f(1, 3, 2, 2)], opset=20, mode=mode, padding_mode=padding)
    save("grid_ms", "GridSample", [f(1, 2, 4, 5), f(1, 3, 2, 2)], domain=MS, mode="bilinear", padding_mode="zeros", align_corners=1)
    save("dft_prime", "DFT", [f(2, 7, 1)], onesided=1)
    save("dft_cut", "DFT", [f(2, 9, 1), n(6, np.int64)], axis=1)


def early():
    """Operators on trial until ONNX 1.4, which Core ML's converters and PyTorch 1.1 wrote."""
    save("early_affine", "Affine", [f(2, 3)], opset=7, alpha=1.5, beta=-0.5)
    save("early_image_scaler", "ImageScaler", [f(2, 3, 4, 5)], opset=7, scale=0.5, bias=[1.0, -2.0, 3.0])
    save("early_crop", "Crop", [f(1, 2, 6, 7)], opset=7, border=[1, 0, 2, 3])
    save("early_crop_sizes", "Crop", [f(1, 2, 6, 7)], opset=7, border=[1, 2, 0, 0], scale=[3, 4])
    save("early_scaled_tanh", "ScaledTanh", [f(4, 5)], opset=7, alpha=2.0, beta=0.5)
    save("early_parametric_softplus", "ParametricSoftplus", [f(4, 5)], opset=7, alpha=2.0, beta=0.5)
    save("early_dynamic_slice", "DynamicSlice", [f(4, 6), n([1, -3], np.int64), n([9, -1], np.int64), n([0, 1], np.int64)], opset=9)


def others():
    save("global_max_line", "GlobalMaxPool", [f(2, 3, 37)])
    save("global_average_line", "GlobalAveragePool", [f(2, 3, 37)])
    save("inverse", "Inverse", [f(2, 4, 4)], domain=MS)


products()
quantised()
windows()
recurrences()
attention()
group_query()
images()
others()
early()
