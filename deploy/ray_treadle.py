"""What the actors of one machine share, for ray_batch.py and ray_serve.py: core sets, each of which one process has, and
plans (.tdl), each of which is made once and mapped by all. Ray counts CPUs and binds none, so the binding is done here."""
import errno
import fcntl
import hashlib
import io
import mmap
import os
import pathlib
import stat
import tempfile
import time

import numpy
import treadle
from PIL import Image

MEAN = numpy.array([0.485, 0.456, 0.406], "f4")[:, None, None]  # of ImageNet, as torchvision has them
DEVIATION = numpy.array([0.229, 0.224, 0.225], "f4")[:, None, None]
SYSTEM = pathlib.Path("/sys/devices/system")


def _folder():
    """Of this user on this machine; another user's is refused, since whoever writes there chooses what is run."""
    folder = pathlib.Path(tempfile.gettempdir(), f"treadle-ray-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise RuntimeError(f"{folder} is not this user's alone: remove it, or set TMPDIR to a folder of your own")
    return folder


def _numbers(file):
    """Of a list as Linux writes them, 0-3,8; none where the file is not there."""
    try:
        parts = [part.split("-") for part in file.read_text().strip().split(",") if part]
    except OSError:
        return []
    return [number for part in parts for number in range(int(part[0]), int(part[-1]) + 1)]


def core_sets(cores):
    """The sets of as many cores that this machine has for us, as lists of CPUs: within one NUMA node, and of each core
    the first CPU alone."""
    allowed = sorted(os.sched_getaffinity(0))
    first = [cpu for cpu in allowed
             if cpu == min(set(_numbers(SYSTEM / f"cpu/cpu{cpu}/topology/thread_siblings_list")) & set(allowed) or {cpu})]
    nodes = [[cpu for cpu in first if cpu in _numbers(file)] for file in sorted(SYSTEM.glob("node/node*/cpulist"))]
    return [node[at:at + cores] for node in nodes or [first] for at in range(0, len(node) - cores + 1, cores)]


def _lock(name, wait):
    """An open file that is locked until it is closed, or its process ends, however that is; None: another has it."""
    file = os.open(_folder() / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError as error:
        os.close(file)
        if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
            raise
        return None
    return file


class CoreSet:
    """Cores that no other process of this user on this machine has, until this one ends. All threads of the process are
    bound to them, those of Ray, too; threads that are started later inherit that."""

    def __init__(self, cores, seconds=60.0):
        sets = core_sets(cores)
        end = time.monotonic() + seconds  # a process that was killed may still be ending
        while not any(self._take(cpus) for cpus in sets):
            if time.monotonic() > end:
                raise RuntimeError(f"all {len(sets)} sets of {cores} cores of this machine are taken: give Ray no more CPUs "
                                   f"for it than {len(sets) * cores} (ray start --num-cpus), or actors fewer cores")
            time.sleep(0.1)
        for thread in os.listdir("/proc/self/task"):
            try:
                os.sched_setaffinity(int(thread), self.cpus)
            except ProcessLookupError:
                pass  # it has ended

    def _take(self, cpus):
        self.locks, self.cpus = [], cpus
        for cpu in cpus:  # CPU by CPU, so that sets of other sizes do not overlap
            lock = _lock(f"cpu-{cpu}", wait=False)
            if lock is None:
                self.release()
                return False
            self.locks.append(lock)
        return True

    def release(self):
        for lock in self.locks:
            os.close(lock)
        self.locks = []


def _content(source):
    if source.startswith("builtin:"):
        return source.encode()
    with open(source, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        return hashlib.sha256(content).digest()


def plan_of(source):
    """The path of `source` (a model file, or builtin:NAME) as a .tdl on this machine: the process that asks first makes
    it, the others wait, and all map the same pages. A .tdl is taken as it is. A model whose weights lie in files beside it
    is known by its own bytes: give it another name or a .tdl when only those have changed."""
    source = str(source)
    if source.endswith(".tdl"):
        return source
    name = hashlib.sha256(_content(source) + repr((treadle.__version__, source)).encode()).hexdigest()[:32]
    plan = _folder() / f"{name}.tdl"
    lock = _lock(f"{name}.lock", wait=True)
    try:
        if not plan.exists():
            made = plan.with_suffix(".new.tdl")
            treadle.compile(source, made)
            made.rename(plan)  # what others see is whole
    finally:
        os.close(lock)
    return str(plan)


def load(source, cores):
    return treadle.load(plan_of(source), threads=cores)


def picture(data):
    """Bytes of a picture's file as f32 [3, 224, 224]: 256 at the shorter side, the middle, ImageNet's mean and deviation."""
    try:
        image = Image.open(io.BytesIO(data)).convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"this is no picture that Pillow reads ({error}): send a JPEG or PNG file") from error
    scale = 256 / min(image.size)
    image = image.resize([max(224, int(side * scale)) for side in image.size], Image.BILINEAR)
    left, top = ((side - 224) // 2 for side in image.size)
    pixels = numpy.asarray(image.crop((left, top, left + 224, top + 224)), "f4").transpose(2, 0, 1)
    return (pixels / numpy.float32(255) - MEAN) / DEVIATION


def likeliest(scores, count=5):
    """Of each row of logits the likeliest classes and their probabilities, the likeliest first."""
    scores = scores.astype("f8")
    powers = numpy.exp(scores - scores.max(axis=1, keepdims=True))
    shares = powers / powers.sum(axis=1, keepdims=True)
    classes = numpy.argsort(-shares, axis=1, kind="stable")[:, :count]
    return classes, numpy.take_along_axis(shares, classes, axis=1).astype("f4")
