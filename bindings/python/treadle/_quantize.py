"""treadle.quantize: the program treadle-quantize, with samples from memory too."""

import os
import subprocess
import tempfile

from . import _errors
from .__main__ import command

_STATUS = {2: _errors.BadArgument, 3: _errors.BadFile, 4: _errors.Unsupported, 5: _errors.NoResource}


def _write_samples(samples, folder):
    """A file for each array, a folder of files for each dict of them by the name of an input."""
    import numpy
    for i, sample in enumerate(samples):
        named = sample if isinstance(sample, dict) else None
        place = os.path.join(folder, f"{i:06}")
        if named is not None:
            os.mkdir(place)
        for name, value in named.items() if named is not None else (("", sample),):
            path = os.path.join(place, name + ".npy") if named is not None else place + ".npy"
            numpy.save(path, numpy.asarray(value.detach().cpu() if hasattr(value, "detach") else value))


class QuantizeReport(str):
    """The report as text. `keep_f32`: of "bf16" and "f16" the layers to be kept, as treadle.load takes them, else None."""
    keep_f32 = None


def quantize(model, data, output=None, *, mode="static", observer="minmax", block=32, keep=(), max_loss=None, layers=10,
             preprocess=None, isa=None, weights=None, smooth=None, test=None, fit=None):
    """Writes `model` (a path) with products of 8 or 4 bits to the ONNX file `output`, and gives the report as text. With
    mode "bf16" or "f16" nothing need be written: the report's keep_f32 lists the layers that precision=mode is to leave
    in f32. `data`: a path as for `treadle quantize`, or samples: arrays or tensors, dicts of them by input where there are
    several. The other arguments are the program's options."""
    options = ["--mode", mode, "--observer", observer, "--block", str(block), "--layers", str(layers)]
    for node in keep:
        options += ["--keep", node]
    given = {"max-loss": max_loss, "preprocess": preprocess, "isa": isa, "weights": weights, "smooth": smooth, "test": test,
             "fit": None if fit is None else "on" if fit else "off"}
    for name, value in given.items():
        if value is not None:
            options += ["--" + name, str(value)]
    halves = mode in ("bf16", "f16")
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as answer:
        is_path = isinstance(data, (str, os.PathLike))
        if not is_path:
            _write_samples(data, folder)
        listed = os.path.join(answer, "keep_f32") if halves and output is None else output
        if listed is not None:
            options += ["-o", os.fspath(listed)]
        words = [command() + "-quantize", os.fspath(model), "--data", os.fspath(data) if is_path else folder, *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            text = done.stderr.strip().removeprefix("treadle: quantize: ") or f"the program ended with {done.returncode}"
            raise _STATUS.get(done.returncode, _errors.Error)(text)
        report = QuantizeReport(done.stdout.replace(f": {listed}\n", "\n") if listed != output else done.stdout)
        if halves:
            with open(listed, encoding="utf-8") as file:
                report.keep_f32 = file.read().rstrip("\n")
    return report
