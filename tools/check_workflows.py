#!/usr/bin/env python3
"""Workflows of the server, as TorchServe has them, with handlers that need no package: check_workflows.py BUILD. Ends with a
count of checks."""
import concurrent.futures
import json
import os
import pathlib
import re
import socket
import sys
import tempfile
import time
import zipfile

from check_handlers import GRAPH, Checks, archive, folders, log_of, serving, workers_of

# What it got, as JSON; a body that begins with a verb is obeyed.
NODE = """
import json, os, time
def handle(data, context):
    if data is None:
        return None
    return [answer(row, i, context) for i, row in enumerate(data)]
def answer(row, i, context):
    body = row.get("body")
    word = bytes(body).decode() if isinstance(body, (bytes, bytearray)) else ""
    verb, _, rest = word.partition(" ")
    if verb == "sleep":
        time.sleep(float(rest))
    if verb == "raise":
        open(FLAG, "a").write("x")
        raise ValueError("secret")
    if verb == "once" and not os.path.exists(FLAG):
        open(FLAG, "w").close()
        raise ValueError("the first time")
    if verb == "status":
        context.set_response_status(int(rest), "", i)
    return {"got": {key: value.decode() if isinstance(value, (bytes, bytearray)) else value for key, value in row.items()},
            "type": context.get_request_header(i, "Content-Type")}
"""
FUNCTIONS = """
import json
def first(data, context):
    if data is None:
        return None
    return [row.get("body") if not isinstance(row.get("body"), dict) else json.dumps(row["body"]) for row in data]
def join(data, context):
    if data is None:
        return None
    return ["+".join(sorted(f"{key}:{bytes(value).decode()}" for key, value in row.items() if key != "x")) for row in data]
def text(data, context):
    return data and ["tab\\t" + bytes(row["body"]).decode() for row in data]
def numbers(data, context):
    return data and [{"inputs": json.loads(bytes(row["body"]))} for row in data]
"""
SMALL = """
import json
from ts.torch_handler.base_handler import BaseHandler
class Own(BaseHandler):
    def preprocess(self, data):
        return [json.loads(bytes(row["body"])) for row in data]
    def inference(self, rows):
        return self.model(rows)
    def postprocess(self, rows):
        return rows
"""


def workflow(folder, name, spec, handler=FUNCTIONS, **more):
    manifest = {"createdOn": "1", "archiverVersion": "1", "workflow": {"workflowName": name, "specFile": "spec.yaml", "handler": "functions.py", **more}}
    with zipfile.ZipFile(pathlib.Path(folder, name + ".war"), "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("WAR-INF/MANIFEST.json", json.dumps(manifest))
        packed.writestr("spec.yaml", spec)
        packed.writestr("functions.py", handler)


def spec_of(dag, models="", numbers="    timeout-ms: 5000\n"):
    return f"models:\n{numbers}{models}dag:\n{dag}"


def register(c, name, more=""):
    status, said = c.ask(f"/workflows?url={name}.war{more}", method="POST")
    return status, said.get("status") or said.get("message")


def models_of(c):
    return sorted(model["modelName"] for model in c.ask("/models")[1]["models"])


def make(folder):
    node = NODE.replace("FLAG", repr(str(pathlib.Path(folder, "flag"))))
    archive(folder, "node", {"own.py": node}, handler="own.py:handle")
    archive(folder, "small", {"own.py": SMALL, "net.tdir": GRAPH}, handler="own.py", serializedFile="net.tdir")
    a, b = "    a:\n      url: node.mar\n", "    b:\n      url: node.mar\n      min-workers: 1\n      max-workers: 2\n      retry-attempts: 0\n"
    workflow(folder, "line", spec_of("  first: [a]\n  a: []\n", a))
    workflow(folder, "diamond", spec_of("  first: [a, b]\n  a: [join]\n  b: [join]\n", a + b))
    workflow(folder, "leaves", spec_of("  first: [a, text]\n", a))
    workflow(folder, "starts", spec_of("  first: [join]\n  text: [join]\n"))
    workflow(folder, "model", spec_of("  first: [m]\n", "    m:\n      url: small.mar\n"))
    workflow(folder, "never", spec_of("  b: [a]\n", a + b))
    workflow(folder, "late", spec_of("  b: [text]\n", b, "    timeout-ms: 300\n    batch-size: 4\n    max-batch-delay: 7\n"))
    workflow(folder, "circle", spec_of("  first: [a]\n  a: [text]\n  text: [a]\n", a))
    workflow(folder, "lost", spec_of("  first: [m]\n", "    m:\n      url: lost.mar\n"))
    workflow(folder, "away", spec_of("  first: [m]\n", "    m:\n      url: ../node.mar\n"))
    workflow(folder, "tensors", spec_of("  first: [m]\n  text: [m]\n", "    m:\n      url: net.tdir\n"))
    workflow(folder, "unknown", spec_of("  first: [nothing]\n"))
    workflow(folder, "many", spec_of("".join(f"  n{i}: [n{i + 1}]\n" for i in range(70))))
    workflow(folder, "yaml", "models: [\n")
    workflow(folder, "empty", "dag:\n")
    workflow(folder, "number", spec_of("  first: [a]\n", a, "    batch-size: none\n"))
    workflow(folder, "nospec", "", specFile="other.yaml")
    pathlib.Path(folder, "net.tdir").write_text(GRAPH)
    pathlib.Path(folder, "zip.war").write_bytes(b"no zip")


def check_table(c, folder):
    before = len(folders(folder))
    c.expect("none is there", c.ask("/workflows"), (200, {"workflows": []}))
    c.expect("register", register(c, "line"), (200, "Workflow line has been registered and scaled successfully."))
    c.expect("twice", register(c, "line"), (409, "Workflow line is already registered."))
    c.expect("by another name", register(c, "line", "&workflow_name=other")[0], 200)
    body = json.dumps({"url": "diamond.war", "workflow_name": "d"}).encode()
    c.expect("by a body", c.ask("/workflows", body, headers={"Content-Type": "application/json"})[0], 200)
    c.expect("the list", c.ask("/workflows")[1]["workflows"], [{"workflowName": name, "workflowUrl": url} for name, url in
                                                             (("d", "diamond.war"), ("line", "line.war"), ("other", "line.war"))])
    c.expect("a page of it", c.ask("/workflows?limit=1&next_page_token=1")[1],
             {"nextPageToken": "2", "workflows": [{"workflowName": "line", "workflowUrl": "line.war"}]})
    c.expect("its models", models_of(c), ["d__a", "d__b", "d__first", "d__join", "line__a", "line__first", "other__a", "other__first"])
    c.expect("their workers", (len(workers_of(c, "d__a")), len(workers_of(c, "d__b"))), (1, 2))
    c.expect("describe", c.ask("/workflows/d"), (200, [{"workflowName": "d", "workflowUrl": "diamond.war", "minWorkers": 1, "maxWorkers": 1,
                                                       "batchSize": 1, "maxBatchDelay": 50, "workflowDag": "{first=[a, b], a=[join], b=[join]}"}]))
    for method in ("GET", "DELETE"):
        c.expect(f"{method} of none", c.ask("/workflows/none", method=method), lambda got: got[0] == 404 and
                 (got[1]["type"], got[1]["message"]) == ("WorkflowNotFoundException", "Workflow not found: none"))
    c.expect("ask none", c.ask("/wfpredict/none", b"x")[0], 404)
    c.expect("PUT", c.ask("/workflows/d", b"", method="PUT")[0], 405)
    for name in ("d", "line", "other"):
        c.expect(f"delete {name}", c.ask(f"/workflows/{name}", method="DELETE"), (200, {"status": f'Workflow "{name}" unregistered'}))
    c.expect("all are gone", (models_of(c), c.ask("/workflows")[1]["workflows"]), ([], []))
    c.expect("folders are removed", c.wait_for(lambda: len(folders(folder)) == before), True)


def check_refusals(c, folder):
    before = len(folders(folder))
    for name, status, words in (("circle", 400, "waits for"), ("lost", 400, "lost.mar"), ("away", 400, "../node.mar"), ("tensors", 400, "several nodes"),
                                ("unknown", 500, "needed"), ("many", 400, "64"), ("yaml", 400, "YAML"), ("empty", 400, "no nodes"),
                                ("number", 400, "batch-size"), ("nospec", 400, "other.yaml"), ("zip", 400, "zip archive"), ("missing", 404, "missing.war")):
        c.expect(f"refused: {name}", register(c, name), lambda got: got[0] == status and words in got[1] and folder not in got[1])
    c.expect("no url", c.ask("/workflows", b"", method="POST")[0], 400)
    c.expect("a path", c.ask("/workflows?url=..%2Fline.war", method="POST")[0], 404)
    c.expect("a name that is none", register(c, "line", "&workflow_name=a%20b")[0], 400)
    c.expect("nothing is left", (models_of(c), len(folders(folder))), ([], before))


def check_replies(c, folder):
    for name in ("line", "diamond", "leaves", "starts", "model", "late"):
        c.expect(f"register {name}", register(c, name)[0], 200)
    got = {"got": {"body": "hello"}, "type": "text/plain"}
    c.expect("one after the other", c.ask("/wfpredict/line", b"hello", headers={"Content-Type": "text/plain"}), (200, got))
    c.expect("its type", c.type, "application/json")
    status, said = c.ask("/wfpredict/diamond", b"x")
    c.expect("replies by name", (status, said.decode()), lambda got: got[0] == 200 and got[1].startswith("a:{") and '}+b:{' in got[1])
    c.expect("several leaves", c.ask("/wfpredict/leaves", b"x"),
             (200, {"a": {"got": {"body": "x"}, "type": "application/octet-stream"}, "text": "tab\tx"}))
    c.expect("several starts", c.ask("/wfpredict/starts", b"x"), (200, b"first:x+text:tab\tx"))
    c.expect("JSON stays what it is", c.ask("/wfpredict/model", b'{"a": 1}', headers={"Content-Type": "application/json"})[0], 500)
    c.expect("a model of the server", c.ask("/wfpredict/model", b"[1.0, 2.0, 3.0]"), (200, [2.0, 12.0, 103.0]))
    c.expect("a status", c.ask("/wfpredict/line", b"status 201")[0], 201)
    c.expect("by PUT", c.ask("/wfpredict/line", b"y", method="PUT")[1]["got"], {"body": "y"})
    c.expect("an empty body", c.ask("/wfpredict/line", b"")[1]["got"], {"body": ""})
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda i: c.ask("/wfpredict/line", b"n%d" % i), range(40)))
    c.expect("forty at once", [reply[1]["got"]["body"] for reply in replies], [f"n{i}" for i in range(40)])


def check_failures(c, folder):
    flag = pathlib.Path(folder, "flag")
    c.expect("it raises", c.ask("/wfpredict/line", b"raise"), lambda got: got[0] == 500 and
             (got[1]["type"], got[1]["message"]) == ("InternalServerException", "Error executing a"))
    c.expect("twice, by retry-attempts", flag.read_text(), "xx")
    flag.unlink()
    c.expect("once without", (c.ask("/wfpredict/late", b"raise")[0], flag.read_text()), (500, "x"))
    flag.unlink()
    c.expect("the second try", c.ask("/wfpredict/line", b"once")[0], 200)
    flag.unlink()
    c.expect("a status is no reply", c.ask("/wfpredict/line", b"status 404")[0], 500)
    c.expect("too late", c.ask("/wfpredict/late", b"sleep 0.6"), lambda got: got[0] == 504 and "timeout-ms" in got[1]["message"])
    c.expect("the next", c.ask("/wfpredict/late", b"z")[0], lambda got: got in (200, 504))
    c.expect("a model is missing", (c.ask("/models/line__a", method="DELETE")[0], c.ask("/wfpredict/line", b"x")[0]), (200, 500))
    c.expect("the others", c.ask("/wfpredict/leaves", b"x")[0], 200)
    c.expect("deleted all the same", c.ask("/workflows/line", method="DELETE")[0], 200)


def figures_of(c, name):
    """What /metrics says of a workflow: the number by each family, and of a histogram by the bound."""
    lines = c.ask("/metrics", raw=True)[1].decode().splitlines()
    found = [re.fullmatch(r'treadle_workflow_(\w+)\{workflow_name="(.*?)",hostname="[^"]*"(?:,le="(.*)")?\} (.*)', line) for line in lines]
    return {row[3] or row[1]: float(row[4]) for row in found if row and row[2] == name}


def check_metrics(c, folder):
    c.expect("none is there", [line for line in c.ask("/metrics", raw=True)[1].decode().splitlines() if "workflow" in line], [])
    c.expect("two", (register(c, "late", "&workflow_name=timed")[0], register(c, "starts", "&workflow_name=idle")[0]), (200, 200))
    figures = figures_of(c, "timed")
    c.expect("nothing yet", (len(figures), set(figures.values())), (17, {0.0}))
    begin = time.time()
    c.expect("three replies", [c.ask("/wfpredict/timed", body)[0] for body in (b"sleep 0.12", b"x", b"sleep 0.12")], [200] * 3)
    took = time.time() - begin
    c.expect("failures", [c.ask("/wfpredict/timed", body)[0] for body in (b"raise", b"sleep 0.6")], [500, 504])
    pathlib.Path(folder, "flag").unlink()
    c.wait_for(lambda: len(workers_of(c, "timed__b")) == 1)
    figures = figures_of(c, "timed")
    c.expect("counts", (figures["seconds_count"], figures["+Inf"], figures["failed_total"]), (3, 3, 2))
    c.expect("the time of all nodes, and of waiting", figures["seconds_sum"], lambda got: 0.24 < got < took)
    c.expect("two are slow", (figures["0.1"] <= 1, figures["10"]), (True, 3))
    bounds = [figures[bound] for bound in ("0.0001", "0.001", "0.01", "0.1", "0.25", "1", "10", "+Inf")]
    c.expect("buckets hold those below", bounds, sorted(bounds))
    c.expect("those of another", set(figures_of(c, "idle").values()), {0.0})
    c.expect("gone with it", (c.ask("/workflows/timed", method="DELETE")[0], figures_of(c, "timed")), (200, {}))
    c.expect("the other", c.ask("/workflows/idle", method="DELETE")[0], 200)


def left(c, path, body):
    """A client that sends its request and goes."""
    with socket.create_connection(("127.0.0.1", c.port)) as s:
        s.sendall(b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (path.encode(), len(body), body))
        time.sleep(0.2)


def check_clients(c, folder):
    c.expect("register", register(c, "line")[0], 200)
    flag = pathlib.Path(folder, "flag")
    for _ in range(3):
        left(c, "/wfpredict/line", b"sleep 0.5")
    c.expect("the next one's reply", c.ask("/wfpredict/line", b"x")[0], 200)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        reply = pool.submit(c.ask, "/wfpredict/line", b"sleep 0.5")
        time.sleep(0.2)
        c.expect("deleted meanwhile", c.ask("/workflows/line", method="DELETE")[0], 200)
        c.expect("its reply", reply.result()[0], lambda got: got in (200, 500))
    c.expect("no flag", flag.exists(), False)
    paths = c.ask("/api-description")[1]["paths"]
    c.expect("described", (list(paths["/workflows"]), "/wfpredict/{workflow_name}" in paths), (["post", "get", "head"], True))


def check_store(c, folder):
    store = pathlib.Path(folder, "flows")
    store.mkdir()
    workflow(store, "own", spec_of("  first: []\n"))
    with serving(c, folder, "--python-handlers", "--workers", "2", "--model-store", ".", "--workflow-store", "flows", "--enable-model-api") as server:
        c.expect("of a store of their own", (register(c, "own")[0], register(c, "line")[0]), (200, 404))
        c.expect("a reply", c.ask("/wfpredict/own", b"x"), (200, b"x"))
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            pool.submit(left, c, "/wfpredict/own", b"x")
        server.terminate()
        c.expect("the end", server.wait(20), 0)
        c.expect("nothing stays", folders(folder), [])
    with serving(c, folder, "--model-store", ".", "--enable-model-api"):
        c.expect("no Python without the option", register(c, "line"), lambda got: got[0] == 400 and "--python-handlers" in got[1])
    with serving(c, folder, "--model-store", ".", "--python-handlers"):
        c.expect("nor a change", (register(c, "line")[0], c.ask("/workflows/line", method="DELETE")[0]), (405, 405))


def main():
    c = Checks()
    c.program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as folder:
        make(folder)
        with serving(c, folder, "--python-handlers", "--workers", "2", "--model-store", ".", "--enable-model-api") as server:
            check_table(c, folder)
            check_refusals(c, folder)
            check_metrics(c, folder)
            check_replies(c, folder)
            check_failures(c, folder)
            check_clients(c, folder)
            c.expect("errors are in the log", "secret" in log_of(folder), True)
            server.terminate()
            c.expect("the end", server.wait(20), 0)
            c.expect("nothing stays", folders(folder), [])
        check_store(c, folder)
    print(f"{c.passed} passed, {c.failed} failed")
    return c.failed > 0


if __name__ == "__main__":
    sys.exit(main())
