from concurrent.futures import Future
from os import PathLike
from typing import Any, Callable, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

from . import debug as debug, itt as itt, runtime as runtime
from ._core import Array as Array

__version__: str

class Error(Exception):
    text: str
    name: str
    offset: int

class BadArgument(Error, ValueError): ...
class BadFile(Error): ...
class Unsupported(Error, NotImplementedError): ...
class NoResource(Error, MemoryError): ...
class Internal(Error, RuntimeError): ...
class Cancelled(Error): ...
class TimedOut(Error, TimeoutError): ...

class Value(NamedTuple):
    name: str
    kind: str
    dtype: str
    shape: Optional[Tuple[Union[int, str, None], ...]]
    has_default: bool
    is_complex: bool

class Outputs(Tuple[Any, ...]):
    names: Tuple[str, ...]
    def __getitem__(self, key: Union[int, slice, str]) -> Any: ...  # type: ignore[override]
    def _asdict(self) -> dict[str, Any]: ...

_Out = Union[Any, Sequence[Any], Mapping[str, Any], None]

class Session:
    model: Model
    timeout: Optional[float]
    def __call__(self, *args: Any, out: _Out = ..., **named: Any) -> Any: ...
    @property
    def stats(self) -> dict[str, int]: ...
    @property
    def state(self) -> dict[str, Array]: ...
    def set_state(self, name: str, value: Any) -> None: ...
    def reset(self) -> None: ...
    def cancel(self) -> None: ...

class Bench:
    times: list[float]
    first: float
    mean: float
    min: float
    p50: float
    p90: float
    p99: float
    runs: int
    threads: int
    arena_bytes: int

class Model:
    name: str
    threads: int
    interop_threads: int
    inputs: Tuple[Value, ...]
    outputs: Tuple[Value, ...]
    states: Tuple[Value, ...]
    def __call__(self, *args: Any, out: _Out = ..., **named: Any) -> Any: ...
    def run_async(self, *args: Any, out: _Out = ..., **named: Any) -> Future[Any]: ...
    def session(self, threads: Optional[int] = ..., spin_us: int = ..., state: Optional[Mapping[str, Any]] = ...,
                print: Optional[Callable[[str], object]] = ..., interop_threads: Optional[int] = ...,
                timeout: Optional[float] = ...) -> Session: ...
    @property
    def stats(self) -> dict[str, Any]: ...
    def text(self, stage: str = ..., format: str = ...) -> str: ...
    def plan_text(self) -> str: ...
    def reset(self) -> None: ...
    def save(self, path: Union[str, PathLike[str]]) -> None: ...
    def bench(self, *args: Any, min_time: float = ..., warmup: int = ..., threads: Optional[int] = ..., **named: Any) -> Bench: ...

def load(source: Union[str, PathLike[str], bytes, bytearray, memoryview, Any], example_inputs: Any = ..., *,
         backend: Optional[str] = ..., math: Optional[str] = ..., isa: Optional[str] = ..., threads: int = ..., interop_threads: int = ...,
         weights: Union[str, PathLike[str], None] = ..., disabled_passes: Union[str, Sequence[str], None] = ...,
         format: Optional[str] = ..., seed: int = ..., method: Optional[str] = ...,
         specialise: Union[str, dict[str, Union[int, Sequence[int]]], None] = ...,
         cc: Optional[str] = ..., trusted: bool = ..., debug_dir: Union[str, PathLike[str], None] = ..., verbose: bool = ...,
         inject: Optional[str] = ..., precision: Optional[str] = ..., tiered: bool = ..., strict: bool = ...,
         cc_limit_ms: int = ..., alone: Optional[str] = ..., tuning: Optional[str] = ..., disabled_kernels: Optional[str] = ...,
         taps: Optional[str] = ..., tapped_inputs: bool = ..., float64: bool = ..., edited: Optional[str] = ...,
         node_copies: Optional[str] = ..., keep_f32: Optional[str] = ..., state: Optional[str] = ...) -> Model: ...
def compile(source: Any, path: Union[str, PathLike[str]], example_inputs: Any = ..., *, isa: Union[str, Sequence[str], None] = ...,
            **options: Any) -> None: ...
class QuantizeReport(str):
    keep_f32: Optional[str]

def quantize(model: Union[str, PathLike[str]], data: Any, output: Union[str, PathLike[str], None] = ..., *, mode: str = ...,
             observer: str = ..., block: int = ..., keep: Sequence[str] = ..., max_loss: Optional[float] = ...,
             layers: int = ..., preprocess: Optional[str] = ..., isa: Optional[str] = ..., weights: Union[str, PathLike[str], None] = ...,
             smooth: Union[str, float, None] = ..., test: Union[str, PathLike[str], None] = ...,
             fit: Optional[bool] = ...) -> QuantizeReport: ...
def optimize(module: Any, example_inputs: Any, **options: Any) -> Callable[..., Any]: ...
def models(compiled: Any) -> list[Model]: ...

class FallbackGraph(NamedTuple):
    why: str
    where: str
    operators: dict[str, int]

def fallbacks() -> list[FallbackGraph]: ...

class Schedule(NamedTuple):
    wait: int
    warmup: int
    active: int
    repeat: int
    skip_first: int

def schedule(*, wait: int, warmup: int, active: int, repeat: int = ..., skip_first: int = ...) -> Schedule: ...

class Average:
    key: str
    kernel: str
    nodes: list[str]
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    cpu_time: float
    flops: float
    bytes: float

class Averages(list[Average]):
    self_cpu_time_total: float
    def table(self, sort_by: Optional[str] = ..., row_limit: int = ..., max_name_column_width: int = ...,
              header: Optional[str] = ...) -> str: ...

class profile:
    step_num: int
    def __init__(self, target: Any, *, schedule: Optional[Schedule] = ...,
                 on_trace_ready: Optional[Callable[[profile], Any]] = ..., records: int = ...) -> None: ...
    def start(self) -> None: ...
    def stop(self) -> None: ...
    def __enter__(self) -> profile: ...
    def __exit__(self, kind: Any, value: Any, trace: Any) -> None: ...
    def step(self) -> None: ...
    def key_averages(self, group_by: str = ...) -> Averages: ...
    @property
    def totals(self) -> dict[str, Any]: ...
    def export_chrome_trace(self, path: Union[str, PathLike[str]]) -> None: ...
    def export_stacks(self, path: Union[str, PathLike[str]], metric: str = ...) -> None: ...
    def export_html(self, path: Union[str, PathLike[str]]) -> None: ...

def set_num_threads(threads: int) -> None: ...
def get_num_threads() -> int: ...
def set_num_interop_threads(threads: int) -> None: ...
def get_num_interop_threads() -> int: ...
def parallel_info() -> str: ...
