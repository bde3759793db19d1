#!/usr/bin/env python3
"""Python handlers of the kinds that TorchServe's examples have, with torch, torchvision and transformers, against the same
models in PyTorch: check_torch_handlers.py BUILD. Ends with a count of checks."""
import io
import pathlib
import sys
import tempfile
import textwrap
import warnings

import PIL.Image
import torch
import torchvision
import transformers
from check_handlers import Checks, archive, log_of, serving

CLASSIFIER = """
from torchvision import transforms
from ts.torch_handler.image_classifier import ImageClassifier

class Small(ImageClassifier):
    topk = 3
    image_processing = transforms.Compose([transforms.Resize(128), transforms.CenterCrop(96), transforms.ToTensor()])
"""
DIGITS = """
from torchvision import transforms
from ts.torch_handler.image_classifier import ImageClassifier

class Digits(ImageClassifier):
    image_processing = transforms.Compose([transforms.ToTensor(), transforms.Normalize((0.5,), (0.25,))])

    def postprocess(self, data):
        return data.argmax(1).tolist()
"""
NET = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Conv2d(1, 8, 3)
        self.last = torch.nn.Linear(8 * 26 * 26, 10)

    def forward(self, x):
        return self.last(torch.flatten(torch.relu(self.first(x)), 1))
"""
TEXTS = """
import os
import torch
from transformers import BertTokenizer
from ts.torch_handler.base_handler import BaseHandler

class Texts(BaseHandler):
    def initialize(self, context):
        super().initialize(context)
        self.tokenizer = BertTokenizer(os.path.join(context.system_properties["model_dir"], "vocab.txt"))

    def preprocess(self, data):
        texts = [row.get("data") or row.get("body") for row in data]
        texts = [text if isinstance(text, str) else bytes(text).decode() for text in texts]
        encoded = self.tokenizer(texts, return_tensors="pt", padding=True)
        return encoded["input_ids"], encoded["attention_mask"]

    def inference(self, data):
        with torch.inference_mode():
            return self.model(*data)

    def postprocess(self, scores):
        assert isinstance(scores, torch.Tensor)
        return scores.tolist()
"""
OWN = TEXTS.replace("super().initialize(context)", """self.model = torch.jit.load(os.path.join(
            context.system_properties["model_dir"], context.manifest["model"]["serializedFile"]))""")
SPARSE = """
import torch
from ts.torch_handler.base_handler import BaseHandler

class Sparse(BaseHandler):
    def preprocess(self, data):
        return torch.tensor([row["body"]["x"] for row in data])
"""
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "hello", "world"]


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = transformers.BertConfig(vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                                         intermediate_size=64, num_labels=2)
        self.bert = transformers.BertForSequenceClassification(config)

    def forward(self, ids, mask):
        return self.bert(ids, attention_mask=mask, return_dict=False)[0]


class Through(torch.nn.Module):
    def forward(self, x):
        return x.to_sparse().to_dense() * 2


def saved(save):
    data = io.BytesIO()
    save(data)
    return data.getvalue()


def scripted(module):
    return saved(lambda to: torch.jit.save(module, to))


def picture(mode, size):
    return saved(lambda to: PIL.Image.effect_noise(size, 80).convert(mode).save(to, "PNG"))


def close(wanted):
    flat = lambda value: torch.tensor(value, dtype=torch.float64)
    return lambda got: got[0] == 200 and torch.allclose(flat(got[1]), flat(wanted), atol=1e-5)


def check_pictures(c, resnet, net, photo, digit):
    preset = torchvision.transforms.Compose([torchvision.transforms.Resize(128), torchvision.transforms.CenterCrop(96),
                                             torchvision.transforms.ToTensor()])
    shares, classes = torch.topk(torch.softmax(resnet(preset(PIL.Image.open(io.BytesIO(photo)))[None]), 1)[0], 3)
    status, got = c.ask("/predictions/small", photo)
    c.expect("labels", (status, list(got)), (200, [f"label {i}" for i in classes.tolist()]))
    c.expect("probabilities", (status, list(got.values())), close(shares.tolist()))
    x = (torchvision.transforms.ToTensor()(PIL.Image.open(io.BytesIO(digit))) - 0.5) / 0.25
    wanted = net(x[None]).argmax(1).item()
    c.expect("a model in Python", c.ask("/predictions/digits", digit), (200, wanted))
    c.expect("as TorchScript", c.ask("/predictions/script", digit), (200, wanted))


def check_texts(c, scores, tokenizer):
    for text in ("hello world", "good bad hello world", "bad"):
        encoded = tokenizer([text], return_tensors="pt")
        wanted = scores(encoded["input_ids"], encoded["attention_mask"])[0].tolist()
        for name in ("texts", "own"):
            c.expect(f"{name}: {text}", c.ask(f"/predictions/{name}", text.encode(), headers={"Content-Type": "text/plain"}), close(wanted))


@torch.no_grad()
def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    c = Checks()
    c.program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    space = {}
    exec(textwrap.dedent(NET), space)  # as the archive has it
    net, resnet, scores = space["Net"]().eval(), torchvision.models.resnet18().eval(), Scores().eval()
    labels = "{" + ",".join(f'"{i}":["n{i}","label {i}"]' for i in range(1000)) + "}"
    vocabulary = "\n".join(WORDS)
    bert = scripted(torch.jit.trace(scores, (torch.ones(1, 6, dtype=torch.long), torch.ones(1, 6, dtype=torch.long))))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "vocab.txt").write_text(vocabulary)
        script = scripted(torch.jit.trace(resnet, torch.zeros(1, 3, 96, 96)))
        archive(folder, "small", {"own.py": CLASSIFIER, "net.pt": script, "index_to_name.json": labels}, handler="own.py", serializedFile="net.pt")
        state = saved(lambda to: torch.save(net.state_dict(), to))
        archive(folder, "digits", {"own.py": DIGITS, "net.py": NET, "net.pt": state}, handler="own.py", modelFile="net.py", serializedFile="net.pt")
        archive(folder, "script", {"own.py": DIGITS, "net.pt": scripted(torch.jit.trace(net, torch.zeros(1, 1, 28, 28)))}, handler="own.py", serializedFile="net.pt")
        archive(folder, "texts", {"own.py": TEXTS, "net.pt": bert, "vocab.txt": vocabulary}, handler="own.py", serializedFile="net.pt")
        archive(folder, "own", {"own.py": OWN, "net.pt": bert, "vocab.txt": vocabulary}, handler="own.py", serializedFile="net.pt")
        archive(folder, "sparse", {"own.py": SPARSE, "net.pt": scripted(torch.jit.script(Through()))}, handler="own.py", serializedFile="net.pt")
        models = [f"{name}.mar" for name in ("small", "digits", "script", "texts", "own", "sparse")]
        with serving(c, folder, "--python-handlers", "--workers", "1", *models) as server:
            check_pictures(c, resnet, net, picture("RGB", (150, 200)), picture("L", (28, 28)))
            check_texts(c, scores, transformers.BertTokenizer(str(pathlib.Path(folder, "vocab.txt"))))
            for _ in range(2):
                got = c.ask("/predictions/sparse", b'{"x":[0.5,0]}', headers={"Content-Type": "application/json"})
                c.expect("what the server cannot compute", got, (200, [1.0, 0.0]))
            c.expect("the log says so", log_of(folder).count("torch computes net.pt"), 1)
            server.terminate()
            c.expect("the end", server.wait(20), 0)
    print(f"{c.passed} passed, {c.failed} failed")
    return c.failed > 0


if __name__ == "__main__":
    sys.exit(main())
