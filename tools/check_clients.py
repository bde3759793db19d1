#!/usr/bin/env python3
"""Clients that users have, against the server: check_clients.py BUILD. tritonclient (http, grpc, and both of aio) and KServe's (REST and
gRPC) from PyPI, TorchServe's own gRPC stubs, made of its repository's files, and curl, ab and h2load where they are installed.

TREADLE_TORCHSERVE: a checkout of pytorch/serve, or what git can clone. Ends with a count of checks."""
import asyncio
import importlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

import google.rpc
import grpc
import grpc_tools
import numpy
from check_conformance import COLOURS, png
from google.protobuf import empty_pb2
from grpc_tools import protoc

if "--kserve" in sys.argv:  # both have messages of the same names: a process cannot have two of them
    from kserve import InferenceGRPCClient, InferenceRESTClient, InferInput, InferRequest, RESTConfig
else:
    import tritonclient.grpc
    import tritonclient.grpc.aio
    import tritonclient.http
    import tritonclient.http.aio

SOURCE = "https://github.com/pytorch/serve"
ADD = """tdir 1
input %0 "x": f32[batch, 3]
%1 = aten::add(%0, %0): f32[batch, 3]
output "y" %1
"""
TEXTS = 'tdir 1\ninput %0 "x": string[n]\noutput "y" %0\n'
SUM = """tdir 1
const %5: f32[3] = {0, 0, 0}
input %0 "x": f32[3]
state %1 "sum": f32[3] = %5
%2 = aten::add(%1, %0): f32[3]
output "y" %2
store %1 = %2
"""
X = numpy.array([[1, -2, 0.5], [3, 4, 5]], numpy.float32)
passed = failed = 0


def expect(what, got, wanted):
    global passed, failed
    good = wanted(got) if callable(wanted) else got == wanted
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        print(f"FAILED {what}: {got!r:.300}")


def refusal(call, *kinds):
    """What the client's exception says."""
    try:
        return f"no error: {call()!r}"
    except kinds as error:
        return str(error)


def given(module, values, **more):
    tensor = module.InferInput("x", list(values.shape), "BYTES" if values.dtype == object else "FP32")
    tensor.set_data_from_numpy(values, **more)
    return [tensor]


def check_triton(kind, module, address):
    """A synchronous client of either protocol."""
    error = tritonclient.utils.InferenceServerException
    client = module.InferenceServerClient(address)
    say = lambda what: f"tritonclient.{kind}: {what}"
    expect(say("health"), (client.is_server_live(), client.is_server_ready(), client.is_model_ready("add")), (True, True, True))
    is_ready = lambda name: refusal(lambda: client.is_model_ready(name), error)
    missing = "no error: False" if kind == "http" else lambda got: "NOT_FOUND" in got
    expect(say("an unknown model's readiness"), is_ready("none"), missing)
    about = client.get_model_metadata("add", **({"as_json": True} if kind == "grpc" else {}))
    expect(say("metadata"), (about["name"], [int(n) for n in about["inputs"][0]["shape"]], about["outputs"][0]["datatype"]), ("add", [-1, 3], "FP32"))
    expect(say("infer"), client.infer("add", given(module, X)).as_numpy("y").tolist(), (2 * X).tolist())
    one = client.infer("add", given(module, X), model_version="1", request_id="7", outputs=[module.InferRequestedOutput("y")])
    expect(say("a version, an id, an output"), (one.as_numpy("y").tolist(), one.get_response(**({"as_json": True} if kind == "grpc" else {}))["id"]), ((2 * X).tolist(), "7"))
    if kind == "http":
        for way in ("gzip", "deflate"):
            packed = client.infer("add", given(module, X), request_compression_algorithm=way, response_compression_algorithm=way)
            expect(say(way), packed.as_numpy("y").tolist(), (2 * X).tolist())
        text = client.infer("add", given(module, X, binary_data=False), outputs=[module.InferRequestedOutput("y", binary_data=False)])
        expect(say("JSON"), text.as_numpy("y").tolist(), (2 * X).tolist())
    texts = numpy.array([b"", "grün".encode(), b"\xff\0x"], object)
    expect(say("BYTES"), client.infer("texts", given(module, texts)).as_numpy("y").tolist(), texts.tolist())
    expect(say("no such model"), refusal(lambda: client.infer("none", given(module, X)), error), lambda got: "none" in got)
    expect(say("a wrong shape"), refusal(lambda: client.infer("add", given(module, X[:, :2])), error), lambda got: "x" in got and "no error" not in got)
    waiting = [client.async_infer("add", given(module, X * i)) for i in range(16)] if kind == "http" else []
    expect(say("async"), [one.get_result().as_numpy("y").tolist() for one in waiting], [(2 * X * i).tolist() for i in range(len(waiting))])
    sums = [client.infer("sum", given(module, X[0]), sequence_id=5, sequence_start=i == 0, sequence_end=i == 2).as_numpy("y").tolist() for i in range(3)]
    expect(say("a sequence"), sums, [(X[0] * i).tolist() for i in (1, 2, 3)])
    index = client.get_model_repository_index(**({"as_json": True} if kind == "grpc" else {}))
    names = [model["name"] for model in (index["models"] if kind == "grpc" else index)]
    expect(say("the repository"), names, lambda got: {"add", "sum", "texts"} <= set(got))
    client.unload_model("add")
    expect(say("unloaded"), is_ready("add"), missing)
    client.load_model("add")
    expect(say("loaded"), is_ready("add"), "no error: True")
    client.close()


async def check_aio(kind, module, plain, address):
    async with module.InferenceServerClient(address) as client:
        say = lambda what: f"tritonclient.{kind}.aio: {what}"
        expect(say("health"), (await client.is_server_live(), await client.is_model_ready("add")), (True, True))
        found = await asyncio.gather(*(client.infer("add", given(plain, X * i)) for i in range(32)))
        expect(say("32 at once"), [one.as_numpy("y").tolist() for one in found], [(2 * X * i).tolist() for i in range(32)])


def check_stream(address):
    found = []
    client = tritonclient.grpc.InferenceServerClient(address)
    client.start_stream(lambda result, error: found.append(error or result.as_numpy("y").tolist()))
    for i in range(20):
        client.async_stream_infer("add", given(tritonclient.grpc, X * i))
    client.stop_stream()
    expect("tritonclient.grpc: a stream", found, [(2 * X * i).tolist() for i in range(20)])


async def check_kserve(address):
    tensor = InferInput("x", list(X.shape), "FP32")
    tensor.set_data_from_numpy(X, binary_data=True)
    request = InferRequest(model_name="add", infer_inputs=[tensor])
    client = InferenceRESTClient(RESTConfig(protocol="v2"))
    base = f"http://{address}"
    expect("kserve REST: health", (await client.is_server_live(base), await client.is_server_ready(base), await client.is_model_ready(base, "add")), (True, True, True))
    expect("kserve REST: infer", (await client.infer(base, request, model_name="add")).outputs[0].as_numpy().tolist(), (2 * X).tolist())
    client = InferenceGRPCClient(address)
    expect("kserve gRPC: health", (await client.is_server_live(), await client.is_server_ready(), await client.is_model_ready("add")), (True, True, True))
    expect("kserve gRPC: infer", (await client.infer(request)).outputs[0].as_numpy().tolist(), (2 * X).tolist())
    await client.close()


def check_beside(address):
    said = subprocess.run([sys.executable, __file__, address, "--kserve"], capture_output=True, text=True, check=False)
    good = re.search(r"^(\d+) passed, 0 failed$", said.stdout, re.M)
    expect("kserve's clients", good and int(good[1]) == 4, bool)
    if not good:
        print(said.stdout, said.stderr[-2000:])


def torchserve_stubs(folder):
    """Modules of its inference and management services."""
    source = os.environ.get("TREADLE_TORCHSERVE") or SOURCE
    if not pathlib.Path(source, "frontend").is_dir():
        subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, f"{folder}/source"], check=True)
        source = f"{folder}/source"
    own = pathlib.Path(source, "frontend/server/src/main/resources/proto")
    shared = [pathlib.Path(path).parents[1] for path in google.rpc.__path__]
    made = protoc.main(["protoc", f"-I{own}", f"-I{pathlib.Path(grpc_tools.__file__).parent}/_proto", *(f"-I{path}" for path in shared),
                        f"--python_out={folder}", f"--grpc_python_out={folder}", str(own / "inference.proto"), str(own / "management.proto")])
    expect("TorchServe's stubs", made, 0)
    sys.path.insert(0, str(folder))
    return [importlib.import_module(name) for name in ("inference_pb2", "inference_pb2_grpc", "management_pb2", "management_pb2_grpc")]


def check_torchserve(folder, address):
    ask, asked, manage, managed = torchserve_stubs(folder)
    channel = grpc.insecure_channel(address)
    inference, management = asked.InferenceAPIsServiceStub(channel), managed.ManagementAPIsServiceStub(channel)
    expect("TorchServe gRPC: ping", json.loads(inference.Ping(empty_pb2.Empty()).health)["status"], "Healthy")
    made = management.RegisterModel(manage.RegisterModelRequest(url="colours.mar", model_name="twice", initial_workers=1, synchronous=True))
    expect("TorchServe gRPC: register", made.msg, lambda got: "twice" in got)
    body = png(200, 100, 50)
    reply = inference.Predictions(ask.PredictionsRequest(model_name="twice", input={"data": body}))
    expect("TorchServe gRPC: predictions", json.loads(reply.prediction), lambda got: len(got) == 3)
    parts = list(inference.StreamPredictions(ask.PredictionsRequest(model_name="twice", input={"data": body})))
    expect("TorchServe gRPC: a stream", b"".join(part.prediction for part in parts), reply.prediction)
    expect("TorchServe gRPC: describe", json.loads(management.DescribeModel(manage.DescribeModelRequest(model_name="twice")).msg)[0]["modelName"], "twice")
    expect("TorchServe gRPC: unregister", management.UnregisterModel(manage.UnregisterModelRequest(model_name="twice")).msg, lambda got: "twice" in got)
    wrong = refusal(lambda: inference.Predictions(ask.PredictionsRequest(model_name="none", input={"data": body})), grpc.RpcError)
    expect("TorchServe gRPC: no such model", wrong, lambda got: "NOT_FOUND" in got or "INTERNAL" in got)


def check_tools(folder, address):
    """Load by what measures it: no request fails."""
    body = pathlib.Path(folder, "body.json")
    body.write_text(json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 3], "data": X.ravel().tolist()}]}))
    url = f"http://{address}/v2/models/add/infer"
    commands = {"curl": ["curl", "-sf", url, "-d", f"@{body}"], "ab": ["ab", "-q", "-k", "-c", "8", "-n", "2000", "-p", str(body), "-T", "application/json", url],
                "h2load": ["h2load", "-c", "4", "-m", "8", "-n", "2000", "-d", str(body), url]}
    good = {"curl": r'"y"', "ab": r"Failed requests: +0\b", "h2load": r"2000 succeeded, 0 failed, 0 errored"}
    for name, command in commands.items():
        if not shutil.which(name):
            print(f"{name} is not installed")
            continue
        said = subprocess.run(command, capture_output=True, text=True, check=False)
        expect(name, said.stdout + said.stderr, lambda got, name=name: re.search(good[name], got) and "Non-2xx" not in got)


def main():
    if "--kserve" in sys.argv:
        asyncio.run(check_kserve(sys.argv[1]))
        print(f"{passed} passed, {failed} failed")
        return failed > 0
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as folder:
        for name, text in (("add", ADD), ("texts", TEXTS), ("sum", SUM)):
            pathlib.Path(folder, name + ".tdir").write_text(text)
        with zipfile.ZipFile(f"{folder}/colours.mar", "w") as packed:
            packed.writestr("MAR-INF/MANIFEST.json", json.dumps({"model": {"modelName": "colours", "handler": "image_classifier", "serializedFile": "net.tdir"}}))
            packed.writestr("net.tdir", COLOURS)
        server = subprocess.Popen([program, "--port", "0", "--enable-model-api", "--model-store", ".", "add.tdir", "texts.tdir", "sum.tdir"],
                                  cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            address = "127.0.0.1:" + server.stdout.readline().rsplit(":", 1)[1].strip()
            check_triton("http", tritonclient.http, address)
            check_triton("grpc", tritonclient.grpc, address)
            asyncio.run(check_aio("http", tritonclient.http.aio, tritonclient.http, address))
            asyncio.run(check_aio("grpc", tritonclient.grpc.aio, tritonclient.grpc, address))
            check_stream(address)
            check_beside(address)
            check_torchserve(folder, address)
            check_tools(folder, address)
            server.terminate()
            expect("the end", server.wait(20), 0)
        finally:
            server.kill()
            server.wait()
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
