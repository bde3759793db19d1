#!/usr/bin/env python3
"""treadle-serve with several I/O threads: check_io_threads.py BUILD. How connections are shared out among them, and what
they share: models that are replaced, default versions, shares of traffic, sequences, health, figures, the access log,
while clients of both protocols ask over connections of all threads. Ends with a count of checks."""
import collections
import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import resource
import signal
import socket
import sys
import tempfile
import threading
import time
import zipfile

import grpc

import check_grpc
from check_grpc import KSERVE, floats, put, tensor
from check_handlers import wait_for

THREADS, CONNECTIONS = 4, 1024
SUM = """tdir 1
const %5: f32[3] = {0, 0, 0}
input %0 "x": f32[3]
state %1 "sum": f32[3] = %5
%2 = aten::add(%1, %0): f32[3]
output "y" %2
store %1 = %2
"""


def write_store(folder):
    """add.tdir and sum.tdir, and two versions of an archive that computes what add.tdir does."""
    pathlib.Path(folder, "add.tdir").write_text(check_grpc.GRAPH)
    pathlib.Path(folder, "sum.tdir").write_text(SUM)
    for version in ("1.0", "2.0"):
        manifest = {"model": {"modelName": "pair", "modelVersion": version, "handler": "image_classifier", "serializedFile": "net.tdir"}}
        with zipfile.ZipFile(pathlib.Path(folder, f"pair{version[0]}.mar"), "w") as archive:
            archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
            archive.writestr("net.tdir", check_grpc.GRAPH)


class Unix(http.client.HTTPConnection):
    """A connection to a UNIX socket."""

    def __init__(self, path):
        super().__init__("localhost", timeout=30)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(30)
        self.sock.connect(self.path)


class Checks(check_grpc.Checks):
    """`path`: of the server's UNIX socket, where it has one instead of a port. `asked`: replies by their hundreds, of all
    clients."""

    def __init__(self, port, path=None):
        super().__init__(port)
        self.path, self.asked, self.lock = path, collections.Counter(), threading.Lock()

    def connect(self):
        return Unix(self.path) if self.path else http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

    def count(self, status):
        with self.lock:
            self.asked[status // 100] += 1

    def ask(self, client, method, path, body=None):
        client.request(method, path, body)
        reply = client.getresponse()
        text = reply.read()
        self.count(reply.status)
        return reply.status, text

    def once(self, method, path, body=None):
        client = self.connect()
        try:
            return self.ask(client, method, path, body)
        finally:
            client.close()


# ---- connections ----

def served_sockets(server):
    """How many connections each loop has, sorted: by the sockets that its epoll looks at, but for those that listen."""
    folder, loops, listening = f"/proc/{server.pid}", [], set()
    for line in pathlib.Path(folder, "net/tcp").read_text().splitlines()[1:] + pathlib.Path(folder, "net/unix").read_text().splitlines()[1:]:
        words = line.split()
        if words[3] == "0A":  # TCP
            listening.add(words[9])
        elif len(words) > 7 and words[3] == "00010000":  # UNIX
            listening.add(words[6])
    for number in os.listdir(f"{folder}/fd"):
        with contextlib.suppress(OSError):
            if os.readlink(f"{folder}/fd/{number}") != "anon_inode:[eventpoll]":
                continue
            watched = [line.split()[1] for line in pathlib.Path(folder, "fdinfo", number).read_text().splitlines() if line.startswith("tfd:")]
            kinds = [os.readlink(f"{folder}/fd/{fd}") for fd in watched]
            loops.append(sum(kind.startswith("socket:[") and kind[8:-1] not in listening for kind in kinds))
    return sorted(loops)


def check_shares(c, server):
    """Each connection goes to the loop that has the fewest."""
    names = sorted(pathlib.Path(f"/proc/{server.pid}/task", task, "comm").read_text().strip() for task in os.listdir(f"/proc/{server.pid}/task"))
    c.expect("threads", names.count("serve/io"), THREADS - 1)
    clients = [c.connect() for _ in range(5 * THREADS)]
    live = lambda client: c.ask(client, "GET", "/v2/health/live")
    c.expect("replies", {live(client) for client in clients}, {(200, b'{"live":true}')})
    c.expect("shares", served_sockets(server), [5] * THREADS)
    for client in clients[: 3 * THREADS + 1]:
        client.close()
    rest = clients[3 * THREADS + 1:]
    c.expect("closed", wait_for(lambda: sum(served_sockets(server)) == len(rest)), True)
    more = [c.connect() for _ in range(THREADS + 1)]
    c.expect("replies to more", {live(client) for client in rest + more}, {(200, b'{"live":true}')})
    c.expect("shares of more", served_sockets(server), [3] * THREADS)
    for client in rest + more:
        client.close()
    c.expect("all closed", wait_for(lambda: sum(served_sockets(server)) == 0), True)


def check_limit(c, server):
    """The bound of connections is one of all loops; each of them can be used."""
    ask = b"GET /v2/health/live HTTP/1.1\r\nHost: localhost\r\n\r\n"
    clients = []
    for _ in range(CONNECTIONS + 8):
        clients.append(socket.create_connection(("127.0.0.1", c.port), timeout=30))
    for client in clients:
        with contextlib.suppress(OSError):  # closed already
            client.sendall(ask)
    replies = collections.Counter()
    for client in clients:
        try:
            replies[client.recv(4096)[:15]] += 1
        except ConnectionError:
            replies[b""] += 1
    c.expect("connections", replies, {b"HTTP/1.1 200 OK": CONNECTIONS, b"": 8})
    c.asked[2] += CONNECTIONS
    c.expect("shares of all", served_sockets(server), [CONNECTIONS // THREADS] * THREADS)
    for client in clients:
        client.close()
    c.expect("all closed", wait_for(lambda: sum(served_sockets(server)) == 0), True)


# ---- clients of all kinds at a time ----

def body_of(**inputs):
    return json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [3], "data": values} for name, values in inputs.items()]})


def ask_rest(c, model, number, turns):
    """On one connection; the wrong replies."""
    client, wrong = c.connect(), []
    for i in range(turns):
        x, y = [number, i, 1], [i, number, 2]
        status, text = c.ask(client, "POST", f"/v2/models/{model}/infer", body_of(x=x, y=y))
        if status != 200 or json.loads(text)["outputs"][0]["data"] != [number + i, number + i, 3]:
            wrong.append((model, status, text))
    client.close()
    return wrong


def open_channel(c):
    """With a connection of its own."""
    return grpc.insecure_channel(f"127.0.0.1:{c.port}", [("grpc.use_local_subchannel_pool", 1)])


def ask_grpc(c, model, number, turns):
    wrong = []
    with open_channel(c) as channel:
        infer = channel.unary_unary(KSERVE + "ModelInfer")
        for i in range(turns):
            x, y = [number, i, 1], [i, number, 2]
            try:
                got = infer(put(1, model) + tensor("x", x) + tensor("y", y), timeout=30)
            except grpc.RpcError as error:
                wrong.append((model, error.code().name, error.details()))
                continue
            c.count(200)
            if not got.endswith(put(6, floats([number + i, number + i, 3]))):
                wrong.append((model, got))
    return wrong


def ask_streamed(c, number, turns):
    """The replies of one stream stand in the order of its requests."""
    messages = [put(1, "add") + tensor("x", [number, i, 1]) + tensor("y", [i, number, 2]) for i in range(turns)]
    with open_channel(c) as channel:
        got = list(channel.stream_stream(KSERVE + "ModelStreamInfer")(iter(messages), timeout=30))
    for _ in got:
        c.count(200)
    wanted = [floats([number + i, number + i, 3]) for i in range(turns)]
    return [] if len(got) == turns and all(want in reply for want, reply in zip(wanted, got)) else [("stream", got)]


def ask_sequence(c, number, turns):
    """One sequence, whose requests come over two connections of REST and one of gRPC in turn."""
    clients, wrong, sums = [c.connect(), c.connect()], [], 0
    flag = lambda name: put(4, put(1, name) + put(2, put(1, 1)))
    with open_channel(c) as channel:
        infer = channel.unary_unary(KSERVE + "ModelInfer")
        for i in range(turns):
            sums += i + number
            is_last = i + 1 == turns
            if i % 3 < 2:
                body = json.loads(body_of(x=[i + number, 0, 1]))
                body["parameters"] = {"sequence_id": f"s{number}", "sequence_start": i == 0, "sequence_end": is_last}
                status, text = c.ask(clients[i % 3], "POST", "/v2/models/sum/infer", json.dumps(body))
                got = json.loads(text)["outputs"][0]["data"] if status == 200 else text
            else:
                name = put(4, put(1, "sequence_id") + put(2, put(3, f"s{number}")))
                message = put(1, "sum") + name + (flag("sequence_end") if is_last else b"") + tensor("x", [i + number, 0, 1])
                got = infer(message, timeout=30)
                c.count(200)
                got = [sums, 0, i + 1] if got.endswith(put(6, floats([sums, 0, i + 1]))) else got
            if got != [sums, 0, i + 1]:
                wrong.append((number, i, got))
    for client in clients:
        client.close()
    return wrong


def replace_models(c, turns):
    """`add` is loaded anew; `spare` comes and goes; the default of `pair` changes, as do shares of its traffic."""
    client, wrong = c.connect(), []

    def expect(status, method, path):
        got = c.ask(client, method, path)
        if got[0] != status:
            wrong.append((method, path, got))

    for i in range(turns):
        default, other = (("1.0", "2.0"), ("2.0", "1.0"))[i % 2]
        expect(200, "POST", "/v2/repository/models/add/load")
        expect(200, "PUT", f"/models/pair/{default}/set-default")
        expect(200, "PUT", f"/models/pair/{other}/traffic?split={10 * (i % 5)}&shadow=50")
        expect(200, "POST", "/models?url=add.tdir&model_name=spare&initial_workers=1")
        expect(200, "PUT", f"/models/add?min_worker={1 + i % 2}&synchronous=true")
        expect(409, "POST", "/models?url=add.tdir&model_name=spare&initial_workers=1")
        expect(200, "POST", "/models/pair/profile?requests=1&timeout=20")
        expect(200, "DELETE", "/models/spare")
        expect(404, "DELETE", "/models/spare")
    client.close()
    return wrong


def look_on(c, stop):
    """What only reads: the lists, the descriptions and the figures of models that change meanwhile."""
    paths = ("/metrics", "/models", "/models/pair/all", "/ping", "/v2/models/add", "/v1/models", "/v2/health/ready", "/models/spare")
    client, wrong = c.connect(), []
    while not stop.is_set():
        for path in paths:
            status, text = c.ask(client, "GET", path)
            if status != 200 and path not in ("/models/spare", "/ping"):  # it is gone; a model is being scaled
                wrong.append((path, status, text))
        status, text = c.ask(client, "POST", "/v2/repository/index")
        states = {(entry["name"], entry["version"]) for entry in json.loads(text)} if status == 200 else set()
        if not {("add", "1"), ("pair", "1.0"), ("pair", "2.0"), ("sum", "1")} <= states:
            wrong.append((status, text))
    client.close()
    return wrong


def watch_health(c, name, first):
    """Each change of a model's health; what came of it is known when the stream ends."""
    channel = open_channel(c)
    stream = channel.unary_stream("/grpc.health.v1.Health/Watch")(put(1, name), timeout=300)
    c.expect(f"health of {name}", next(stream), put(1, first))
    seen = []

    def take():
        with contextlib.suppress(grpc.RpcError):
            for message in stream:
                seen.append(message)

    thread = threading.Thread(target=take)
    thread.start()
    return name, channel, stream, thread, seen


def figures(text, name):
    return {line.rsplit(" ", 1)[0]: float(line.split()[-1]) for line in text.decode().splitlines() if line.startswith(name)}


def check_all_at_once(c, turns):
    watched = [watch_health(c, name, first) for name, first in (("spare", 3), ("spare", 3), ("add", 1), ("", 1), ("spare", 3))]
    before = c.once("GET", "/metrics")[1]
    c.asked.clear()
    c.count(200)  # those figures' own reply
    stop = threading.Event()
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        onlookers = [pool.submit(look_on, c, stop) for _ in range(2)]
        manager = pool.submit(replace_models, c, turns)
        rounds, wrong, number = 0, [], 0
        while rounds < 2 or not manager.done():
            clients = []
            for _ in range(3):
                clients += [pool.submit(ask_rest, c, "add", number, 40), pool.submit(ask_rest, c, "pair", number, 40), pool.submit(ask_grpc, c, "add", number, 30),
                            pool.submit(ask_grpc, c, "pair", number, 30), pool.submit(ask_sequence, c, number, 12), pool.submit(ask_streamed, c, number, 30)]
                number += 1
            for client in clients:
                wrong += client.result()
            rounds += 1
        stop.set()
        c.expect("clients", wrong, [])
        c.expect("the manager", manager.result(), [])
        c.expect("onlookers", [line for onlooker in onlookers for line in onlooker.result()], [])
    settled = lambda: all(value == 0 for name in ("treadle_sequences{", "treadle_queue_depth{") for value in figures(c.once("GET", "/metrics")[1], name).values())
    c.expect("nothing waits", settled(), True)
    with c.lock:
        asked = dict(c.asked)
    after = c.once("GET", "/metrics")[1]
    for hundred in (2, 4, 5):
        name = f"Requests{hundred}XX{{"
        c.expect(f"replies of {hundred}xx", sum(figures(after, name).values()) - sum(figures(before, name).values()), asked.get(hundred, 0))
    of_sum = lambda name: [value for key, value in figures(after, f"treadle_sequences_{name}_total").items() if '"sum"' in key]
    c.expect("sequences", (of_sum("started"), of_sum("ended"), of_sum("timed_out")), ([number], [number], [0]))
    for what, path, health in (("it comes", "/models?url=add.tdir&model_name=spare&initial_workers=1", 1), ("it goes", "/models/spare", 3)):
        c.expect(what, c.once("DELETE" if health == 3 else "POST", path)[0], 200)
        c.expect(f"who hears that {what}", wait_for(lambda: all(seen and seen[-1] == put(1, health) for name, _, _, _, seen in watched if name == "spare")), True)
    for name, channel, stream, thread, seen in watched:
        stream.cancel()
        thread.join()
        channel.close()
        c.expect(f"changes of {name}", set(seen), {put(1, 1), put(1, 3)} if name == "spare" else set())


# ---- the end ----

def check_end(c, server):
    """SIGTERM while all ask: each reply that begins is whole, and what is behind the last one is the connection's end."""
    replies, wrong = collections.Counter(), []
    begun = threading.Barrier(2 * THREADS + 1)

    def ask(number):
        client = c.connect()
        body = body_of(x=[number, 0, 1], y=[1, 1, 1])
        first = True
        while True:
            try:
                status, text = c.ask(client, "POST", "/v2/models/add/infer", body)
            except (ConnectionError, http.client.RemoteDisconnected, FileNotFoundError):
                return
            if status != 200 or json.loads(text)["outputs"][0]["data"] != [number + 1, 1, 2]:
                wrong.append((status, text))
            replies[number] += 1
            if first:
                begun.wait(60)
            first = False

    with concurrent.futures.ThreadPoolExecutor(2 * THREADS) as pool:
        clients = [pool.submit(ask, number) for number in range(2 * THREADS)]
        begun.wait(60)
        time.sleep(0.3)
        server.send_signal(signal.SIGTERM)
        for client in clients:
            client.result(60)
    c.expect("replies until the end", (len(replies), wrong), (2 * THREADS, []))
    c.expect("the end", server.wait(30), 0)


def check_log(c, path):
    """A line for each request, whole, with a name of its own."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    c.expect("names", len({line["request_id"] for line in lines}), len(lines))
    c.expect("of REST", sum(line["path"].endswith("/infer") and line["status"] == 200 for line in lines), lambda count: count > 500)
    c.expect("of gRPC", sum(line["path"] == KSERVE + "ModelInfer" and line["grpc_status"] == 0 for line in lines), lambda count: count > 300)


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    os.environ.pop("TREADLE_CHECK_IO_THREADS", None)  # it has its own number
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    with tempfile.TemporaryDirectory() as folder:
        write_store(folder)
        path = f"{folder}/socket"
        pathlib.Path(folder, "unix.properties").write_text(  # as many threads as TorchServe's own file says are no more than there are CPUs to compute
            "".join(f"{name}_address=unix:{path}\n" for name in ("inference", "management", "metrics")) +
            "grpc_inference_port=0\ngrpc_management_port=0\nnumber_of_netty_threads=32\n")
        with check_grpc.serving([program, "--ts-config", "unix.properties", "--workers", str(THREADS), "add.tdir"], folder) as server:
            server.stdout.readline()
            unix = Checks(0, path)
            check_shares(unix, server)
            unix.expect("over a UNIX socket", ask_rest(unix, "add", 1, 9), [])
            server.terminate()
            unix.expect("the end", server.wait(30), 0)
        command = [program, "--port", "0", "--io-threads", str(THREADS), "--workers", "2", "--enable-model-api", "--model-store", ".", "--access-log", "access.log",
                   "add.tdir", "sum.tdir", "pair1.mar", "pair2.mar"]
        with check_grpc.serving(command, folder) as server:
            c = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            check_shares(c, server)
            check_limit(c, server)
            check_all_at_once(c, 12)
            check_end(c, server)
        check_log(c, pathlib.Path(folder, "access.log"))
    passed, failed = unix.passed + c.passed, unix.failed + c.failed
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
