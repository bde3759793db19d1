"""State, text, forks and detectors, against PyTorch: decoding with caches as state of the session token for token, scripted
classes that change from call to call, sessions side by side, forks in a loop, a scripted detector with NMS."""

import threading
import traceback
from typing import List

import torch

import suite_models
import treadle

TOKENS = 32


def say(*words):
    print(*words, flush=True)


# ---- decoding: keys and values so far are buffers, which the session keeps ----


class Cached(torch.nn.Module):
    """One token of a decoder of `layers` layers; `self.cache` holds keys and values of `length` positions."""

    def __init__(self, layers, heads, width, length):
        super().__init__()
        self.register_buffer("at", torch.zeros((), dtype=torch.int64))
        self.register_buffer("cache", torch.zeros(layers, 2, 1, heads, length, width))

    def slots(self):
        return torch.arange(self.cache.shape[4])

    def seen(self):
        return (self.slots() <= self.at)[None, None, None, :]

    def with_past(self, layer, k, v):
        here = (self.slots() == self.at)[None, None, :, None]
        return torch.where(here, k, self.cache[layer, 0]), torch.where(here, v, self.cache[layer, 1])

    def keep(self, pairs):
        self.cache.copy_(torch.stack([torch.stack(pair) for pair in pairs]))
        self.at.add_(1)


class Gpt2Step(Cached):
    def __init__(self, model, length):
        config = model.config
        super().__init__(config.n_layer, config.n_head, config.n_embd // config.n_head, length)
        self.model = model

    def forward(self, token):
        h = self.model.wte(token) + self.model.wpe(self.at.reshape(1, 1))
        kept = []
        for i, block in enumerate(self.model.h):
            q, k, v = (t.unflatten(2, (block.attn.num_heads, -1)).transpose(1, 2)
                       for t in block.attn.c_attn(block.ln_1(h)).chunk(3, 2))
            kept.append(self.with_past(i, k, v))
            a = torch.nn.functional.scaled_dot_product_attention(q, *kept[-1], attn_mask=self.seen())
            h = h + block.attn.c_proj(a.transpose(1, 2).flatten(2))
            h = h + block.mlp(block.ln_2(h))
        self.keep(kept)
        return (self.model.ln_f(h) @ self.model.wte.weight.T)[:, -1]


class T5Step(Cached):
    """T5 does not scale its scores; the first layer's table of distances is added to all of them."""

    def __init__(self, model, length):
        config = model.config
        super().__init__(config.num_decoder_layers, config.num_heads, config.d_kv, length)
        self.decoder, self.head = model.decoder, model.lm_head

    def attend(self, part, q, k, v, bias):
        scores = q @ k.transpose(2, 3) + bias
        return part.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))

    def forward(self, token, memory):
        h = self.decoder.embed_tokens(token)
        first = self.decoder.block[0].layer[0].SelfAttention
        buckets = first._relative_position_bucket((self.slots() - self.at)[None, :], False, first.relative_attention_num_buckets,
                                                  first.relative_attention_max_distance)
        bias = first.relative_attention_bias(buckets).permute(2, 0, 1).unsqueeze(0)
        bias = bias.masked_fill(~self.seen(), float("-inf"))
        kept = []
        for i, block in enumerate(self.decoder.block):
            own, cross, last = block.layer
            x, part = own.layer_norm(h), own.SelfAttention
            q, k, v = (f(x).unflatten(2, (part.n_heads, -1)).transpose(1, 2) for f in (part.q, part.k, part.v))
            kept.append(self.with_past(i, k, v))
            h = h + self.attend(part, q, *kept[-1], bias)
            x, part = cross.layer_norm(h), cross.EncDecAttention
            q = part.q(x).unflatten(2, (part.n_heads, -1)).transpose(1, 2)
            k, v = (f(memory).unflatten(2, (part.n_heads, -1)).transpose(1, 2) for f in (part.k, part.v))
            h = last(h + self.attend(part, q, k, v, 0.0))
        self.keep(kept)
        return self.head(self.decoder.final_layer_norm(h))[:, -1]


def decode(step, prompt, *more):
    """TOKENS tokens after `prompt`, the likeliest each time."""
    tokens = list(prompt)
    for i in range(len(prompt) + TOKENS - 1):
        scores = step(torch.tensor([[tokens[i]]]), *more)
        if i + 1 == len(tokens):
            tokens.append(int(scores.argmax()))
    return tokens


def gpt2():
    import transformers
    config = transformers.GPT2Config(n_layer=3, n_head=4, n_embd=64, vocab_size=211, n_positions=64)
    whole = transformers.GPT2LMHeadModel(config).eval()
    prompt = [5, 17, 3]
    want = list(prompt)
    for _ in range(TOKENS):  # without a cache: all that is there, again and again
        want.append(int(whole(torch.tensor([want])).logits[0, -1].argmax()))
    model = treadle.load(Gpt2Step(whole.transformer, 40).eval(), (torch.tensor([[1]]),))
    one, two = model.session(threads=1), model.session(threads=2)
    assert decode(one, prompt) == want, "differs from transformers without a cache"
    assert decode(two, prompt) == want, "a second session differs"
    one.reset()
    assert decode(one, prompt) == want, "differs after a reset"


def t5():
    import transformers
    config = transformers.T5Config(vocab_size=211, d_model=64, d_kv=16, d_ff=128, num_layers=3, num_heads=4)
    whole = transformers.T5ForConditionalGeneration(config).eval()
    question = torch.randint(2, 200, (1, 9))
    memory = whole.encoder(question).last_hidden_state
    want = [0]
    for _ in range(TOKENS):
        scores = whole(encoder_outputs=(memory,), decoder_input_ids=torch.tensor([want]), use_cache=False).logits
        want.append(int(scores[0, -1].argmax()))
    encoder = treadle.load(Encoder(whole.encoder), (question,))
    step = treadle.load(T5Step(whole, 40).eval(), (torch.tensor([[0]]), memory))
    assert decode(step.session(threads=1), [0], encoder(question)) == want, "differs from transformers without a cache"


class Encoder(torch.nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, words):
        return self.encoder(words).last_hidden_state


# ---- scripted: attributes that change, caches in lists, forks ----


class Greedy(torch.nn.Module):
    """A scripted decoder whose cache is two attributes that grow."""

    def __init__(self, width: int, words: int):
        super().__init__()
        self.embed = torch.nn.Embedding(words, width)
        self.mix = torch.nn.Linear(width, 3 * width)
        self.head = torch.nn.Linear(width, words)
        self.keys = torch.zeros(0, width)
        self.values = torch.zeros(0, width)

    def forward(self, token):
        x = self.embed(token)
        q, k, v = self.mix(x).chunk(3, 1)
        self.keys = torch.cat([self.keys, k])
        self.values = torch.cat([self.values, v])
        scores = (q @ self.keys.T).softmax(1)
        return self.head(x + scores @ self.values)


def growing_cache():
    token = torch.tensor([3])
    script = torch.jit.script(Greedy(16, 50).eval())
    session = treadle.load(script, (token,)).session(threads=1)
    mine = theirs = token
    for _ in range(TOKENS):
        mine, theirs = session(mine).argmax(1), script(theirs).argmax(1)
        assert torch.equal(mine, theirs), "parts from PyTorch"


@torch.jit.script
class Average:
    def __init__(self, decay: float):
        self.decay = decay
        self.value = torch.zeros(3)
        self.count = 0

    def update(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.value = self.decay * self.value + (1.0 - self.decay) * x
        return self.value / (1.0 - self.decay ** self.count)


class Smoothed(torch.nn.Module):
    """Holds its past in a buffer and two numbers, and works on it with a scripted class made anew in each call."""

    def __init__(self):
        super().__init__()
        self.register_buffer("value", torch.zeros(3))
        self.count = 0
        self.largest = 0.0

    def forward(self, x):
        average = Average(0.9)
        average.value = self.value
        average.count = self.count
        result = average.update(x)
        self.value = average.value
        self.count = average.count
        self.largest = max(self.largest, float(result.max()))
        return result + self.largest


def hundred_calls():
    script = torch.jit.script(Smoothed())
    xs = torch.randn(100, 3)
    session = treadle.load(script, (xs[0],)).session(threads=1)
    for i, x in enumerate(xs):
        torch.testing.assert_close(session(x), script(x), msg=lambda text: f"call {i}: {text}")


class ForksInALoop(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = torch.nn.Linear(8, 8)

    def branch(self, x, i: int):
        return torch.tanh(self.cell(x)) * (0.01 * float(i + 1))

    def forward(self, x, times: int):
        tasks = torch.jit.annotate(List[torch.jit.Future[torch.Tensor]], [])
        for i in range(times):
            tasks.append(torch.jit.fork(self.branch, x, i))
        total = torch.zeros_like(x)
        for task in tasks:
            total = total + torch.jit.wait(task)
        return total


class Forks(torch.nn.Module):
    def __init__(self, times: int):
        super().__init__()
        self.inner = ForksInALoop()
        self.times = times

    def forward(self, x):
        return self.inner(x, self.times)


def fork_in_a_loop():
    for times in (0, 1, 7, 100):  # 100 turns are a loop of the graph, fewer are unrolled
        module, x = torch.jit.script(Forks(times).eval()), torch.randn(4, 8)
        model = treadle.load(module, (x,))
        for threads in (1, 2):
            torch.testing.assert_close(model.session(threads=threads)(x), module(x), rtol=1e-4, atol=1e-5)


def two_threads():
    script = torch.jit.script(Smoothed())
    model = treadle.load(script, (torch.zeros(3),))
    failures = []

    def work(seed):
        own = torch.jit.script(Smoothed())
        session = model.session(threads=1)
        generator = torch.Generator().manual_seed(seed)
        for _ in range(200):
            x = torch.randn(3, generator=generator)
            if not torch.allclose(session(x), own(x), atol=1e-5):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, f"sessions disturb one another: {failures}"


# ---- detectors ----


def tables(parts, results):
    """Rows of one image's detections each, for every image: the tensors of its dictionary side by side."""
    parts = iter(parts)
    return [torch.cat([t.reshape(len(t), -1).double() for t in [next(parts) for _ in result]], 1) for result in results]


def strangers(got, want):
    """The share of the detections `got` that none of `want` is within 1e-3 of, in whatever order they stand."""
    near = torch.cdist(got, want, p=float("inf")) / want.abs().amax(1).clamp(min=1)
    return float((near.amin(1) > 1e-3).double().mean())


def same_in_f64(script, images):
    """In f64 nothing is near enough to a tie for roundings to choose: every detection, in PyTorch's order."""
    _, results = script(images)
    assert min(len(result["boxes"]) for result in results) > 3, "the example detects nothing"
    session = treadle.load(script, (images,)).session(threads=1)
    for _ in range(2):  # anchors and scales are kept from the first call
        for mine, theirs in zip(tables(session(*images), results), tables(suite_models.tensors_of(results), results)):
            torch.testing.assert_close(mine, theirs, rtol=1e-9, atol=1e-7)
    return tables(suite_models.tensors_of(results), results)


def detector(name, **more):
    """One of torchvision, scripted: anchors, decoding, NMS per class, a list of images in, dictionaries out. PyTorch's is
    scripted, too: the resized image may be a pixel smaller there than of the module itself."""
    import torchvision
    make = getattr(torchvision.models.detection, name)
    # means that f32 holds: TorchScript makes tensors of lists by way of it, in f64, too
    module = make(weights=None, weights_backbone=None, num_classes=5, image_mean=[0.5] * 3, image_std=[0.25] * 3, **more).eval()
    images = [torch.rand(3, 160, 160), torch.rand(3, 120, 200)]
    suite_models.condition(module, (images,))  # without it all scores are equal, and stand in any order
    _, results = torch.jit.script(module)(images)
    mine = tables(treadle.load(torch.jit.script(module), (images,))(*images), results)
    theirs = tables(suite_models.tensors_of(results), results)
    exact = same_in_f64(torch.jit.script(module.double()), [image.double() for image in images])
    for got, want, truth in zip(mine, theirs, exact):
        assert got.shape == want.shape, "another number of detections"
        lost, usual = strangers(got, truth), strangers(want, truth)
        few = max(0.02, 2 / len(truth))  # which of two nearly equal ones is taken, and where the peak of a keypoint's map is
        assert lost <= few + 2 * usual, f"{100 * lost:.0f} % are not f64's; of PyTorch's f32 {100 * usual:.0f} %"


def detectors():
    few = {"min_size": 96, "box_score_thresh": 0.0, "box_detections_per_img": 5, "rpn_post_nms_top_n_test": 100}
    for name, more in (("ssdlite320_mobilenet_v3_large", {}), ("ssd300_vgg16", {}),
                       ("fasterrcnn_mobilenet_v3_large_320_fpn", {"box_score_thresh": 0.0}),
                       ("retinanet_resnet50_fpn", {"min_size": 96, "score_thresh": 0.0}),
                       ("fcos_resnet50_fpn", {"min_size": 96, "score_thresh": 0.0}),
                       ("keypointrcnn_resnet50_fpn", few), ("maskrcnn_resnet50_fpn", few)):
        try:
            detector(name, **more)
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


CHECKS = {"GPT-2, 32 tokens, caches as state": gpt2, "T5, 32 tokens, caches as state": t5,
          "a scripted decoder whose cache grows": growing_cache, "a scripted class with state, 100 calls": hundred_calls,
          "forks in a loop": fork_in_a_loop, "two sessions in two threads": two_threads, "seven detectors of torchvision, scripted": detectors}


def run(options):
    failed = 0
    for title, check in CHECKS.items():
        if options.only not in title:
            continue
        torch.manual_seed(0)
        try:
            with torch.no_grad():
                check()
            say(f"{title}: agrees")
        except Exception as error:
            failed += 1
            say(f"{title}: FAILED: {type(error).__name__}: {' '.join(str(error).split())[:400]}")
            if options.verbose:
                traceback.print_exc()
    say(f"{len(CHECKS) - failed} passed, {failed} failed")
    return 1 if failed else 0


def add_options(parser):
    parser.add_argument("--only", default="", help="a part of a title")
    parser.add_argument("--verbose", action="store_true")
