#!/usr/bin/env python3
"""Sequences of requests to models with session state, by REST and gRPC: check_sequences.py BUILD. Expected answers are sums of
numbers that f32 holds. Ends with a count of checks."""
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import queue
import re
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zipfile

import check_grpc
from check_conformance import png
from check_grpc import KSERVE, TORCH, floats, put, tensor
from check_handlers import wait_for

SUM = """tdir 1
const %5: f32[3] = {0, 0, 0}
input %0 "x": f32[3]
state %1 "sum": f32[3] = %5
%2 = aten::add(%1, %0): f32[3]
output "y" %2
store %1 = %2
"""
# What it has seen so far, which grows, a list of it, and its sum.
GROWING = """tdir 1
const %5: f32[2, 0] = {}
input %0 "x": f32[2, n]
state %1 "cache": f32[2, past] = %5
state %2 "all": list(f32[...]) = [%5]
%6 = aten::cat(%1, %0) {dim = 1}
%7 = aten::append(%2, %0)
output "y" %6
store %1 = %6
store %2 = %7
"""
# A decoder as exporters write it: what it keeps is inputs and outputs, until it is compiled with --state.
CACHED = """tdir 1
input %0 "x": f32[batch, rows, 2]
input %1 "past_key_values.0.key": f32[batch, past, 2]
%2 = aten::cat(%1, %0) {dim = 1}
%3 = aten::mean(%2) {dim = [1], keepdim = false}
output "y" %3
output "present.0.key" %2
"""
# Runs until no element is larger than 1, which is never where one is not: its state is what it began with.
WAITING = """tdir 1
const %9: f32[2] = {0, 0}
input %0 "x": f32[2]
state %10 "sum": f32[2] = %9
const %2: f32[] = {1}
%11 = aten::add(%0, %10): f32[2]
%3 = aten::gt(%0, %2): bool[2]
%4 = aten::any(%3) {dim = [0], keepdim = false}: bool[]
%5 = prim::Loop(-, %4, %11): f32[2] {
  block(%6: i64[], %7: f32[2]) {
    %8 = aten::cos(%7): f32[2]
    yield %4, %8
  }
}
output "y" %5
store %10 = %5
"""
# Scores of a picture's colours, added up.
COLOURS = """tdir 1
const %5: f32[1, 3] = {0, 0, 0}
input %0 "x": f32[1, 3, 224, 224]
state %2 "sum": f32[1, 3] = %5
%1 = aten::mean(%0) {dim = [2, 3], keepdim = false, noop = false}: f32[1, 3]
%3 = aten::add(%1, %2): f32[1, 3]
output "y" %3
store %2 = %3
"""
# An RNN and the mean of all that came. One state counts its sequences in the second dimension, one in the first, and grows;
# both by the name of the input's first one. Two products of 40,960 weights make a row cost far less beside others on any
# machine, so that joining pays when the server measures it.
STEPS = """tdir 1
const %5: f32[1, 1, 40] = {FIRST}
const %6: f32[40, 1024] = {WEIGHTS}
const %20: f32[1024, 40] = {WEIGHTS}
const %10: f32[1, 0, 40] = {}
input %0 "x": f32[batch, 1, 40]
state %1 "h": f32[1, batch, 40] = %5
state %11 "seen": f32[batch, past, 40] = %10
%21 = aten::matmul(%1, %6): f32[1, batch, 1024]
%2 = aten::matmul(%21, %20): f32[1, batch, 40]
%3 = aten::mean(%0) {dim = [1], keepdim = false}: f32[batch, 40]
%4 = aten::add(%2, %3): f32[1, batch, 40]
%7 = aten::tanh(%4): f32[1, batch, 40]
%8 = aten::mean(%7) {dim = [0], keepdim = false}: f32[batch, 40]
%12 = aten::cat(%11, %0) {dim = 1}
%13 = aten::mean(%12) {dim = [1], keepdim = false}: f32[batch, 40]
%14 = aten::add(%8, %13): f32[batch, 40]
output "y" %14
store %1 = %7
store %11 = %12
""".replace("FIRST", ", ".join("0" * 40)).replace("WEIGHTS", ", ".join(f"{(i * 37 % 101 - 50) / 1000}" for i in range(40960)))
LARGE = SUM.replace("f32[3]", "f32[262144]").replace("{0, 0, 0}", "{" + ", ".join("0" * 262144) + "}")  # 1 MiB of state
START, UNKNOWN = {"sequence_start": True}, "must specify the START flag on the first request of the sequence"


class Checks(check_grpc.Checks):
    def ask(self, method, path, body=None, **headers):
        """Status, and JSON where it is."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        client.request(method, path, body, headers)
        reply = client.getresponse()
        text = reply.read()
        self.retry = reply.headers["Retry-After"]
        client.close()
        try:
            return reply.status, json.loads(text)
        except ValueError:
            return reply.status, text.decode()

    def infer(self, model, values, shape=None, path="", **parameters):
        """The output, or the status and what is wrong."""
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": shape or [len(values)], "data": values}]}
        if parameters:
            body["parameters"] = parameters
        status, said = self.ask("POST", f"/v2/models/{model}{path}/infer", json.dumps(body))
        return said["outputs"][0]["data"] if status == 200 else (status, said["error"])

    def infer_grpc(self, model, values, **parameters):
        return self.call(KSERVE + "ModelInfer", message(model, values, **parameters))

    def figure(self, name, model="sum"):
        text = self.ask("GET", "/metrics")[1]
        return int(re.search(rf'^treadle_{name}{{model_name="{model}",.*}} (\d+)$', text, re.M)[1])

    def expect_unknown(self, what, got):
        self.expect(what, got, lambda got: got[0] == 400 and UNKNOWN in got[1])

    def wait_for(self, condition):
        return wait_for(condition, 15)


def parameter(name, value):
    kind = put(1, int(value)) if isinstance(value, bool) else put(2, value) if isinstance(value, int) else put(3, value)
    return put(4, put(1, name) + put(2, kind))


def message(model, values, **parameters):
    return put(1, model) + tensor("x", values) + b"".join(parameter(name, value) for name, value in parameters.items())


def values_of(reply):
    """The raw output of a ModelInferResponse, which stands at its end."""
    return list(struct.unpack("<3f", reply[-12:])) if isinstance(reply, bytes) else reply


def check_rest(c):
    ones = [1, 2, 3]
    c.expect("alone", [c.infer("sum", ones) for _ in range(2)], [ones] * 2)
    c.expect_unknown("no such sequence", c.infer("sum", ones, sequence_id=7))
    c.expect("no profile", c.ask("POST", "/models/sum/profile")[0], 400)
    c.expect("it begins", c.infer("sum", ones, sequence_id=7, sequence_start=True), ones)
    c.expect("another one", c.infer("sum", [0, 0, 1], sequence_id="a b", sequence_start=True), [0, 0, 1])
    c.expect("it goes on", c.infer("sum", ones, sequence_id=7), [2, 4, 6])
    c.expect("so does the other", c.infer("sum", [0, 0, 1], sequence_id="a b"), [0, 0, 2])
    c.expect("alone beside them", c.infer("sum", ones), ones)
    c.expect("the same id as text", c.infer("sum", ones, sequence_id="7"), [3, 6, 9])
    c.expect("by its version", c.infer("sum", ones, path="/versions/1", sequence_id=7), [4, 8, 12])
    c.expect("a wrong input", c.infer("sum", [1, 2], sequence_id=7)[0], 400)
    c.expect("an output that is not there", c.ask("POST", "/v2/models/sum/infer", json.dumps({
        "inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": ones}], "outputs": [{"name": "z"}], "parameters": {"sequence_id": 7}}))[0], 400)
    c.expect("changed nothing", c.infer("sum", ones, sequence_id=7), [5, 10, 15])
    c.expect("of another model", c.infer("growing", [1, 2], [2, 1], sequence_id=7), lambda got: got[0] == 400)
    c.expect("anew", c.infer("sum", [0, 0, 5], sequence_id=7, **START), [0, 0, 5])
    c.expect("not anew by a wrong one", (c.infer("sum", [1], sequence_id=7, **START)[0], c.infer("sum", ones, sequence_id=7)), (400, [1, 2, 8]))
    c.expect("the last one", c.infer("sum", ones, sequence_id=7, sequence_end=True), [2, 4, 11])
    c.expect_unknown("it has ended", c.infer("sum", ones, sequence_id=7))
    c.expect("one alone", c.infer("sum", ones, sequence_id=8, sequence_start=True, sequence_end=True), ones)
    c.expect_unknown("has ended, too", c.infer("sum", ones, sequence_id=8))
    c.expect_unknown("begun by a wrong one", (c.infer("sum", [1], sequence_id=9, **START), c.infer("sum", ones, sequence_id=9))[1])
    for wrong in ({"sequence_id": 0}, {"sequence_id": ""}, {"sequence_start": True}, {"sequence_end": True}):
        c.expect(f"{wrong}", c.infer("sum", ones, **wrong), lambda got: got[0] == 400 and "must specify a non-zero or non-empty correlation ID" in got[1])
    for wrong in (-1, 1.5, [1], None, True, 2**63, "x" * 129, "a\0b"):
        c.expect(f"the id {wrong!r:.20}", c.infer("sum", ones, sequence_id=wrong, **START)[0], 400)
    c.expect("the longest id", c.infer("sum", ones, sequence_id="x" * 128, sequence_start=True, sequence_end=True), ones)
    c.expect("no state, no sequence", [c.infer("add", ones, sequence_id=7)[0], c.infer("plain", ones, sequence_id=7)], [400, ones])
    c.expect("what is left", (c.figure("sequences"), c.infer("sum", ones, sequence_id="a b", sequence_end=True), c.figure("sequences")), (1, [1, 2, 5], 0))


def check_json(c):
    """Where the parameters stand in the document, and what else looks like them."""
    inputs = '"inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[1,1,1],"parameters":{"sequence_id":1}}]'
    ask = lambda text: c.ask("POST", "/v2/models/sum/infer", text)
    data = lambda got: got[1]["outputs"][0]["data"] if got[0] == 200 else got
    named = '"parameters":{"sequence_id":"j","sequence_start":true}'
    c.expect("in front", data(ask("{" + named + "," + inputs + "}")), [1] * 3)
    c.expect("behind", data(ask("{" + inputs + ' ,\n "parameters" : {"sequence_id":"j"} }')), [2] * 3)
    c.expect("behind a text with quotes and braces", data(ask('{"id":"\\\\\\"}{[\\"sequence_","n":[{}],"m":-1.5e3,' + inputs + ',"parameters":{"sequence_id":"j"}}')), [3] * 3)
    c.expect("of an input alone", data(ask("{" + inputs + "}")), [1] * 3)
    c.expect("within another member", data(ask('{"other":{' + named + "}," + inputs + "}")), [1] * 3)
    c.expect("with escapes", data(ask("{" + inputs + ',"parameters":{"sequence\\u005fid":"j"}}')), [4] * 3)
    c.expect("with escapes alone", ask("{" + inputs.replace("sequence_id", "s") + ',"parameters":{"sequence\\u005fid":"j"}}')[0], 400)
    c.expect("the member with escapes", ask("{" + inputs + ',"param\\u0065ters":{"sequence_id":"j"}}')[0], 400)
    c.expect("twice", ask("{" + inputs + ',"parameters":{"sequence_id":"j"},"parameters":{"sequence_id":"j"}}')[0], 400)
    for damaged in ("{" + named, '{"sequence_', '{"parameters":{"sequence_id":1', '{"a":"sequence_\\', '"sequence_id"', '[{"sequence_id":1}]', '{"parameters":"sequence_id"}', "{]" + named + "}"):
        c.expect(f"damaged {damaged}", ask(damaged)[0], 400)
    raw = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "parameters": {"binary_data_size": 12}}],
                      "parameters": {"sequence_id": "j", "sequence_end": True}}).encode()
    c.expect("in front of bytes", data(c.ask("POST", "/v2/models/sum/infer", raw + floats([1, 1, 1]), **{"Inference-Header-Content-Length": str(len(raw))})),
             [5] * 3)


def check_kserve_grpc(c):
    ones = [1, 2, 3]
    ask = lambda **parameters: values_of(c.infer_grpc("sum", ones, **parameters))
    c.expect("no such sequence", ask(sequence_id=11), "INVALID_ARGUMENT")
    c.expect("it begins", ask(sequence_id=11, sequence_start=True), ones)
    c.expect("by REST", c.infer("sum", ones, sequence_id=11), [2, 4, 6])
    c.expect("by gRPC", ask(sequence_id="11"), [3, 6, 9])
    c.expect("an output that is not there", c.call(KSERVE + "ModelInfer", message("sum", ones, sequence_id=11) + put(6, put(1, "z"))), "INVALID_ARGUMENT")
    c.expect("changed nothing, and ends", ask(sequence_id=11, sequence_end=True), [4, 8, 12])
    c.expect("it has ended", ask(sequence_id=11), "INVALID_ARGUMENT")
    c.expect("id 0", ask(sequence_id=0), "INVALID_ARGUMENT")
    c.expect("no id", ask(sequence_start=True), "INVALID_ARGUMENT")
    c.expect("uint64", values_of(c.call(KSERVE + "ModelInfer", put(1, "sum") + tensor("x", ones) + put(4, put(1, "sequence_id") + put(2, put(5, 2**64 - 1))) +
                                        parameter("sequence_start", True) + parameter("sequence_end", True))), ones)
    requests = [message("sum", ones, sequence_id="s", sequence_start=i == 0, sequence_end=i == 49) for i in range(50)]
    replies = list(c.channel.stream_stream(KSERVE + "ModelStreamInfer")(iter(requests), timeout=20))
    sums = [re.search(rb"\x32\x0c(.{12})", reply, re.S)[1] for reply in replies]
    c.expect("a stream, in order", sums, [floats([i, 2 * i, 3 * i]) for i in range(1, 51)])
    c.expect("none is left", c.figure("sequences"), 0)


def check_torchserve(c):
    red, blue = png(255, 0, 0), png(0, 0, 255)
    ask = lambda picture, **fields: c.ask("POST", "/predictions/colours", picture, **fields)
    one, both = ask(red)[1], None
    first = ask(red, ts_request_sequence_id="t")
    c.expect("an id begins", first, (200, one))
    status, both = ask(blue, ts_request_sequence_id="t")
    c.expect("it goes on", (status, both != one, both != ask(blue)[1]), (200, True, True))
    c.expect("alone", ask(red)[1], one)
    c.expect("anew", ask(red, TS_Request_Sequence_ID="t", TS_request_sequence_start="TRUE")[1], one)
    c.expect("the last one", ask(blue, ts_request_sequence_id="t", ts_request_sequence_end="true")[1], both)
    c.expect("the next one begins", ask(red, ts_request_sequence_id="t")[1], one)
    c.expect("no picture", ask(b"x", ts_request_sequence_id="t")[0], 400)
    c.expect("changed nothing", ask(blue, ts_request_sequence_id="t", ts_request_sequence_end="true")[1], both)
    c.expect("an end without an id", ask(blue, ts_request_sequence_end="true")[0], 400)
    c.expect("too long", ask(blue, ts_request_sequence_id="t" * 129)[0], 400)
    entry = lambda key, value: put(3, put(1, key) + put(2, value))
    grpc_ask = lambda picture, more=b"": c.call(TORCH + "Predictions", put(1, "colours") + entry("data", picture) + more)
    text = lambda reply: (json.loads(reply[reply.index(b"{"):reply.rindex(b"}") + 1]), reply[reply.rindex(b"}") + 1:].strip()) if isinstance(reply, bytes) else reply
    c.expect("gRPC: alone", text(grpc_ask(red)), (one, b""))
    c.expect("gRPC: an id begins", text(grpc_ask(red, put(4, "g"))), (one, put(2, "g")))
    c.expect("gRPC: it ends", text(grpc_ask(blue, put(4, "g") + entry("ts_request_sequence_end", b"true"))), (both, put(2, "g")))
    c.expect("gRPC: anew", [text(grpc_ask(red, put(4, "g") + entry("ts_request_sequence_start", b"true")))[0] for _ in range(2)], [one] * 2)
    c.expect("by REST, too", ask(blue, ts_request_sequence_id="g", ts_request_sequence_end="true")[1], both)
    c.expect("none is left", c.figure("sequences", "colours"), 0)


def fields_of(reply):
    """A PredictionResponse as {field: bytes}."""
    fields, at = {}, 0
    while at < len(reply):
        number, at = reply[at] >> 3, at + 1
        length = shift = 0
        while True:
            length |= (reply[at] & 127) << shift
            shift, at = shift + 7, at + 1
            if reply[at - 1] < 128:
                break
        fields[number], at = reply[at:at + length], at + length
    return fields


def check_talk(c):
    """StreamPredictions2: the first request gets an id, and what is wrong is told in its place."""
    red, blue = png(255, 0, 0), png(0, 0, 255)
    entry = lambda key, value: put(3, put(1, key) + put(2, value))
    request = lambda picture, more=b"": put(1, "colours") + entry("data", picture) + more
    asked = queue.Queue()
    replies = c.channel.stream_stream(TORCH + "StreamPredictions2")(iter(asked.get, None), timeout=20)

    def ask(message):
        asked.put(message)
        return fields_of(next(replies))

    first = ask(request(red, entry("ts_request_sequence_start", b"true")))
    name = first[2]
    c.expect("an id", name, lambda got: got.startswith(b"ts-seq-"))
    second = ask(request(blue, put(4, name)))
    c.expect("goes on", (second[2], second[1] != first[1]), (name, True))
    wrong = ask(request(b"x", put(4, name)))
    c.expect("no picture", (sorted(wrong), wrong[2], wrong[3][:2]), ([2, 3], name, put(1, 3)))
    c.expect("no model", sorted(ask(put(1, "other"))), [3])
    third = ask(request(red, put(4, name) + entry("ts_request_sequence_end", b"true")))
    c.expect("and ends", third[1] not in (first[1], second[1]), True)
    asked.put(None)
    c.expect("the stream, too", (list(replies), c.figure("sequences", "colours")), ([], 0))


def check_handler(c, build, folder):
    """A Python handler hears of its sequences by the fields of either protocol."""
    handler = "def handle(data, context):\n    return data and [context.get_sequence_id(i) for i in range(len(data))]\n"
    with zipfile.ZipFile(pathlib.Path(folder, "own.mar"), "w") as packed:
        packed.writestr("MAR-INF/MANIFEST.json", json.dumps({"runtime": "python", "model": {"modelName": "own", "modelVersion": "1.0", "handler": "own.py"}}))
        packed.writestr("own.py", handler)
    command = [build / "treadle-serve", "--port", "0", "--python-handlers", "--python", "/usr/bin/python3", "--workers", "1", "own.mar"]
    with check_grpc.serving(command, folder, TMPDIR=folder) as server:
        own = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
        c.expect("REST", own.ask("POST", "/predictions/own", b"x", ts_request_sequence_id="a"), (200, "a"))
        c.expect("gRPC", own.call(TORCH + "Predictions", put(1, "own") + put(4, "b")), put(1, "b") + put(2, "b"))
        c.expect("none", own.ask("POST", "/predictions/own", b"x"), (200, ""))
        server.terminate()
        c.expect("the end", server.wait(20), 0)


def check_growing(c):
    step = lambda name, value, **more: c.infer("growing", [value, -value], [2, 1], sequence_id=name, **more)
    wanted = lambda first, n: [float(first + i) for i in range(n)] + [-float(first + i) for i in range(n)]
    for i in range(40):
        for name, first in (("a", 1), ("b", 100)):
            c.expect(f"{name} {i}", step(name, first + i, sequence_start=i == 0, sequence_end=i == 39), wanted(first, i + 1))


def check_side_by_side(c):
    """Each of many clients has a sequence, all at once; then many requests of one at once."""
    started, ended = c.figure("sequences_started_total"), c.figure("sequences_ended_total")

    def client(number):
        """Its first wrong sum, what came, and what the server said last; None where there is none."""
        for i in range(30):
            got = values_of(c.infer_grpc("sum", [number, i, 1], sequence_id=1000 + number, sequence_start=i == 0, sequence_end=i == 29))
            if got != [number * (i + 1), i * (i + 1) / 2, i + 1]:
                return number, i, got, getattr(c, "said", "")

    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        c.expect("24 sequences at once", set(pool.map(client, range(1, 25))), {None})
        c.expect("counted", (c.figure("sequences_started_total") - started, c.figure("sequences_ended_total") - ended, c.figure("sequences")), (24, 24, 0))
        c.infer("sum", [0, 0, 0], sequence_id="one", **START)
        sums = list(pool.map(lambda _: c.infer("sum", [1, 1, 1], sequence_id="one")[0], range(16)))
        c.expect("one sequence: each sum once", sorted(sums), list(range(1, 17)))
        c.expect("it ends", c.infer("sum", [1, 1, 1], sequence_id="one", sequence_end=True), [17] * 3)


def check_cancelled(c):
    """A run that does not end leaves the state as it was, however it is ended."""
    still, endless = [0.5, 0.25], [2.0, 2.0]
    c.expect("it begins", c.infer("waiting", still, sequence_id="w", **START), still)
    c.expect("too late", c.infer("waiting", endless, sequence_id="w", timeout=200000)[0], 504)
    c.expect("its state", c.infer("waiting", still, sequence_id="w"), [1.0, 0.5])
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2], "data": endless}], "parameters": {"sequence_id": "w"}}).encode()
    with socket.create_connection(("127.0.0.1", c.port)) as s:
        s.sendall(b"POST /v2/models/waiting/infer HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        time.sleep(0.2)
    c.expect("its client has gone", c.infer("waiting", still, sequence_id="w"), [1.5, 0.75])
    with concurrent.futures.ThreadPoolExecutor(17) as pool:
        slow = pool.submit(c.infer, "waiting", endless, sequence_id="w", timeout=1000000)
        time.sleep(0.2)
        c.expect("others meanwhile", c.infer("waiting", still, sequence_id="v", sequence_start=True, sequence_end=True), still)
        behind = [pool.submit(c.infer, "waiting", still, sequence_id="w") for _ in range(16)]
        time.sleep(0.2)
        c.expect("more than may wait", c.infer("waiting", still, sequence_id="w"), lambda got: got[0] == 503 and "wait" in got[1])
        c.expect("try later", c.retry, "1")
        c.expect("in time", (slow.result()[0], sorted(one.result()[0] for one in behind)), (504, [2 + i / 2 for i in range(16)]))
        slow = pool.submit(c.infer, "waiting", endless, sequence_id="w", timeout=500000)
        time.sleep(0.2)
        c.expect("waits in vain", (c.infer("waiting", still, sequence_id="w", timeout=100000)[0], slow.result()[0]), (504, 504))
    c.expect("no number can be JSON", c.infer("waiting", [float("-inf"), 0], sequence_id="w")[0], 400)
    c.expect("goes on", c.infer("waiting", [-3e38, 0], sequence_id="w"), lambda got: got[0] < -2.9e38)
    c.expect("infinite", c.infer("waiting", [-3e38, 0], sequence_id="w"), lambda got: got[0] == 400 and "the sequence ends" in got[1])
    c.expect_unknown("so it has ended", c.infer("waiting", still, sequence_id="w"))


def check_versions(c):
    """A sequence stays with the version that it began with."""
    ones = [1, 1, 1]
    c.expect("it begins", c.infer("sum", ones, sequence_id="old", **START), ones)
    c.expect("replaced", c.ask("POST", "/v2/repository/models/sum/load")[0], 200)
    c.expect("goes on", c.infer("sum", ones, sequence_id="old"), [2] * 3)
    c.expect("with the new one", c.infer("sum", ones, sequence_id="new", **START), ones)
    c.expect("counted by its version", c.figure("sequences"), 1)
    c.expect("begun anew: the new one's", (c.infer("sum", ones, sequence_id="old", **START), c.figure("sequences")), (ones, 2))
    c.expect("unloaded", (c.ask("POST", "/v2/repository/models/sum/unload")[0], c.infer("sum", ones, sequence_id="old")[0]), (200, 404))
    c.expect("loaded", c.ask("POST", "/v2/repository/models/sum/load")[0], 200)
    c.expect_unknown("its sequences have ended", c.infer("sum", ones, sequence_id="old"))
    c.expect("scaled", (c.infer("sum", ones, sequence_id="s", **START), c.ask("PUT", "/models/sum?min_worker=1&synchronous=true")[0],
                        c.infer("sum", ones, sequence_id="s"), c.infer("sum", ones, sequence_id="t", **START)), (ones, 200, [2] * 3, ones))
    c.expect("to none", (c.ask("PUT", "/models/sum?min_worker=0&synchronous=true")[0], c.infer("sum", ones, sequence_id="s")[0]), (200, 503))
    c.expect("and back", (c.ask("PUT", "/models/sum?min_worker=2&synchronous=true")[0], c.infer("sum", ones, sequence_id="s"), c.infer("sum", ones, sequence_id="t")), (200, [3] * 3, [2] * 3))
    c.expect("beside a second version", c.ask("POST", "/models?url=other.mar&initial_workers=1")[0], 200)


def check_example(c):
    """The one of docs/serving.md: what stands behind # is in the reply."""
    text = (pathlib.Path(__file__).resolve().parent.parent / "docs/serving.md").read_text()
    block = text[text.index("## Sequences"):].split("```sh\n")[1].split("```")[0]
    define = block[block.index("ask()"):block.index("; }") + 3].replace("8080", str(c.port))
    calls = re.findall(r"^(ask '.*?') +# (.*)$", block, re.M)
    c.expect("calls", len(calls), 6)
    for call, says in calls:
        said = subprocess.run(["bash", "-c", define + "\n" + call], capture_output=True, text=True, check=True).stdout
        c.expect(call, said, lambda got: says in got)
    c.expect("one is left", c.infer("sum", [0, 0, 0], sequence_id="b", sequence_end=True), [1, 2, 3])


def described(c, model):
    said = c.ask("GET", f"/models/{model}")[1][0]
    return {name: said[name] for name in ("stateful", "sequenceMaxIdleMSec", "sequenceTimeoutMSec", "maxNumSequence", "maxSequenceJobQueueSize")}


def check_bounds(c):
    ones = [1, 1, 1]
    c.expect("as the archive says", described(c, "few"), {"stateful": True, "sequenceMaxIdleMSec": 600, "sequenceTimeoutMSec": 3000, "maxNumSequence": 2, "maxSequenceJobQueueSize": 4})
    c.expect("of a model without state", described(c, "plain"), {"stateful": False, "sequenceMaxIdleMSec": 0, "sequenceTimeoutMSec": 0, "maxNumSequence": 0, "maxSequenceJobQueueSize": 0})
    c.expect("two of them", [c.infer("few", ones, sequence_id=i, **START) for i in (1, 2)], [ones] * 2)
    c.expect("a third one", c.infer("few", ones, sequence_id=3, **START), lambda got: got[0] == 503 and "2 sequences" in got[1])
    c.expect("try later", c.retry, "1")
    c.expect("by gRPC", c.infer_grpc("few", ones, sequence_id=3, sequence_start=True), "RESOURCE_EXHAUSTED")
    c.expect("one anew all the same", c.infer("few", ones, sequence_id=2, **START), ones)
    begun, kept = time.time(), []
    while time.time() - begun < 1.5:
        kept.append(c.infer("few", ones, sequence_id=2)[0])
        time.sleep(0.2)
    c.expect("kept by its requests", kept, [2.0 + i for i in range(len(kept))])
    c.expect("the other was idle", (c.figure("sequences", "few"), c.figure("sequences_timed_out_total", "few")), (1, 1))
    c.expect_unknown("and is not known", c.infer("few", ones, sequence_id=1))
    c.expect("a third one now", c.infer("few", ones, sequence_id=3, **START), ones)
    while time.time() - begun < 3.6:
        c.infer("few", ones, sequence_id=2)
        time.sleep(0.2)
    c.expect_unknown("lasted too long", c.infer("few", ones, sequence_id=2))
    c.expect("all are idle", c.wait_for(lambda: c.figure("sequences", "few") == 0), True)
    c.expect("timed out", c.figure("sequences_timed_out_total", "few"), 3)


def check_memory(c):
    """Sequences count as bytes that are held; what has no room is told so, and an end gives it back."""
    before, zeros = c.held(), floats([0] * 262144)
    head = lambda **more: json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [262144], "parameters": {"binary_data_size": 1 << 20}}],
                                      "parameters": {"binary_data_output": True, **more}}).encode()

    def ask(**more):
        text = head(**more)
        client = http.client.HTTPConnection("127.0.0.1", c.port, timeout=20)
        client.request("POST", "/v2/models/large/infer", text + zeros, {"Inference-Header-Content-Length": str(len(text))})
        reply = client.getresponse()
        reply.read()
        client.close()
        return reply.status

    statuses = [ask(sequence_id=i, **START) for i in range(1, 31)]
    begun = statuses.count(200)
    c.expect("as many as there is room for", (statuses, begun), lambda got: 3 <= got[1] < 20 and set(got[0]) == {200, 503} and got[0][:begun] == [200] * begun)
    c.expect("they are held", c.held() - before, lambda got: got >= begun * (2 << 20))
    c.expect("alone, with what is left", c.infer("sum", [1, 2, 3]), [1, 2, 3])
    c.expect("they can end", {ask(sequence_id=i, sequence_end=True) for i in range(1, 3)}, lambda got: got <= {200, 503})
    c.expect("idle ones go", c.wait_for(lambda: c.figure("sequences", "large") == 0), True)
    c.expect("nothing is held", c.wait_for(lambda: c.held() <= before + 4096), True)
    c.expect("there is room again", ask(sequence_id=1, sequence_start=True, sequence_end=True), 200)


def check_kept_cache(c):
    """Mean rows of all that a sequence has seen."""
    c.expect("a cache begins empty", c.infer("cached", [1, 2], [1, 1, 2], sequence_id=7, **START), [1, 2])
    c.expect("others have their own", c.infer("cached", [9, 9, 7, 7], [1, 2, 2], sequence_id=8, **START), [8, 8])
    c.expect("and is kept", c.infer("cached", [3, 4], [1, 1, 2], sequence_id=7), [2, 3])
    c.expect("to the end", c.infer("cached", [5, 6], [1, 1, 2], sequence_id=7, sequence_end=True), [3, 4])
    c.expect("alone", c.infer("cached", [5, 6], [1, 1, 2]), [5, 6])


def check_joined(c):
    """Sequences that wait together are computed as one where each state says by a name which dimension counts them: replies
    are those of each alone, to the last digit, and one that is wrong fails alone."""
    shape = [1, 1, 40]

    def steps(name, count=20):
        rows = [[(name * 31 + i * 7 + k) % 97 / 97 - 0.5 for k in range(40)] for i in range(count)]
        return [c.infer("steps", row, shape, sequence_id=name, sequence_start=i == 0, sequence_end=i == count - 1) for i, row in enumerate(rows)]

    def wrong(name):
        c.infer("steps", [0.5] * 40, shape, sequence_id=name, **START)
        refused = {c.infer("steps", [0.5] * 39, [1, 1, 39], sequence_id=name)[0] for _ in range(20)}
        return refused, c.infer("steps", [0] * 40, shape, sequence_id=name, sequence_end=True)

    names, before = range(1, 17), c.figure("batches_total", "steps")
    alone, one = [steps(name) for name in names], wrong(17)
    c.expect("alone, a run each", c.figure("batches_total", "steps") - before, 16 * 20 + 22)
    c.expect("what is wrong changes nothing", one, lambda got: got[0] == {400} and len(got[1]) == 40)
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        before = c.figure("batches_total", "steps")
        c.expect("the same replies", list(pool.map(steps, names)) == alone, True)
        c.expect("joining pays", c.figure("batch_limit", "steps"), lambda got: got > 1)
        c.expect("in fewer runs", c.figure("batches_total", "steps") - before, lambda got: got < 16 * 20)
        joined = (c.figure("batch_size_sum", "steps"), c.figure("batch_size_count", "steps"), c.figure("total_seconds_count", "steps"))
        c.expect("counted by their sizes", joined, (16 * 20 * 2 + 22, c.figure("batches_total", "steps"), 16 * 20 * 2 + 22))
        c.expect("of several lengths", list(pool.map(lambda name: steps(name, name + 4)[:-1] == alone[name - 1][:name + 3], names)), [True] * 16)
        c.expect("beside wrong ones", list(pool.map(wrong, names)), [one] * 16)
        c.expect("more rows than a first state has", c.infer("steps", [0.25] * 80, [2, 1, 40], sequence_id="two", **START)[0], 400)
        first = c.infer("steps", [0.5] * 40, shape)
        c.expect("without ids", list(pool.map(lambda _: c.infer("steps", [0.5] * 40, shape), names)), [first] * 16)
    c.expect("none is left", c.figure("sequences", "steps"), 0)


def serve_joining(stack, command, folder, tries=8):
    """The checks of a server that joins: whether it pays is measured at the start, beside whatever else the machine does."""
    for left in reversed(range(tries)):
        with contextlib.ExitStack() as own:
            server = own.enter_context(check_grpc.serving(command, folder))
            c = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            if c.figure("batch_limit", "steps") > 1 or not left:
                stack.push(own.pop_all())
                return c


def write_models(folder):
    write = lambda name, text: pathlib.Path(folder, name).write_text(text)
    for name, text in (("sum", SUM), ("growing", GROWING), ("waiting", WAITING), ("colours", COLOURS), ("large", LARGE), ("steps", STEPS), ("add", check_grpc.GRAPH)):
        write(name + ".tdir", text)
    write("plain.tdir", 'tdir 1\ninput %0 "x": f32[3]\noutput "y" %0\n')
    for name, version, config in (("few", "1.0", "maxNumSequence: 2\nsequenceMaxIdleMSec: 600\nsequenceTimeoutMSec: 3000\nmaxSequenceJobQueueSize: 4\n"), ("other", "2.0", "")):
        with zipfile.ZipFile(pathlib.Path(folder, name + ".mar"), "w") as packed:
            packed.writestr("MAR-INF/MANIFEST.json", json.dumps({"model": {
                "modelName": name, "modelVersion": version, "handler": "image_classifier", "serializedFile": "net.tdir", "configFile": "model-config.yaml"}}))
            packed.writestr("net.tdir", SUM)
            packed.writestr("model-config.yaml", config)


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        write_models(folder)
        pathlib.Path(folder, "cached.tdir").write_text(CACHED)
        compiled = [build / "treadle", "compile", "cached.tdir", "-o", "cached.tdl", "--state", "auto"]
        subprocess.run(compiled, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        models = ["cached.tdl", "sum.tdir", "growing.tdir", "waiting.tdir", "colours.tdir", "add.tdir", "plain.tdir", "few.mar"]
        command = [build / "treadle-serve", "--port", "0", "--workers", "2", "--enable-model-api", "--model-store", ".", *models]
        with check_grpc.serving(command, folder) as server:
            c = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            for check in (check_example, check_rest, check_json, check_kserve_grpc, check_torchserve, check_talk, check_growing, check_kept_cache, check_side_by_side, check_cancelled, check_bounds, check_versions):
                check(c)
            c.infer("sum", [1, 1, 1], sequence_id="left", **START)
            server.terminate()
            c.expect("sequences hold up no end", server.wait(5), 0)
        passed, failed = passed + c.passed, failed + c.failed
        command = [build / "treadle-serve", "--port", "0", "--workers", "1", "--most-held", str(32 << 20), "--sequence-idle", "5000", "sum.tdir", "large.tdir"]
        with check_grpc.serving(command, folder) as server:
            c = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            check_memory(c)
        passed, failed = passed + c.passed, failed + c.failed
        command = [build / "treadle-serve", "--port", "0", "--workers", "1", "--batch", "16", "steps.tdir"]
        with contextlib.ExitStack() as stack:
            c = serve_joining(stack, command, folder)
            check_joined(c)
        check_handler(c, build, folder)
        passed, failed = passed + c.passed, failed + c.failed
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
