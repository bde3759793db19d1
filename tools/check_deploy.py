#!/usr/bin/env python3
"""Checks deploy/: check_deploy.py BUILD. YAML is read, HAProxy checks its file, and two servers run behind it under load:
one is killed, started again, and the other is drained. No request may fail but those that were in flight on the killed
one. Ends with a count of checks."""
import http.client
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import yaml

CLIENTS = 4
GRAPH = 'tdir 1\ninput %0 "x": f32[3]\n%1 = aten::mul(%0, %0): f32[3]\noutput "y" %1\n'
BODY = '{"inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[1,2,3]}]}'
passed = failed = 0


def expect(what, good, said=""):
    global passed, failed
    passed, failed = passed + good, failed + (not good)
    if not good:
        print(f"FAILED {what}: {said}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Load:
    """Clients that ask one after the other, each on a connection that it keeps, until they are told to end."""

    def __init__(self, port):
        self.port, self.asked, self.wrong, self.over = port, 0, [], False
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self.ask) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        while not self.over:
            try:
                connection.request("POST", "/v2/models/net/infer", BODY)
                reply = connection.getresponse()
                good = b"[1.0,4.0,9.0]" in reply.read() and reply.status == 200
                said = reply.status
            except (OSError, http.client.HTTPException) as error:
                good, said = False, repr(error)
                connection.close()
            with self.lock:
                self.asked += 1
                if not good:
                    self.wrong.append(said)

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def start(build, folder, port):
    server = subprocess.Popen([build / "treadle-serve", "--port", str(port), "--drain-delay", "1", "net.tdir"],
                              cwd=folder, stdout=subprocess.PIPE, text=True)
    server.stdout.readline()  # it listens
    return server


def wait_healthy(port):
    for _ in range(100):
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
            connection.request("GET", "/v2/health/ready")
            if connection.getresponse().status == 200:
                return
        except (OSError, http.client.HTTPException):
            pass
        time.sleep(0.05)


def check_haproxy(build, folder):
    ports = [free_port() for _ in range(3)]
    values = dict(zip(("LISTEN", "SERVER_A", "SERVER_B"), (f"127.0.0.1:{p}" for p in ports)), **os.environ)
    path = pathlib.Path("deploy/haproxy.cfg").resolve()
    tried = subprocess.run(["haproxy", "-c", "-f", path], env=values, capture_output=True, text=True)
    expect("haproxy.cfg", tried.returncode == 0, tried.stderr)
    a, b = start(build, folder, ports[1]), start(build, folder, ports[2])
    proxy = subprocess.Popen(["haproxy", "-db", "-f", path], env=values, stderr=subprocess.DEVNULL)
    try:
        wait_healthy(ports[0])
        load = Load(ports[0])
        time.sleep(1)
        a.kill()
        a.wait()
        time.sleep(1)
        a = start(build, folder, ports[1])
        killed = len(load.wrong)
        expect("a server that is killed", killed <= CLIENTS, load.wrong)
        time.sleep(1.5)  # it is healthy again
        b.send_signal(signal.SIGTERM)
        expect("the end of a drained server", b.wait(20) == 0)
        time.sleep(0.5)
        load.end()
        expect("a server that is drained", len(load.wrong) == killed, load.wrong)
        expect("requests", load.asked > 50, load.asked)
    finally:
        for process in (a, b, proxy):
            process.kill()
            process.wait()


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    for path in sorted(pathlib.Path("deploy").glob("*.yaml")):
        documents = list(yaml.safe_load_all(path.read_text()))
        expect(path, all(isinstance(document, dict) for document in documents))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "net.tdir").write_text(GRAPH)
        check_haproxy(build, folder)
    print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
