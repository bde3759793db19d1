#!/usr/bin/env python3
"""TorchServe's inference and management API and KServe's V2 protocol, by REST and gRPC, route by route as their public
specifications say: status codes, bodies of errors, content types: check_conformance.py BUILD. ./dev test-serve runs it.
Ends with a count of checks."""
import base64
import concurrent.futures
import contextlib
import gzip
import http.client
import io
import json
import os
import pathlib
import random
import re
import select
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
import zipfile
import zlib

import check_grpc
from check_grpc import KSERVE, MANAGE, TORCH, put, varint

# Of each datatype: its name in a graph, struct's letter, values to send, field of typed contents (0: there is none).
DTYPES = {"BOOL": ("bool", "?", [True, False, True], 1), "INT8": ("i8", "b", [-128, 0, 127], 2),
          "INT16": ("i16", "h", [-32768, 1, 32767], 2), "INT32": ("i32", "i", [-2**31, 3, 2**31 - 1], 2),
          "INT64": ("i64", "q", [-2**63, 2**53 + 1, 2**63 - 1], 3), "UINT8": ("u8", "B", [0, 1, 255], 4),
          "UINT16": ("u16", "H", [0, 2, 65535], 4), "UINT32": ("u32", "I", [0, 5, 2**32 - 1], 4),
          "UINT64": ("u64", "Q", [0, 7, 2**53 + 1], 5), "FP16": ("f16", "e", [0.5, -2.0, 65504.0], 0),
          "BF16": ("bf16", "H", [0x3f80, 0xc000, 0], 0), "FP32": ("f32", "f", [0.5, -0.0, 3.4028234663852886e38], 6),
          "FP64": ("f64", "d", [0.1, -0.0, 1.7976931348623157e308], 7)}
COLOURS = """tdir 1
input %0 "x": f32[1, 3, 224, 224]
%1 = aten::mean(%0) {dim = [2, 3], keepdim = false, noop = false}: f32[1, 3]
output "y" %1
"""
JSON, TEXT, BYTES = "application/json", "text/plain", "application/octet-stream"


def png(red, green, blue):
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) +
            part(b"IDAT", zlib.compress(bytes([0, red, green, blue]))) + part(b"IEND", b""))


def write_store(folder):
    """add.tdir, one model that gives back its input of each datatype, and two versions of an archive of TorchServe's."""
    pathlib.Path(folder, "add.tdir").write_text(check_grpc.GRAPH)
    for name, (dtype, _, _, _) in DTYPES.items():
        pathlib.Path(folder, f"{name}.tdir").write_text(f'tdir 1\ninput %0 "x": {dtype}[n]\noutput "y" %0\n')
    for version in ("1.0", "2.0"):
        manifest = {"model": {"modelName": "colours", "modelVersion": version, "handler": "image_classifier", "serializedFile": "net.tdir"}}
        with zipfile.ZipFile(pathlib.Path(folder, f"colours{version[0]}.mar"), "w") as archive:
            archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
            archive.writestr("net.tdir", COLOURS)
            archive.writestr("index_to_name.json", '{"0": "red", "1": "green", "2": "blue"}')


class Reply:
    def __init__(self, reply):
        self.status, self.headers, self.body = reply.status, reply.headers, reply.read()
        self.type = (reply.getheader("Content-Type") or "").split(";")[0]

    def json(self):
        return json.loads(self.body)


class Rest:
    """Requests on one connection that is kept alive, as long as the server keeps it."""

    def __init__(self, checks, port):
        self.checks, self.client = checks, http.client.HTTPConnection("127.0.0.1", port, timeout=20)

    def ask(self, method, path, body=None, **headers):
        self.client.request(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        return Reply(self.client.getresponse())

    def expect(self, what, status, method, path, body=None, kind=JSON, says=None, **headers):
        body = json.dumps(body) if isinstance(body, (dict, list)) else body
        reply = self.ask(method, path, body, **headers)
        got = (reply.status, reply.type)
        self.checks.expect(f"{what}: {method} {path}", got, (status, kind))
        if got == (status, kind) and says:
            self.checks.expect(f"{what}: what {method} {path} says", reply.body, lambda raw: says(json.loads(raw) if kind == JSON else raw))
        return reply

    def torch_error(self, what, status, kind, method, path, body=None, **headers):
        shape = lambda got: got.keys() == {"code", "type", "message"} and (got["code"], got["type"]) == (status, kind) and got["message"]
        return self.expect(what, status, method, path, body, says=shape, **headers)

    def v2_error(self, what, status, method, path, body=None, **headers):
        shape = lambda got: got.keys() == {"error"} and isinstance(got["error"], str) and got["error"]
        return self.expect(what, status, method, path, body, says=shape, **headers)


# ---- TorchServe ----

def check_inference(r):
    picture = png(255, 0, 0)
    labels = lambda got: list(got)[0] == "red" and got.keys() == {"red", "green", "blue"} and abs(sum(got.values()) - 1) < 1e-5
    r.expect("ping", 200, "GET", "/ping", says=lambda got: got == {"status": "Healthy"})
    for method in ("POST", "PUT"):
        r.expect("prediction", 200, method, "/predictions/colours", picture, says=labels, Content_Type="image/png")
    r.expect("of a version", 200, "POST", "/predictions/colours/1.0", picture, says=labels)
    r.expect("of a name that is encoded", 200, "POST", "/predictions/c%6flours", picture, says=labels)
    r.expect("invoke", 200, "POST", "/models/colours/invoke", picture, says=labels)
    r.torch_error("no model", 404, "ModelNotFoundException", "POST", "/predictions/nothing", picture)
    r.torch_error("no version", 404, "ModelVersionNotFoundException", "POST", "/predictions/colours/7", picture)
    r.torch_error("no picture", 400, "BadRequestException", "POST", "/predictions/colours", "text")
    r.torch_error("no body", 400, "BadRequestException", "POST", "/predictions/colours")
    r.torch_error("no route", 404, "ResourceNotFoundException", "GET", "/nothing")
    reply = r.torch_error("another method", 405, "MethodNotAllowedException", "DELETE", "/predictions/colours")
    r.checks.expect("Allow", reply.headers.get("Allow"), "POST, PUT, OPTIONS")
    r.checks.expect("same bytes", len({r.ask("POST", "/predictions/colours", picture).body for _ in range(20)}), 1)
    r.expect("metrics", 200, "GET", "/metrics", kind=TEXT, says=lambda raw: b'ts_inference_requests_total{model_name="colours"' in raw)
    r.checks.expect("an id", r.ask("GET", "/ping").headers.get("x-request-id"), lambda got: got and len(got) == 32)


def check_traffic(r, c):
    """Shares of requests for another version, and copies that are compared: by both protocols, in turn."""
    picture = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [base64.b64encode(png(9, 200, 30)).decode()]}]}
    message = put(1, "colours") + put(5, put(1, "x") + put(2, "FP32") + put(3, b"".join(map(varint, (1, 3, 224, 224))))) + put(7, bytes(4 * 3 * 224 * 224))
    by_rest = lambda: r.ask("POST", "/v2/models/colours/infer", json.dumps(picture)).json()["model_version"]
    by_grpc = lambda: "2.0" if put(2, "2.0") in c.call(KSERVE + "ModelInfer", message)[:40] else "1.0"
    share = lambda query: r.expect("a share", 200, "PUT", f"/models/colours/2.0/traffic?{query}", says=lambda got: got.keys() == {"status"})
    figure = lambda name: next(float(line.split()[-1]) for line in r.ask("GET", "/metrics").body.decode().splitlines()
                               if line.startswith(name) and 'model_version="2.0"' in line)
    r.expect("a second version", 200, "POST", "/models?url=colours2.mar&initial_workers=1")
    share("split=50")
    for what, ask in (("REST", by_rest), ("gRPC", by_grpc)):
        r.checks.expect(f"half of it by {what}", sorted(ask() for _ in range(6)), ["1.0"] * 3 + ["2.0"] * 3)
    share("shadow=100")
    for what, ask in (("REST", by_rest), ("gRPC", by_grpc)):
        r.checks.expect(f"none of it by {what}", {ask() for _ in range(4)}, {"1.0"})
    for _ in range(500):
        if figure("treadle_shadow_compared_total") == 8:
            break
        time.sleep(0.01)
    r.checks.expect("what was compared", [figure(f"treadle_shadow_{name}") for name in ("compared_total", "failed_total", "largest_difference")], [8, 0, 0])
    r.torch_error("a share of the default", 400, "BadRequestException", "PUT", "/models/colours/1.0/traffic?split=1")
    r.torch_error("a share of nothing", 404, "ModelVersionNotFoundException", "PUT", "/models/colours/7/traffic?split=1")
    r.expect("unregister", 200, "DELETE", "/models/colours/2.0")


DESCRIBED = ["modelName", "modelVersion", "modelUrl", "runtime", "minWorkers", "maxWorkers", "batchSize", "maxBatchDelay", "responseTimeout",
             "clientTimeoutInMills", "loadedAtStartup", "workers", "jobQueueStatus"]


def check_management(r):
    status = lambda text: lambda got: got.keys() == {"status"} and text in got["status"]
    r.expect("list", 200, "GET", "/models", says=lambda got: {m["modelName"] for m in got["models"]} >= {"add", "colours"} and "nextPageToken" not in got)
    r.expect("a page", 200, "GET", "/models?limit=1", says=lambda got: len(got["models"]) == 1 and got["nextPageToken"] == "1")
    r.torch_error("limit", 400, "BadRequestException", "GET", "/models?limit=0")
    r.torch_error("limit", 400, "BadRequestException", "GET", "/models?limit=101")
    described = lambda got: [key for key in got[0] if key in DESCRIBED] == DESCRIBED and got[0]["workers"][0].keys() >= {"id", "startTime", "status", "pid", "gpu"}
    for path in ("/models/add", "/models/add/1", "/models/add/all"):
        r.expect("describe", 200, "GET", path, says=described)
    r.torch_error("describe", 404, "ModelNotFoundException", "GET", "/models/nothing")
    r.torch_error("describe", 404, "ModelVersionNotFoundException", "GET", "/models/add/7")
    r.torch_error("no url", 400, "BadRequestException", "POST", "/models")
    for url in ("nothing.mar", "../add.tdir", "/etc/passwd", "%2e%2e%2fadd.tdir", "http://127.0.0.1:1/a.mar", "file:///etc/passwd"):
        r.torch_error(f"url {url}", 404, "ModelNotFoundException", "POST", f"/models?url={url}")
    r.expect("register", 200, "POST", "/models?url=add.tdir&model_name=two&initial_workers=1&synchronous=true", says=status("1 initial workers"))
    r.torch_error("register again", 409, "ConflictStatusException", "POST", "/models?url=add.tdir&model_name=two&initial_workers=1")
    order = {"url": "add.tdir", "model_name": "three", "initial_workers": 1, "batch_size": 3, "synchronous": True}
    r.expect("by JSON", 200, "POST", "/models", order, says=status("registered with 1 initial workers"), Content_Type=JSON)
    r.expect("its batch", 200, "GET", "/models/three", says=lambda got: got[0]["batchSize"] == 3)
    r.torch_error("a number of JSON", 400, "BadRequestException", "POST", "/models", {**order, "model_name": "six", "batch_size": [1]})
    r.expect("asynchronous by JSON", 202, "POST", "/models", {**order, "model_name": "six", "synchronous": False}, says=status(""))
    r.expect("without workers", 200, "POST", "/models?url=add.tdir&model_name=four&initial_workers=0", says=status("0 initial workers"))
    r.torch_error("a model without workers", 503, "ServiceUnavailableException", "POST", "/predictions/four", "x")
    r.expect("asynchronous", 202, "POST", "/models?url=add.tdir&model_name=five&initial_workers=1&synchronous=false", says=status(""))
    r.torch_error("a number", 400, "BadRequestException", "POST", "/models?url=add.tdir&model_name=seven&batch_size=x")
    r.expect("scale", 202, "PUT", "/models/two?min_worker=2", says=status("Processing"))
    r.expect("scale", 200, "PUT", "/models/two?min_worker=1&max_worker=2&synchronous=true", says=status("Workers scaled to 2"))
    r.torch_error("scale", 400, "BadRequestException", "PUT", "/models/two?min_worker=3&max_worker=2")
    r.torch_error("scale", 404, "ModelNotFoundException", "PUT", "/models/nothing?min_worker=3")
    r.expect("a second version", 200, "POST", "/models?url=colours2.mar&initial_workers=1", says=status("colours"))
    r.torch_error("the default version", 403, "IllegalArgumentException", "DELETE", "/models/colours/1.0")
    r.expect("default", 200, "PUT", "/models/colours/2.0/set-default", says=status("2.0"))
    r.torch_error("default", 404, "ModelVersionNotFoundException", "PUT", "/models/colours/9/set-default")
    r.expect("unregister", 200, "DELETE", "/models/colours/1.0", says=status("unregistered"))
    for name in ("two", "three", "four", "five", "six"):
        r.expect("unregister", 200, "DELETE", f"/models/{name}", says=status("unregistered"))
    r.torch_error("unregister again", 404, "ModelNotFoundException", "DELETE", "/models/two")


def manifest(name):
    return json.dumps({"model": {"modelName": name, "modelVersion": "1.0", "handler": "image_classifier", "serializedFile": "net.tdir"}})


def write_tar(path, members, link=None):
    with tarfile.open(path, "w:gz") as archive:
        for member, text in members.items():
            info = tarfile.TarInfo(member)
            info.size = len(text)
            archive.addfile(info, io.BytesIO(text.encode()))
        if link:
            info = tarfile.TarInfo(link)
            info.type, info.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(info)


def check_kinds(r, folder):
    """The other kinds of archives of torch-model-archiver: a tar with all files in one folder, and that folder."""
    files = {"net.tdir": COLOURS, "index_to_name.json": '{"0": "red", "1": "green", "2": "blue"}'}

    write_tar(pathlib.Path(folder, "tarred.tar.gz"), {f"tarred/{name}": text for name, text in {"MAR-INF/MANIFEST.json": manifest("tarred"), **files}.items()})
    write_tar(pathlib.Path(folder, "linked.tar.gz"), {"MAR-INF/MANIFEST.json": manifest("linked"), **files}, "link")
    pathlib.Path(folder, "cut.tar.gz").write_bytes(pathlib.Path(folder, "tarred.tar.gz").read_bytes()[:-40])
    pathlib.Path(folder, "bomb.tar.gz").write_bytes(gzip.compress(bytes(8 << 20)))
    for name in ("unpacked", "linking"):
        pathlib.Path(folder, name, "MAR-INF").mkdir(parents=True)
        for file, text in {"MAR-INF/MANIFEST.json": manifest(name), **files}.items():
            pathlib.Path(folder, name, file).write_text(text)
    pathlib.Path(folder, "linking", "link").symlink_to("/etc/passwd")
    for url, name in (("tarred.tar.gz", "tarred"), ("unpacked", "unpacked")):
        r.expect(f"register {url}", 200, "POST", f"/models?url={url}&initial_workers=1")
        r.expect("its labels", 200, "POST", f"/predictions/{name}", png(0, 0, 255), says=lambda got: list(got)[0] == "blue")
    for url in ("linked.tar.gz", "cut.tar.gz", "bomb.tar.gz", "linking"):
        r.torch_error(f"refused: {url}", 400, "BadRequestException", "POST", f"/models?url={url}&initial_workers=1")


def check_set_aside(r, pid, folder):
    """What a large archive was inflated to is in a file without a name, and out of memory once its model is loaded."""
    numbers = random.Random(1)
    members = {"net.tdir": COLOURS + f"const %2: f32[200000] = {{{', '.join(str(numbers.randrange(1 << 24)) for _ in range(200000))}}}\n"}
    with zipfile.ZipFile(pathlib.Path(folder, "deflated.mar"), "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in {"MAR-INF/MANIFEST.json": manifest("deflated"), **members}.items():
            archive.writestr(name, text)
    write_tar(pathlib.Path(folder, "tarry.tar.gz"), {"MAR-INF/MANIFEST.json": manifest("tarry"), **members})
    for url, name in (("deflated.mar", "deflated"), ("tarry.tar.gz", "tarry")):
        r.expect(f"register {url}", 200, "POST", f"/models?url={url}&initial_workers=1")
        r.expect("its answer", 200, "POST", f"/predictions/{name}", png(0, 0, 255), says=lambda got: list(got)[0] == "2")
    parts = re.split(r"^(?=[0-9a-f]+-[0-9a-f]+ )", pathlib.Path(f"/proc/{pid}/smaps").read_text(), flags=re.M)
    aside = [int(re.search(r"^Rss: +([0-9]+)", part, re.M)[1]) for part in parts if re.search(r"/#[0-9]+ \(deleted\)\n", part)]
    system = subprocess.check_output(["stat", "-f", "-c", "%T", os.environ.get("TMPDIR") or "/tmp"], text=True).strip()
    r.checks.expect(f"files without a name, in {system}", len(aside), 0 if system in ("tmpfs", "ramfs") else 2)
    r.checks.expect("kilobytes of these in memory", max(aside, default=0) <= 4, True)


def check_tokens(checks, program, folder):
    """TorchServe's five addresses, each with its routes alone; its keys; models that may not be changed."""
    pathlib.Path(folder, "config.properties").write_text("".join(
        f"{name}_address=http://127.0.0.1:0\n" for name in ("inference", "management", "metrics")) + "grpc_inference_port=0\ngrpc_management_port=0\n")
    command = [program, "--start", "--foreground", "--ts-config", "config.properties", "--model-store", ".", "add.tdir"]
    with check_grpc.serving(command, folder) as server:
        ports = [int(server.stdout.readline().rsplit(":", 1)[1]) for _ in range(5)]
        keys = json.loads(pathlib.Path(folder, "key_file.json").read_text())
        infer, manage, metrics = (Rest(checks, port) for port in ports[:3])
        bearer = lambda name: {"Authorization": "Bearer " + keys[name]["key"]}
        kind = "InvalidKeyException"
        for probe in ("/ping", "/v2/health/live", "/v2/health/ready"):
            infer.expect("a probe needs no key", 200, "GET", probe)
        metrics.expect("metrics need no key", 200, "GET", "/metrics", kind=TEXT)
        infer.torch_error("no key", 400, kind, "POST", "/predictions/add", "x")
        infer.torch_error("the key of another", 400, kind, "POST", "/predictions/add", "x", **bearer("management"))
        infer.torch_error("a key", 400, "BadRequestException", "POST", "/predictions/add", "x", **bearer("inference"))
        reply = infer.v2_error("no key", 401, "GET", "/v2/models/add")
        checks.expect("WWW-Authenticate", reply.headers.get("WWW-Authenticate"), lambda got: got and got.startswith("Bearer"))
        infer.expect("a key", 200, "GET", "/v2/models/add", **bearer("inference"))
        manage.torch_error("no key", 400, kind, "GET", "/models")
        manage.expect("a key", 200, "GET", "/models", **bearer("management"))
        manage.torch_error("no changes", 405, "MethodNotAllowedException", "POST", "/models?url=add.tdir", **bearer("management"))
        manage.torch_error("no changes", 405, "MethodNotAllowedException", "DELETE", "/models/add", **bearer("management"))
        infer.torch_error("management elsewhere", 404, "ResourceNotFoundException", "GET", "/models", **bearer("management"))
        manage.torch_error("inference elsewhere", 404, "ResourceNotFoundException", "POST", "/predictions/add", "x", **bearer("inference"))
        manage.torch_error("another's renewal", 400, kind, "GET", "/token?type=inference", **bearer("inference"))
        manage.expect("renewal", 200, "GET", "/token?type=inference", **bearer("API"))
        infer.torch_error("the key from before", 400, kind, "POST", "/predictions/add", "x", **bearer("inference"))
        server.terminate()
        checks.expect("the end", server.wait(20), 0)


def check_launcher(checks, program, folder):
    """cpu_launcher_args in the words of both launchers: the server keeps to these CPUs; what is none of their options is an error."""
    config, last = pathlib.Path(folder, "launcher.properties"), max(os.sched_getaffinity(0))
    head = "".join(f"{name}_address=unix:{name}.sock\n" for name in ("inference", "management", "metrics")) + "cpu_launcher_enable=true\n"
    command = [program, "--start", "--foreground", "--disable-token-auth", "--ts-config", config.name, "--model-store", ".", "--models", "add.tdir"]
    for words in (f"--cores-list {last} --ninstances 1", f"--core_list={last} --use_logical_core --disable_iomp"):
        config.write_text(head + f"cpu_launcher_args={words}\ngrpc_inference_port=0\ngrpc_management_port=0\n")
        with check_grpc.serving(command, folder) as server:
            server.stdout.readline()
            checks.expect(f"its CPUs by {words}", os.sched_getaffinity(server.pid), {last})
    config.write_text(head + "cpu_launcher_args=--ninstances 1 --no-such-option 2\n")
    refused = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    checks.expect("no option", refused.returncode != 0 and "cpu_launcher_args" in refused.stderr and "no-such-option" in refused.stderr, True)


# ---- KServe ----

def infer_body(name, shape, data, **more):
    return {"inputs": [{"name": "x", "datatype": name, "shape": shape, "data": data}], **more}


def check_v2_routes(r):
    r.expect("server", 200, "GET", "/v2", says=lambda got: got["name"] and got["version"] and "binary_tensor_data" in got["extensions"])
    for probe, key in (("live", "live"), ("ready", "ready")):
        r.expect("health", 200, "GET", f"/v2/health/{probe}", says=lambda got: got == {key: True})
    for path in ("/v2/models/add", "/v2/models/add/versions/1"):
        r.expect("metadata", 200, "GET", path, says=lambda got: got["name"] == "add" and got["versions"] == ["1"] and got["platform"] and
                 got["inputs"] == [{"name": name, "datatype": "FP32", "shape": [3]} for name in "xy"] and got["outputs"][0]["name"] == "sum")
        r.expect("ready", 200, "GET", path + "/ready", says=lambda got: got == {"name": "add", "ready": True})
    r.expect("an open size", 200, "GET", "/v2/models/INT8", says=lambda got: got["inputs"] == [{"name": "x", "datatype": "INT8", "shape": [-1]}])
    for path in ("", "/ready", "/versions/1", "/versions/1/ready"):
        r.v2_error("no model", 404, "GET", "/v2/models/nothing" + path)
    r.v2_error("no version", 404, "GET", "/v2/models/add/versions/7")
    r.v2_error("no model", 404, "POST", "/v2/models/nothing/infer", infer_body("FP32", [1], [1]))
    r.v2_error("no route", 404, "GET", "/v2/nothing")
    reply = r.v2_error("another method", 405, "GET", "/v2/models/add/infer")
    r.checks.expect("Allow", reply.headers.get("Allow"), "POST")
    r.expect("index", 200, "POST", "/v2/repository/index", "{}", says=lambda got: {"name": "add", "version": "1", "state": "READY", "reason": ""} in got)
    r.expect("load", 200, "POST", "/v2/repository/models/add/load", "{}", says=lambda got: got["name"] == "add")
    r.v2_error("load", 404, "POST", "/v2/repository/models/nothing/load", "{}")
    r.expect("unload", 200, "POST", "/v2/repository/models/FP16/unload", "{}", says=lambda got: got["name"] == "FP16")
    r.v2_error("unload", 404, "POST", "/v2/repository/models/FP16/unload", "{}")
    r.expect("load of what is in the store", 200, "POST", "/v2/repository/models/FP16/load", "{}")


def check_descriptions(r):
    """OpenAPI documents, as TorchServe gives them."""
    whole = lambda got: got["openapi"].startswith("3.0.") and got["info"]["title"] and got["info"]["version"]
    for method, path in (("OPTIONS", "/"), ("GET", "/api-description")):
        r.expect("the routes", 200, method, path, says=lambda got: whole(got) and set(got["paths"]["/models"]) == {"get", "head", "post"} and
                 [part["name"] for part in got["paths"]["/models/{model_name}/{model_version}"]["delete"]["parameters"]] == ["model_name", "model_version"] and
                 all(operation["responses"] and operation["summary"] for item in got["paths"].values() for operation in item.values()))
    r.expect("a model's routes", 200, "OPTIONS", "/predictions/INT8/1", says=lambda got: whole(got) and list(got["paths"]) == ["/predictions/INT8/1", "/v2/models/INT8/versions/1/infer"] and
             got["paths"]["/v2/models/INT8/versions/1/infer"]["post"]["x-inputs"] == [{"name": "x", "datatype": "INT8", "shape": [-1]}])
    r.torch_error("no model", 404, "ModelNotFoundException", "OPTIONS", "/predictions/nothing")
    r.torch_error("no version", 404, "ModelVersionNotFoundException", "OPTIONS", "/predictions/INT8/7")


def check_heads(r):
    """HEAD is GET without the body, and the connection is good for the next request."""
    for path, status in (("/ping", 200), ("/v2/health/ready", 200), ("/nothing", 404), ("/v2/models/add/infer", 405)):
        length = r.ask("GET", path).headers["Content-Length"]
        with socket.create_connection(("127.0.0.1", r.client.port), 20) as client:
            client.sendall(f"HEAD {path} HTTP/1.1\r\nHost: a\r\n\r\nGET /v2 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            replies = b"".join(iter(lambda: client.recv(65536), b"")).decode().split("HTTP/1.1 ")
        r.checks.expect(f"HEAD {path}", replies, lambda got: len(got) == 3 and got[1].startswith(f"{status} ") and got[2].startswith("200 ") and
                        f"Content-Length: {length}\r\n" in got[1] and got[1].endswith("\r\n\r\n"))


def check_datatypes(r):
    for name, (_, letter, values, field) in DTYPES.items():
        path, raw = f"/v2/models/{name}/infer", struct.pack(f"<{len(values)}{letter}", *values)
        says = lambda got: got["model_name"] == name and got["model_version"] == "1" and got["id"] == "a\"b" and \
            struct.pack(f"<{len(values)}{letter}", *got["outputs"][0]["data"]) == raw and \
            {type(v) for v in got["outputs"][0]["data"]} == {type(values[0])} and \
            (got["outputs"][0]["name"], got["outputs"][0]["datatype"], got["outputs"][0]["shape"]) == ("y", name, [3])
        if field:
            for data in (values, [[v] for v in values]):
                r.expect(f"{name} as JSON", 200, "POST", path, infer_body(name, [3], data, id="a\"b"), says=says)
        else:
            r.v2_error(f"{name} as JSON", 400, "POST", path, infer_body(name, [3], [1, 2, 3]))
        head = json.dumps({"inputs": [{"name": "x", "datatype": name, "shape": [3], "parameters": {"binary_data_size": len(raw)}}],
                           "outputs": [{"name": "y", "parameters": {"binary_data": True}}]}).encode()
        one = raw[:struct.calcsize(letter)]  # bytes alone are a batch of one
        for body, length, raw in ((head + raw, len(head), raw), (one, 0, one)):
            reply = r.expect(f"{name} as bytes", 200, "POST", path, body, kind=BYTES, Inference_Header_Content_Length=str(length))
            json_length = int(reply.headers.get("Inference-Header-Content-Length", 0))
            r.checks.expect(f"{name}: bytes behind JSON", reply.body[json_length:], raw)
            r.checks.expect(f"{name}: JSON in front", json.loads(reply.body[:json_length])["outputs"][0]["parameters"], {"binary_data_size": len(raw)})
        r.v2_error(f"{name}: another type", 400, "POST", path, infer_body("INT32" if name != "INT32" else "INT64", [1], [1]))


def check_wrong_requests(r):
    path, good = "/v2/models/FP32/infer", infer_body("FP32", [2], [1.5, 2])
    changed = lambda **more: {"inputs": [{**good["inputs"][0], **more}]}
    for what, body in {"no JSON": "{", "no object": "[]", "no inputs": {}, "an empty list": {"inputs": []}, "a name": changed(name="z"), "no shape": changed(shape=None),
                       "a shape": changed(shape=[3]), "a negative size": changed(shape=[-2]), "a size too large": changed(shape=[2**62, 4]),
                       "too many sizes": changed(shape=[1] * 40), "texts": changed(data=["1", "2"]), "few": changed(data=[1]), "many": changed(data=[1, 2, 3]),
                       "a datatype": changed(datatype="FP31"), "twice": {"inputs": good["inputs"] * 2}, "NaN": '{"inputs":[{"name":"x","datatype":"FP32","shape":[1],"data":[NaN]}]}',
                       "no output": {**good, "outputs": [{"name": "z"}]}, "deep": "[" * 100000,
                       "a size of bytes": changed(parameters={"binary_data_size": 8}, data=None)}.items():
        r.v2_error(what, 400, "POST", path, body)
    for what, value in {"a length that is none": "x", "one behind the end": "100000", "a negative one": "-1"}.items():
        r.v2_error(what, 400, "POST", path, json.dumps(good), Inference_Header_Content_Length=value)
    r.v2_error("a damaged coding", 400, "POST", path, b"no gzip", Content_Encoding="gzip")
    r.v2_error("an unknown coding", 415, "POST", path, b"x", Content_Encoding="br")
    r.v2_error("a bomb", 413, "POST", path, gzip.compress(b" " * (1 << 26)), Content_Encoding="gzip")
    r.v2_error("a body too large", 413, "POST", path, b" " * (1 << 22))
    for coding, pack in (("gzip", gzip.compress), ("deflate", zlib.compress)):
        r.expect(coding, 200, "POST", path, pack(json.dumps(good).encode()), says=lambda got: got["outputs"][0]["data"] == [1.5, 2.0], Content_Encoding=coding)
    pictures = {"inputs": [{"name": "x", "datatype": "BYTES", "shape": [1], "data": [base64.b64encode(png(255, 0, 0)).decode()]}]}
    r.expect("a picture", 200, "POST", "/v2/models/colours/infer", pictures, says=lambda got: got["outputs"][0]["shape"] == [1, 3])


def check_large(r, c):
    """Bodies that come in many pieces, at every alignment, come back as they were."""
    for extra in range(8):
        raw = random.Random(extra).randbytes(4 * (300000 + extra))
        head = json.dumps({"id": "a" * extra, "inputs": [{"name": "x", "datatype": "FP32", "shape": [len(raw) // 4], "parameters": {"binary_data_size": len(raw)}}],
                           "parameters": {"binary_data_output": True}}).encode()
        reply = r.ask("POST", "/v2/models/FP32/infer", head + raw, Inference_Header_Content_Length=str(len(head)))
        json_length = int(reply.headers.get("Inference-Header-Content-Length", 0))
        r.checks.expect(f"a large body, {extra}", (reply.status, reply.body[json_length:] == raw), (200, True))
        answer = c.call(KSERVE + "ModelInfer", put(1, "FP32") + put(3, "a" * extra) + put(5, put(1, "x") + put(2, "FP32") + put(3, varint(len(raw) // 4))) + put(7, raw))
        c.expect(f"a large message, {extra}", answer, lambda got: isinstance(got, bytes) and got.endswith(put(6, raw)))


# ---- gRPC ----

def check_grpc_datatypes(c):
    for name, (_, letter, values, field) in DTYPES.items():
        raw = struct.pack(f"<{len(values)}{letter}", *values)
        tensor = put(1, "x") + put(2, name) + put(3, varint(3))
        wanted = put(1, name) + put(2, "1") + put(5, put(1, "y") + put(2, name) + put(3, varint(3))) + put(6, raw)
        c.expect(f"gRPC: {name} raw", c.call(KSERVE + "ModelInfer", put(1, name) + put(5, tensor) + put(7, raw)), wanted)
        typed = raw if letter in "fd" else b"".join(varint(int(value)) for value in values)
        answer = c.call(KSERVE + "ModelInfer", put(1, name) + put(5, tensor + put(5, put(field or 6, typed))))
        c.expect(f"gRPC: {name} typed", answer, wanted if field else "INVALID_ARGUMENT")


def check_grpc_methods(c, r):
    for method, message in {"ServerLive": b"", "ServerReady": b"", "ModelReady": put(1, "add") + put(2, "1")}.items():
        c.expect(method, c.call(KSERVE + method, message), put(1, 1))
    c.expect("metadata", c.call(KSERVE + "ModelMetadata", put(1, "INT8")), put(1, "INT8") + put(2, "1") + put(3, "treadle") +
             b"".join(put(number, put(1, name) + put(2, "INT8") + put(3, varint(-1))) for number, name in ((4, "x"), (5, "y"))))
    for method in ("ModelReady", "ModelMetadata", "ModelInfer"):
        c.expect(f"{method} of nothing", c.call(KSERVE + method, put(1, "nothing")), "NOT_FOUND")
        c.expect(f"{method} of no version", c.call(KSERVE + method, put(1, "add") + put(2, "7")), "NOT_FOUND")
    picture = png(9, 200, 30)
    request = put(1, "colours") + put(3, put(1, "data") + put(2, picture))
    answer = c.call(TORCH + "Predictions", request)
    c.expect("a stream of one prediction", c.stream(TORCH + "StreamPredictions", request), [answer])
    c.expect("REST and gRPC", answer, put(1, r.ask("POST", "/predictions/colours", picture).body))
    for method, path in {"ListModels": "/models", "DescribeModel": "/models/add"}.items():
        c.expect(method, c.call(MANAGE + method, put(1, "add") if "Describe" in method else b""), put(1, r.ask("GET", path).body))


def check_scaling_to_none(r):
    """Workers are taken away and the version is replaced while clients ask: each request is answered, by a worker or with 503."""
    body = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [3], "data": [1, 2, 3]} for name in "xy"]})
    over = threading.Event()

    def ask():
        client, got = Rest(r.checks, r.checks.port), set()
        while not over.is_set() and None not in got:
            try:
                got.add(client.ask("POST", "/v2/models/add/infer", body).status)
            except TimeoutError:
                got.add(None)
        return got

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        clients = [pool.submit(ask) for _ in range(8)]
        for _ in range(30):
            for method, path in (("PUT", "/models/add?min_worker=0&synchronous=true"), ("POST", "/v2/repository/models/add/load"),
                                 ("PUT", "/models/add?min_worker=1&synchronous=true")):
                r.expect("scale and replace", 200, method, path)
        over.set()
        r.checks.expect("all are answered", set().union(*(client.result() for client in clients)), lambda got: got and got <= {200, 503})


def begin_profile(r, query="requests=1000000&timeout=3600"):
    """A connection whose profile of `add` counts requests. Two are asked for, of which one has to be refused: when it is, the
    other one has begun."""
    asked = [http.client.HTTPConnection("127.0.0.1", r.checks.port, timeout=60) for _ in range(2)]
    for client in asked:
        client.request("POST", f"/models/add/profile?{query}")
    refused = select.select([client.sock for client in asked], [], [], 60)[0]
    first, other = asked if refused == [asked[0].sock] else asked[::-1]
    reply = Reply(first.getresponse())
    r.checks.expect("two profiles at once", (reply.status, reply.json()["type"]), (409, "ConflictStatusException"))
    first.close()
    return other


def end_profile(r, what, client, status, says):
    reply = Reply(client.getresponse())
    r.checks.expect(f"a profile, {what}", (reply.status, reply.json().get("message")), (status, says))
    client.close()


def check_profile(r):
    """The profile of a model's next requests: its figures, that replies are the same, and all that ends it early."""
    body = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [3], "data": [0.1, 2, 3]} for name in "xy"]})
    ask = lambda text=body: r.ask("POST", "/v2/models/add/infer", text)
    plain = ask().body
    path = "/models/add/profile"
    for query in ("requests=0", "requests=x", "timeout=0", "form=page", "group=colour"):
        r.torch_error(query, 400, "BadRequestException", "POST", f"{path}?{query}")
    r.torch_error("no model", 404, "ModelNotFoundException", "POST", "/models/nothing/profile")
    r.torch_error("no version", 404, "ModelVersionNotFoundException", "POST", "/models/add/7/profile")
    r.torch_error("no request comes", 504, "RequestTimeoutException", "POST", f"{path}?timeout=1")
    client = begin_profile(r, "requests=5&timeout=3600")
    r.checks.expect("a wrong request does not count", ask("{").status, 400)
    r.checks.expect("the same bytes", {ask().body for _ in range(5)}, {plain})
    got = Reply(client.getresponse()).json()
    r.checks.expect("its requests", [got[key] for key in ("model", "version", "requests", "runs")], ["add", "1", 5, 5])
    r.checks.expect("its rows", [(row["op"], row["steps"], row["calls"]) for row in got["rows"]], [("aten::add", 1, 5)])
    r.checks.expect("its time", (got["run_ms"], got["rows"][0]["ns"]), lambda times: times[0] * 1e6 >= times[1] > 0)
    client = begin_profile(r, "requests=1&form=table&group=op&timeout=3600")
    ask()
    reply = Reply(client.getresponse())
    r.checks.expect("a table", (reply.status, reply.type, b"aten::add" in reply.body), (200, TEXT, True))
    begin_profile(r).close()
    while r.ask("POST", f"{path}?requests=1&timeout=1").status == 409:
        time.sleep(0.05)  # until the server has seen that the client has gone
    client = begin_profile(r)
    ask()
    r.expect("scale", 200, "PUT", "/models/add?min_worker=0&synchronous=true")
    end_profile(r, "scaled", client, 409, "the model was scaled after 1 of 1000000 requests")
    r.torch_error("no workers", 503, "ServiceUnavailableException", "POST", path)
    r.expect("scale", 200, "PUT", "/models/add?min_worker=2&synchronous=true")
    client = begin_profile(r)
    r.expect("replaced", 200, "POST", "/v2/repository/models/add/load")
    end_profile(r, "its version replaced", client, 404, "the version was gone after 0 of 1000000 requests")
    client = begin_profile(r)
    r.checks.expect("the same bytes by the new one", {ask().body for _ in range(5)}, {plain})
    return client


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as folder:
        write_store(folder)
        models = ["add.tdir", "colours1.mar", *(f"{name}.tdir" for name in DTYPES)]
        command = [program, "--port", "0", "--enable-model-api", "--model-store", ".", "--most-bytes", str(1 << 21), *models]
        with check_grpc.serving(command, folder) as server:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            checks = check_grpc.Checks(port)
            rest = Rest(checks, port)
            for check in (check_v2_routes, check_descriptions, check_heads, check_datatypes, check_wrong_requests, check_inference):
                check(rest)
            check_grpc_datatypes(checks)
            check_grpc_methods(checks, rest)
            check_large(rest, checks)
            check_traffic(rest, checks)
            check_management(rest)
            check_kinds(rest, folder)
            check_set_aside(rest, server.pid, folder)
            check_scaling_to_none(rest)
            client = check_profile(rest)
            server.terminate()
            end_profile(rest, "the end", client, 503, "the server ends after 5 of 1000000 requests")
            checks.expect("the end", server.wait(30), 0)
        check_tokens(checks, program, folder)
        check_launcher(checks, program, folder)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
