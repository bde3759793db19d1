"""Treadle: trained models on CPUs.

    import treadle
    model = treadle.load("resnet50.onnx")
    print(model)
    y = model(x)                       # numpy in, numpy out; torch in, torch out
    y = model(x=x, out=y)              # into memory that is there already
"""

from ._core import Array
from ._core import version as __version__
from ._errors import BadArgument, BadFile, Error, Internal, NoResource, Unsupported
from ._model import Bench, Model, Outputs, Session, Value, load
from ._profile import Average, Averages, Schedule, profile, schedule

__all__ = ["Array", "Average", "Averages", "BadArgument", "BadFile", "Bench", "Error", "Internal", "Model", "NoResource",
           "Outputs", "Schedule", "Session", "Unsupported", "Value", "load", "optimize", "profile", "schedule"]


def optimize(module, example_inputs, **options):
    """A torch.nn.Module's forward on Treadle: a callable that takes and gives what the module does. `options` are those
    of load."""
    from . import _torch
    return _torch.optimize(module, example_inputs, **options)
