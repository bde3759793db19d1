"""Options of load, optimize and torch.compile: what they may be, found out before there is a model."""

import collections
import os
import re
import shutil
from collections.abc import Mapping

from . import _core
from ._errors import BadArgument

FallbackGraph = collections.namedtuple("FallbackGraph", "why where operators")
FallbackGraph.__doc__ = """A graph that PyTorch runs: the reason, the user's line where it begins ("" if unknown), its operators."""

_SIZES = r"(\s*[^\s=;,]+=[1-9]\d*(,[1-9]\d*)*\s*|\s+|;)*"
_SMALL = b'tdir 1\ninput %0 "x": f32[1]\n%1 = aten::neg(%0)\noutput "y" %1\n'


# Fields of td_load_options that load takes as they are, by their names: whatever treadle/options.def lists, but for those that
# it says itself.
FIELDS = frozenset(_core.options) - {"cache", "for_file"}


def known_only(given, known, what):
    """TypeError for keywords that are none."""
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise TypeError(f"{what} has no option {unknown[0]}; there are: {', '.join(sorted(known))}")


def thread_count(value, name):
    """0 for what the machine allows, else how many."""
    if value is None:
        return 0
    if isinstance(value, bool) or not hasattr(value, "__index__") or not 0 <= value.__index__() <= 4096:
        raise BadArgument(f"{name} is {value!r}; there are: 0 (what the machine allows), 1, 2, ... 4096", name)
    return value.__index__()


def sizes(specialise):
    """{"batch": (1, 8), "seq": 128} as the library takes it: "batch=1,8 seq=128"."""
    if isinstance(specialise, str) and not re.fullmatch(_SIZES, specialise):
        raise BadArgument(f"specialise is {specialise!r}; it takes \"batch=1,8 seq=128\", lists behind a \";\"", "specialise")
    if specialise is None or isinstance(specialise, str):
        return specialise
    if not isinstance(specialise, Mapping):
        raise BadArgument(f"specialise is {specialise!r}; it takes {{\"batch\": (1, 8), \"seq\": 128}} or \"batch=1,8 seq=128\"", "specialise")
    parts = []
    for name, of in specialise.items():
        of = (of,) if isinstance(of, int) else of
        if not isinstance(of, (list, tuple)) or not of or not all(isinstance(n, int) and n > 0 for n in of):
            raise BadArgument(f"specialise: the sizes of {name} are {of!r}; they must be numbers from 1 on", "specialise")
        parts.append(f"{name}={','.join(map(str, of))}")
    return " ".join(parts)


def passes(disabled):
    """Names with commas between them."""
    return disabled if disabled is None or isinstance(disabled, str) else ",".join(disabled)


def compiler_and_cache(cc):
    """Options that say where the C compiler is and where its work is kept, as the command finds them; None where either is
    missing: loops are interpreted."""
    if cc == "none":
        return {"cc": None, "cache": None}
    if cc is not None and not isinstance(cc, (str, os.PathLike)):
        raise BadArgument(f"cc is {cc!r}; it takes the name or path of a C compiler, or \"none\"", "cc")
    found = next(filter(None, map(shutil.which, ("cc", "gcc", "clang") if cc is None else (cc,))), None)
    if cc is not None and found is None:
        raise BadArgument(f"there is no program called {cc}; leave cc out for the first of cc, gcc and clang, or say \"none\"", "cc")
    caches = os.environ.get("XDG_CACHE_HOME", "")
    caches = caches if os.path.isabs(caches) else os.path.join(os.path.expanduser("~"), ".cache")
    cache = os.environ.get("TREADLE_CACHE") or os.path.join(caches, "treadle")
    return {"cc": found, "cache": cache} if found and os.path.isabs(cache) else {"cc": None, "cache": None}


def check(options):
    """Errors for values that no graph can be compiled with; they list what there is."""
    for name in ("threads", "interop_threads"):
        thread_count(options.get(name), name)
    sizes(options.get("specialise"))
    compiler_and_cache(options.get("cc"))
    words = {name: options.get(name) for name in ("backend", "math", "isa", "precision", "inject")}
    words["disabled_passes"] = passes(options.get("disabled_passes"))
    for name, value in words.items():
        if value is not None and not isinstance(value, str):
            raise BadArgument(f"{name} is {value!r}; it takes a name", name)
    _core.load(_SMALL, True, **words)  # whatever the library does not know, it says
