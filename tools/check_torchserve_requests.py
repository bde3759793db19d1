#!/usr/bin/env python3
"""The requests of TorchServe's own regression tests (its Postman collections) to the server: those of management in their order,
and inference; with the codes that they expect: check_torchserve_requests.py BUILD.

They are not ours, and not in this repository: TREADLE_TORCHSERVE names a checkout of pytorch/serve, or what git can clone; by
default its public repository is cloned. Its archives come from the network: small ones of their names stand in their places. Where
another code is right here, WHY says why. Ends with a count of checks."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from check_conformance import COLOURS, png
from check_grpc import serving

SOURCE = "https://github.com/pytorch/serve"
MODELS = ("squeezenet1_1", "mnist", "densenet161", "resnet-152-batch", "resnet-18")
NUMBER = (400, "a number that is none, or out of its range, is told, not replaced")
GONE = (404, "what is to be unregistered was refused before")
# By the request's place in the file: the code here, and why.
WHY = {
    3: (409, "the version is there already; TorchServe fails before that, since it has fetched the archive once"),
    10: (200, "the handler is what the archive says; one that a request names is not used, here and in the requests before"),
    30: (400, "no time at all to start in is no number of seconds"), 31: NUMBER, 32: GONE,
    35: NUMBER, 36: GONE, 37: NUMBER, 38: GONE, 39: NUMBER, 40: GONE,
    45: (202, "a model has workers unless none are asked for, so that there is something to be done later"),
    47: NUMBER, 49: NUMBER,
    57: (404, "nothing is fetched: an address is no file of the store"),
    62: NUMBER,
    68: (400, "a wrong number is the request's fault, not the server's"),
}


def fetch(folder):
    source = os.environ.get("TREADLE_TORCHSERVE") or SOURCE
    if pathlib.Path(source, "test/postman").is_dir():
        return pathlib.Path(source, "test/postman")
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", source, folder], check=True)
    return pathlib.Path(folder, "test/postman")


def write_archives(folder):
    for name in MODELS:
        with zipfile.ZipFile(folder / f"{name}.mar", "w") as packed:
            packed.writestr("MAR-INF/MANIFEST.json", json.dumps({"model": {
                "modelName": name, "modelVersion": "1.0", "handler": "image_classifier", "serializedFile": "net.tdir"}}))
            packed.writestr("net.tdir", COLOURS)


class Requests:
    def __init__(self, port):
        self.port, self.passed, self.failed = port, 0, 0

    def ask(self, method, path, body=None):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        client.request(method.upper(), "/" + path, body)
        reply = client.getresponse()
        said = reply.read().decode()
        client.close()
        return reply.status, said

    def expect(self, name, got, wanted):
        good = got[0] == wanted
        self.passed, self.failed = self.passed + good, self.failed + (not good)
        if not good:
            print(f"FAILED {name}: {got[0]} in place of {wanted}: {got[1][:200]}")


def with_local(path):
    return re.sub(r"\{\{mar_path_([^}]*)\}\}|https://torchserve\.pytorch\.org/mar_files/(densenet161)\.mar", lambda found: f"{found[1] or found[2]}.mar", path)


def check_management(r, source):
    for i, row in enumerate(json.loads((source / "management_data.json").read_text())):
        wanted = row.get("status_code", 200)
        code, why = WHY.get(i, (wanted, None))
        r.expect(f"{i} {row['test']}", r.ask(row["METHOD"], with_local(row["path"])), code)
        if why:
            print(f"{i} {row['test']}: {code} in place of {wanted}: {why}")


def check_inference(r, source):
    """Each of its classifiers by its name, as its collection asks; labels are those of its network alone."""
    for name in MODELS:
        r.expect(f"{name}: registered", r.ask("POST", f"models?url={name}.mar&model_name={name}&initial_workers=1&synchronous=true"), 200)
        r.expect(f"{name}: answers", r.ask("POST", f"predictions/{name}", png(200, 100, 50)), 200)
        r.expect(f"{name}: unregistered", r.ask("DELETE", f"models/{name}"), 200)
    status, text = r.ask("GET", "metrics")
    script = json.loads((source / "inference_api_test_collection.json").read_text())["item"][-1]["event"][0]["script"]["exec"]
    pattern = re.search(r"RegExp\('(.*)'\)", " ".join(script))[1].replace("\\\\", "\\")
    r.expect(f"metrics have {pattern}", (bool(re.search(pattern, text)), text[-200:]), True)


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        source = fetch(f"{name}/source")
        store = folder / "store"
        store.mkdir()
        write_archives(store)
        command = [program, "--port", "0", "--model-store", ".", "--enable-model-api"]
        with serving(command, store) as server:
            r = Requests(int(server.stdout.readline().rsplit(":", 1)[1]))
            check_management(r, source)
            check_inference(r, source)
            server.terminate()
            r.expect("the end", (server.wait(20), ""), 0)
    print(f"{r.passed} passed, {r.failed} failed")
    return r.failed > 0


if __name__ == "__main__":
    sys.exit(main())
