#!/usr/bin/env python3
"""The page at the server's management address in a headless Chromium: check_serve_page.py BUILD [--shots FOLDER].

It must be drawn without an error of its script or against its policy, ask its own address alone, show the traffic that goes
on, draw a workflow and its states, try a model with a picture and with tensors, and a workflow, ask for keys where the server
does, fit the width of a phone, and not take a version's name for markup. With --shots, pictures in light and dark, at the width of a desk and of a phone, to be looked at.
./dev test-reports runs it. Ends with a count of checks."""
import argparse
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
import zlib

import browser as browsing

WIDTHS = {"desk": (1280, 1640), "phone": (390, 3150)}
ROWS = 'tdir 1\ninput %0 "x": f32[n, 2]\n%1 = aten::mul(%0, %0): f32[n, 2]\noutput "y" %1\n'
COLOURS = """tdir 1
input %0 "x": f32[1, 3, 224, 224]
%1 = aten::mean(%0) {dim = [2, 3], keepdim = false, noop = false}: f32[1, 3]
output "y" %1
"""
HOSTILE = "1<img src=x onerror=stolen()>"
# A picture goes to two models, whose answers a function joins.
FLOW = """models:
  warm:
    url: colours.mar
  cold:
    url: colours.mar
dag:
  look: [warm, cold]
  warm: [join]
  cold: [join]
"""
FUNCTIONS = """
import json
def look(data, context):
    return data and [row["body"] for row in data]
def join(data, context):
    return data and [{name: share for name, share in json.loads(bytes(row["warm"])).items()} for row in data]
"""
CONFIG = """inference_address=http://127.0.0.1:0
management_address=http://127.0.0.1:0
metrics_address=http://127.0.0.1:0
grpc_inference_port=0
grpc_management_port=0
model_store=.
"""


def picture():
    """A PNG of 320 x 240 that is mostly green."""
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + b"".join(bytes((40 + x // 4, 130 + y // 2, 60)) for x in range(320)) for y in range(240))
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", 320, 240, 8, 2, 0, 0, 0)) +
            part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))


def write_store(folder):
    pathlib.Path(folder, "rows.tdir").write_text(ROWS)
    pathlib.Path(folder, "green.png").write_bytes(picture())
    pathlib.Path(folder, "config.properties").write_text(CONFIG)
    for file, version in (("colours.mar", "1.0"), ("hostile.mar", HOSTILE)):
        manifest = {"model": {"modelName": "colours", "modelVersion": version, "handler": "image_classifier", "serializedFile": "net.tdir"}}
        with zipfile.ZipFile(pathlib.Path(folder, file), "w") as archive:
            archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
            archive.writestr("net.tdir", COLOURS)
            archive.writestr("index_to_name.json", '{"0": "red", "1": "green", "2": "blue"}')
    manifest = {"workflow": {"workflowName": "seasons", "specFile": "flow.yaml", "handler": "functions.py"}}
    with zipfile.ZipFile(pathlib.Path(folder, "seasons.war"), "w") as archive:
        archive.writestr("WAR-INF/MANIFEST.json", json.dumps(manifest))
        archive.writestr("flow.yaml", FLOW)
        archive.writestr("functions.py", FUNCTIONS)


class Checks:
    def __init__(self):
        self.passed = self.failed = 0

    def that(self, what, holds, got=""):
        self.passed, self.failed = self.passed + bool(holds), self.failed + (not holds)
        if not holds:
            print(f"FAILED {what}", got)


@contextlib.contextmanager
def serving(program, folder, *words):
    """Yields the ports for inference and management."""
    command = [program, "--start", "--foreground", "--ncs", "--enable-model-api", "--ts-config", "config.properties", *words]
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield [int(server.stdout.readline().rsplit(":", 1)[1]) for _ in range(2)]
    finally:
        server.terminate()
        server.wait(30)


def send_traffic(port, end):
    """About a hundred requests a second, in waves."""
    body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1, 2], "data": [3, 4]}]})
    connection, sent = http.client.HTTPConnection("127.0.0.1", port, timeout=20), 0
    while not end.is_set():
        if sent % 8 == 0:
            connection.request("PUT", "/wfpredict/seasons", picture())
        elif sent % 4 == 0:
            connection.request("PUT", "/predictions/colours", picture())
        else:
            connection.request("POST", "/v2/models/rows/infer", body)
        connection.getresponse().read()
        sent += 1
        end.wait(.004 if sent // 150 % 2 else .012)


@contextlib.contextmanager
def traffic(port):
    end = threading.Event()
    sender = threading.Thread(target=send_traffic, args=(port, end))
    sender.start()
    try:
        yield
    finally:
        end.set()
        sender.join()


def open_page(browser, port, place="desk", scheme="light"):
    browser.open(f"http://127.0.0.1:{port}/", *WIDTHS[place], scheme)


def choose_model(browser, name):
    browser.value(f"""(() => {{ const which = document.getElementById("which");
      which.value = [...which.options].find(o => o.text.startsWith({json.dumps(name)})).value;
      which.dispatchEvent(new Event("change")); }})()""")
    time.sleep(.3)


def answer(browser, seconds=20):
    """What the form shows when the answer to what it sends is there."""
    browser.value("document.getElementById('answer').textContent = ''; document.getElementById('send').click()")
    browser.wait("document.getElementById('answer').textContent !== ''", seconds)
    return browser.value("document.getElementById('answer').textContent") or ""


def try_picture(browser, folder, name="colours 1.0"):
    choose_model(browser, name)
    browser.value("document.querySelector('#ways button').click()")
    browser.choose_file("#file", pathlib.Path(folder, "green.png"))
    return answer(browser)


def check_flow(checks, browser, folder):
    nodes = browser.value("[...document.querySelectorAll('.node b')].map(e => e.textContent).join()")
    checks.that("a workflow's nodes", nodes == "look,warm,cold,join", nodes)
    edges = browser.value("document.querySelectorAll('.edge').length")
    checks.that("who gets whose replies", edges == 4, edges)
    told = browser.value("document.querySelector('.flow .pill').textContent + [...document.querySelectorAll('.node span')].map(e => e.textContent)") or ""
    checks.that("its state, and what its nodes are", re.match(r"readyfunction.*,colours\.mar.*,colours\.mar.*,function", told), told)
    told = browser.value("document.querySelector('.flow .note').textContent") or ""
    checks.that("its requests", re.match(r"\S+ requests/s, .* on the longest way, [1-9]", told), told)
    browser.value("document.querySelectorAll('.node')[1].click()")
    checks.that("a node's plots alone", browser.value("document.querySelector('[data-about]').textContent") == "seasons__warm 1.0")
    browser.value("document.querySelectorAll('.node')[1].click()")
    checks.that("and all again", browser.value("document.querySelector('[data-about]').textContent") == "all models")
    told = try_picture(browser, folder, "seasons")
    checks.that("a workflow is tried", re.match(r"200.*green.*%", told), told)


def scale(port, model, workers):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("PUT", f"/models/{model}?min_worker={workers}&max_worker={workers}&synchronous=true")
    return connection.getresponse().status


def check_state(checks, browser, port):
    """A node without workers is named, and so is the workflow."""
    checks.that("a node loses its workers", scale(port, "seasons__cold", 0) == 200)
    lost = "document.querySelector('.flow .pill').textContent === 'a node lacks workers' && document.querySelector('.node.warn b').textContent === 'cold'"
    checks.that("its workflow is not ready", browser.wait(lost))
    checks.that("and gets one again", scale(port, "seasons__cold", 1) == 200)
    checks.that("its workflow is ready", browser.wait("document.querySelector('.flow .pill').textContent === 'ready'"))


def check_page(checks, browser, ports, folder):
    inference, management = ports
    open_page(browser, management)
    with traffic(inference):
        checks.that("the page looks several times", browser.wait("document.documentElement.dataset.looks >= 4"))
        rate = browser.value("document.querySelector('.figure b').textContent")
        checks.that("it shows requests per second", rate and float(re.match(r"[\d.]+", rate.replace(",", "") or "0")[0]) > 5, rate)
        checks.that("a workflow has answered", browser.wait("/, [1-9]/.test(document.querySelector('.flow .note').textContent)"))
        checks.that("plots have lines", browser.value("document.querySelectorAll('#rate path.line, #latency path.line').length >= 3"))
    checks.that("the server is ready", browser.value("document.getElementById('state').textContent") == "ready")
    names = browser.value("[...document.querySelectorAll('#models .name')].map(e => e.textContent).join()")
    own = ",".join(f"seasons__{node}" for node in ("cold", "join", "look", "warm"))
    checks.that("it lists models and versions", names == "colours,colours,rows," + own, names)
    checks.that("a version's name is text", browser.value("[...document.querySelectorAll('.tag')].some(e => e.textContent.includes('<img'))"))
    checks.that("of the default version it says so", browser.value("[...document.querySelectorAll('.tag')].filter(e => e.textContent === 'default').length") == 6)
    check_flow(checks, browser, folder)
    check_state(checks, browser, management)
    browser.value("document.querySelectorAll('#models .name')[2].click()")
    checks.that("a model's plots alone", browser.value("document.querySelector('[data-about]').textContent") == "rows 1")
    told = try_picture(browser, folder)
    checks.that("a picture is classified", re.match(r"200.*green.*%.*(red|blue)", told), told)
    choose_model(browser, "rows 1")
    browser.value("""(() => { const [shape] = document.querySelectorAll("#tensors input"), fill = document.querySelector("#tensors select");
      shape.value = "2, 2"; fill.value = "values"; fill.dispatchEvent(new Event("change"));
      document.querySelector("#tensors textarea").value = "1, 2\\n3 -4"; })()""")
    told = answer(browser)
    checks.that("tensors are computed", "1, 4, 9, 16" in told and "2 × 2" in told, told)
    browser.value("document.querySelector('#tensors textarea').value = '1'")
    told = answer(browser)
    checks.that("what is missing is said", "asks for 4 values, there are 1" in told, told)
    checks.that("no error, and nothing against the policy", not browser.errors, browser.errors)
    own = re.compile(rf"(http://127\.0\.0\.1:{management}/|blob:http://127\.0\.0\.1:{management}/|data:)")
    checks.that("nothing is asked of others", all(own.match(url) for url in browser.asked), browser.asked)
    browser.value("const late = document.createElement('script'); late.textContent = 'window.late = 1'; document.body.append(late)")
    checks.that("a script that is put in does not run", browser.value("window.late === undefined"))


def check_phone(checks, browser, port):
    open_page(browser, port, "phone", "dark")
    browser.wait("document.documentElement.dataset.looks >= 2")
    wide = browser.value("document.documentElement.scrollWidth")
    checks.that("it fits a phone", wide <= WIDTHS["phone"][0], wide)
    wide = browser.value("document.querySelector('.graph').scrollWidth - document.querySelector('.graph').clientWidth")
    checks.that("so does a workflow", wide == 0, wide)


def check_keys(checks, browser, program, folder):
    with serving(program, folder, "--models", "rows.tdir", "colours.mar") as (_, management):
        keys = json.loads(pathlib.Path(folder, "key_file.json").read_text())
        open_page(browser, management)
        checks.that("it asks for keys", browser.wait("!document.getElementById('keys').hidden"))
        fill = """document.getElementById("managekey").value = "{}"; document.getElementById("inferkey").value = "{}";
          document.querySelector("#keys button").click()"""
        browser.value(fill.format(keys["management"]["key"], keys["management"]["key"]))
        checks.that("the key shows models", browser.wait("document.querySelectorAll('#models .name').length === 2"))
        told = try_picture(browser, folder)
        checks.that("the key for management infers nothing", told.startswith("400") and "Token" in told, told)
        browser.value(fill.format(keys["management"]["key"], keys["inference"]["key"]))
        told = try_picture(browser, folder)
        checks.that("the key for inference does", told.startswith("200"), told)


def take_shots(browser, ports, folder, shots):
    for place in WIDTHS:
        for scheme in ("light", "dark"):
            open_page(browser, ports[1], place, scheme)
            with traffic(ports[0]):
                browser.wait("document.documentElement.dataset.looks >= 14", 60)
                try_picture(browser, folder)
                time.sleep(.5)
                browser.shot(f"{shots}/server-{place}-{scheme}.png")
    choose_model(browser, "rows 1")
    browser.value("document.querySelector('#tensors input').value = '32, 2'")
    answer(browser)
    browser.shot(f"{shots}/server-phone-dark-tensors.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--shots")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("check_serve_page.py: there is no chromium")
    program, checks = pathlib.Path(options.build).resolve() / "treadle-serve", Checks()
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as profile:
        write_store(folder)
        browser = browsing.Browser(options.chromium, profile)
        words = ["--disable-token-auth", "--python-handlers", "--python", sys.executable, "--models", "colours.mar", "rows.tdir"]
        with serving(program, folder, *words) as ports:
            connection = http.client.HTTPConnection("127.0.0.1", ports[1], timeout=20)
            connection.request("POST", "/models?url=hostile.mar&initial_workers=1")
            checks.that("the second version is there", connection.getresponse().status == 200)
            connection = http.client.HTTPConnection("127.0.0.1", ports[1], timeout=20)
            connection.request("POST", "/workflows?url=seasons.war")
            checks.that("the workflow is there", connection.getresponse().status == 200)
            check_page(checks, browser, ports, folder)
            check_phone(checks, browser, ports[1])
            if options.shots:
                take_shots(browser, ports, folder, options.shots)
        check_keys(checks, browser, program, folder)
        browser.close()
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed != 0


sys.exit(main())
