#!/usr/bin/env python3
"""A server under mixed traffic: check_soak.py BUILD [SECONDS] [--changes N]. REST, gRPC and pictures; clients that send a
byte a second, or read none; broken requests; models that are registered, scaled, replaced and removed N times (1,000)
while they are asked and their health is watched; a version that has a share of requests, and copies of others.
No request may fail but by a documented code, slow clients are cut and hurt nobody, memory and descriptors do not grow,
and the end is clean. Only loopback. ./dev test-serve runs it; ends with a count of checks."""
import argparse
import collections
import http.client
import json
import os
import pathlib
import random
import signal
import socket
import sys
import tempfile
import threading
import time

import grpc

import check_conformance
import check_grpc
from check_grpc import KSERVE, put, tensor

SLOW, TRANSFER_SECONDS = 24, 3
MIB = 1 << 20
GROWTH = 4 * MIB  # of memory from the end of the warm-up on; a leak of 100 bytes a request would be more
# The address sanitizer keeps what was freed (256 MiB, and 1 MiB of each thread), so that memory grows for as long as that
# fills: without this quarantine it still finds what is freed twice or leaks, but not every use of what was freed.
SANITIZER = "quarantine_size_mb=0:thread_local_quarantine_size_kb=0"
SLOWEST = 2.0     # seconds that a probe may take while slow clients are there, on a machine that others use, too
# The identity of 16 MiB, whose reply no socket holds.
LARGE = 'tdir 1\ninput %0 "x": f32[4194304]\noutput "y" %0\n'
BODY = json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": [3], "data": [1, 2, 3]} for name in "xy"]})


class Soak:
    def __init__(self, checks, port, seconds, planned):
        self.checks, self.port, self.end, self.planned = checks, port, time.monotonic() + seconds, planned
        self.lock, self.codes, self.stop = threading.Lock(), collections.Counter(), threading.Event()
        self.slowest = 0.0

    def count(self, who, code):
        with self.lock:
            self.codes[who, code] += 1

    def run(self, who, turn):
        """Calls turn() until the end; what it gives, or raises, is counted."""
        while not self.stop.is_set():
            try:
                self.count(who, turn())
            except Exception as error:
                self.count(who, f"{type(error).__name__}: {error}")
                time.sleep(0.1)

    def asker(self, method, path, body=None, checks=lambda raw: True):
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)

        def turn():
            try:
                client.request(method, path, body)
                reply = client.getresponse()
                raw = reply.read()
            except Exception:
                client.close()
                raise
            return reply.status if reply.status != 200 or checks(raw) else "wrong reply"
        return turn

    def probe(self):
        """A connection of its own, as a balancer makes it."""
        begin = time.monotonic()
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        client.request("GET", "/v2/health/ready")
        status = client.getresponse().status
        client.close()
        with self.lock:
            self.slowest = max(self.slowest, time.monotonic() - begin)
        time.sleep(0.05)
        return status

    def grpc_turn(self):
        infer = grpc.insecure_channel(f"127.0.0.1:{self.port}").unary_unary(KSERVE + "ModelInfer")
        message = put(1, "add") + tensor("x", [1, 2, 3]) + tensor("y", [4, 5, 6])
        wanted = infer(message, timeout=30)

        def turn():
            try:
                return 200 if infer(message, timeout=30) == wanted else "wrong reply"
            except grpc.RpcError as error:
                return error.code().name
        return turn

    def watch(self):
        """The health of a model that is replaced all the time, for five seconds: it serves, and nothing changes that."""
        seen = []
        with grpc.insecure_channel(f"127.0.0.1:{self.port}") as channel:
            try:
                for message in channel.unary_stream("/grpc.health.v1.Health/Watch")(put(1, "swap"), timeout=5):
                    seen.append(message)
                end = "ended"
            except grpc.RpcError as error:
                end = error.code().name
        return "serving" if seen == [put(1, 1)] and end == "DEADLINE_EXCEEDED" else f"{seen} {end}"

    def slow_sender(self):
        """A byte a second, first of a head, then of a body: the server has to end it."""
        begin = b"GET /ping HTTP/1.1\r\nHost: a\r\nX: " if random.random() < 0.5 else b"POST /ping HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\n"
        with socket.create_connection(("127.0.0.1", self.port), 30) as client:
            client.sendall(begin)
            client.settimeout(1)
            for _ in range(10 * TRANSFER_SECONDS):
                try:
                    got = client.recv(65536)
                    return int(got.split()[1]) if got else "closed"
                except TimeoutError:
                    client.sendall(b"a")
                if self.stop.is_set():
                    return "over"
        return "not cut"

    def slow_reader(self):
        """Asks for 16 MiB, and reads nothing: the server may not keep them for long. Where the machine is so busy that the
        reply began late, it is read to its end."""
        head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [MIB * 4], "parameters": {"binary_data_size": 16 * MIB}}],
                           "parameters": {"binary_data_output": True}}).encode()
        request = f"POST /v2/models/large/infer HTTP/1.1\r\nHost: a\r\nConnection: close\r\nInference-Header-Content-Length: {len(head)}\r\nContent-Length: {len(head) + 16 * MIB}\r\n\r\n"
        with socket.socket() as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
            client.settimeout(30)
            client.connect(("127.0.0.1", self.port))
            client.sendall(request.encode() + head + bytes(16 * MIB))
            self.stop.wait(3 * TRANSFER_SECONDS + 2)
            count = 0
            try:  # what the socket had, and then the end
                while part := client.recv(MIB):
                    count += len(part)
            except ConnectionResetError:
                pass
        return "over" if self.stop.is_set() else "cut" if count < 16 * MIB else "late"

    def broken(self, turns=random.Random(7)):
        """Requests that are cut, damaged or noise; the reply, where there is one, refuses it."""
        whole = f"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nContent-Length: {len(BODY)}\r\n\r\n{BODY}".encode()
        kind = turns.randrange(5)
        if kind == 0:
            raw = whole[:turns.randrange(len(whole))]
        elif kind == 1:
            at = turns.randrange(len(whole))
            raw = whole[:at] + bytes([turns.randrange(256)]) + whole[at + 1:]
        elif kind == 2:
            raw = turns.randbytes(turns.randrange(1, 3000))
        elif kind == 3:
            raw = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + turns.randbytes(turns.randrange(1, 3000))
        else:
            raw = b"POST /v2/models/add/infer HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" + turns.randbytes(50)
        with socket.create_connection(("127.0.0.1", self.port), 30) as client:
            try:
                client.sendall(raw)
                if turns.randrange(2):
                    client.shutdown(socket.SHUT_WR)
                    got = client.recv(65536)
                else:
                    got = b""
            except (ConnectionResetError, BrokenPipeError):
                got = b""
        time.sleep(0.005)
        status = int(got.split()[1]) if got.startswith(b"HTTP/1.1 ") else 0
        return "none" if not status else "2xx" if status == 200 else "refused" if status < 500 or status in (501, 505) else status

    def changes(self, seconds):
        """Registers, scales, replaces and removes; each is answered as documented."""
        client = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

        def ask(method, path):
            client.request(method, path)
            reply = client.getresponse()
            reply.read()
            return reply.status
        begin = time.monotonic()
        for i in range(self.planned):
            steps = [("POST", "/models?url=add.tdir&model_name=other&initial_workers=1"), ("PUT", "/models/other?min_worker=2&synchronous=true"),
                     ("POST", "/v2/repository/models/swap/load"), ("PUT", "/models/swap?min_worker=%d&synchronous=true" % (1 + i % 2)), ("DELETE", "/models/other")]
            self.count("changes", tuple(ask(*step) for step in steps))
            time.sleep(max(0.0, begin + seconds * (i + 1) / self.planned - time.monotonic()))


def memory_of(pid):
    return int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def descriptors_of(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def settled(pid, wanted):
    """The descriptors, once connections that end have ended."""
    for _ in range(100):
        if descriptors_of(pid) <= wanted:
            break
        time.sleep(0.1)
    return descriptors_of(pid)


def traffic(s):
    picture = check_conformance.png(200, 30, 60)
    adds = lambda raw: json.loads(raw)["outputs"][0]["data"] == [2.0, 4.0, 6.0]
    turns = [("REST", s.asker("POST", "/v2/models/add/infer", BODY, adds)), ("REST", s.asker("POST", "/v2/models/add/infer", BODY, adds)),
             ("swap", s.asker("POST", "/v2/models/swap/infer", BODY, adds)), ("other", s.asker("POST", "/v2/models/other/infer", BODY, adds)),
             ("picture", s.asker("PUT", "/predictions/colours", picture, lambda raw: list(json.loads(raw))[0] == "red")),
             ("metrics", s.asker("GET", "/metrics")), ("models", s.asker("GET", "/models")), ("gRPC", s.grpc_turn()), ("probe", s.probe), ("watch", s.watch),
             ("broken", s.broken), ("slow reader", s.slow_reader), *[("slow", s.slow_sender)] * SLOW]
    return [threading.Thread(target=s.run, args=turn, daemon=True) for turn in turns]


def check_codes(s):
    """Each client has read what is documented for it, and nothing else."""
    allowed = {"REST": {200}, "swap": {200}, "picture": {200}, "metrics": {200}, "models": {200}, "gRPC": {200}, "probe": {200}, "watch": {"serving"},
               "other": {200, 404, 503}, "broken": {"none", "2xx", "refused"}, "slow reader": {"cut", "over", "late"}, "slow": {408, "over"},
               "changes": {(200, 200, 200, 200, 200)}}
    for who, codes in allowed.items():
        got = {code for (name, code) in s.codes if name == who}
        s.checks.expect(f"replies to {who}", got, lambda got: got and got <= codes)
    s.checks.expect("slow clients were cut", s.codes["slow", 408], lambda count: count >= SLOW)
    s.checks.expect("slow readers were cut", s.codes["slow reader", "cut"], lambda count: count >= 1)
    s.checks.expect("changes", sum(count for (who, _), count in s.codes.items() if who == "changes"), s.planned)
    s.checks.expect("the slowest probe", s.slowest, lambda seconds: seconds < SLOWEST)


def soak(s, pid, folder, seconds, sanitized):
    """Gives the memory after the warm-up: the most, since the C library keeps blocks as large as those of slow readers for
    the next one; the sanitizer gives each back, so there it is the least, and no such room for a leak to hide in."""
    fds = descriptors_of(pid)
    threads = traffic(s)
    for thread in threads:
        thread.start()
    changer = threading.Thread(target=s.changes, args=(seconds * 0.8,), daemon=True)
    changer.start()
    time.sleep(seconds / 3)  # the warm-up
    seen, turn = [memory_of(pid)], 0
    while time.monotonic() < s.end or changer.is_alive():
        time.sleep(1)
        if time.monotonic() < s.end - seconds / 2:
            seen.append(memory_of(pid))
        turn += 1
        if turn % 10 == 0:  # the log is moved away, as logrotate does
            os.rename(pathlib.Path(folder, "access.log"), pathlib.Path(folder, f"access.log.{turn}"))
            os.kill(pid, signal.SIGHUP)
            time.sleep(1)
        if time.monotonic() > s.end + 60 + s.planned / 10:
            break
    s.stop.set()
    for thread in [changer, *threads]:
        thread.join(60)
    s.checks.expect("all clients have ended", [thread for thread in [changer, *threads] if thread.is_alive()], [])
    s.checks.expect("descriptors", settled(pid, fds), lambda count: count <= fds)
    return min(seen) if sanitized else max(seen)


def check_shadow(s):
    """Half of the pictures ran on the other version as well, and gave the same."""
    figures = {}

    def read(raw):
        for line in raw.decode().splitlines():
            if line.startswith("treadle_shadow_") and 'model_version="2.0"' in line:
                figures[line.split("{")[0].removeprefix("treadle_shadow_")] = float(line.split()[-1])
        return True
    s.checks.expect("metrics", s.asker("GET", "/metrics", checks=read)(), 200)
    s.checks.expect("what was compared", figures, lambda got: got["compared_total"] > 100 and got["failed_total"] == got["largest_difference"] == 0)


def check_lines(checks, folder):
    lines = [line for path in sorted(pathlib.Path(folder).glob("access.log*")) for line in path.read_text().splitlines()]
    try:
        statuses = collections.Counter(json.loads(line)["status"] for line in lines)
    except ValueError as error:
        statuses = str(error)
    checks.expect("lines of the access log", statuses, lambda got: isinstance(got, dict) and got[200] > 1000 and got[408] >= SLOW)
    return len(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("seconds", type=float, nargs="?", default=60.0)
    parser.add_argument("--changes", type=int, default=1000)
    asked = parser.parse_args()
    seconds, program = asked.seconds, asked.build.resolve() / "treadle-serve"
    sanitized = b"__asan_init" in program.read_bytes()
    if sanitized:
        os.environ["ASAN_OPTIONS"] = ":".join(filter(None, [os.environ.get("ASAN_OPTIONS"), SANITIZER]))
    with tempfile.TemporaryDirectory() as folder:
        check_conformance.write_store(folder)
        pathlib.Path(folder, "large.tdir").write_text(LARGE)
        command = [program, "--port", "0", "--enable-model-api", "--model-store", ".", "--workers", "2", "--transfer-timeout", str(TRANSFER_SECONDS),
                   "--access-log", "access.log", "add.tdir", "swap=add.tdir", "colours1.mar", "colours2.mar", "large.tdir"]
        with check_grpc.serving(command, folder) as server:
            checks = check_grpc.Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            s = Soak(checks, checks.port, seconds, asked.changes)
            checks.expect("shares of a version", s.asker("PUT", "/models/colours/2.0/traffic?split=25&shadow=50")(), 200)
            warm = soak(s, server.pid, folder, seconds, sanitized)
            time.sleep(1)
            grown = memory_of(server.pid) - warm
            checks.expect(f"memory grew from {warm} bytes by", grown, lambda count: count < GROWTH)
            metrics = s.asker("GET", "/metrics", checks=lambda raw: b"treadle_access_log_lines_lost_total 0\n" in raw)
            checks.expect("no line is lost", metrics(), 200)
            check_codes(s)
            check_shadow(s)
            server.terminate()
            checks.expect("the end", server.wait(40), 0)
        count = check_lines(checks, folder)
    for (who, code), times in sorted(s.codes.items(), key=str):
        print(f"{who:12} {code!s:28} {times:8}")
    print(f"{seconds:.0f} s, {count} requests in the log, {warm / MIB:.1f} MiB after the warm-up and {grown / MIB:+.1f} MiB at the end, slowest probe {s.slowest * 1e3:.0f} ms")
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
