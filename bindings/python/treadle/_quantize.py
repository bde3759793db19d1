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


def quantize(model, data, output, *, mode="static", observer="minmax", block=32, keep=(), max_loss=None, layers=10,
             preprocess=None):
    """Writes `model` (a path) with products of 8 or 4 bits to the ONNX file `output`, and gives the report as text. `data`: a
    path as for `treadle quantize`, or samples: arrays or tensors, dicts of them by input where there are several. The other
    arguments are the program's options."""
    options = ["--mode", mode, "--observer", observer, "--block", str(block), "--layers", str(layers)]
    for node in keep:
        options += ["--keep", node]
    if max_loss is not None:
        options += ["--max-loss", str(max_loss)]
    if preprocess is not None:
        options += ["--preprocess", preprocess]
    with tempfile.TemporaryDirectory() as folder:
        is_path = isinstance(data, (str, os.PathLike))
        if not is_path:
            _write_samples(data, folder)
        words = [command() + "-quantize", os.fspath(model), "--data", os.fspath(data) if is_path else folder, "-o",
                 os.fspath(output), *options]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        text = done.stderr.strip().removeprefix("treadle: quantize: ") or f"the program ended with {done.returncode}"
        raise _STATUS.get(done.returncode, _errors.Error)(text)
    return done.stdout
