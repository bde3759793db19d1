"""The long suite of ./dev test-python: PyTorch's own samples of operators, and whole models, on Treadle and on PyTorch.

    suite.py ops [--samples N] [--only NAME] [--seconds S] [--write docs/operators.md]
    suite.py models [--only NAME]
    suite.py decoding

Each prints a row for what does not agree, with its reason, then `N passed, N failed`."""

import argparse
import collections
import pathlib
import re
import sys
import time
import warnings

import torch

import treadle
from treadle import _torch

BEGIN, END = "<!-- samples: written by ./dev test-python ops --write -->", "<!-- end of samples -->"


def say(*words):
    print(*words, flush=True)


def finish(passed, failed):
    say(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


def reason_of(texts):
    text = texts[0].partition("runs on PyTorch: ")[2]
    return re.sub(r"^model: |node [^ ]* |\([^)]*call[^)]*\)", "", text)[:160]


def differ(got, want, tolerance):
    """Why the two do not agree; None: they do."""
    got, want = torch.utils._pytree.tree_leaves(got), torch.utils._pytree.tree_leaves(want)
    if len(got) != len(want):
        return f"{len(got)} results instead of {len(want)}"
    for a, b in zip(got, want):
        if not isinstance(b, torch.Tensor):
            continue
        try:
            near = tolerance or (1e-5 if b.is_floating_point() else 0)  # functions of integers give floats
            torch.testing.assert_close(a, b, rtol=near, atol=near, equal_nan=True, check_stride=False)
        except AssertionError as error:
            return " ".join(str(error).split())[:160]
    return None


# ---- operators ----

DTYPES = {"f32": (torch.float32, "native", 1e-4), "i64": (torch.int64, "native", 0), "bool": (torch.bool, "native", 0),
          "f64": (torch.float64, "eager", 1e-6), "f16": (torch.float16, "eager", 2e-2), "bf16": (torch.bfloat16, "eager", 4e-2)}


# what PyTorch leaves open: contents of new memory, the order of equal elements
UNDEFINED = frozenset(("empty_like", "new_empty", "empty", "empty_permuted", "empty_strided", "new_empty_strided", "argsort", "kthvalue",
                       "mode", "topk"))


class Tally:
    def __init__(self):
        self.passed = self.wrong = self.missing = 0
        self.reasons = collections.Counter()


def run_sample(op, sample, dtype, backend, tolerance):
    """"passed", "skipped", or ("missing" or "wrong", why)."""
    from torch.fx.experimental.proxy_tensor import make_fx
    leaves, spec = torch.utils._pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    at = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[i].detach() for i in at]
    if any(t.is_complex() or t.layout != torch.strided for t in tensors) or not at:
        return "skipped"

    def call(*given):
        flat = list(leaves)
        for i, t in zip(at, given):
            flat[i] = t
        value, args, named = torch.utils._pytree.tree_unflatten(flat, spec)
        return [t for t in torch.utils._pytree.tree_leaves(op(value, *args, **named)) if isinstance(t, torch.Tensor)]

    try:
        want, again = call(*[t.clone() for t in tensors]), call(*[t.clone() for t in tensors])
        module = make_fx(torch.func.functionalize(call), tracing_mode="fake")(*[t.clone() for t in tensors])
    except Exception:  # PyTorch itself does not, or not as a graph
        return "skipped"
    drawn = any(torch.Tag.nondeterministic_seeded in getattr(n.target, "tags", ()) for n in module.graph.nodes)
    if drawn or op.name in UNDEFINED or not want or differ(again, want, 0) or any(t.is_complex() for t in want):
        return "skipped"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            got = _torch._inference({"backend": backend, "threads": 1})(module, tensors)(*tensors)
        except Exception as error:
            return "wrong", f"{type(error).__name__}: {' '.join(str(error).split())[:140]}"
    why = [str(w.message) for w in caught if issubclass(w.category, _torch.Fallback)]
    if why:
        return "missing", reason_of(why)
    problem = differ(got, want, tolerance)
    return ("wrong", problem) if problem else "passed"


def run_operator(op, dtype_name, samples):
    dtype, backend, tolerance = DTYPES[dtype_name]
    tally = Tally()
    if dtype not in op.dtypes:
        return tally
    try:
        inputs = []
        for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
            inputs.append(sample)
            if len(inputs) == samples:
                break
    except Exception:
        return tally
    for sample in inputs:
        outcome = run_sample(op, sample, dtype, backend, tolerance)
        if outcome == "passed":
            tally.passed += 1
        elif outcome != "skipped":
            setattr(tally, outcome[0], getattr(tally, outcome[0]) + 1)
            tally.reasons[outcome[1]] += 1
    return tally


def operators(options):
    from torch.testing._internal.common_methods_invocations import op_db
    torch.manual_seed(0)
    warnings.simplefilter("ignore")
    rows, end = {}, time.monotonic() + options.seconds
    for op in sorted(op_db, key=lambda o: o.full_name if hasattr(o, "full_name") else o.name):
        name = op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")
        if options.only and options.only not in name:
            continue
        if time.monotonic() > end:
            say(f"out of time before {name}")
            break
        row = {dtype: run_operator(op, dtype, options.samples) for dtype in options.dtypes.split(",")}
        if any(t.passed + t.wrong + t.missing for t in row.values()):
            rows[name] = row
        for dtype, t in row.items():
            if t.wrong or t.missing:
                say(f"{name:36} {dtype:5} {t.passed:3} passed {t.wrong:3} wrong {t.missing:3} missing: {t.reasons.most_common(1)[0][0]}")
    return report(rows, options)


def report(rows, options):
    have = {name: row for name, row in rows.items() if any(t.passed or t.wrong for t in row.values())}
    passed = sum(t.passed for row in have.values() for t in row.values())
    wrong = sum(t.wrong for row in have.values() for t in row.values())
    missing = sum(t.missing for row in have.values() for t in row.values())
    total = passed + wrong + missing
    say(f"{len(rows)} operators of op_db, Treadle has {len(have)}; of their {total} samples {passed} agree "
        f"({100 * passed / max(total, 1):.1f} %), {wrong} do not, {missing} need something that is not there")
    if options.write:
        write(options.write, rows, have, passed, total)
    return finish(passed, wrong)


def write(path, rows, have, passed, total):
    dtypes = list(DTYPES)
    lines = [BEGIN, "## Samples of PyTorch's operators", "",
             f"PyTorch's `op_db` of {torch.__version__.partition('+')[0]}, through the backend of `torch.compile`: samples that agree "
             f"with PyTorch of those that were run; `-`: PyTorch has none. f32, i64 and bool on `native`, the others on `eager`. "
             f"Of the {total} samples of {len(have)} operators that Treadle has {100 * passed / max(total, 1):.1f} % agree; the "
             f"{len(rows) - len(have)} at the end run on PyTorch.", "", "| operator | " + " | ".join(dtypes) + " |",
             "|---|" + "---|" * len(dtypes)]
    for name, row in have.items():
        cells = []
        for dtype in dtypes:
            t = row.get(dtype) or Tally()
            total_here = t.passed + t.wrong + t.missing
            cells.append(f"{t.passed}/{total_here}" if total_here else "-")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    lines += ["", "Not there: " + " ".join(f"`{name}`" for name in rows if name not in have), END]
    page = pathlib.Path(path)
    text = page.read_text()
    if BEGIN in text:
        text = text[:text.index(BEGIN)] + text[text.index(END) + len(END):].lstrip("\n")
    page.write_text(text.rstrip("\n") + "\n\n" + "\n".join(lines) + "\n")


# ---- models ----


def torchvision_models():
    import torchvision
    for name in torchvision.models.list_models(module=torchvision.models):
        size = 299 if name == "inception_v3" else 256 if name == "maxvit_t" else 224
        size = 224 if name == "maxvit_t" else size
        yield name, lambda name=name: torchvision.models.get_model(name, weights=None), (1, 3, size, size)
    for name in torchvision.models.list_models(module=torchvision.models.segmentation):
        yield name, lambda name=name: torchvision.models.get_model(name, weights=None, weights_backbone=None), (1, 3, 128, 128)
    for name in torchvision.models.list_models(module=torchvision.models.video):
        size = (1, 3, 16, 224, 224) if "mvit" in name else (1, 3, 8, 112, 112)
        yield name, lambda name=name: torchvision.models.get_model(name, weights=None), size


def traced(module, x):
    return treadle.load(torch.jit.trace(module, x), (x,))(x)


def scripted(module, x):
    try:
        script = torch.jit.script(module)
    except Exception:
        return None  # it is PyTorch that does not
    return treadle.load(script, (x,))(x)


def exported(module, x):
    return treadle.load(torch.export.export(module, (x,)))(x)


def open_batch(module, x):
    more = torch.cat([x, x])  # 1 would be taken for a size that stays
    program = torch.export.export(module, (more,), dynamic_shapes=({0: torch.export.Dim("batch")},))
    return treadle.load(program)(x)


def compiled(module, x):
    torch._dynamo.reset()
    with warnings.catch_warnings():
        warnings.simplefilter("error", _torch.Fallback)
        return torch.compile(module, backend="treadle")(x)


WAYS = {"traced": traced, "scripted": scripted, "exported": exported, "open batch": open_batch, "compiled": compiled}


def first(value):
    """The tensors of what a model gives, however they are held."""
    return [t for t in torch.utils._pytree.tree_leaves(value if not isinstance(value, treadle.Outputs) else tuple(value))
            if isinstance(t, torch.Tensor)]


def try_way(way, module, x, want):
    try:
        with torch.no_grad():
            got = WAYS[way](module, x)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"
    if got is None:
        return "-"
    got = first(got)
    for a, b in zip(got, want):
        scale = float(b.abs().max()) or 1.0
        if a.shape != b.shape or not bool(((a - b).abs().max() / scale) < 1e-3):
            return f"differs by {float((a - b).abs().max() / scale):.1e} of the largest value"
    return ""


def models(options):
    warnings.simplefilter("ignore")
    passed = failed = 0
    end = time.monotonic() + options.seconds
    ways = options.ways.split(",") if options.ways else list(WAYS)
    for name, make, shape in torchvision_models():
        if options.only and not re.search(options.only, name):
            continue
        if time.monotonic() > end:
            say(f"out of time before {name}")
            break
        torch.manual_seed(0)
        module = make().eval()
        for parameter in module.parameters():  # heads of zeros would agree with anything
            if not bool(parameter.any()):
                torch.nn.init.normal_(parameter, std=0.02)
        x = torch.randn(shape)
        with torch.no_grad():
            want = first(module(x))
        row = {way: try_way(way, module, x, want) for way in ways}
        say(f"{name:32} " + "  ".join(f"{way}: {'agrees' if why == '' else '-' if why == '-' else 'FAILED'}" for way, why in row.items()))
        for way, why in row.items():
            passed += why == ""
            failed += why not in ("", "-")
            if why not in ("", "-"):
                say(f"    {way}: {why}")
    return finish(passed, failed)


# ---- decoding with caches as state ----


class Step(torch.nn.Module):
    """One token of a causal transformer: keys and values so far are buffers."""

    def __init__(self, model, length):
        super().__init__()
        self.model = model
        config = model.config
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))
        shape = (config.n_layer, 2, 1, config.n_head, length, config.n_embd // config.n_head)
        self.register_buffer("cache", torch.zeros(shape))

    def forward(self, token):
        h = self.model.wte(token) + self.model.wpe(self.at.reshape(1, 1))
        slots = torch.arange(self.cache.shape[4])
        seen = (slots <= self.at)[None, None, None, :]
        here = (slots == self.at)[None, None, :, None]
        kept = []
        for i, block in enumerate(self.model.h):
            q, k, v = (t.unflatten(2, (block.attn.num_heads, -1)).transpose(1, 2)
                       for t in block.attn.c_attn(block.ln_1(h)).chunk(3, 2))
            k, v = torch.where(here, k, self.cache[i, 0]), torch.where(here, v, self.cache[i, 1])
            kept.append(torch.stack([k, v]))
            a = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=seen)
            h = h + block.attn.c_proj(a.transpose(1, 2).flatten(2))
            h = h + block.mlp(block.ln_2(h))
        self.cache.copy_(torch.stack(kept))
        self.at.add_(1)
        return (self.model.ln_f(h) @ self.model.wte.weight.T)[:, -1]


def decoding(options):
    """GPT-2, 32 tokens, greedy: keys and values are state of the session; against transformers without a cache."""
    import transformers
    torch.manual_seed(0)
    config = transformers.GPT2Config(n_layer=3, n_head=4, n_embd=64, vocab_size=211, n_positions=64)
    whole = transformers.GPT2LMHeadModel(config).eval()
    step = Step(whole.transformer, 40).eval()
    model = treadle.load(step, (torch.tensor([[1]]),))
    say(", ".join(str(v) for v in model.states))
    prompt = [5, 17, 3]
    wanted = list(prompt)
    with torch.no_grad():
        for _ in range(32):
            wanted.append(int(whole(torch.tensor([wanted])).logits[0, -1].argmax()))
    failed = 0
    one, two = model.session(threads=1), model.session(threads=1)
    for session in (one, two):
        got = list(prompt)
        for i in range(len(prompt) + 31):
            logits = session(torch.tensor([[got[i]]]))
            if i + 1 == len(got):
                got.append(int(logits.argmax()))
        failed += got != wanted
        say(f"GPT-2, 32 tokens: {'the same' if got == wanted else f'{got} instead of {wanted}'}")
    one.reset()
    again = one(torch.tensor([[prompt[0]]]))
    fresh = model.session(threads=1)(torch.tensor([[prompt[0]]]))
    failed += not torch.equal(again, fresh)
    return finish(3 - failed, failed)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("part", choices=("ops", "models", "decoding"))
    parser.add_argument("--samples", type=int, default=20)
    parser.add_argument("--dtypes", default=",".join(DTYPES))
    parser.add_argument("--ways", default="")
    parser.add_argument("--only", default="")
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--write", default="")
    options = parser.parse_args()
    return {"ops": operators, "models": models, "decoding": decoding}[options.part](options)


if __name__ == "__main__":
    sys.exit(main())
