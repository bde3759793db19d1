#!/usr/bin/env python3
"""Asks treadle-serve by gRPC and HTTP/2, with clients of the distribution: check_grpc.py BUILD. Messages are written by
hand from the protocols' field numbers, so that no code that is generated stands between. Ends with a count of checks."""
import concurrent.futures
import contextlib
import datetime
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
import zipfile

import grpc

from check_handlers import wait_for, with_threads

GRAPH = """tdir 1
input %0 "x": f32[3]
input %1 "y": f32[3]
%2 = aten::add(%0, %1): f32[3]
output "sum" %2
"""
ENDLESS = """tdir 1
input %0 "x": f32[n, 2]
const %1: bool[] = {1}
const %2: f32[] = {1}
%3 = aten::gt(%0, %2): bool[n, 2]
%4 = aten::any(%3) {dim = [0, 1], keepdim = false}: bool[]
%5 = prim::Loop(-, %1, %0): f32[n, 2] {
  block(%6: i64[], %7: f32[n, 2]) {
    %8 = aten::cos(%7): f32[n, 2]
    yield %4, %8
  }
}
output "y" %5
"""
KSERVE = "/inference.GRPCInferenceService/"
TORCH = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/"
MANAGE = "/org.pytorch.serve.grpc.management.ManagementAPIsService/"


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def put(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def tensor(name, values, typed=True, dtype="FP32"):
    contents = put(5, put(6, floats(values))) if typed else b""
    return put(5, put(1, name) + put(2, dtype) + put(3, varint(len(values))) + contents)


class Checks:
    def __init__(self, port):
        self.port = port
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.passed = self.failed = 0

    def call(self, method, message=b"", **options):
        try:
            return self.channel.unary_unary(method)(message, timeout=20, **options)
        except grpc.RpcError as error:
            self.said = error.details()
            return error.code().name

    def stream(self, method, message):
        """The messages of a stream; the name of its status where it ends badly."""
        try:
            return list(self.channel.unary_stream(method)(message, timeout=20))
        except grpc.RpcError as error:
            return error.code().name

    def held(self):
        """Bytes that requests hold, by the metrics."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=20) as reply:
            return int(reply.read().split(b"\ntreadle_held_bytes ")[1].split()[0])

    def expect(self, what, got, wanted):
        if got == wanted or (callable(wanted) and wanted(got)):
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {got!r}")


def check_kserve(c):
    x, y = tensor("x", [1, 2, 3]), tensor("y", [4, 5, 6])
    raw = [put(7, floats(v)) for v in ([1, 2, 3], [4, 5, 6])]
    rx, ry = tensor("x", [1, 2, 3], False), tensor("y", [4, 5, 6], False)
    total = put(1, "add") + put(2, "1")
    output = put(5, put(1, "sum") + put(2, "FP32") + put(3, varint(3))) + put(6, floats([5, 7, 9]))
    infer = lambda message, **options: c.call(KSERVE + "ModelInfer", put(1, "add") + message, **options)
    c.expect("live", c.call(KSERVE + "ServerLive"), put(1, 1))
    c.expect("ready", c.call(KSERVE + "ServerReady"), put(1, 1))
    c.expect("model ready", c.call(KSERVE + "ModelReady", put(1, "add")), put(1, 1))
    c.expect("no model", c.call(KSERVE + "ModelReady", put(1, "other")), "NOT_FOUND")
    c.expect("metadata", c.call(KSERVE + "ServerMetadata"), lambda got: got.startswith(put(1, "treadle")))
    c.expect("model metadata", c.call(KSERVE + "ModelMetadata", put(1, "add")), lambda got: b"FP32" in got and b"sum" in got)
    c.expect("typed", infer(x + y), total + output)
    c.expect("raw, with an id", infer(put(3, "a") + rx + ry + raw[0] + raw[1]), total + put(3, "a") + output)
    c.expect("as gzip", infer(x + y, compression=grpc.Compression.Gzip), total + output)
    c.expect("one output", infer(x + y + put(6, put(1, "sum"))), total + output)
    c.expect("outputs that are not there", infer(x + y + put(6, put(1, "dif"))), "INVALID_ARGUMENT")
    c.expect("an input twice", infer(x + x), "INVALID_ARGUMENT")
    c.expect("mixed", infer(x + ry + raw[1]), "INVALID_ARGUMENT")
    c.expect("mixed the other way", infer(rx + y + raw[0]), "INVALID_ARGUMENT")
    c.expect("too few", infer(x), "INVALID_ARGUMENT")
    c.expect("too many raw", infer(rx + ry + raw[0] + raw[1] + raw[0]), "INVALID_ARGUMENT")
    c.expect("short raw", infer(rx + ry + raw[0] + put(7, b"abc")), "INVALID_ARGUMENT")
    c.expect("another type", infer(tensor("x", [1, 2, 3], True, "INT64") + y), "INVALID_ARGUMENT")
    c.expect("no type", infer(tensor("x", [1, 2, 3], True, "FP31") + y), "INVALID_ARGUMENT")
    c.expect("damaged", infer(b"\x2a\xff"), "INVALID_ARGUMENT")
    c.expect("no such method", c.call(KSERVE + "Nothing"), "UNIMPLEMENTED")
    c.expect("health", c.call("/grpc.health.v1.Health/Check"), put(1, 1))
    c.expect("health of nothing", c.call("/grpc.health.v1.Health/Check", put(1, "other")), "NOT_FOUND")
    c.expect("index", c.call(KSERVE + "RepositoryIndex"), lambda got: b"READY" in got)
    c.expect("load", c.call(KSERVE + "RepositoryModelLoad", put(1, "net")), put(1, "net") + put(2, 1))
    c.expect("unload", c.call(KSERVE + "RepositoryModelUnload", put(2, "net")), put(1, "net") + put(2, 1))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(lambda _: infer(x + y), range(1000)))
    c.expect("at once", answers, {total + output})


def check_streams(c):
    """ModelStreamInfer: answers in the order of the requests; what is wrong with one is told instead of its answer."""
    stream = lambda messages, **options: c.channel.stream_stream(KSERVE + "ModelStreamInfer")(iter(messages), timeout=20, **options)
    request = lambda i, more=b"": put(1, "add") + put(3, f"r{i}") + more + tensor("x", [i, 2, 3]) + tensor("y", [4, 5, 6])
    final = put(4, put(1, "triton_final_response") + put(2, put(1, 1)))
    answer = lambda i: put(2, put(1, "add") + put(2, "1") + put(3, f"r{i}") + put(5, put(1, "sum") + put(2, "FP32") + put(3, varint(3))) +
                           put(6, floats([i + 4, 7, 9])) + final)

    def ends(messages, **options):
        """What is answered, and the status that the stream ends with."""
        call, got = stream(messages, **options), []
        try:
            got.extend(call)
        except grpc.RpcError as error:
            return got, error.code().name
        return got, "OK"

    wrong = lambda message: lambda got: [one[:1] for one in got] == [b"\x0a"] and one_error(got[0]) == message
    one_error = lambda got: (got[2:2 + got[1]].decode(), got[2 + got[1]:])
    c.expect("no request", ends([]), ([], "OK"))
    c.expect("many at once", ends(request(i) for i in range(2000)) == ([answer(i) for i in range(2000)], "OK"), True)
    c.expect("many as gzip", ends((request(i) for i in range(50)), compression=grpc.Compression.Gzip), ([answer(i) for i in range(50)], "OK"))
    got, status = ends([request(0), put(1, "other") + put(3, "b"), put(1, "add") + put(3, "c") + tensor("x", [1, 2, 3]), b"\x0a\xff", request(4)])
    c.expect("errors end no stream", (status, len(got), got[0], got[-1]), ("OK", 5, answer(0), answer(4)))
    c.expect("no model", got[1:2], wrong(("Model not found: other", put(2, put(3, "b")))))
    c.expect("an input that is missing", one_error(got[2]), lambda said: "y" in said[0] and said[1] == put(2, put(3, "c")))
    c.expect("a damaged request", one_error(got[3]), lambda said: "damaged" in said[0])
    c.expect("one that is too large", ends([request(0), request(1), request(2) + bytes(70000), request(3)]), ([answer(0), answer(1)], "RESOURCE_EXHAUSTED"))
    endless = put(1, "endless") + put(4, put(1, "timeout") + put(2, put(2, 100000))) + put(3, "e") + put(5, put(1, "x") + put(2, "FP32") + put(3, varint(1) + varint(2)) +
                                                                                                   put(5, put(6, floats([0, 2]))))
    got, status = ends([request(0), endless, request(2)])
    c.expect("a request whose time is up", (status, got[0], one_error(got[1]), got[2]), ("OK", answer(0), ("the request's time is up", put(2, put(3, "e"))), answer(2)))

    def slowly():
        for i in range(3):
            yield request(i)
            time.sleep(1.3)  # in all longer than a transfer may take
    c.expect("a stream that waits", ends(slowly()), ([answer(i) for i in range(3)], "OK"))
    gone = stream([request(0), endless.replace(b"timeout", b"timeouT"), request(2)])
    c.expect("before it goes", next(gone), answer(0))
    gone.cancel()
    c.expect("another one", ends([request(0)]), ([answer(0)], "OK"))
    c.expect("what is held", held_at_last(c), lambda held: held < 20000)


def held_at_last(c):
    for _ in range(100):
        held = c.held()
        if held < 20000:
            break
        time.sleep(0.02)
    return held


def check_torchserve(c):
    told = lambda text: lambda got: isinstance(got, bytes) and text in got
    c.expect("ping", c.call(TORCH + "Ping"), told(b"Healthy"))
    c.expect("no picture", c.call(TORCH + "Predictions", put(1, "add") + put(3, put(1, "data") + put(2, b"x"))), "INVALID_ARGUMENT")
    c.expect("no model", c.call(TORCH + "Predictions", put(1, "other")), "NOT_FOUND")
    c.expect("list", c.call(MANAGE + "ListModels", put(1, 10)), told(b'"modelName": "add"'))
    c.expect("register", c.call(MANAGE + "RegisterModel", put(9, "net.tdir") + put(5, "two") + put(3, 2)), told(b"2 initial workers"))
    c.expect("register again", c.call(MANAGE + "RegisterModel", put(9, "net.tdir") + put(5, "two")), "ALREADY_EXISTS")
    c.expect("describe", c.call(MANAGE + "DescribeModel", put(1, "two")), told(b'"maxWorkers": 2'))
    c.expect("scale", c.call(MANAGE + "ScaleWorker", put(1, "two") + put(4, 1) + put(6, 1)), told(b"scaled to 1"))
    c.expect("default", c.call(MANAGE + "SetDefault", put(1, "two") + put(2, "1")), told(b"Default version"))
    c.expect("unregister", c.call(MANAGE + "UnregisterModel", put(1, "two")), told(b"unregistered"))
    c.expect("unregister again", c.call(MANAGE + "UnregisterModel", put(1, "two")), "NOT_FOUND")
    c.expect("of nothing", c.call(MANAGE + "DescribeModel"), "INVALID_ARGUMENT")


def check_deadlines(c):
    """Runs without an end are ended, so that the one thread computes for whoever comes next."""
    def infer(x, limit=20, parameters=b""):
        message = put(1, "endless") + parameters + put(5, put(1, "x") + put(2, "FP32") + put(3, varint(1) + varint(2)) +
                                                       put(5, put(6, floats([0, x]))))
        return c.channel.unary_unary(KSERVE + "ModelInfer").future(message, timeout=limit)
    answers = lambda: c.expect("the next", isinstance(infer(1).result(), bytes), True)
    c.expect("a deadline", infer(2, 0.3).code().name, "DEADLINE_EXCEEDED")
    answers()
    limit = put(4, put(1, "timeout") + put(2, put(2, 100000)))
    c.expect("a limit of the request", infer(2, parameters=limit).code().name, "DEADLINE_EXCEEDED")
    call = infer(2)
    waiting = infer(2)
    time.sleep(0.3)  # the first one runs
    waiting.cancel()
    call.cancel()
    answers()


def check_rest(c):
    """REST over HTTP/2, as curl speaks it."""
    url = f"http://127.0.0.1:{c.port}/v2"
    curl = lambda *words: subprocess.run(["curl", "-s", "--http2-prior-knowledge", *words], capture_output=True).stdout
    body = '{"inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[1,2,3]},{"name":"y","datatype":"FP32","shape":[3],"data":[4,5,6]}]}'
    c.expect("live", curl(url + "/health/live"), b'{"live":true}')
    c.expect("infer", curl("-d", body, url + "/models/add/infer"), lambda got: b"[5.0,7.0,9.0]" in got)
    c.expect("a body too large", curl("-o", "/dev/null", "-w", "%{http_code}", "-d", "x" * 70000, url + "/models/add/infer"), b"413")
    c.expect("no route", curl("-o", "/dev/null", "-w", "%{http_code}", url + "/nothing"), b"404")


def is_read(client):
    """The server has taken all that was sent over the socket: nothing lies in either side's queue."""
    port = f":{client.getsockname()[1]:04X}"
    with open("/proc/net/tcp") as table:
        rows = [line.split() for line in table]
    return all(row[4] == "00000000:00000000" for row in rows if row[1].endswith(port) or row[2].endswith(port))


def check_budget(program, folder, c):
    """While one client's body takes the room, others are refused, also what a small message unpacks to."""
    command = [program, "--port", "0", "--most-held", "702000", "add=net.tdir"]
    with serving(command, folder) as server:
        own = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
        body = lambda count: put(1, "add") + put(7, bytes(count))
        with socket.create_connection(("127.0.0.1", own.port), 20) as client:
            client.sendall(b"POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 700001\r\n\r\n" + bytes(700000))
            # Who asks for figures meanwhile takes room of the body's.
            c.expect("a body is read", wait_for(lambda: is_read(client), 120), True)
            c.expect("a body is held", own.held(), lambda held: held > 690000)
            c.expect("no room", own.call(KSERVE + "ModelInfer", body(500000)), "RESOURCE_EXHAUSTED")
            c.expect("no room unpacked", own.call(KSERVE + "ModelInfer", body(500000), compression=grpc.Compression.Gzip), "RESOURCE_EXHAUSTED")
            c.expect("the figures", own.held(), lambda held: held > 700000)  # more of them than there is room
            c.expect("a probe", own.call(KSERVE + "ServerLive"), put(1, 1))
        c.expect("it is held no more", wait_for(lambda: own.held() < 100000, 120), True)
        c.expect("room again", own.call(KSERVE + "ModelInfer", body(200000)), "INVALID_ARGUMENT")
        server.terminate()
        c.expect("the end", server.wait(20), 0)


PARTS = """
import time
from ts.handler_utils.utils import send_intermediate_predict_response

def handle(data, context):
    if data is None:
        return None
    words = [bytes(row.get("data") or row.get("body")).decode() for row in data]
    for step in range(3):
        send_intermediate_predict_response([f"{word} {step}, " for word in words], context.request_ids, "Intermediate Prediction success", 200, context)
        if "slow" in words: time.sleep(1)
    if "wrong" in words: raise ValueError("told so")
    if "endless" in words:
        while True: send_intermediate_predict_response([b"x" * 100000 for word in words], context.request_ids, "", 200, context)
    return [{"of": word} for word in words]
"""


def waiting_bytes(client):
    """What a server has sent that nobody has read: a frame of its kind says why it sends no more."""
    client.setblocking(False)
    try:
        return client.recv(1 << 16)
    except BlockingIOError:
        return b""


def check_parts(program, folder, c):
    """What a Python handler sends before its reply is whole: messages of a stream, at once; elsewhere the reply begins with it."""
    with zipfile.ZipFile(pathlib.Path(folder, "parts.mar"), "w") as packed:
        packed.writestr("MAR-INF/MANIFEST.json", json.dumps({"runtime": "python", "model": {"modelName": "parts", "modelVersion": "1.0", "handler": "own.py"}}))
        packed.writestr("own.py", PARTS)
    command = [program, "--port", "0", "--python-handlers", "--python", "/usr/bin/python3", "--workers", "1", "--most-held", "4000000", "--timeout", "20", "parts.mar"]
    with serving(command, folder, TMPDIR=folder) as server:
        own = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
        request = lambda word: put(1, "parts") + put(3, put(1, "data") + put(2, word))
        whole = lambda word: [put(1, f"{word} {step}, ") for step in range(3)] + [put(1, '{\n  "of": "%s"\n}' % word)]
        c.expect("parts", own.stream(TORCH + "StreamPredictions", request("a")), whole("a"))
        c.expect("in one", own.call(TORCH + "Predictions", request("b")), put(1, 'b 0, b 1, b 2, {\n  "of": "b"\n}'))
        rest = urllib.request.Request(f"http://127.0.0.1:{own.port}/predictions/parts", b"c", {"Content-Type": "application/octet-stream"})
        with urllib.request.urlopen(rest, timeout=20) as reply:
            c.expect("in one by REST", reply.read(), b'c 0, c 1, c 2, {\n  "of": "c"\n}')
        begun = time.monotonic()
        stream = own.channel.unary_stream(TORCH + "StreamPredictions")(request("slow"), timeout=20)
        c.expect("the first part", next(stream), put(1, "slow 0, "))
        c.expect("it comes before the last", time.monotonic() - begun, lambda seconds: seconds < 2)
        c.expect("the others", list(stream), whole("slow")[1:])
        got = []
        try:
            got.extend(own.channel.unary_stream(TORCH + "StreamPredictions")(request("wrong"), timeout=20))
        except grpc.RpcError as error:
            c.expect("an error behind parts", (got, error.code().name), (whole("wrong")[:3], "UNAVAILABLE"))
        c.expect("no model", own.stream(TORCH + "StreamPredictions", put(1, "other")), "NOT_FOUND")
        gone = own.channel.unary_stream(TORCH + "StreamPredictions")(request("slow"), timeout=20)
        next(gone)
        gone.cancel()
        c.expect("behind who has gone", own.stream(TORCH + "StreamPredictions", request("d")), whole("d"))
        with socket.create_connection(("127.0.0.1", own.port), 20) as client:  # that reads nothing
            message = request("endless")
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, struct.pack(">HI", 4, 0)) +
                           h2_frame(1, 4, 1, h2_fields(**{":path": TORCH.encode() + b"StreamPredictions", "content_type": b"application/grpc"})) +
                           h2_frame(0, 1, 1, b"\0" + struct.pack(">I", len(message)) + message))
            filled = wait_for(lambda: own.held() > 3000000, 120)
            c.expect("a reply that nobody reads", "filled" if filled else (own.held(), waiting_bytes(client)), "filled")
            time.sleep(0.5)
            c.expect("who reads nothing", own.held(), lambda held: held < 4000000 + (1 << 24))
        server.terminate()
        c.expect("the end of parts", server.wait(20), 0)


def check_listeners(port, c):
    """Two streams listen already; there is room for 256, on whatever connections."""
    apart = [("grpc.use_local_subchannel_pool", 1)]
    channels = [grpc.insecure_channel(f"127.0.0.1:{port}", apart) for _ in range(4)]
    watch = lambda channel: channel.unary_stream("/grpc.health.v1.Health/Watch")(put(1, "add"), timeout=60)
    streams = [watch(channels[i % 3]) for i in range(254)]
    c.expect("as many listeners as may be", [next(one) for one in streams] == [put(1, 1)] * 254, True)
    try:
        c.expect("one more", next(watch(channels[3])), None)
    except grpc.RpcError as error:
        c.expect("one more", error.code().name, "RESOURCE_EXHAUSTED")
    streams.pop().cancel()
    time.sleep(0.5)
    c.expect("one in its place", next(watch(channels[3])), put(1, 1))
    for channel in channels:
        channel.close()


def wide(columns=4096):
    """A model that needs much more memory for its rows than these have, and all of them at once."""
    return "\n".join(("tdir 1", 'input %0 "x": f32[n, 1]', f"const %1: f32[1, {columns}] = {{{', '.join(['1'] * columns)}}}",
                      f"const %2: f32[{columns}, 1] = {{{', '.join(['1'] * columns)}}}", f"%3 = aten::matmul(%0, %1): f32[n, {columns}]",
                      f"%4 = aten::flip(%3) {{dims = [0]}}: f32[n, {columns}]", "%5 = aten::matmul(%4, %2): f32[n, 1]", 'output "y" %5', ""))


def check_sessions(program, folder, c):
    """What a session has grown by counts as what requests hold, until that is much."""
    pathlib.Path(folder, "wide.tdir").write_text(wide())
    with serving([program, "--port", "0", "--workers", "1", "--most-held", "9000000", "wide.tdir"], folder) as server:
        own = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
        at_first = own.held()
        for rows, least, most in ((1, 0, 100000), (100, 1500000, 6000000), (10, 1500000, 6000000), (700, 0, 500000), (1, 0, 500000)):
            x = put(5, put(1, "x") + put(2, "FP32") + put(3, varint(rows) + varint(1)))
            answer = own.call(KSERVE + "ModelInfer", put(1, "wide") + x + put(7, floats([0.5] * rows)))
            c.expect(f"{rows} rows", isinstance(answer, bytes) and answer.endswith(floats([2048.0] * rows)), True)
            time.sleep(0.2)
            c.expect(f"held behind {rows} rows", own.held() - at_first, lambda held: least <= held <= most)
        server.terminate()
        c.expect("the end of sessions", server.wait(20), 0)


def wait_between(stop):
    """A request, and then none until it is told to stop."""
    yield put(1, "add") + tensor("x", [1, 2, 3]) + tensor("y", [4, 5, 6])
    stop.wait(60)


def check_watch(program, folder, c):
    """Health by a stream: what is, then each change, to the end of the server."""
    command = [program, "--port", "0", "--enable-model-api", "--model-store", ".", "--drain-delay", "1", "--drain", "30", "--transfer-timeout", "1", "add=net.tdir"]
    with serving(command, folder) as server:
        own = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
        watch = lambda name: own.channel.unary_stream("/grpc.health.v1.Health/Watch")(put(1, name), timeout=60)
        everything, model = watch(""), watch("net")
        asked = own.channel.stream_stream(KSERVE + "ModelStreamInfer")(wait_between(stop := threading.Event()), timeout=60)
        c.expect("before the end", next(asked)[:1], b"\x12")
        c.expect("health", next(everything), put(1, 1))
        c.expect("of no model", next(model), put(1, 3))
        time.sleep(2.5)  # longer than a transfer may take
        for what, method, message, health in (("a model", "RepositoryModelLoad", put(1, "net"), 1), ("it goes", "RepositoryModelUnload", put(1, "net"), 3),
                                              ("it comes back", "RepositoryModelLoad", put(1, "net"), 1)):
            own.call(KSERVE + method, message)
            c.expect(f"health of {what}", next(model), put(1, health))
        own.call(MANAGE + "ScaleWorker", put(1, "net") + put(3, 0) + put(4, 0) + put(6, 1))
        c.expect("health without workers", next(model), put(1, 2))
        watch("add").cancel()
        check_listeners(own.port, c)
        server.terminate()
        c.expect("health at the end", next(everything), put(1, 2))
        for stream in (everything, model, asked):
            try:
                c.expect("more health", next(stream), None)
            except grpc.RpcError as error:
                c.expect("behind it", error.code().name, "UNAVAILABLE")
        stop.set()
        c.expect("nobody waits for listeners", server.wait(15), 0)


def h2_frame(kind, flags, stream, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def h2_fields(**fields):
    literal = lambda name, value: b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value
    named = {b":method": b"POST", b":scheme": b"http", b":authority": b"a", **{name.replace("_", "-").encode(): value for name, value in fields.items()}}
    return b"".join(literal(name, value) for name, value in sorted(named.items(), key=lambda pair: not pair[0].startswith(b":")))


class Frames:
    """What a server says on a socket, frame by frame: (kind, stream, payload)."""

    def __init__(self, client):
        self.client, self.got = client, b""

    def next(self, seconds):
        """None: nothing comes in that time."""
        self.client.settimeout(seconds)
        with contextlib.suppress(TimeoutError):
            while len(self.got) < 9 or len(self.got) < 9 + int.from_bytes(self.got[:3], "big"):
                came = self.client.recv(1 << 16)
                if not came:
                    return None
                self.got += came
            length, kind, stream = int.from_bytes(self.got[:3], "big"), self.got[3], int.from_bytes(self.got[5:9], "big")
            payload, self.got = self.got[9:9 + length], self.got[9 + length:]
            return kind, stream, payload
        return None


def check_last_reply(program, folder, c):
    """A reply that the client has not read when the server ends, and a client that says something meanwhile: neither is lost."""
    columns = ", ".join(["1"] * 4096)
    pathlib.Path(folder, "long.tdir").write_text("\n".join((
        "tdir 1", 'input %0 "x": f32[n, 1]', f"const %1: f32[1, 4096] = {{{columns}}}", "%2 = aten::matmul(%0, %1): f32[n, 4096]", 'output "y" %2', "")))
    with serving([program, "--port", "0", "--drain", "30", "long.tdir"], folder) as server, socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        client.connect(("127.0.0.1", int(server.stdout.readline().rsplit(":", 1)[1])))
        message = put(1, "long") + put(5, put(1, "x") + put(2, "FP32") + put(3, varint(25) + varint(1))) + put(7, floats([2.0] * 25))
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, struct.pack(">HI", 4, 1 << 30)) + h2_frame(8, 0, 0, struct.pack(">I", 1 << 30)) +
                       h2_frame(1, 4, 1, h2_fields(**{":path": KSERVE.encode() + b"ModelInfer", "content_type": b"application/grpc"})) +
                       h2_frame(0, 1, 1, b"\0" + struct.pack(">I", len(message)) + message))
        time.sleep(1)  # the reply lies in the server's socket
        server.terminate()
        time.sleep(0.5)
        client.sendall(h2_frame(8, 0, 0, struct.pack(">I", 1)))
        frames, got, asked, whole = Frames(client), b"", 0, None
        with contextlib.suppress(ConnectionError):
            while (frame := frames.next(10)):
                got += frame[2] if frame[0] == 0 else b""
                if frame[0] == 6 and frame[2] == bytes(8):
                    asked += 1
                    client.sendall(h2_frame(6, 1, 0, frame[2]))
            whole = frames.got
        c.expect("the last reply", got.endswith(floats([2.0] * 4096 * 25)), True)
        c.expect("the end of its connection", (asked, whole), (1, b""))
        c.expect("the end behind it", server.wait(1.5), 0)
    with serving([program, "--port", "0", "--drain", "30", "add=net.tdir"], folder) as server:
        own = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
        stream = own.channel.unary_stream("/grpc.health.v1.Health/Watch")(put(1, ""), timeout=60)
        c.expect("health", next(stream), put(1, 1))
        server.terminate()  # without --drain-delay
        got = []
        try:
            got.extend(stream)
        except grpc.RpcError as error:
            c.expect("health to the last", (got, error.code().name, error.details()), ([put(1, 2)], "UNAVAILABLE", ""))
        c.expect("the end behind it", server.wait(10), 0)


def check_broken_connection(c):
    """A client that breaks the protocol while a stream of it is open: it is told, and its connection ends at once."""
    with socket.create_connection(("127.0.0.1", c.port), 20) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0) +
                       h2_frame(1, 4, 1, h2_fields(**{":path": b"/grpc.health.v1.Health/Watch", "content_type": b"application/grpc"})) +
                       h2_frame(0, 1, 1, b"\0\0\0\0\0"))
        frames, kinds = Frames(client), []
        while (frame := frames.next(20)) and frame[0] != 0:
            pass
        c.expect("health before", frame[2][5:], put(1, 1))
        for early in (h2_frame(3, 0, 15, struct.pack(">I", 8)), h2_frame(6, 0, 0, bytes(8))):  # a reset of no stream passes, as grpcio sends them
            for byte in early:
                client.sendall(bytes([byte]))
        c.expect("behind a reset of no stream", frames.next(20), (6, 0, bytes(8)))
        client.sendall(h2_frame(8, 0, 0, struct.pack(">I", 0)))  # a window that grows by nothing
        begun = time.monotonic()
        while (frame := frames.next(5)):
            kinds.append((frame[0], frame[2][4:8]))
        c.expect("it is told why", kinds, lambda got: (7, struct.pack(">I", 1)) in got)
        c.expect("and the connection ends", time.monotonic() - begun, lambda seconds: seconds < 4)


def check_slow_stream(c):
    """A stream whose body comes byte by byte is reset; the connection lives on, and so do others."""
    reset = None
    with socket.create_connection(("127.0.0.1", c.port), 20) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0) + h2_frame(1, 4, 1, h2_fields(**{":path": b"/v2/models/add/infer"})) +
                       h2_frame(1, 4, 3, h2_fields(**{":path": KSERVE.encode() + b"ModelStreamInfer", "content_type": b"application/grpc"})))
        frames, resets = Frames(client), {}
        for byte in b"\0\0\0\x40\0" + bytes(100):
            client.sendall(b"".join(h2_frame(0, 0, stream, bytes([byte])) for stream in (1, 3) if stream not in resets))
            while (frame := frames.next(0.2)):
                if frame[0] == 3:
                    resets[frame[1]] = frame[2]
                if len(resets) == 2:
                    break
            if len(resets) == 2:
                break
        c.expect("slow streams", resets, {1: struct.pack(">I", 8), 3: struct.pack(">I", 8)})  # CANCEL
        client.sendall(h2_frame(6, 0, 0, b"ping ping"[:8]))
        while (frame := frames.next(20)) and frame[0] != 6:
            pass
        c.expect("their connection", frame, (6, 0, b"ping pin"))


def check_window(c):
    """A client that reads no replies can send no more than its window, and some; then it has all replies."""
    message = put(1, "add") + tensor("x", [1, 2, 3]) + tensor("y", [4, 5, 6]) + put(99, bytes(8000))
    message = b"\0" + struct.pack(">I", len(message)) + message
    windows, sent, replies, ended = {0: 65535, 1: 65535}, 0, b"", False
    with socket.create_connection(("127.0.0.1", c.port), 20) as client:
        client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + h2_frame(4, 0, 0, struct.pack(">HI", 4, 0)) +
                       h2_frame(1, 4, 1, h2_fields(**{":path": KSERVE.encode() + b"ModelStreamInfer", "content_type": b"application/grpc"})))
        frames = Frames(client)
        while (frame := frames.next(0.3)) or min(windows.values()) >= len(message):
            if frame and frame[0] == 4 and frame[2]:
                client.sendall(h2_frame(4, 1, 0))  # its settings are known: a MiB for each stream
                windows[1] += (1 << 20) - 65535
            if frame and frame[0] == 8:
                windows[frame[1]] += int.from_bytes(frame[2], "big")
            while min(windows.values()) >= len(message) and sent < 8 << 20:
                client.sendall(h2_frame(0, 0, 1, message))
                windows = {stream: room - len(message) for stream, room in windows.items()}
                sent += len(message)
        c.expect("what was sent", sent, lambda count: 1 << 19 < count < 3 << 20)
        c.expect("what is held", c.held(), lambda held: held < 3 << 20)
        client.sendall(h2_frame(8, 0, 1, struct.pack(">I", 1 << 24)) + h2_frame(8, 0, 0, struct.pack(">I", 1 << 24)) + h2_frame(0, 1, 1))
        while not ended and (frame := frames.next(20)):
            replies += frame[2] if frame[0] == 0 else b""
            ended = frame[0] == 1
        length = 5 + int.from_bytes(replies[1:5], "big")
        c.expect("its replies", (ended, replies), (True, replies[:length] * (sent // len(message))))


def check_named(c):
    """Replies say the id of the request: the client's, its trace's, or one of the server's."""
    trace = "0af7651916cd43dd8448eb211c80319c"
    parent = f"traceparent: 00-{trace}-b7ad6b7169203331-01"
    for version in ("--http1.1", "--http2-prior-knowledge"):
        def asked(*words):
            command = ["curl", "-si", version, *words, f"http://127.0.0.1:{c.port}/v2/models/add/ready"]
            lines = subprocess.run(command, capture_output=True, text=True).stdout.lower().splitlines()
            return [line.split(": ")[1] for line in lines if line.startswith("x-request-id: ")]
        c.expect("an id", asked("-H", "X-Request-Id: mine-1", "-H", parent), ["mine-1"])
        c.expect("a trace", asked("-H", parent), [trace])
        c.expect("an id with blanks", asked("-H", "X-Request-Id: my own", "-H", parent), [trace])
        c.expect("no id", asked(), lambda ids: len(ids) == 1 and len(ids[0]) == 32 and ids[0] != trace)


LINE = {"time", "client", "method", "path", "status", "bytes_in", "bytes_out", "duration_us", "request_id"}


def check_log(c, path):
    """What the checks before it left in the access log of a server that has ended."""
    try:
        lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    except ValueError as error:
        c.expect("JSON", str(error), "")
        return
    kserve = lambda method: [line for line in lines if line["path"] == KSERVE + method]
    c.expect("keys", [line for line in lines if not LINE <= line.keys()], [])
    c.expect("times", [line for line in lines if not datetime.datetime.strptime(line["time"], "%Y-%m-%dT%H:%M:%S.%fZ")], [])
    c.expect("clients", [line for line in lines if not line["client"].startswith("127.0.0.1:")], [])
    c.expect("ids", len({line["request_id"] for line in lines if len(line["request_id"]) == 32}), lambda count: count > 1000)
    c.expect("gRPC", kserve("ServerLive"), lambda got: got and got[0]["grpc_status"] == 0 and got[0]["bytes_out"] == 2)
    done = [line for line in kserve("ModelInfer") if line["grpc_status"] == 0 and line["model"] == "add"]
    c.expect("inference", len(done), lambda count: count > 1000)
    c.expect("its figures", [line for line in done if not 0 <= line["queue_us"] + line["inference_us"] <= line["duration_us"] + 2], [])
    c.expect("its version and bytes", {(line["version"], line["bytes_in"] > 50, line["bytes_out"] > 20) for line in done}, {("1", True, True)})
    c.expect("no model", [line for line in kserve("ModelReady") if line["grpc_status"] == 5], lambda got: len(got) == 1 and "model" not in got[0])
    c.expect("deadlines", [line for line in kserve("ModelInfer") if line["status"] == 504 and line["grpc_status"] == 4], lambda got: len(got) >= 1)
    c.expect("who has gone", [line for line in kserve("ModelInfer") if line["status"] == 499], lambda got: len(got) >= 1)
    rest = [line for line in lines if line["path"] == "/v2/models/add/infer"]
    c.expect("REST", [line["status"] for line in rest], lambda got: {200, 408, 413} <= set(got))
    c.expect("no route", [line["status"] for line in lines if line["path"] == "/v2/nothing"], [404])
    c.expect("given ids", sorted(line["request_id"] for line in lines if line["path"] == "/v2/models/add/ready" and len(line["request_id"]) < 32),
             ["mine-1", "mine-1"])


@contextlib.contextmanager
def serving(command, folder, **variables):
    """A server that is gone behind the block, whatever becomes of that."""
    server = subprocess.Popen(with_threads(command), cwd=folder, stdout=subprocess.PIPE, text=True, env={**os.environ, **variables})
    try:
        yield server
    finally:
        server.kill()
        server.wait()


def check_tls(c, program, folder):
    """REST by HTTP/1.1 and HTTP/2, and gRPC, over TLS; certificates that are read anew."""
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    pathlib.Path(folder, "config.properties").write_text(
        "inference_address=https://127.0.0.1:0\nmanagement_address=https://127.0.0.1:0\nmetrics_address=http://127.0.0.1:0\n"
        "grpc_inference_port=0\ngrpc_management_port=0\nenable_grpc_ssl=true\n"
        "certificate_file=cert.pem\nprivate_key_file=key.pem\ndisable_token_authorization=true\n")
    command = [program, "--start", "--foreground", "--ts-config", "config.properties", "add=net.tdir"]
    with serving(command, folder) as server:
        ports = [int(server.stdout.readline().rsplit(":", 1)[1]) for _ in range(5)]
        cert = str(pathlib.Path(folder, "cert.pem"))
        curl = lambda *words: subprocess.run(["curl", "-s", "--cacert", cert, *words], capture_output=True).stdout
        url = f"https://localhost:{ports[0]}/v2"
        pathlib.Path(folder, "big").write_bytes(b"x" * 300000)
        big = f"@{folder}/big"
        for version in ("--http1.1", "--http2"):
            c.expect("live over TLS", curl(version, "-w", "%{http_version}", url + "/health/live"),
                     b'{"live":true}' + (b"1.1" if version == "--http1.1" else b"2"))
            c.expect("a large body over TLS", curl(version, "--data-binary", big, url + "/models/add/infer"), lambda got: b"error" in got)
        c.expect("clear text where TLS is spoken", curl(url.replace("https", "http") + "/health/live"), b"")
        roots = pathlib.Path(cert).read_bytes()
        ask = lambda roots: grpc.secure_channel(f"localhost:{ports[3]}", grpc.ssl_channel_credentials(roots)) \
            .unary_unary(KSERVE + "ServerLive")(b"", timeout=20)
        c.expect("gRPC over TLS", ask(roots), put(1, 1))
        subprocess.run(make, cwd=folder, check=True, capture_output=True)
        server.send_signal(signal.SIGHUP)
        for _ in range(100):
            time.sleep(0.05)
            answer = curl(url + "/health/live")  # by the new certificate
            if answer:
                break
        c.expect("new certificates", answer, b'{"live":true}')
        server.terminate()
        c.expect("the end of TLS", server.wait(20), 0)


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "net.tdir").write_text(GRAPH)
        pathlib.Path(folder, "endless.tdir").write_text(ENDLESS)
        command = [program, "--port", "0", "--enable-model-api", "--most-bytes", "65536", "--model-store", ".", "--workers", "1",
                   "--access-log", "access.log", "--transfer-timeout", "2", "add=net.tdir", "endless.tdir"]
        with serving(command, folder) as server:
            checks = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            check_kserve(checks)
            check_streams(checks)
            check_torchserve(checks)
            check_rest(checks)
            check_deadlines(checks)
            check_broken_connection(checks)
            check_slow_stream(checks)
            check_window(checks)
            check_named(checks)
            server.terminate()
            checks.expect("the end", server.wait(20), 0)
        check_log(checks, pathlib.Path(folder, "access.log"))
        check_budget(program, folder, checks)
        check_sessions(program, folder, checks)
        check_parts(program, folder, checks)
        check_watch(program, folder, checks)
        check_last_reply(program, folder, checks)
        check_tls(checks, program, folder)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
