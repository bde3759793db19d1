"""Treadle: trained models on CPUs.

    import treadle
    model = treadle.load("resnet50.onnx")
    print(model)
    y = model(x)                       # numpy in, numpy out; torch in, torch out
    y = model(x=x, out=y)              # into memory that is there already
"""

from ._core import Array
from ._core import version as __version__
from ._errors import BadArgument, BadFile, Cancelled, Error, Internal, NoResource, TimedOut, Unsupported
from ._options import FallbackGraph
from ._model import Bench, Model, Outputs, Session, Value, compile, load
from ._parallel import get_num_interop_threads, get_num_threads, parallel_info, set_num_interop_threads, set_num_threads
from ._profile import Average, Averages, Schedule, profile, schedule
from ._quantize import QuantizeReport, quantize

__all__ = ["Array", "Average", "Averages", "BadArgument", "BadFile", "Bench", "Cancelled", "Error", "FallbackGraph", "Internal", "Model", "NoResource", "TimedOut",
           "Outputs", "QuantizeReport", "Schedule", "Session", "Unsupported", "Value", "compile", "fallbacks", "get_num_interop_threads",
           "get_num_threads", "load", "models", "optimize", "parallel_info", "profile", "quantize", "schedule",
           "set_num_interop_threads", "set_num_threads"]


def optimize(module, example_inputs, **options):
    """A torch.nn.Module's forward on Treadle: a callable that takes and gives what the module does. `example_inputs` as for
    load, `options` as for torch.compile."""
    from . import _torch
    return _torch.optimize(module, example_inputs, **options)


def fallbacks():
    """The graphs of torch.compile that PyTorch runs, each with `why`, `where` and its `operators`."""
    import sys
    torch = sys.modules.get("treadle._torch")
    return torch.fallbacks() if torch else []


def models(compiled):
    """The Models behind what torch.compile(..., backend="treadle") or optimize gave, one for each graph that was called."""
    from . import _torch
    return _torch.models(compiled)


def __getattr__(name):
    """Modules of the package that are imported when somebody asks for them."""
    if name in ("debug", "itt", "runtime"):
        import importlib
        return importlib.import_module("." + name, __name__)
    raise AttributeError(f"module 'treadle' has no attribute {name!r}")
