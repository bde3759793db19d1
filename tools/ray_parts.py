"""What tools/check_ray.py has in common with its actors: inputs that are made, machines of a cluster, actors that tell
when they worked, and the same job by PyTorch and ONNX Runtime."""
import collections
import json
import os
import pathlib
import random
import time

import numpy
import ray
import ray.data
import treadle
from PIL import Image
from ray.cluster_utils import Cluster

import ray_batch

STORE = 128 << 20  # bytes of each machine's object store
WARM = 2           # batches of each actor that are not measured: memory grows in the first
Input = collections.namedtuple("Input", "name shape")


def make_pictures(folder, count):
    folder.mkdir()
    numbers = numpy.random.default_rng(1)
    for number in range(count):
        small = numbers.integers(0, 256, (6, 8, 3), "u1")
        Image.fromarray(small).resize((160, 120), Image.BICUBIC).save(folder / f"{number:05}.jpg", quality=85)


def make_texts(table, tokenizer, count):
    """A table of texts, and a tokenizer of words that knows most of them."""
    import pyarrow
    import pyarrow.parquet

    chance = random.Random(1)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 9))) for _ in range(600)]
    texts = [" ".join(chance.choices(words, k=chance.randint(0, 150))) for _ in range(count)]
    pyarrow.parquet.write_table(pyarrow.table({"row": range(count), "text": texts}), table)
    vocabulary = {word: at for at, word in enumerate(["[PAD]", "[UNK]", *dict.fromkeys(words[:550])])}
    tokenizer.write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"}}))


class Machines:
    """A cluster on this machine: one node that computes nothing, and others with a core each."""

    def __init__(self, count):
        self.cluster = Cluster()
        self.cluster.add_node(num_cpus=0, object_store_memory=STORE, include_dashboard=False)
        self.nodes = []
        for _ in range(count):
            self.add()
        ray.init(address=self.cluster.address, log_to_driver=False, logging_level="ERROR")
        settings = ray.data.DataContext.get_current()
        settings.enable_progress_bars = settings.print_on_execution_start = False

    def add(self):
        self.nodes.append(self.cluster.add_node(num_cpus=1, object_store_memory=STORE))

    def kill(self):
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        ray.shutdown()
        self.cluster.shutdown()


def mappings(name, pid="self"):
    """Bytes of the process's mappings of the files whose path has `name` in it, by the kinds of smaps."""
    found, inside = collections.Counter(), False
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        key, *rest = line.split()
        if not key.endswith(":"):
            inside = name in line
        elif inside and rest[-1] == "kB":
            found[key[:-1]] += int(rest[0]) << 10
    return found


def holders(name):
    """Processes that have such a file mapped, and the kinds of bytes."""
    found = {}
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            kinds = mappings(name, pid)
        except OSError:
            continue  # it has ended, or is another user's
        if kinds:
            found[int(pid)] = kinds
    return found


def memory():
    """Bytes of this process; what is shared counts by its share."""
    for line in pathlib.Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) << 10
    return 0


def timed(kind):
    """The same actor, whose batches also say who computed them and when."""
    class Timed(kind):
        def __call__(self, batch):
            begin = time.time()
            found = super().__call__(batch)
            rows = len(next(iter(found.values())))
            told = {"begin": begin, "end": time.time(), "actor": os.getpid(), "memory": memory(), "batch": rows}
            return {**found, **{key: numpy.full(rows, value) for key, value in told.items()}}
    return Timed


def rate(table):
    """Rows per second of the time in which all actors worked: from when each was warm until the first had no more."""
    batches = {}
    for actor, begin, end, rows in zip(*(table[key].to_pylist() for key in ("actor", "begin", "end", "batch"))):
        batches.setdefault(actor, set()).add((begin, end, rows))
    batches = {actor: sorted(of_actor)[WARM:] for actor, of_actor in batches.items()}
    first = max(of_actor[0][0] for of_actor in batches.values())
    last = min(of_actor[-1][1] for of_actor in batches.values())
    done = sum(rows * max(0.0, min(end, last) - max(begin, first)) / (end - begin)
               for of_actor in batches.values() for begin, end, rows in of_actor)
    return done / (last - first)


# ---- the same models by others; `load` of the actors ----

class OnnxRuntime:
    def __init__(self, path, cores):
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = cores, 1
        self.session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        self.inputs = [Input(value.name, value.shape) for value in self.session.get_inputs()]

    def __call__(self, *inputs):
        return self.session.run(None, {value.name: array for value, array in zip(self.inputs, inputs)})[0]


class PyTorch:
    def __init__(self, path, cores):
        import torch

        torch.set_num_threads(cores)
        self.module, self.torch = torch.load(path, weights_only=False), torch
        self.inputs = [Input(name, ("batch",)) for name in NAMES[pathlib.Path(path).stem]]

    def __call__(self, *inputs):
        with self.torch.inference_mode():
            found = self.module(**dict(zip(ARGUMENTS, map(self.torch.from_numpy, inputs)))) if len(inputs) > 1 else \
                self.module(self.torch.from_numpy(inputs[0]))
        return getattr(found, "last_hidden_state", found).numpy()


ARGUMENTS = ["input_ids", "attention_mask"]
NAMES = {"mobilenet": ["input"], "bert": ARGUMENTS}


def export(folder):
    """mobilenet_v2 and a small BERT with random weights, as torch.save and torch.onnx.export write them."""
    import torch
    import torchvision
    import transformers

    class States(torch.nn.Module):
        def __init__(self, bert):
            super().__init__()
            self.bert = bert

        def forward(self, input_ids, attention_mask):
            return self.bert(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    torch.manual_seed(1)
    shape = transformers.BertConfig(vocab_size=1000, hidden_size=384, num_hidden_layers=6, num_attention_heads=12,
                                    intermediate_size=1536)
    bert, mobilenet = transformers.BertModel(shape).eval(), torchvision.models.mobilenet_v2()
    with torch.no_grad():  # statistics of its normalisations, without which random weights give nothing but zeros
        mobilenet.train()(torch.randn(8, 3, 224, 224))
    mobilenet.eval()
    tokens = torch.ones(2, 128, dtype=torch.int64)
    mask = tokens.tril(100)  # where all were ones, the export would leave it out
    for name, saved, module, inputs in (("mobilenet", mobilenet, mobilenet, (torch.zeros(2, 3, 224, 224),)),
                                        ("bert", bert, States(bert).eval(), (tokens, mask))):
        torch.save(saved, folder / f"{name}.pt")
        sizes = tuple({0: torch.export.Dim("batch", min=1, max=1024)} for _ in inputs)
        torch.onnx.export(module, inputs, folder / f"{name}.onnx", input_names=NAMES[name], dynamo=True,
                          dynamic_shapes=sizes, external_data=False, verbose=False)
