#!/usr/bin/env python3
"""What a request costs in the server outside of computing: bench/serve.py BUILD [ROUNDS]. One client on one connection
asks a model that gives back its input, of 1 KB and of 600 KB, as binary tensors over REST. Of each round: CPU time of
all threads of the server for a request, the kernel's part of the sockets included, and what the client waits. The least
of the rounds counts, since others may use the machine."""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

SIZES = {"1 KB": (256, 2000), "600 KB": (150528, 300)}  # numbers of f32, requests of a round


def spent(pid):
    """Nanoseconds that the threads of the process have run."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def request(count):
    head = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [count], "parameters": {"binary_data_size": 4 * count}}],
                       "parameters": {"binary_data_output": True}}).encode()
    return (f"POST /v2/models/echo/infer HTTP/1.1\r\nHost: localhost\r\nInference-Header-Content-Length: {len(head)}\r\n"
            f"Content-Length: {len(head) + 4 * count}\r\n\r\n").encode() + head + os.urandom(2 * count) * 2


def ask(client, raw, room):
    """One request; how many bytes its reply has."""
    client.sendall(raw)
    got = client.recv_into(room)
    at = bytes(room[:got]).index(b"\r\n\r\n") + 4
    head = bytes(room[:at]).decode().lower()
    if not head.startswith("http/1.1 200"):
        sys.exit(bytes(room[:got]).decode(errors="replace"))
    wanted = at + int(head.split("content-length: ")[1].split()[0])
    while got < wanted:
        got += client.recv_into(room[got:])
    return got


def main():
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 20
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "echo.tdir").write_text('tdir 1\ninput %0 "x": f32[n]\noutput "y" %0\n')
        server = subprocess.Popen([program, "--port", "0", "--workers", "1", "echo.tdir"], cwd=folder, stdout=subprocess.PIPE, text=True)
        try:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            room = memoryview(bytearray(1 << 20))
            least = {name: (float("inf"), float("inf")) for name in SIZES}
            with socket.create_connection(("127.0.0.1", port)) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                for _ in range(rounds):
                    for name, (count, turns) in SIZES.items():
                        raw = request(count)
                        ask(client, raw, room)
                        before, begin = spent(server.pid), time.perf_counter_ns()
                        for _ in range(turns):
                            ask(client, raw, room)
                        wall, cpu = time.perf_counter_ns() - begin, spent(server.pid) - before
                        least[name] = min(least[name][0], cpu / turns), min(least[name][1], wall / turns)
            for name, (cpu, wall) in least.items():
                print(f"{name}: {cpu / 1e3:.1f} us of CPU time in the server, {wall / 1e3:.1f} us until the client has its reply")
        finally:
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
