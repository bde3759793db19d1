#!/usr/bin/env python3
"""TorchServe's own examples in the server, handlers and specs unchanged: check_torchserve_examples.py BUILD [PART...].

Their code is not ours, and not in this repository: TREADLE_TORCHSERVE names a folder with a checkout of pytorch/serve, or
what git can clone; by default its public repository is cloned. Weights are random, and small where the example lets us choose.
Each reply is compared with what PyTorch gives in this process, or, where the handler samples, with what can be known of it.
PART: a piece of the examples' paths, e.g. Workflows. Needs torch, torchvision, transformers of 4.x, captum, PyYAML, and for
an example each lru and xgboost. Ends with a table of the examples that did not run, why, and a count of checks."""
import base64
import concurrent.futures
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import traceback
import warnings
import zipfile

import PIL.Image
import PIL.ImageDraw
import tokenizers
import torch
import torchvision
import transformers
import yaml
from check_handlers import Checks, log_of, serving
from torchvision import transforms

SOURCE = "https://github.com/pytorch/serve"
HUGGINGFACE = "Huggingface_Transformers/Transformer_handler_generalized.py"
NO_GPU = "is made for an NVIDIA GPU"
NO_DEVICE = "is made for its vendor's accelerator"
NO_WEIGHTS = "its weights are gigabytes from the network, and no small ones are made here"
TORCHRUN = "is several processes under torchrun, and made for GPUs"
# Why an example is not run here, by the beginning of its path.
WHY = {
    "Huggingface_Transformers/Transformer_handler_generalized_neuron.py": NO_DEVICE,
    "LLM/": NO_WEIGHTS,
    "MMF-activity-recognition/": "needs mmf, which fits no torch of today",
    "asr_rnnt_emformer/": "its features and weights are torchaudio's, from the network",
    "dcgan_fashiongen/": "its model's code is fetched from another repository when the archive is made",
    "diffusers/": NO_WEIGHTS,
    "image_classifier/mnist/torchdata/": "torchdata has no pipes any more, of which it is made",
    "image_classifier/resnet_18/debugging_backend/": "is no handler: it calls TorchServe's classes in a process of its own",
    "instruction_embedding/": NO_WEIGHTS,
    "large_models/": NO_GPU,
    "large_models/Huggingface_accelerate/llama/": NO_WEIGHTS,
    "large_models/Huggingface_pippy/": TORCHRUN,
    "large_models/deepspeed/": TORCHRUN,
    "large_models/tp_llama/": TORCHRUN,
    "large_models/inferentia2/": NO_DEVICE,
    "large_models/ipex_llm_int8/": "needs intel-extension-for-pytorch, which fits no torch of today",
    "nvidia_dali/": NO_GPU,
    "object_detector/yolo/": "needs ultralytics, and weights that it fetches",
    "pt2/torch_compile_hpu/": NO_DEVICE,
    "pt2/torch_compile_openvino/": NO_WEIGHTS,
    "stateful/sequence_continuous_batching/": "its batches last as long as a sequence: there are none of that kind here",
    "text_to_speech_synthesizer/SpeechT5/": NO_WEIGHTS,
    "text_to_speech_synthesizer/WaveGlow/": "refuses to start without an NVIDIA GPU",
    "torch_tensorrt/": NO_GPU,
    "torchrec_dlrm/": "needs torchrec, whose kernels fit one version of torch",
    "usecases/": NO_WEIGHTS,
}
WORDS = "[PAD] [UNK] [CLS] [SEP] [MASK] bloomberg has decided to publish a new report on the global economy . how is weather ? nice it beautiful day ,"
# Stand-ins for packages that no Python of today has: what a handler of the examples calls of them.
FAIRSEQ = """
class Translator:
    def to(self, device):
        return self
    def eval(self):
        return self
    def translate(self, texts, beam):
        return [" ".join(reversed(text.split())) for text in texts]
class TransformerModel:
    @staticmethod
    def from_pretrained(folder, checkpoint_file, data_name_or_path, tokenizer, bpe):
        return Translator()
"""
TORCHAUDIO = """
import io, wave
import torch
def load(file, format):
    with wave.open(file) as sound:
        return torch.frombuffer(bytearray(sound.readframes(sound.getnframes())), dtype=torch.int16)[None] / 32768, sound.getframerate()
"""
EXAMPLES = []


def example(*paths):
    """The function runs these files of the examples."""
    def add(function):
        EXAMPLES.append((paths, function))
        return function
    return add


def saved(save, *what):
    data = io.BytesIO()
    save(*what, data)
    return data.getvalue()


def state_of(module):
    return saved(torch.save, module.state_dict())


def picture(mode="RGB", size=(260, 300), spread=80):
    return saved(lambda to: PIL.Image.effect_noise(size, spread).convert(mode).save(to, "PNG"))


def opened(data):
    return PIL.Image.open(io.BytesIO(data))


def close(wanted, tolerance=1e-4):
    """To a reply {label: probability}, or nested lists of numbers."""
    def fits(got):
        if got[0] != 200 or not isinstance(got[1], type(wanted)):
            return False
        if isinstance(wanted, dict):
            return list(got[1]) == list(wanted) and all(abs(got[1][key] - wanted[key]) < tolerance for key in wanted)
        return torch.allclose(torch.tensor(got[1]), torch.tensor(wanted), atol=tolerance)
    return fits


def segments(shares):
    """To a class and its share for each pixel; of classes that are as likely, any."""
    def fits(got):
        if got[0] != 200:
            return False
        told, most = torch.tensor(got[1]), shares.max(0).values
        of_told = shares.gather(0, told[None, :, :, 0].long())[0]
        return torch.allclose(told[:, :, 1], most, atol=1e-3) and torch.allclose(of_told, most, atol=1e-3)
    return fits


IMAGENET = transforms.Compose([transforms.Resize(256), transforms.CenterCrop(224), transforms.ToTensor(),
                               transforms.Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])])


def likeliest(net, photo, labels=None):
    shares, classes = torch.topk(torch.softmax(net(IMAGENET(opened(photo))[None]), 1)[0], 5)
    return {labels[i] if labels else str(i): share for share, i in zip(shares.tolist(), classes.tolist())}


class Suite(Checks):
    """A server without models, a store, and the examples."""

    patience = 600  # the first reply of what torch.compile has

    def __init__(self, program, source, folder):
        super().__init__()
        self.program, self.source, self.folder = program, pathlib.Path(source, "examples"), folder

    def text(self, path):
        return self.source.joinpath(path).read_text()

    def files(self, *paths):
        return {path.rpartition("/")[2]: self.text(path) for path in paths}

    def module(self, path):
        """The model whose class is the only one of the file, as handlers find it; ready for use."""
        folder = str(self.source.joinpath(path).parent)
        sys.path.insert(0, folder)
        space = {"__name__": "example"}
        exec(compile(self.text(path), path, "exec"), space)
        sys.path.remove(folder)
        own = [value for value in space.values() if isinstance(value, type) and value.__module__ == "example"]
        return own[0]().eval()

    def pack(self, name, files, config=None, **model):
        """An archive as torch-model-archiver makes it, but that weights are not deflated."""
        if config is not None:
            files, model = {**files, "model-config.yaml": config if isinstance(config, str) else yaml.safe_dump(config)}, {**model, "configFile": "model-config.yaml"}
        manifest = {"createdOn": "27/11/2026 12:00:00", "runtime": "python", "archiverVersion": "0.12.0", "model": {"modelName": name, "modelVersion": "1.0", **model}}
        with zipfile.ZipFile(pathlib.Path(self.folder, name + ".mar"), "w") as packed:
            packed.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
            for file, content in files.items():
                packed.writestr(file, content)

    def register(self, name, more=""):
        got = self.ask(f"/models?url={name}.mar&initial_workers=1{more}", method="POST")
        self.expect(f"{name} is registered", got[0], 200)
        if got[0] != 200:
            raise RuntimeError(str(got))

    def serve(self, name, files, config=None, **model):
        self.pack(name, files, config, **model)
        self.register(name)

    def predict(self, name, body, headers=None):
        return self.ask(f"/predictions/{name}", body, headers=headers)

    def said(self, name, body):
        """The same of a text."""
        status, content = self.predict(name, body)
        return status, content.decode() if isinstance(content, bytes) else content

    def end(self):
        """The models of an example go."""
        for kind, key in (("workflows", "workflowName"), ("models", "modelName")):
            for one in self.ask(f"/{kind}")[1][kind]:
                self.ask(f"/{kind}/{one[key]}", method="DELETE")
        for file in pathlib.Path(self.folder).glob("*.?ar"):
            file.unlink()


# ---- pictures ----


@example("image_classifier/mnist/mnist_handler.py", "image_classifier/mnist/mnist.py", "custom_metrics/mnist_handler.py")
def mnist(s):
    net = s.module("image_classifier/mnist/mnist.py")
    code, weights, script = s.files("image_classifier/mnist/mnist.py"), state_of(net), saved(torch.jit.save, torch.jit.trace(net, torch.zeros(1, 1, 28, 28)))
    for name, path in (("mnist", "image_classifier/mnist/mnist_handler.py"), ("metrics", "custom_metrics/mnist_handler.py")):
        handler = s.files(path)
        s.serve(name, {**handler, **code, "mnist.pt": weights}, handler="mnist_handler.py", modelFile="mnist.py", serializedFile="mnist.pt")
        s.serve(name + "_script", {**handler, "mnist.pt": script}, handler="mnist_handler.py", serializedFile="mnist.pt")
        for spread in (40, 80, 120):
            digit = picture("L", (28, 28), spread)
            x = transforms.Normalize((0.1307,), (0.3081,))(transforms.ToTensor()(opened(digit)))
            wanted = (200, net(x[None]).argmax(1).item())
            s.expect(name, s.predict(name, digit), wanted)
            s.expect(name + " as TorchScript", s.predict(name + "_script", digit), wanted)


def classifier(s, path, *more):
    """A model of the examples with a built-in handler, or one of their own."""
    net = s.module(path)
    model = {"handler": more[0].rpartition("/")[2] if more else "image_classifier", "modelFile": "model.py", "serializedFile": "net.pt"}
    s.serve("net", {**s.files(path, *more), "net.pt": state_of(net)}, **model)
    photo = picture()
    s.expect(path, s.predict("net", photo), close(likeliest(net, photo)))


@example("image_classifier/resnet_18/model.py", "image_classifier/squeezenet/model.py", "image_classifier/alexnet/model.py",
         "image_classifier/densenet_161/model.py", "image_classifier/resnet_152_batch/model.py", "benchmarking/resnet50/model.py")
def built_in_classifiers(s):
    labels = {str(i): [f"n{i}", f"label {i}"] for i in range(1000)}
    net = s.module("image_classifier/resnet_18/model.py")
    s.serve("labels", {**s.files("image_classifier/resnet_18/model.py"), "net.pt": state_of(net), "index_to_name.json": json.dumps(labels)},
            handler="image_classifier", modelFile="model.py", serializedFile="net.pt")
    photo = picture()
    s.expect("with labels", s.predict("labels", photo), close(likeliest(net, photo, [label for _, label in labels.values()])))
    for folder in ("image_classifier/squeezenet", "image_classifier/alexnet", "image_classifier/densenet_161", "image_classifier/resnet_152_batch",
                   "benchmarking/resnet50"):
        s.end()
        classifier(s, f"{folder}/model.py")


@example("image_classifier/vgg_16/vgg_handler.py", "image_classifier/vgg_16/model.py")
def vgg(s):
    classifier(s, "image_classifier/vgg_16/model.py", "image_classifier/vgg_16/vgg_handler.py")


@example("image_classifier/near_real_time_video/near_real_time_video_handler.py")
def video(s):
    net = s.module("image_classifier/resnet_18/model.py")
    path, photos = "image_classifier/near_real_time_video/near_real_time_video_handler.py", [picture(spread=spread) for spread in (30, 90)]
    body = json.dumps({f"frame{i}": base64.b64encode(photo).decode() for i, photo in enumerate(photos)}).encode()
    script = saved(torch.jit.save, torch.jit.trace(net, torch.zeros(1, 3, 224, 224)))
    s.serve("eager", {**s.files(path, "image_classifier/resnet_18/model.py"), "net.pt": state_of(net)},
            handler="near_real_time_video_handler.py", modelFile="model.py", serializedFile="net.pt")
    s.serve("script", {**s.files(path), "net.pt": script}, handler="near_real_time_video_handler.py", serializedFile="net.pt")
    for name in ("eager", "script"):
        got = s.predict(name, body, {"Content-Type": "application/json"})
        s.expect(f"{name}: two frames", (got[0], len(got[1])), (200, 2))
        for i, photo in enumerate(photos):
            s.expect(f"{name}: frame {i}", (got[0], got[1][i]), close(likeliest(net, photo)))


@example("micro_batching/micro_batching_handler.py")
def micro_batches(s):
    net = s.module("image_classifier/resnet_18/model.py")
    s.serve("micro", {**s.files("micro_batching/micro_batching_handler.py"), "net.pt": saved(torch.jit.save, torch.jit.trace(net, torch.zeros(1, 3, 224, 224)))},
            config=s.text("micro_batching/config.yaml"),
            handler="micro_batching_handler.py", serializedFile="net.pt")
    photos = [picture(spread=20 + 5 * i) for i in range(24)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        replies = list(pool.map(lambda photo: s.predict("micro", photo), photos))
    for photo, got in zip(photos, replies):
        s.expect("a picture of a batch", got, close(likeliest(net, photo)))


@example("image_segmenter/fcn/model.py", "image_segmenter/deeplabv3/model.py", "object_detector/fast-rcnn/model.py", "object_detector/maskrcnn/model.py")
def segments_and_objects(s):
    for path in ("image_segmenter/fcn", "image_segmenter/deeplabv3", "object_detector/fast-rcnn", "object_detector/maskrcnn"):
        kind = path.partition("/")[0]
        net = s.module(f"{path}/model.py")
        if kind == "object_detector":
            net.roi_heads.box_predictor.cls_score.bias[1] += 5  # else weights by chance are sure of no object
        else:
            net.classifier[-1].weight /= 1000  # else weights by chance give logits of 20,000, whose rounding shows in shares
        parts = [f"{path}/{file.name}" for file in s.source.joinpath(path).glob("*.py")]
        s.serve("net", {**s.files(*parts), "net.pt": state_of(net)}, handler=kind, modelFile="model.py", serializedFile="net.pt")
        photo = picture(size=(120, 100))
        got = s.predict("net", photo)
        if kind == "image_segmenter":
            s.expect(f"{path}: classes and shares", got, segments(torch.softmax(net(IMAGENET(opened(photo))[None])["out"], 1)[0]))
        else:
            found = net([transforms.ToTensor()(opened(photo))])[0]
            wanted = [box for box, score in zip(found["boxes"].tolist(), found["scores"].tolist()) if score >= 0.5]
            s.expect(f"{path}: objects", (got[0], len(got[1])), (200, len(wanted)))
            s.expect(f"{path}: there are some", len(wanted), lambda count: count)
            for one, box in zip(got[1], wanted):
                s.expect(f"{path}: a box", (200, [v for k, v in one.items() if k != "score"][0]), close(box, 1e-2))
        s.end()


@example("pt2/torch_inductor_caching/caching_handler.py")
def compiled(s):
    """With a model that is compiled in a minute or two: pt2/torch_compile's, a densenet161, takes many."""
    config = {"responseTimeout": 600, "minWorkers": 1, "maxWorkers": 1, "pt2": {"compile": {"enable": True, "backend": "inductor"}}}
    config["handler"] = {"torch_inductor_caching": {"torch_inductor_fx_graph_cache": True, "torch_inductor_cache_dir": f"{s.folder}/inductor"}}
    net = s.module("image_classifier/resnet_18/model.py")
    photo = picture()
    s.serve("cached", {**s.files("image_classifier/resnet_18/model.py", "pt2/torch_inductor_caching/caching_handler.py"), "net.pt": state_of(net)}, config=config,
            handler="caching_handler.py", modelFile="model.py", serializedFile="net.pt")
    s.expect("what torch.compile makes of it", s.predict("cached", photo), close(likeliest(net, photo), 1e-3))
    s.expect("it was torch.compile", pathlib.Path(s.folder, "inductor").is_dir(), True)


# ---- texts ----


def bert_files(folder, kind, **more):
    """A small model of `kind` and its tokenizer, and their files."""
    vocabulary = pathlib.Path(folder, "vocab.txt")
    vocabulary.write_text("\n".join(WORDS.split()))
    tokenizer = transformers.BertTokenizer(str(vocabulary))
    config = transformers.BertConfig(vocab_size=len(WORDS.split()), hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                                     max_position_embeddings=160, **more)
    model = kind(config).eval()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer, {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}


def bert_config(s, mode, **more):
    config = yaml.safe_load(s.text("Huggingface_Transformers/model-config.yaml"))
    config["handler"].update(mode=mode, captum_explanation=False, **more)
    del config["pt2"]
    return config


def padded(tokenizer, *texts):
    return tokenizer(*texts, max_length=150, padding="max_length", truncation=True, return_tensors="pt")


@example(HUGGINGFACE)
def sequences(s):
    text, captum = (s.text(f"Huggingface_Transformers/Seq_classification_artifacts/{name}.txt") for name in ("sample_text", "sample_text_captum_input"))
    labels = s.files("Huggingface_Transformers/Seq_classification_artifacts/index_to_name.json")
    config = bert_config(s, "sequence_classification")
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer, files = bert_files(folder, transformers.BertForSequenceClassification, num_labels=2)
    own = {**s.files(HUGGINGFACE), **files, **labels}
    handler = {"handler": "Transformer_handler_generalized.py"}
    s.serve("bert", own, config, serializedFile="model.safetensors", **handler)
    explained = {**config, "handler": {**config["handler"], "captum_explanation": True}}
    s.serve("explained", own, explained, serializedFile="model.safetensors", **handler)
    model.config.return_dict = False
    traced = torch.jit.trace(model, (torch.ones(1, 150, dtype=torch.long), torch.ones(1, 150, dtype=torch.long)), strict=False)
    scripted = {**config, "handler": {**config["handler"], "save_mode": "torchscript"}}
    s.serve("scripted", {**own, "net.pt": saved(torch.jit.save, traced)}, scripted, serializedFile="net.pt", **handler)
    names = json.loads(labels["index_to_name.json"])
    for words in (text, "the weather is nice", "economy ?"):
        encoded = padded(tokenizer, words)
        wanted = (200, names[str(model(encoded["input_ids"], encoded["attention_mask"])[0].argmax(1).item())])
        for name in ("bert", "scripted"):
            s.expect(f"{name}: {words}", s.said(name, words.encode()), wanted)
    got = s.predict("explained", captum.encode())
    s.expect("the class of what is explained", got[0], 200)
    status, said = s.ask("/explanations/explained", captum.encode())
    s.expect("explained by captum", (status, said), lambda got: got[0] == 200 and got[1]["words"][:3] == ["[CLS]", "bloomberg", "has"] and
             len(got[1]["words"]) == len(got[1]["importances"]))


@example(HUGGINGFACE)
def tokens(s):
    text = s.text("Huggingface_Transformers/Token_classification_artifacts/sample_text.txt").strip()
    labels = s.files("Huggingface_Transformers/Token_classification_artifacts/index_to_name.json")
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer, files = bert_files(folder, transformers.BertForTokenClassification, num_labels=9)
    s.serve("tokens", {**s.files(HUGGINGFACE), **files, **labels}, bert_config(s, "token_classification"), serializedFile="model.safetensors",
            handler="Transformer_handler_generalized.py")
    encoded = padded(tokenizer, text)
    classes = model(encoded["input_ids"], encoded["attention_mask"])[0].argmax(2)[0].tolist()
    names = json.loads(labels["index_to_name.json"])["label_list"].strip("][").split(", ")
    wanted = [[token, names[i]] for token, i in zip(tokenizer.tokenize(tokenizer.decode(encoded["input_ids"][0])), classes)]
    s.expect("tokens and labels", s.predict("tokens", text.encode()), (200, wanted))


@example(HUGGINGFACE)
def questions(s):
    body = s.text("Huggingface_Transformers/QA_artifacts/sample_text.txt")
    with tempfile.TemporaryDirectory() as folder:
        model, tokenizer, files = bert_files(folder, transformers.BertForQuestionAnswering)
    s.serve("questions", {**s.files(HUGGINGFACE), **files}, bert_config(s, "question_answering"), serializedFile="model.safetensors",
            handler="Transformer_handler_generalized.py")
    asked = json.loads(body)
    encoded = padded(tokenizer, asked["question"], asked["context"])
    out = model(encoded["input_ids"], encoded["attention_mask"])
    ids = encoded["input_ids"][0].tolist()[out.start_logits.argmax():out.end_logits.argmax() + 1]
    wanted = tokenizer.convert_tokens_to_string(tokenizer.convert_ids_to_tokens(ids))
    s.expect("an answer", s.said("questions", body.encode()), (200, wanted))


def byte_pairs(folder):
    """A tokenizer of GPT-2's kind, of all bytes; its files are in the folder."""
    own = tokenizers.ByteLevelBPETokenizer()
    own.train_from_iterator([WORDS], vocab_size=300, special_tokens=["<|endoftext|>"], show_progress=False)
    own.save_model(folder)


@example(HUGGINGFACE)
def generated(s):
    text = "the weather is nice"
    with tempfile.TemporaryDirectory() as folder:
        byte_pairs(folder)
        tokenizer = transformers.GPT2TokenizerFast(f"{folder}/vocab.json", f"{folder}/merges.txt", pad_token="<|endoftext|>")
        model = transformers.GPT2LMHeadModel(transformers.GPT2Config(vocab_size=len(tokenizer), n_embd=32, n_layer=2, n_head=2, n_positions=400))
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        files = {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}
    s.serve("generated", {**s.files(HUGGINGFACE), **files}, bert_config(s, "text_generation", model_name="small", max_length=20), serializedFile="model.safetensors",
            handler="Transformer_handler_generalized.py")
    s.expect("it goes on from the text", s.said("generated", text.encode()), lambda got: got[0] == 200 and got[1].startswith(text) and len(got[1]) > len(text))


@example("large_models/Huggingface_accelerate/custom_handler.py")
def bloom(s):
    text = "the weather is nice"
    path = "large_models/Huggingface_accelerate"
    setup = {**json.loads(s.text(f"{path}/setup_config.json")), "max_memory": {"cpu": "2GB"}, "device_map": "cpu", "torch_dtype": "float32", "max_length": "20"}
    packed = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        own = tokenizers.ByteLevelBPETokenizer()
        own.train_from_iterator([WORDS], vocab_size=300, special_tokens=["<unk>", "<s>", "</s>", "<pad>"], show_progress=False)
        own.save(f"{folder}/tokenizer.json")
        transformers.BloomTokenizerFast(tokenizer_file=f"{folder}/tokenizer.json").save_pretrained(folder)
        transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=300, hidden_size=32, n_layer=2, n_head=2)).save_pretrained(folder)
        with zipfile.ZipFile(packed, "w") as archive:
            for file in pathlib.Path(folder).iterdir():
                archive.write(file, file.name)
    s.serve("bloom", {**s.files(f"{path}/custom_handler.py"), "model.zip": packed.getvalue(), "setup_config.json": json.dumps(setup)}, handler="custom_handler.py")
    s.expect("it goes on from the text", s.said("bloom", text.encode()), lambda got: got[0] == 200 and got[1].startswith(text))


class Words(torch.nn.Module):
    """Counts letters of texts, as a scripted tokenizer with its model takes them."""

    def forward(self, texts: list[str]) -> torch.Tensor:
        rows: list[list[float]] = []
        for text in texts:
            rows.append([0.1 * text.count("a"), 0.1 * text.count("e"), 0.1 * len(text), 0.5])
        return torch.tensor(rows)


@example("text_classification_with_scriptable_tokenizer/handler.py")
def scripted_tokenizer(s):
    labels = ["World", "Sports", "Business", "Sci/Tec"]
    s.serve("texts", {**s.files("text_classification_with_scriptable_tokenizer/handler.py"), "net.pt": saved(torch.jit.save, torch.jit.script(Words())),
                      "torchtext.py": "", "index_to_name.json": json.dumps({str(i): label for i, label in enumerate(labels)})},
            handler="handler.py", serializedFile="net.pt")
    shares = torch.softmax(Words()(["the state of bears"]), 1)[0].tolist()
    s.expect("a text", s.predict("texts", b"The <b>state</b> of bears"), close(dict(zip(labels, shares))))


@example("speech2text_wav2vec2/handler.py")
def speech(s):
    import wave
    config = transformers.Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64, conv_dim=(32, 32),
                                         conv_kernel=(10, 3), conv_stride=(5, 2), num_feat_extract_layers=2, num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=2)
    with tempfile.TemporaryDirectory() as folder:
        letters = ["<pad>", "<s>", "</s>", "<unk>", "|", *"EIARTNOSLCUDPMHGBFYWKVXZJQ'"]
        pathlib.Path(folder, "vocab.json").write_text(json.dumps({letter: i for i, letter in enumerate(letters)}))
        processor = transformers.Wav2Vec2Processor(transformers.Wav2Vec2FeatureExtractor(), transformers.Wav2Vec2CTCTokenizer(f"{folder}/vocab.json"))
        model = transformers.Wav2Vec2ForCTC(config).eval()
        processor.save_pretrained(folder)
        model.save_pretrained(folder)
        files = {file.name: file.read_bytes() for file in pathlib.Path(folder).iterdir()}
    samples = (torch.sin(torch.arange(8000) / 20) * 8000).to(torch.int16)
    sound = io.BytesIO()
    with wave.open(sound, "wb") as out:
        out.setnchannels(1), out.setsampwidth(2), out.setframerate(16000)
        out.writeframes(samples.numpy().tobytes())
    s.serve("speech", {**s.files("speech2text_wav2vec2/handler.py"), **files, "torchaudio.py": TORCHAUDIO}, handler="handler.py", serializedFile="model.safetensors")
    logits = model(processor(samples / 32768, sampling_rate=16000, return_tensors="pt").input_values)[0]
    s.expect("what it hears", s.said("speech", sound.getvalue()), (200, processor.decode(torch.argmax(logits, -1)[0])))


# ---- others ----


@example("stateful/sequence_batching/stateful_handler.py")
def sequences_with_state(s):
    net = s.module("stateful/model.py")
    config = {**yaml.safe_load(s.text("stateful/sequence_batching/model-config.yaml")), "minWorkers": 1, "maxWorkers": 1}  # its sequences know no worker
    s.serve("stateful", {**s.files("stateful/sequence_batching/stateful_handler.py", "stateful/model.py"), "net.pt": state_of(net)}, config,
            handler="stateful_handler.py", modelFile="model.py", serializedFile="net.pt")
    for number, sequence, wanted in ((1, "a", 1), (10, "b", 10), (2, "a", 3), (3, "a", 6), (5, "b", 15)):
        s.expect(f"sequence {sequence}", s.predict("stateful", str(number).encode(), {"ts_request_sequence_id": sequence}), (200, wanted))


@example("xgboost_classfication/xgboost_iris_handler.py")
def trees(s):
    import xgboost
    from sklearn import datasets
    flowers = datasets.load_iris()
    trained = xgboost.XGBClassifier(n_estimators=5).fit(flowers.data, flowers.target)
    with tempfile.TemporaryDirectory() as folder:
        trained.save_model(f"{folder}/iris_model.json")
        weights = pathlib.Path(folder, "iris_model.json").read_bytes()
    s.serve("iris", {**s.files("xgboost_classfication/xgboost_iris_handler.py", "xgboost_classfication/index_to_name.json"), "iris_model.json": weights},
            handler="xgboost_iris_handler.py", serializedFile="iris_model.json")
    for name in ("sample_input_1", "sample_input_2"):
        row = s.text(f"xgboost_classfication/{name}.txt")
        wanted = ["setosa", "versicolor", "virginica"][trained.predict([[float(x) for x in row.split(",")]])[0]]
        s.expect(name, s.said("iris", row.encode()), (200, wanted))


# ---- workflows ----


def register_workflow(s, name, spec, handler):
    """An archive as torch-workflow-archiver makes it."""
    manifest = {"createdOn": "27/11/2026 12:00:00", "archiverVersion": "0.2.15",
                "workflow": {"workflowName": name, "specFile": spec.rpartition("/")[2], "handler": handler.rpartition("/")[2]}}
    with zipfile.ZipFile(pathlib.Path(s.folder, name + ".war"), "w") as packed:
        packed.writestr("WAR-INF/MANIFEST.json", json.dumps(manifest))
        for file, content in s.files(spec, handler).items():
            packed.writestr(file, content)
    s.expect(f"{name} is registered", s.ask(f"/workflows?url={name}.war", method="POST"),
             (200, {"status": f"Workflow {name} has been registered and scaled successfully."}))


DOGS = "Workflows/dog_breed_classification"


@example(*(f"{DOGS}/{name}" for name in ("workflow_dog_breed_classification_handler.py", "cat_dog_classification_handler.py", "dog_breed_classification_handler.py",
                                         "workflow_dog_breed_classification.yaml")))
def dogs(s):
    """Two models: is it a cat, or else what dog is it?"""
    chooser = s.module(f"{DOGS}/cat_dog_classification_arch.py")
    breeds = s.module(f"{DOGS}/dog_breed_classification_arch.py")
    photos = [picture(spread=10), picture(spread=120)]
    scores = [chooser(IMAGENET(opened(photo))[None])[0] for photo in photos]
    with torch.no_grad():  # one of the pictures is to be a cat
        chooser.fc[-1].bias[0] += (scores[0][1] - scores[0][0] + scores[1][1] - scores[1][0]) / 2
    names = s.files(f"{DOGS}/index_to_name.json")
    labels = {int(i): label for i, label in json.loads(names["index_to_name.json"]).items()}
    for name, net, more in (("cat_dog_classification", chooser, {}), ("dog_breed_classification", breeds, names)):
        s.pack(name, {**s.files(f"{DOGS}/{name}_handler.py", f"{DOGS}/{name}_arch.py"), **more, "net.pt": state_of(net)},
               handler=f"{name}_handler.py", modelFile=f"{name}_arch.py", serializedFile="net.pt")
    register_workflow(s, "dogs", f"{DOGS}/workflow_dog_breed_classification.yaml", f"{DOGS}/workflow_dog_breed_classification_handler.py")
    s.expect("its models", sorted(model["modelName"] for model in s.ask("/models")[1]["models"]),
             ["dogs__cat_dog_classification", "dogs__dog_breed_classification", "dogs__pre_processing"])
    kinds = set()
    for photo in photos:
        is_dog = chooser(IMAGENET(opened(photo))[None]).argmax().item() == 1
        kinds.add(is_dog)
        got = s.ask("/wfpredict/dogs", photo)
        if is_dog:
            s.expect("a dog", got, close(likeliest(breeds, photo, labels)))
        else:
            s.expect("a cat", got, (200, b"It's a cat!"))
    s.expect("both ways", len(kinds), 2)
    s.expect("deleted", s.ask("/workflows/dogs", method="DELETE"), (200, {"status": 'Workflow "dogs" unregistered'}))


NMT = "Workflows/nmt_transformers_pipeline"


@example("nmt_transformer/model_handler_generalized.py", *(f"{NMT}/{name}" for name in (
    "nmt_workflow_handler_dualtranslation.py", "nmt_workflow_handler_retranslation.py", "nmt_workflow_dualtranslation.yaml", "nmt_workflow_retranslation.yaml")))
def translations(s):
    """Two workflows of two models; what stands in for fairseq, which no Python of today has, reverses the words."""
    for name, key in (("TransformerEn2De", "german_output"), ("TransformerEn2Fr", "french_output"), ("TransformerDe2En", "english_output")):
        s.pack(name, {**s.files("nmt_transformer/model_handler_generalized.py"), "setup_config.json": json.dumps({"bpe": "fastbpe", "translated_output": key}),
                      "fairseq/__init__.py": "", "fairseq/models/__init__.py": "", "fairseq/models/transformer.py": FAIRSEQ}, handler="model_handler_generalized.py")
    for name in ("dualtranslation", "retranslation"):
        register_workflow(s, name, f"{NMT}/nmt_workflow_{name}.yaml", f"{NMT}/nmt_workflow_handler_{name}.py")
    s.expect("from English to both", s.ask("/wfpredict/dualtranslation", b"one two"),
             (200, {"english_input": "one two", "german_translation": "two one", "french_translation": "two one"}))
    s.expect("there and back", s.ask("/wfpredict/retranslation", b"one two"), (200, {"german_translation": "two one", "english_re_translation": "one two"}))


# ---- all of them ----


def why_not(path):
    return next((WHY[start] for start in sorted(WHY, key=len, reverse=True) if path.startswith(start)), None)


def fetch(folder):
    source = os.environ.get("TREADLE_TORCHSERVE") or SOURCE
    if pathlib.Path(source, "examples").is_dir():
        return source
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    return folder


def prepare_weights(folder):
    """What torchvision would fetch for backbones of the examples."""
    os.environ["TORCH_HOME"] = str(folder)
    own = pathlib.Path(folder, "hub/checkpoints")
    own.mkdir(parents=True)
    for make, file in ((torchvision.models.resnet101, "resnet101-63fe2227.pth"), (torchvision.models.resnet50, "resnet50-0676ba61.pth")):
        torch.save(make().state_dict(), own / file)


def run_example(s, paths, function):
    try:
        function(s)
    except Exception:
        traceback.print_exc()
        s.expect(function.__name__, "an exception", "none")
    s.end()
    print(f"{function.__name__}: {', '.join(paths)}", flush=True)


@torch.no_grad()
def main():
    warnings.simplefilter("ignore")
    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    parts = sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        store = pathlib.Path(folder, "store")
        store.mkdir()
        s = Suite(pathlib.Path(sys.argv[1]).resolve() / "treadle-serve", fetch(f"{folder}/source"), str(store))
        prepare_weights(f"{folder}/weights")
        with serving(s, store, "--python-handlers", "--workers", "2", "--model-store", ".", "--enable-model-api", "--most-held", str(1 << 30), temporary=str(store)) as server:
            for paths, function in EXAMPLES:
                if not parts or any(part in path for part in parts for path in paths):
                    run_example(s, paths, function)
            server.terminate()
            s.expect("the end", server.wait(30), 0)
        if s.failed:
            print(log_of(store))
        ran = {path for paths, _ in EXAMPLES for path in paths}
        print("\nnot run:")
        for file in sorted(s.source.rglob("*handler*.py")):
            path = str(file.relative_to(s.source))
            if path not in ran:
                print(f"  {path}: {why_not(path)}")
                s.expect(f"a reason why {path} is not run", why_not(path), lambda reason: reason)
    print(f"{s.passed} passed, {s.failed} failed")
    return s.failed > 0


if __name__ == "__main__":
    sys.exit(main())
