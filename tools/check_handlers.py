#!/usr/bin/env python3
"""Archives with Python handlers, served by treadle-serve: check_handlers.py BUILD [PYTHON]. Handlers run in PYTHON
(default: the one that runs this). Ends with a count of checks."""
import concurrent.futures
import errno
import contextlib
import json
import os
import pathlib
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import zipfile

ECHO = """
import ctypes, os, resource, socket, subprocess, sys, time
from multiprocessing import shared_memory
from ts.torch_handler.base_handler import BaseHandler
from ts.utils.util import PredictionException

def number_of(call, *words):
    ctypes.set_errno(0)
    return ctypes.get_errno() if call(*words) == -1 else 0

def calls():
    libc = ctypes.CDLL(None, use_errno=True)
    closed = [number_of(libc.unshare, 0), number_of(libc.ptrace, 0, 0, 0, 0), number_of(libc.personality, -1),
              number_of(libc.syscall, 425, 1, 0), number_of(libc.socket, socket.AF_PACKET, socket.SOCK_RAW, 0)]
    block = shared_memory.SharedMemory(create=True, size=4096)
    block.close()
    block.unlink()
    socket.create_server(("127.0.0.1", 0)).close()
    return closed + [subprocess.run(["true"]).returncode]

class Echo(BaseHandler):
    def initialize(self, context):
        super().initialize(context)
        print("loaded", self.manifest["model"]["modelName"])
        if os.path.exists(FLAG):
            raise RuntimeError("told not to start")

    def handle(self, data, context):
        return [self.answer(row, i, context) for i, row in enumerate(data)]

    def answer(self, row, i, context):
        body = row.get("body")
        if isinstance(body, dict):
            return {"keys": sorted(body)}
        if isinstance(body, str):
            return body.upper()
        what = bytes(body or b"").decode()
        if what == "exit": os._exit(9)
        if what == "crash": ctypes.string_at(0)
        if what == "throw": raise ValueError("secret of the handler")
        if what == "refuse": raise PredictionException("no such thing", 404)
        if what == "memory": raise MemoryError()
        if what == "hang": time.sleep(1000)
        if what == "lie": os.write(3, b"x" * 64)
        if what == "kill": os.kill(os.getpid(), 9)
        if what.startswith("sleep"): time.sleep(float(what[5:]))
        if what == "set": return {1, 2}
        if what == "fds": return sorted(os.listdir("/proc/self/fd"), key=int)
        if what == "limits": return [resource.getrlimit(resource.RLIMIT_CORE)[0], resource.getrlimit(resource.RLIMIT_DATA)[0]]
        if what == "calls": return calls()
        if what == "signals": return [line for line in open("/proc/self/status").read().split("\\n") if line.startswith("SigBlk")]
        if what == "pid": return os.getpid()
        if what == "large": return b"x" * (24 << 20)
        if what == "typed":
            context.set_response_content_type(i, "image/x-own")
            context.set_response_status(code=202, phrase="Fine", idx=i)
            return b"\\x00\\xff"
        if what == "split":
            context.set_response_content_type(i, "a/b\\r\\nX: y")
            return b"x"
        if what == "header": return context.get_request_header(i, "X-Own") + str(context.get_request_header(i, "authorization"))
        if what == "properties": return sorted(context.system_properties)
        return {name: bytes(value).decode() for name, value in row.items()}
"""
FUNCTION = """
state = []
def handle(data, context):
    if data is None:
        state.append(context.system_properties["batch_size"])
        return None
    if any(row["body"] == b"few" for row in data):
        return data[1:]
    if any(row["body"] == b"none" for row in data):
        return "text"
    return [[len(data), state[0], bytes(row["body"]).decode()] for row in data]
"""
MODEL = """
from ts.torch_handler.base_handler import BaseHandler
from helper import doubled

class Own(BaseHandler):
    def preprocess(self, data):
        return doubled([row["body"]["x"] for row in data])
    def postprocess(self, data):
        return [{"sum": [round(x, 5) for x in row]} for row in data]
    def get_insights(self, rows, inputs, target):
        return [{"rows": row, "keys": sorted(inputs), "target": target} for row in rows]
"""
NUMPY = """
import numpy
from ts.torch_handler.base_handler import BaseHandler

class Own(BaseHandler):
    def preprocess(self, data):
        return numpy.array([row["body"]["x"] for row in data], dtype="float32")
    def inference(self, data, *args, **kwargs):
        out = self.model(x=data)
        assert isinstance(out, numpy.ndarray) and out.dtype == numpy.float32
        return out
"""
PARTS = """
import os, pathlib, time
from ts.handler_utils.utils import send_intermediate_predict_response

def handle(data, context):
    if data is None:
        return None
    words = [bytes(row["body"]).decode() for row in data]
    give = lambda text: send_intermediate_predict_response([text] * len(words), context.request_ids, "Intermediate Prediction success", 200, context)
    for i, word in enumerate(words):
        if word in ("typed", "broken"):
            context.set_response_content_type(i, "text/event-stream")
            context.set_response_status(code=201, idx=i)
    try:
        if "broken" in words:
            give("one,")
            raise ValueError("told so")
        if "large" in words:
            give(b"x" * 3000000)
        give("one,")
        give("")
        if "wait" in words:
            while not os.path.exists(FLAG): time.sleep(0.01)
        if "exit" in words: os._exit(9)
        if "throw" in words: raise ValueError("secret of the handler")
        if "late" in words: context.set_all_response_status(code=507)
        if "hang" in words: time.sleep(1000)
        if "endless" in words:
            while True:
                give(b"y" * 50000)
                time.sleep(0.001)
        give("two,")
    except BaseException as error:
        pathlib.Path(FLAG + ".end").write_text(type(error).__name__)
        raise
    return [{"of": word} if word != "empty" else b"" for word in words]
"""
GRAPH = """tdir 1
input %0 "x": f32[n, 3]
const %1: f32[3] = {1, 10, 100}
%2 = aten::add(%0, %1): f32[n, 3]
output "y" %2
"""
BROKEN = "import no_such_module\n"


def archive(folder, name, files, **model):
    manifest = {"runtime": "python", "model": {"modelName": name, "modelVersion": "1.0", **model}}
    with zipfile.ZipFile(pathlib.Path(folder, name + ".mar"), "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        for file, text in files.items():
            packed.writestr(file, text)


class Checks:
    patience = 60  # seconds for a reply

    def __init__(self):
        self.passed = self.failed = 0
        self.port = 0

    def expect(self, what, got, wanted):
        if got == wanted or (callable(wanted) and wanted(got)):
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {got!r}")

    def ask(self, path, body=None, method=None, headers=None, raw=False):
        """(status, JSON or bytes)."""
        headers = {"Content-Type": "application/octet-stream", **(headers or {})} if body is not None else {}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", body, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=self.patience) as reply:
                status, content, self.type = reply.status, reply.read(), reply.headers["Content-Type"]
        except urllib.error.HTTPError as error:
            status, content, self.type = error.code, error.read(), error.headers["Content-Type"]
        if raw:
            return status, content
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content

    def echo(self, body, **named):
        return self.ask("/predictions/echo", body.encode() if isinstance(body, str) else body, **named)

    def message(self, body):
        status, said = self.echo(body)
        return status, said.get("type"), said.get("message")

    def wait_for(self, condition):
        return wait_for(condition, 10)


def wait_for(condition, seconds=30):
    """False: it does not hold after so many, and what it takes to ask."""
    for _ in range(seconds * 20):
        if condition():
            return True
        time.sleep(0.05)
    return False


def with_threads(command):
    """The command of a server, with as many I/O threads as TREADLE_CHECK_IO_THREADS says."""
    count = os.environ.get("TREADLE_CHECK_IO_THREADS")
    return [command[0], "--io-threads", count, *command[1:]] if count else command


@contextlib.contextmanager
def serving(checks, folder, *words, python=sys.executable, temporary=".", **variables):
    log = open(pathlib.Path(folder, "log"), "w+")
    command = with_threads([checks.program, "--port", "0", "--python", python, *words])
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=log, text=True, env={**os.environ, "TMPDIR": temporary, **variables})
    try:
        line = server.stdout.readline()
        if not line:
            log.seek(0)
            sys.exit(f"no server: {log.read()}")
        checks.port = int(line.rsplit(":", 1)[1])
        yield server
    finally:
        server.kill()
        server.wait()
        log.close()


def log_of(folder):
    return pathlib.Path(folder, "log").read_text()


def workers_of(checks, name):
    return [worker["pid"] for worker in checks.ask(f"/models/{name}")[1][0]["workers"]]


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def folders(folder):
    return list(pathlib.Path(folder).glob("treadle-serve-*"))


def ask_in_vain(c):
    try:
        c.echo("sleep0.9")
    except OSError:
        pass


def check_requests(c, folder):
    c.expect("a body", c.echo("hello"), (200, {"body": "hello"}))
    c.expect("no profile", c.ask("/models/echo/profile", b"")[0], 400)
    c.expect("its type", c.type, "application/json")
    c.expect("JSON", c.echo('{"b":1,"a":2}', headers={"Content-Type": "application/json"}), (200, {"keys": ["a", "b"]}))
    c.expect("no JSON", c.echo("{", headers={"Content-Type": "application/json"}), lambda got: got[0] == 400)
    c.expect("a text", c.echo("grün", headers={"Content-Type": "text/plain; charset=utf-8"}, raw=True), (200, "GRÜN".encode()))
    c.expect("a text's type", c.type, "text/plain; charset=utf-8")
    form = b'--b\r\nContent-Disposition: form-data; name="data"; filename="f"\r\n\r\none\r\n\r\n--b\r\n' \
           b'Content-Disposition: form-data; name="two"\r\n\r\n2\r\n--b--\r\n'
    c.expect("a form", c.echo(form, headers={"Content-Type": "multipart/form-data; boundary=b"}), (200, {"data": "one\r\n", "two": "2"}))
    c.expect("an encoded form", c.echo("a=1&b=%20", headers={"Content-Type": "application/x-www-form-urlencoded"}), (200, {"a": "1", "b": " "}))
    c.expect("a query", c.ask("/predictions/echo?k=v", b"x"), (200, {"k": "v", "body": "x"}))
    c.expect("a type and a status of its own", c.echo("typed", raw=True), (202, b"\x00\xff"))
    c.expect("its type", c.type, "image/x-own")
    c.expect("a type that would split the head", (c.echo("split", raw=True), c.type), ((200, b"x"), "application/json"))
    c.expect("headers", c.echo("header", headers={"X-Own": "y", "Authorization": "Bearer k"}, raw=True), (200, b"yNone"))
    c.expect("its memory", c.ask("/models/echo")[1][0]["workers"][0]["memoryUsage"], lambda got: 1 << 20 < got < 1 << 30)
    c.expect("properties", c.echo("properties")[1], lambda got: "model_dir" in got and "gpu_id" in got)
    c.expect("tensors", c.ask("/v2/models/echo/infer", b"{}"), lambda got: got[0] == 400 and "/predictions/echo" in got[1]["error"])
    c.expect("a large body", c.echo("x" * 3000000), (200, {"body": "x" * 3000000}))
    c.expect("what it prints", c.wait_for(lambda: "model echo, worker " in log_of(folder) and "loaded echo" in log_of(folder)), True)


def check_isolation(c):
    c.expect("descriptors", c.echo("fds")[1], lambda got: set(got) - {"0", "1", "2", "3"} == set(got[-1:]) and len(got) <= 5)
    c.expect("limits", c.echo("limits"), (200, [0, 1 << 30]))
    calls = (200, [errno.EPERM] * 3 + [errno.ENOSYS, errno.EAFNOSUPPORT, 0])
    c.expect("system calls", c.echo("calls"), calls)
    c.echo("exit")
    c.expect("those of the next worker", c.wait_for(lambda: c.echo("calls") == calls), True)
    c.expect("signals", c.echo("signals"), (200, ["SigBlk:\t0000000000000000"]))


def check_failures(c, folder):
    server = "InternalServerException"
    c.expect("an exception", c.message("throw"), (503, server, "Prediction failed"))
    c.expect("its words are in the log alone", c.wait_for(lambda: "secret of the handler" in log_of(folder)), True)
    c.expect("an exception with a status", c.message("refuse"), (404, server, "no such thing"))
    c.expect("no memory", c.message("memory"), (507, server, "Out of resources"))
    c.expect("no JSON", c.message("set"), (503, server, "Unable to serialize model output"))
    for what, status in (("exit", 500), ("crash", 500), ("kill", 507), ("lie", 500)):
        before = c.echo("pid")[1]
        c.expect(what, c.echo(what)[0], status)
        c.expect(f"the next behind {what}", c.echo("pid"), lambda got: got[0] == 200 and got[1] != before)
    before = c.echo("pid")[1]
    begin = time.time()
    c.expect("what takes too long", c.message("hang")[0], 504)
    c.expect("the response time", time.time() - begin, lambda took: 3.9 < took < 60)
    c.expect("a worker that hangs is ended", c.wait_for(lambda: not is_running(before)), True)
    c.expect("the next", c.echo("pid"), lambda got: got[0] == 200 and got[1] != before)
    pid = c.echo("pid")[1]
    os.kill(pid, signal.SIGKILL)
    c.expect("one that is killed while idle is replaced", c.wait_for(lambda: workers_of(c, "echo") not in ([], [pid])), True)
    c.expect("and answers", c.echo("hello")[0], 200)


def status_of(pid, name):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return next((line.split()[1] for line in lines if line.startswith(name + ":")), "")


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def check_spawner(c, server):
    """The server starts nothing. The process that does is replaced when it has ended; without the one that replaces it,
    workers are not, and requests are told so."""
    worker = workers_of(c, "echo")[0]
    spawner = int(status_of(worker, "PPid"))
    keeper = int(status_of(spawner, "PPid"))
    c.expect("the server has one child", children_of(server.pid), [keeper])
    c.expect("which has one", children_of(keeper), [spawner])
    c.expect("all have a filter", [status_of(pid, "Seccomp") for pid in (server.pid, keeper, spawner, worker)], ["2"] * 4)
    for i in range(3):
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reply = pool.submit(c.message, "sleep0.9")
            time.sleep(0.3)
            os.kill(spawner, signal.SIGKILL)
            c.expect("its workers end", c.wait_for(lambda: not is_running(worker)), True)
            c.expect("the reply of one that was at work", reply.result()[0], 500)
        c.expect("another takes its place", c.wait_for(lambda: workers_of(c, "echo") not in ([], [worker])), True)
        c.expect("the next reply", c.echo("hello")[0], 200)
        c.expect("all is well", c.ask("/ping")[0], 200)
        worker, before = workers_of(c, "echo")[0], spawner
        spawner = int(status_of(worker, "PPid"))
        c.expect("of another spawner", (spawner != before, children_of(keeper)), (True, [spawner]))
    os.kill(keeper, signal.SIGKILL)
    c.expect("workers stay without the keeper", (c.echo("pid"), c.ask("/ping")[0]), ((200, worker), 200))
    c.expect("and are replaced", (c.echo("exit")[0], c.echo("hello")[0]), (500, 200))
    os.kill(spawner, signal.SIGKILL)
    c.expect("none takes its place", c.wait_for(lambda: (c.ask("/ping")[0], len(workers_of(c, "echo"))) == (500, 0)), True)
    c.expect("a request without workers", c.echo("hello"), lambda got: got[0] == 503 and "have ended" in got[1]["message"])


LOOP = """tdir 1
input %0 "x": f32[1, 3]
%1 = aten::NAME(%0)
%2 = aten::neg(%1)
output "y" %2
"""


def check_compilers(c, server, folder):
    """A model's loops are compiled, and after the process that starts compilers was killed so are the next one's."""
    compiled = lambda: len(list(pathlib.Path(folder, "cache").glob("*.so")))
    c.expect("loops are compiled", c.wait_for(lambda: compiled() > 0), True)
    for name in ("sin", "cos"):
        before, spawner = compiled(), children_of(children_of(server.pid)[0])
        os.kill(spawner[0], signal.SIGKILL)
        c.expect("its end is noticed", c.wait_for(lambda: children_of(children_of(server.pid)[0]) == []), True)
        pathlib.Path(folder, f"{name}.tdir").write_text(LOOP.replace("NAME", name))
        c.expect("one more model", c.ask(f"/models?url={name}.tdir&initial_workers=1", b"")[0], 200)
        c.expect("whose loops are compiled", c.wait_for(lambda: compiled() > before), True)
    c.expect("without a word about it", log_of(folder), "")


def check_health(c, flag):
    """A worker that cannot be started again."""
    ready = lambda: (c.ask("/ping")[0], c.ask("/v2/models/echo/ready")[0], len(workers_of(c, "echo")))
    c.expect("healthy", ready(), (200, 200, 1))
    flag.write_text("")
    c.expect("its last words", c.echo("exit")[0], 500)
    c.expect("unhealthy", c.wait_for(lambda: ready() == (500, 503, 0)), True)
    c.expect("a request", c.echo("hello"), lambda got: got[0] == 503 and "have ended" in got[1]["message"])
    flag.unlink()
    c.expect("healthy again", c.wait_for(lambda: ready() == (200, 200, 1)), True)
    c.expect("a request again", c.echo("hello")[0], 200)


def check_bursts(c):
    """Clients that leave while workers end and are started: nobody else hears of it."""
    seen, end = set(), time.time() + 3
    ask = lambda body: c.ask("/predictions/many", body)

    def work(number):
        kind = random.Random(number)
        while time.time() < end:
            what = kind.choice([b"hello", b"hello", b"hello", b"exit", b"leave"])
            if what != b"leave":
                seen.add(ask(what)[0])
                continue
            with socket.create_connection(("127.0.0.1", c.port)) as leaving:
                leaving.sendall(b"POST /predictions/many HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nsleep0.3")
                time.sleep(kind.random() * 0.2)

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    c.expect("answers among those who leave", seen, lambda got: 200 in got and got <= {200, 500, 503, 504})


def check_batches(c):
    ask = lambda body: c.ask("/predictions/function", body)
    c.expect("one", ask(b"a"), (200, [1, 8, "a"]))
    c.expect("too few replies", ask(b"few"), lambda got: got[0] == 503 and "batch response" in got[1]["message"])
    c.expect("no list", ask(b"none"), lambda got: got[0] == 503 and "Invalid" in got[1]["message"])
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda i: ask(str(i).encode()), range(200)))
    c.expect("each its own reply", [a[1][2] for a in answers], [str(i) for i in range(200)])
    c.expect("joined", max(a[1][0] for a in answers), lambda most: 1 < most <= 8)


def check_models(c, with_numpy):
    body = b'{"x":[1,2,3]}'
    headers = {"Content-Type": "application/json"}
    c.expect("the archive's model", c.ask("/predictions/model", body, headers=headers), (200, {"sum": [3.0, 14.0, 106.0]}))
    insights = (200, {"rows": [2.0, 4.0, 6.0], "keys": ["x"], "target": 0})
    c.expect("explanations", c.ask("/explanations/model", body, headers=headers), insights)
    c.expect("of a version", c.ask("/explanations/model/1.0", body, headers=headers), insights)
    c.expect("by KServe's first protocol", c.ask("/v1/models/model:explain", body, headers=headers), insights)
    c.expect("predictions are still none", c.ask("/predictions/model", body, headers=headers), (200, {"sum": [3.0, 14.0, 106.0]}))
    c.expect("its rows are its handler's", c.ask("/v1/models/model:predict", body, headers=headers),
             lambda got: got[0] == 400 and "Python handler" in got[1]["error"])
    c.expect("tensors that do not fit", c.ask("/predictions/model", b'{"x":[1,2]}', headers=headers)[0], 503)
    c.expect("the next", c.ask("/predictions/model", body, headers=headers)[0], 200)
    if with_numpy:
        c.expect("no get_insights", c.ask("/explanations/numpy", body, headers=headers),
                 lambda got: got[0] == 503 and got[1]["message"].startswith("Prediction failed"))
        c.expect("by numpy", c.ask("/predictions/numpy", body, headers=headers), (200, [2.0, 12.0, 103.0]))


def raw(c, word, version="1.1", more=""):
    """All that a socket gives to a request, to the end of the connection."""
    with socket.create_connection(("127.0.0.1", c.port), 30) as client:
        client.sendall(f"POST /predictions/parts HTTP/{version}\r\nHost: a\r\nContent-Length: {len(word)}\r\n{more}\r\n{word}".encode())
        got = b""
        while (came := client.recv(1 << 16)):
            got += came
    head, _, body = got.partition(b"\r\n\r\n")
    return head, body


def chunk(text):
    return b"%x\r\n%s\r\n" % (len(text), text)


def check_parts(c, flag):
    """Parts of a reply: chunks of HTTP/1.1, DATA frames of HTTP/2, one body for HTTP/1.0; cut where the handler fails."""
    close, end = "Connection: close\r\n", pathlib.Path(f"{flag}.end")
    whole = lambda word: chunk(b"one,") + chunk(b"two,") + chunk(b'{\n  "of": "%s"\n}' % word) + b"0\r\n\r\n"
    head, body = raw(c, "a", more=close)
    c.expect("chunks", body, whole(b"a"))
    c.expect("their head", [line for line in head.split(b"\r\n") if line.startswith((b"HTTP", b"Tr", b"Content"))],
             [b"HTTP/1.1 200 OK", b"Content-Type: text/plain; charset=utf-8", b"Transfer-Encoding: chunked"])
    c.expect("no rest", raw(c, "empty", more=close)[1], chunk(b"one,") + chunk(b"two,") + b"0\r\n\r\n")
    head, body = raw(c, "typed", more=close)
    c.expect("a type and a status of their own", (head[:13], b"Content-Type: text/event-stream" in head, body),
             (b"HTTP/1.1 201 ", True, whole(b"typed")))
    head, body = raw(c, "b", "1.0")
    c.expect("in one for HTTP/1.0", (b"Content-Length: 23" in head, b"Transfer" in head, body), (True, False, b'one,two,{\n  "of": "b"\n}'))
    c.expect("a large part", raw(c, "large", more=close)[1], chunk(b"x" * 3000000) + whole(b"large"))
    for word in ("throw", "exit", "late", "hang"):
        c.expect(f"cut by {word}", raw(c, word)[1], (chunk(b"one,") + chunk(b"two,") if word == "late" else chunk(b"one,")))
        c.expect(f"the next behind {word}", c.ask("/predictions/parts", b"d", raw=True), (200, b'one,two,{\n  "of": "d"\n}'))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        heads = [head.split(b"\r\n")[:2] for head, _ in pool.map(lambda _: raw(c, "broken"), range(300))]
    c.expect("the head of a reply that fails meanwhile", [head for head in heads if head != heads[0]], [])
    c.expect("is that of its first part", (heads[0][0][:13], heads[0][1]), (b"HTTP/1.1 201 ", b"Content-Type: text/event-stream"))
    with socket.create_connection(("127.0.0.1", c.port), 30) as client:  # two requests at once, on one connection
        one = b"POST /predictions/parts HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nwait"
        client.sendall(one + one)
        got = b""
        while not got.endswith(chunk(b"one,")):
            got += client.recv(1 << 16)
        c.expect("a part before the reply is whole", (got.count(b"HTTP/1.1 200"), flag.exists()), (1, False))
        flag.write_text("")
        while got.count(b"\r\n0\r\n\r\n") < 2:
            got += client.recv(1 << 16)
        c.expect("and the next one behind it", (got.count(b"HTTP/1.1 200"), got.count(b"keep-alive"), got.endswith(whole(b"wait"))), (2, 2, True))
    flag.unlink()
    for what in ("leaves", "resets", "reads nothing"):
        end.unlink(missing_ok=True)
        with socket.create_connection(("127.0.0.1", c.port), 30) as client:
            client.sendall(b"POST /predictions/parts HTTP/1.1\r\nHost: a\r\nContent-Length: 7\r\n\r\nendless")
            while what != "reads nothing" and chunk(b"y" * 50000)[:20] not in client.recv(1 << 16):
                continue
            if what == "resets":
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            if what == "reads nothing":
                c.expect("who reads nothing stops the handler", c.wait_for(end.exists), True)
        c.expect(f"who {what} stops the handler", c.wait_for(end.exists) and end.read_text(), "Cancelled")
        c.expect(f"the worker stays when a client {what}", c.ask("/predictions/parts", b"e", raw=True)[0], 200)


def check_parts_of_http2(c, folder):
    curl = lambda word: subprocess.run(["curl", "-sS", "--http2-prior-knowledge", "-D", "-", "-H", "Content-Type: a/b", "-d", word,
                                        f"http://127.0.0.1:{c.port}/predictions/parts"], capture_output=True)
    got = curl("a")
    head, _, body = got.stdout.partition(b"\r\n\r\n")
    c.expect("parts by HTTP/2", (got.returncode, head[:10], b"content-length" in head, b"content-type: text/plain; charset=utf-8" in head, body),
             (0, b"HTTP/2 200", False, True, b'one,two,{\n  "of": "a"\n}'))
    got = curl("large")
    c.expect("a large part by HTTP/2", (got.returncode, got.stdout.partition(b"\r\n\r\n")[2]), (0, b"x" * 3000000 + b'one,two,{\n  "of": "large"\n}'))
    for word in ("throw", "exit"):
        got = curl(word)
        c.expect(f"reset by {word}", (got.returncode, b"INTERNAL_ERROR" in got.stderr, got.stdout.partition(b"\r\n\r\n")[2]),
                 lambda got: got[:2] == (92, True) and got[2] in (b"", b"one,"))  # curl may forget what came just before
    end = pathlib.Path(folder, "flag.end")
    end.unlink()
    client = subprocess.Popen(["curl", "-s", "--http2-prior-knowledge", "-H", "Content-Type: a/b", "-d", "endless",
                               f"http://127.0.0.1:{c.port}/predictions/parts"], stdout=subprocess.PIPE)
    c.expect("parts as they come, by HTTP/2", len(client.stdout.read(100000)), 100000)
    client.kill()
    client.wait()
    c.expect("who leaves HTTP/2 stops the handler", c.wait_for(end.exists) and end.read_text(), "Cancelled")
    held = lambda: int(c.ask("/metrics", raw=True)[1].split(b"\ntreadle_held_bytes ")[1].split()[0])
    c.expect("nothing stays held", c.wait_for(lambda: held() < 100000), True)


def check_http2(c):
    """Fields of HTTP/2, and inputs of gRPC."""
    curl = ["curl", "-s", "--http2-prior-knowledge", "-H", "X-Own: z", "-H", "Content-Type: a/b", "-d", "header"]
    got = subprocess.run([*curl, f"http://127.0.0.1:{c.port}/predictions/echo"], capture_output=True).stdout
    c.expect("a field of HTTP/2", got, b"zNone")
    try:
        import grpc
    except ImportError:
        print("gRPC is left out: this Python has no package grpc")
        return
    field = lambda number, value: bytes([number << 3 | 2, len(value)]) + value
    inputs = b"".join(field(3, field(1, name) + field(2, value)) for name, value in ((b"data", b"one"), (b"two", b"2")))
    with grpc.insecure_channel(f"127.0.0.1:{c.port}") as channel:
        call = channel.unary_unary("/org.pytorch.serve.grpc.inference.InferenceAPIsService/Predictions")
        got = call(field(1, b"echo") + inputs, timeout=20)
        c.expect("inputs of gRPC", json.loads(got[2:]), {"data": "one", "two": "2"})
        for body, wanted in ((b"throw", "UNAVAILABLE"), (b"exit", "INTERNAL"), (b"hang", "DEADLINE_EXCEEDED"), (b"refuse", "NOT_FOUND")):
            try:
                got = call(field(1, b"echo") + field(3, field(1, b"body") + field(2, body)), timeout=20)
            except grpc.RpcError as error:
                got = error.code().name
            c.expect(f"gRPC, {body.decode()}", got, wanted)


def check_management(c, folder):
    before = len(folders(folder))
    c.expect("register", c.ask("/models?url=late.mar&initial_workers=2", method="POST")[0], 200)
    pids = workers_of(c, "late")
    c.expect("two workers", len(set(pids)), 2)
    c.expect("scale", c.ask("/models/late?min_worker=1&synchronous=true", method="PUT")[0], 200)
    c.expect("one is left", (len(workers_of(c, "late")), sum(map(is_running, pids)) <= 1), (1, True))
    c.expect("unregister", c.ask("/models/late", method="DELETE")[0], 200)
    c.expect("none is left", c.wait_for(lambda: not any(map(is_running, pids)) and len(folders(folder)) == before), True)
    c.expect("a handler that cannot be imported", c.ask("/models?url=broken.mar&initial_workers=1", method="POST"),
             lambda got: got[0] == 500 and "no_such_module" in got[1]["message"])
    begin = time.time()
    c.expect("one that takes too long", c.ask("/models?url=slow.mar&initial_workers=1&startup_timeout=1", method="POST"),
             lambda got: got[0] == 500 and "in time" in got[1]["message"])
    c.expect("its time", time.time() - begin, lambda took: 0.9 < took < 5)
    c.expect("a name that leads away", c.ask("/models?url=away.mar", method="POST"), lambda got: got[0] == 400 and "leads" in got[1]["message"])
    c.expect("no file was written", pathlib.Path(folder).parent.joinpath("away.py").exists(), False)
    c.expect("folders are removed", len(folders(folder)), before)


def main():
    checks = Checks()
    checks.program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    python = sys.argv[2] if len(sys.argv) > 2 else sys.executable
    with_numpy = subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0
    with tempfile.TemporaryDirectory() as folder:
        flag = pathlib.Path(folder, "flag")
        echo = {"handler.py": ECHO.replace("FLAG", repr(str(flag))), "c.yaml": "responseTimeout: 4\nminWorkers: 1\nmaxWorkers: 1\n"}
        archive(folder, "echo", echo, handler="handler.py", configFile="c.yaml")
        echo = {**echo, "c.yaml": "responseTimeout: 1\nminWorkers: 3\nmaxWorkers: 3\nbatchSize: 4\n"}
        archive(folder, "many", echo, handler="handler.py", configFile="c.yaml")
        archive(folder, "late", {"own.py": FUNCTION}, handler="own.py:handle")
        archive(folder, "function", {"own.py": FUNCTION, "c.yaml": "batchSize: 8\nmaxWorkers: 1\n"}, handler="own.py:handle", configFile="c.yaml")
        helper = "def doubled(rows):\n    return [[2.0 * x for x in row] for row in rows]\n"
        archive(folder, "model", {"own.py": MODEL, "net.tdir": GRAPH, "helper.py": helper}, handler="own.py", serializedFile="net.tdir")
        archive(folder, "numpy", {"own.py": NUMPY, "net.tdir": GRAPH}, handler="own.py", serializedFile="net.tdir")
        archive(folder, "broken", {"own.py": BROKEN}, handler="own.py")
        archive(folder, "parts", {"own.py": PARTS.replace("FLAG", repr(str(flag))), "c.yaml": "maxWorkers: 1\nbatchSize: 1\nresponseTimeout: 6\n"},
                handler="own.py:handle", configFile="c.yaml")
        archive(folder, "slow", {"own.py": "import time\ntime.sleep(100)\n"}, handler="own.py")
        archive(folder, "away", {"own.py": FUNCTION, "../../away.py": ""}, handler="own.py")
        refused = subprocess.run([checks.program, "--port", "0", "echo.mar"], cwd=folder, capture_output=True, text=True)
        checks.expect("not without the option", refused.returncode != 0 and "--python-handlers" in refused.stderr, True)
        refused = subprocess.run([checks.program, "--port", "0", "--python-handlers", "--python", "/no/python", "echo.mar"], cwd=folder,
                                 capture_output=True, text=True, env={**os.environ, "TMPDIR": folder})
        checks.expect("no Python", refused.returncode != 0 and "--python FILE" in refused.stderr, True)
        checks.expect("nothing stays", folders(folder), [])
        models = ["echo.mar", "many.mar", "function.mar", "model.mar", *(["numpy.mar"] if with_numpy else [])]
        with serving(checks, folder, "--python-handlers", "--python-memory", "1024", "--workers", "2", "--model-store", ".",
                     "--enable-model-api", *models, python=python) as server:
            check_requests(checks, folder)
            check_isolation(checks)
            check_failures(checks, folder)
            check_health(checks, flag)
            check_bursts(checks)
            check_http2(checks)
            check_batches(checks)
            check_models(checks, with_numpy)
            check_management(checks, folder)
            server.terminate()
            checks.expect("the end", server.wait(20), 0)
            checks.expect("nothing stays", folders(folder), [])
        with serving(checks, folder, "--python-handlers", "--workers", "1", "--transfer-timeout", "1", "parts.mar", python=python) as server:
            check_parts(checks, flag)
            check_parts_of_http2(checks, folder)
            server.terminate()
            checks.expect("the end of parts", server.wait(20), 0)
        with serving(checks, folder, "--python-handlers", "--drain", "0", "echo.mar", python=python) as server, \
                concurrent.futures.ThreadPoolExecutor(1) as pool:
            pids = workers_of(checks, "echo")
            reply = pool.submit(lambda: ask_in_vain(checks))
            time.sleep(0.3)  # the worker sleeps
            server.terminate()
            checks.expect("the end while one works", server.wait(20), 0)
            reply.result()
            checks.expect("its folder and worker", checks.wait_for(lambda: not folders(folder) and not any(map(is_running, pids))), True)
        with serving(checks, folder, "--python-handlers", "--most-held", str(1 << 24), "echo.mar", python=python):
            pids = workers_of(checks, "echo")
            checks.expect("a reply beyond what may be held", checks.message("large"),
                          lambda got: got[0] == 503 and "--most-held" in got[2])
            checks.expect("its worker stays", (checks.echo("b"), workers_of(checks, "echo")), ((200, {"body": "b"}), pids))
        with serving(checks, folder, "--python-handlers", "echo.mar", python=python) as server:
            pids = workers_of(checks, "echo")
            check_spawner(checks, server)
            server.terminate()
            checks.expect("the end without it", server.wait(20), 0)
        pathlib.Path(folder, "exp.tdir").write_text(LOOP.replace("NAME", "exp"))
        with serving(checks, folder, "--model-store", ".", "--enable-model-api", "exp.tdir",
                     TREADLE_CACHE=str(pathlib.Path(folder, "cache"))) as server:
            check_compilers(checks, server, folder)
        with serving(checks, folder, "--python-handlers", "echo.mar", python=python) as server:
            pids = workers_of(checks, "echo")
            server.kill()
            checks.expect("it dies with the server", checks.wait_for(lambda: not any(map(is_running, pids))), True)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
