#!/usr/bin/env python3
"""A decoder of random weights, Llama's shape, and how fast it is beside its peers.

    decoder.py write DIR [FORM...]     DIR/decoder_FORM.onnx, FORM: f32 int8 int4; and .gguf files of the same weights: f32 q8_0 q4_0
    decoder.py run DIR [WHO...]        tokens/s, one at a time and of a prompt of 512; WHO: treadle-f32, treadle-bf16, ort-int4, ...

The graph is that of ONNX Runtime's model builder: GroupQueryAttention with rotation, caches of keys and values as inputs and
outputs. A cache has room for 1,024 tokens; Treadle keeps it as session state, and in others outputs are bound to the memory of inputs
where they allow that.
Sizes: LAYERS (22), HIDDEN (2048), ... from the environment; the default has 1.1e9 weights, as TinyLlama. THREADS: 1.
Needs numpy, onnx; gguf to write .gguf; onnxruntime, openvino and llama-cpp-python are measured where they are installed."""
import os
import sys
import time

import numpy as np

SIZE = int(os.environ.get("SIZE", 64))  # of a head
HIDDEN = int(os.environ.get("HIDDEN", 2048))
LAYERS = int(os.environ.get("LAYERS", 22))
KV_HEADS = int(os.environ.get("KV_HEADS", 4))
INNER = int(os.environ.get("INNER", 5632))
VOCABULARY = int(os.environ.get("VOCABULARY", 32000))
HEADS = HIDDEN // SIZE
ROOM = 1024  # tokens of a cache
PROMPT, STEPS = int(os.environ.get("PROMPT", 512)), int(os.environ.get("STEPS", 32))
THREADS = int(os.environ.get("THREADS", 1))
EPSILON, BASE, BLOCK = 1e-5, 10000.0, 32
MS = "com.microsoft"


def layer_weights(layer):
    """Names and matrices [n, k] of a layer; norms are 1."""
    rng = np.random.default_rng(layer + 1)
    shapes = {"q": (HIDDEN, HIDDEN), "k": (KV_HEADS * SIZE, HIDDEN), "v": (KV_HEADS * SIZE, HIDDEN), "o": (HIDDEN, HIDDEN),
              "gate": (INNER, HIDDEN), "up": (INNER, HIDDEN), "down": (HIDDEN, INNER)}
    return {name: rng.standard_normal(shape, dtype=np.float32) / np.float32(np.sqrt(shape[1])) for name, shape in shapes.items()}


def outer_weights():
    rng = np.random.default_rng(0)
    return (rng.standard_normal((VOCABULARY, HIDDEN), dtype=np.float32),
            rng.standard_normal((VOCABULARY, HIDDEN), dtype=np.float32) / np.float32(np.sqrt(HIDDEN)))


def blocks_of(w, most):
    """Rows in blocks of BLOCK: whole numbers in [-most - 1, most] and their scales."""
    b = w.reshape(w.shape[0], -1, BLOCK)
    scale = np.abs(b).max(-1) / most
    q = np.rint(b / np.where(scale == 0, 1, scale)[..., None])
    return np.clip(q, -most - 1, most).astype(np.int8), scale.astype(np.float16).astype(np.float32)


# ---- ONNX ----

class Graph:
    def __init__(self, form, folder):
        self.form, self.nodes, self.initializers = form, [], []
        self.name = f"decoder_{form}.onnx"
        self.path = f"{folder}/{self.name}"
        self.data = open(self.path + ".data", "wb")

    def constant(self, name, array):
        """Large ones go to the file of weights."""
        import onnx
        if array.nbytes < 1024:
            self.initializers.append(onnx.numpy_helper.from_array(array, name))
            return name
        self.data.seek(-self.data.tell() % 64, 1)
        t = onnx.TensorProto(name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(array.dtype), dims=array.shape,
                             data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", self.name + ".data"), ("offset", self.data.tell()), ("length", array.nbytes)):
            t.external_data.add(key=key, value=str(value))
        self.data.write(np.ascontiguousarray(array).tobytes())
        self.initializers.append(t)
        return name

    def add(self, op, inputs, outputs, domain="", **attributes):
        import onnx
        self.nodes.append(onnx.helper.make_node(op, inputs, outputs, name=outputs[0] + "/" + op, domain=domain, **attributes))
        return outputs[0]

    def product(self, x, w, name):
        if self.form == "f32":
            return self.add("MatMul", [x, self.constant(name + ".weight", np.ascontiguousarray(w.T))], [name])
        bits = int(self.form[3:])
        q, scale = blocks_of(w, 7 if bits == 4 else 127)
        u = (q.astype(np.int16) + (1 << (bits - 1))).astype(np.uint8)
        if bits == 4:
            u = u[..., 0::2] | u[..., 1::2] << 4
        return self.add("MatMulNBits", [x, self.constant(name + ".weight", u), self.constant(name + ".scale", scale.reshape(-1))], [name],
                        MS, K=w.shape[1], N=w.shape[0], bits=bits, block_size=BLOCK, accuracy_level=int(os.environ.get("ACCURACY_LEVEL", 4)))


def write_onnx(folder, form):
    import onnx
    from onnx import TensorProto as T, helper
    g = Graph(form, folder)
    embeddings, head = outer_weights()
    angle = np.arange(ROOM)[:, None] / BASE ** (np.arange(0, SIZE, 2) / SIZE)[None]
    g.constant("cos", np.cos(angle).astype(np.float32)), g.constant("sin", np.sin(angle).astype(np.float32))
    g.constant("ones", np.ones(HIDDEN, np.float32)), g.constant("one", np.array([1], np.int64)), g.constant("axis", np.array([1], np.int64))
    g.add("ReduceSum", ["attention_mask", "axis"], ["length"], keepdims=0)
    g.add("Sub", ["length", "one"], ["last64"]), g.add("Cast", ["last64"], ["last"], to=T.INT32)
    g.add("Shape", ["attention_mask"], ["mask_shape"]), g.add("Gather", ["mask_shape", g.constant("index", np.array(1, np.int64))], ["total64"])
    g.add("Cast", ["total64"], ["total"], to=T.INT32)
    x = g.add("Gather", [g.constant("embeddings", embeddings), "input_ids"], ["embedded"])
    normed = g.add("SimplifiedLayerNormalization", [x, "ones"], ["norm"], epsilon=EPSILON, axis=-1)
    inputs = [helper.make_tensor_value_info(n, T.INT64, d) for n, d in (("input_ids", ["batch", "rows"]), ("attention_mask", ["batch", "total"]))]
    outputs = [helper.make_tensor_value_info("logits", T.FLOAT, ["batch", "rows", VOCABULARY])]
    for i in range(LAYERS):
        w, p = layer_weights(i), f"layer{i}."
        caches = [f"past.{i}.key", f"past.{i}.value"], [f"present.{i}.key", f"present.{i}.value"]
        inputs += [helper.make_tensor_value_info(n, T.FLOAT, ["batch", KV_HEADS, "past", SIZE]) for n in caches[0]]
        outputs += [helper.make_tensor_value_info(n, T.FLOAT, ["batch", KV_HEADS, "present", SIZE]) for n in caches[1]]
        q, k, v = (g.product(normed, w[n], p + n) for n in "qkv")
        g.add("GroupQueryAttention", [q, k, v, *caches[0], "last", "total", "cos", "sin"], [p + "attended", *caches[1]], MS,
              num_heads=HEADS, kv_num_heads=KV_HEADS, do_rotary=1)
        o = g.product(p + "attended", w["o"], p + "o")
        normed = g.add("SkipSimplifiedLayerNormalization", [x, o, "ones"], [p + "norm", "", "", p + "sum"], MS, epsilon=EPSILON)
        gate, up = g.product(normed, w["gate"], p + "gate"), g.product(normed, w["up"], p + "up")
        g.add("Sigmoid", [gate], [p + "sigmoid"]), g.add("Mul", [gate, p + "sigmoid"], [p + "silu"]), g.add("Mul", [p + "silu", up], [p + "gated"])
        down = g.product(p + "gated", w["down"], p + "down")
        normed = g.add("SkipSimplifiedLayerNormalization", [p + "sum", down, "ones"], [p + "norm2", "", "", p + "sum2"], MS, epsilon=EPSILON)
        x = p + "sum2"
    g.product(normed, head, "logits")
    g.data.close()
    graph = helper.make_graph(g.nodes, "decoder", inputs, outputs, g.initializers)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid(MS, 1)], ir_version=9), g.path)
    print(g.path, flush=True)


# ---- GGUF ----

def interleaved(w, heads):
    """Rows of a head in the order of llama.cpp's rotation, which takes neighbours."""
    return w.reshape(heads, 2, SIZE // 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)


def packed(w, form):
    """A matrix in blocks: the scale as f16, then bytes; halves of 4 bits 16 elements apart."""
    q, scale = blocks_of(w, 7 if form == "q4_0" else 127)
    scale = scale.astype(np.float16)[..., None].view(np.uint8)
    if form == "q4_0":
        u = (q + 8).astype(np.uint8)
        q = u[..., :16] | u[..., 16:] << 4
    return np.concatenate([scale, q.view(np.uint8)], -1).reshape(w.shape[0], -1)


def write_gguf(folder, form):
    import gguf
    kinds = {"f32": gguf.GGMLQuantizationType.F32, "q8_0": gguf.GGMLQuantizationType.Q8_0, "q4_0": gguf.GGMLQuantizationType.Q4_0}
    path = f"{folder}/decoder_{form}.gguf"
    out = gguf.GGUFWriter(path, "llama", use_temp_file=True)
    out.add_context_length(ROOM), out.add_embedding_length(HIDDEN), out.add_block_count(LAYERS), out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS), out.add_head_count_kv(KV_HEADS), out.add_layer_norm_rms_eps(EPSILON), out.add_rope_freq_base(BASE)
    out.add_rope_dimension_count(SIZE), out.add_vocab_size(VOCABULARY), out.add_tokenizer_model("none")

    def matrix(name, w):
        out.add_tensor(name, w if form == "f32" else packed(w, form), raw_dtype=kinds[form])

    embeddings, head = outer_weights()
    ones = np.ones(HIDDEN, np.float32)
    out.add_tensor("token_embd.weight", embeddings), out.add_tensor("output_norm.weight", ones), matrix("output.weight", head)
    for i in range(LAYERS):
        w, p = layer_weights(i), f"blk.{i}."
        w["q"], w["k"] = interleaved(w["q"], HEADS), interleaved(w["k"], KV_HEADS)
        out.add_tensor(p + "attn_norm.weight", ones), out.add_tensor(p + "ffn_norm.weight", ones)
        for name, to in {"q": "attn_q", "k": "attn_k", "v": "attn_v", "o": "attn_output", "gate": "ffn_gate", "up": "ffn_up", "down": "ffn_down"}.items():
            matrix(p + to + ".weight", w[name])
    out.write_header_to_file(), out.write_kv_data_to_file(), out.write_tensors_to_file(), out.close()
    print(path, flush=True)


# ---- runtimes: prompt(tokens) and step(token) give the last token's logits ----

class Cached:
    """Models whose caches are inputs and outputs, all of ROOM tokens: arrays that `call` writes over."""

    def __init__(self, names):
        self.caches = {n: np.zeros((1, KV_HEADS, ROOM, SIZE), np.float32) for n in names if n.startswith("past.")}
        self.used = 0

    def step(self, *tokens):
        self.used += len(tokens)
        feed = {"input_ids": np.array([tokens], np.int64), "attention_mask": np.ones((1, self.used), np.int64), **self.caches}
        return self.call(feed)[0, -1]

    def prompt(self, tokens):
        self.used = 0
        return self.step(*tokens)


class Treadle(Cached):
    """The caches are session state."""

    def __init__(self, folder, form):
        import treadle
        file, options = {"bf16": ("f32", {"precision": "bf16"})}.get(form, (form, {}))
        self.model = treadle.load(f"{folder}/decoder_{file}.onnx", state=f"auto past={ROOM}", **options)
        self.session = self.model.session(threads=THREADS)
        super().__init__([])

    def call(self, feed):
        return self.session(**feed)


class OnnxRuntime(Cached):
    def __init__(self, folder, form):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = THREADS
        self.session = onnxruntime.InferenceSession(f"{folder}/decoder_{form}.onnx", options, providers=["CPUExecutionProvider"])
        super().__init__([v.name for v in self.session.get_inputs()])
        self.binding = self.session.io_binding()
        for name, cache in self.caches.items():
            value = onnxruntime.OrtValue.ortvalue_from_numpy(cache)
            self.binding.bind_ortvalue_input(name, value)
            self.binding.bind_ortvalue_output(name.replace("past", "present"), value)

    def call(self, feed):
        for name in ("input_ids", "attention_mask"):
            self.binding.bind_cpu_input(name, feed[name])
        self.binding.bind_output("logits")
        self.session.run_with_iobinding(self.binding)
        return self.binding.get_outputs()[-1].numpy()


class OpenVino(Cached):
    def __init__(self, folder, form):
        import openvino
        core = openvino.Core()
        model = core.read_model(f"{folder}/decoder_{form}.onnx")
        options = {"INFERENCE_NUM_THREADS": THREADS, "PERFORMANCE_HINT": "LATENCY", "NUM_STREAMS": 1, "CACHE_DIR": ""}
        self.request = core.compile_model(model, "CPU", options).create_infer_request()
        super().__init__([i.get_any_name() for i in model.inputs])

    def call(self, feed):
        results = self.request.infer(feed, share_inputs=True, share_outputs=True)
        for name in self.caches:
            self.caches[name] = np.array(results[name.replace("past", "present")])  # of which the next call may write over
        return results["logits"]


class LlamaCpp:
    def __init__(self, folder, form):
        import llama_cpp
        form = {"int8": "q8_0", "int4": "q4_0"}.get(form, form)
        self.model = llama_cpp.Llama(f"{folder}/decoder_{form}.gguf", n_ctx=ROOM, n_batch=ROOM, n_threads=THREADS, n_threads_batch=THREADS,
                                     logits_all=False, verbose=False)
        self.lib = llama_cpp

    def prompt(self, tokens):
        self.model.reset()
        return self.step(*tokens)

    def step(self, *tokens):
        self.model.eval(tokens)
        return np.ctypeslib.as_array(self.lib.llama_get_logits(self.model.ctx), shape=(VOCABULARY,))


RUNTIMES = {"treadle": Treadle, "ort": OnnxRuntime, "openvino": OpenVino, "llama.cpp": LlamaCpp}


def measure(contender, tokens):
    """Tokens/s of a prompt, of the steps behind it, and their logits."""
    began = time.perf_counter()
    contender.prompt(tokens)
    prompt, times = time.perf_counter() - began, []
    for i in range(STEPS):
        began = time.perf_counter()
        logits = contender.step(int(tokens[i]))
        times.append(time.perf_counter() - began)
    return len(tokens) / prompt, 1 / np.median(times), np.array(logits, np.float32)


def run(folder, names):
    tokens = [int(t) for t in np.random.default_rng(7).integers(0, VOCABULARY, PROMPT)]
    contenders = {name: RUNTIMES[name.rsplit("-", 1)[0]](folder, name.rsplit("-", 1)[1]) for name in names}
    best, first = {name: [0, 0] for name in names}, None
    for _ in range(int(os.environ.get("ROUNDS", 3))):  # interleaved: other work on the machine hits all alike
        for name, contender in contenders.items():
            prompt, step, logits = measure(contender, tokens)
            best[name] = [max(best[name][0], prompt), max(best[name][1], step), logits]
            first = logits if first is None else first
    print(f"{'':18} prompt of {PROMPT}  one at a time   largest difference to {names[0]}, of {np.abs(first).max():.1f}")
    for name, (prompt, step, logits) in best.items():
        print(f"{name:18} {prompt:9.1f}/s {step:13.2f}/s   {np.abs(logits - first).max():.3f}", flush=True)


def main():
    if len(sys.argv) < 3 or sys.argv[1] not in ("write", "run"):
        sys.exit(__doc__)
    names = sys.argv[3:]
    if sys.argv[1] == "run":
        return run(sys.argv[2], names or ["treadle-int4", "ort-int4", "openvino-int4", "llama.cpp-int4"])
    os.makedirs(sys.argv[2], exist_ok=True)
    for form in names or ("f32", "int8", "int4"):
        write_onnx(sys.argv[2], form)
        write_gguf(sys.argv[2], {"int8": "q8_0", "int4": "q4_0"}.get(form, form))


if __name__ == "__main__":
    main()
