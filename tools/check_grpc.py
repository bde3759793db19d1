#!/usr/bin/env python3
"""Asks treadle-serve by gRPC and HTTP/2, with clients of the distribution: check_grpc.py BUILD. Messages are written by
hand from the protocols' field numbers, so that no code that is generated stands between. Ends with a count of checks."""
import concurrent.futures
import contextlib
import pathlib
import signal
import struct
import subprocess
import sys
import tempfile
import time

import grpc

GRAPH = """tdir 1
input %0 "x": f32[3]
input %1 "y": f32[3]
%2 = aten::add(%0, %1): f32[3]
output "sum" %2
"""
ENDLESS = """tdir 1
input %0 "x": f32[n, 2]
const %1: bool[] = {1}
const %2: f32[] = {1}
%3 = aten::gt(%0, %2): bool[n, 2]
%4 = aten::any(%3) {dim = [0, 1], keepdim = false}: bool[]
%5 = prim::Loop(-, %1, %0): f32[n, 2] {
  block(%6: i64[], %7: f32[n, 2]) {
    %8 = aten::cos(%7): f32[n, 2]
    yield %4, %8
  }
}
output "y" %5
"""
KSERVE = "/inference.GRPCInferenceService/"
TORCH = "/org.pytorch.serve.grpc.inference.InferenceAPIsService/"
MANAGE = "/org.pytorch.serve.grpc.management.ManagementAPIsService/"


def varint(value):
    value &= (1 << 64) - 1
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def put(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def floats(values):
    return struct.pack(f"<{len(values)}f", *values)


def tensor(name, values, typed=True, dtype="FP32"):
    contents = put(5, put(6, floats(values))) if typed else b""
    return put(5, put(1, name) + put(2, dtype) + put(3, varint(len(values))) + contents)


class Checks:
    def __init__(self, port):
        self.port = port
        self.channel = grpc.insecure_channel(f"127.0.0.1:{port}")
        self.passed = self.failed = 0

    def call(self, method, message=b"", **options):
        try:
            return self.channel.unary_unary(method)(message, timeout=20, **options)
        except grpc.RpcError as error:
            return error.code().name

    def expect(self, what, got, wanted):
        if got == wanted or (callable(wanted) and wanted(got)):
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAILED {what}: {got!r}")


def check_kserve(c):
    x, y = tensor("x", [1, 2, 3]), tensor("y", [4, 5, 6])
    raw = [put(7, floats(v)) for v in ([1, 2, 3], [4, 5, 6])]
    rx, ry = tensor("x", [1, 2, 3], False), tensor("y", [4, 5, 6], False)
    total = put(1, "add") + put(2, "1")
    output = put(5, put(1, "sum") + put(2, "FP32") + put(3, varint(3))) + put(6, floats([5, 7, 9]))
    infer = lambda message, **options: c.call(KSERVE + "ModelInfer", put(1, "add") + message, **options)
    c.expect("live", c.call(KSERVE + "ServerLive"), put(1, 1))
    c.expect("ready", c.call(KSERVE + "ServerReady"), put(1, 1))
    c.expect("model ready", c.call(KSERVE + "ModelReady", put(1, "add")), put(1, 1))
    c.expect("no model", c.call(KSERVE + "ModelReady", put(1, "other")), "NOT_FOUND")
    c.expect("metadata", c.call(KSERVE + "ServerMetadata"), lambda got: got.startswith(put(1, "treadle")))
    c.expect("model metadata", c.call(KSERVE + "ModelMetadata", put(1, "add")), lambda got: b"FP32" in got and b"sum" in got)
    c.expect("typed", infer(x + y), total + output)
    c.expect("raw, with an id", infer(put(3, "a") + rx + ry + raw[0] + raw[1]), total + put(3, "a") + output)
    c.expect("as gzip", infer(x + y, compression=grpc.Compression.Gzip), total + output)
    c.expect("one output", infer(x + y + put(6, put(1, "sum"))), total + output)
    c.expect("outputs that are not there", infer(x + y + put(6, put(1, "dif"))), "INVALID_ARGUMENT")
    c.expect("an input twice", infer(x + x), "INVALID_ARGUMENT")
    c.expect("mixed", infer(x + ry + raw[1]), "INVALID_ARGUMENT")
    c.expect("mixed the other way", infer(rx + y + raw[0]), "INVALID_ARGUMENT")
    c.expect("too few", infer(x), "INVALID_ARGUMENT")
    c.expect("too many raw", infer(rx + ry + raw[0] + raw[1] + raw[0]), "INVALID_ARGUMENT")
    c.expect("short raw", infer(rx + ry + raw[0] + put(7, b"abc")), "INVALID_ARGUMENT")
    c.expect("another type", infer(tensor("x", [1, 2, 3], True, "INT64") + y), "INVALID_ARGUMENT")
    c.expect("no type", infer(tensor("x", [1, 2, 3], True, "FP31") + y), "INVALID_ARGUMENT")
    c.expect("damaged", infer(b"\x2a\xff"), "INVALID_ARGUMENT")
    c.expect("no such method", c.call(KSERVE + "Nothing"), "UNIMPLEMENTED")
    c.expect("health", c.call("/grpc.health.v1.Health/Check"), put(1, 1))
    c.expect("health of nothing", c.call("/grpc.health.v1.Health/Check", put(1, "other")), "NOT_FOUND")
    c.expect("index", c.call(KSERVE + "RepositoryIndex"), lambda got: b"READY" in got)
    c.expect("load", c.call(KSERVE + "RepositoryModelLoad", put(1, "net")), put(1, "net") + put(2, 1))
    c.expect("unload", c.call(KSERVE + "RepositoryModelUnload", put(2, "net")), put(1, "net") + put(2, 1))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = set(pool.map(lambda _: infer(x + y), range(1000)))
    c.expect("at once", answers, {total + output})


def check_torchserve(c):
    told = lambda text: lambda got: isinstance(got, bytes) and text in got
    c.expect("ping", c.call(TORCH + "Ping"), told(b"Healthy"))
    c.expect("no picture", c.call(TORCH + "Predictions", put(1, "add") + put(3, put(1, "data") + put(2, b"x"))), "INVALID_ARGUMENT")
    c.expect("no model", c.call(TORCH + "Predictions", put(1, "other")), "NOT_FOUND")
    c.expect("list", c.call(MANAGE + "ListModels", put(1, 10)), told(b'"modelName": "add"'))
    c.expect("register", c.call(MANAGE + "RegisterModel", put(9, "net.tdir") + put(5, "two") + put(3, 2)), told(b"2 initial workers"))
    c.expect("register again", c.call(MANAGE + "RegisterModel", put(9, "net.tdir") + put(5, "two")), "ALREADY_EXISTS")
    c.expect("describe", c.call(MANAGE + "DescribeModel", put(1, "two")), told(b'"maxWorkers": 2'))
    c.expect("scale", c.call(MANAGE + "ScaleWorker", put(1, "two") + put(4, 1) + put(6, 1)), told(b"scaled to 1"))
    c.expect("default", c.call(MANAGE + "SetDefault", put(1, "two") + put(2, "1")), told(b"Default version"))
    c.expect("unregister", c.call(MANAGE + "UnregisterModel", put(1, "two")), told(b"unregistered"))
    c.expect("unregister again", c.call(MANAGE + "UnregisterModel", put(1, "two")), "NOT_FOUND")
    c.expect("of nothing", c.call(MANAGE + "DescribeModel"), "INVALID_ARGUMENT")


def check_deadlines(c):
    """Runs without an end are ended, so that the one thread computes for whoever comes next."""
    def infer(x, limit=20, parameters=b""):
        message = put(1, "endless") + parameters + put(5, put(1, "x") + put(2, "FP32") + put(3, varint(1) + varint(2)) +
                                                       put(5, put(6, floats([0, x]))))
        return c.channel.unary_unary(KSERVE + "ModelInfer").future(message, timeout=limit)
    answers = lambda: c.expect("the next", isinstance(infer(1).result(), bytes), True)
    c.expect("a deadline", infer(2, 0.3).code().name, "DEADLINE_EXCEEDED")
    answers()
    limit = put(4, put(1, "timeout") + put(2, put(2, 100000)))
    c.expect("a limit of the request", infer(2, parameters=limit).code().name, "DEADLINE_EXCEEDED")
    call = infer(2)
    waiting = infer(2)
    time.sleep(0.3)  # the first one runs
    waiting.cancel()
    call.cancel()
    answers()


def check_rest(c):
    """REST over HTTP/2, as curl speaks it."""
    url = f"http://127.0.0.1:{c.port}/v2"
    curl = lambda *words: subprocess.run(["curl", "-s", "--http2-prior-knowledge", *words], capture_output=True).stdout
    body = '{"inputs":[{"name":"x","datatype":"FP32","shape":[3],"data":[1,2,3]},{"name":"y","datatype":"FP32","shape":[3],"data":[4,5,6]}]}'
    c.expect("live", curl(url + "/health/live"), b'{"live":true}')
    c.expect("infer", curl("-d", body, url + "/models/add/infer"), lambda got: b"[5.0,7.0,9.0]" in got)
    c.expect("a body too large", curl("-o", "/dev/null", "-w", "%{http_code}", "-d", "x" * 70000, url + "/models/add/infer"), b"413")
    c.expect("no route", curl("-o", "/dev/null", "-w", "%{http_code}", url + "/nothing"), b"404")


@contextlib.contextmanager
def serving(command, folder):
    """A server that is gone behind the block, whatever becomes of that."""
    server = subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        yield server
    finally:
        server.kill()
        server.wait()


def check_tls(c, program, folder):
    """REST by HTTP/1.1 and HTTP/2, and gRPC, over TLS; certificates that are read anew."""
    make = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
            "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", "key.pem", "-out", "cert.pem"]
    subprocess.run(make, cwd=folder, check=True, capture_output=True)
    pathlib.Path(folder, "config.properties").write_text(
        "inference_address=https://127.0.0.1:0\nmanagement_address=https://127.0.0.1:0\nmetrics_address=http://127.0.0.1:0\n"
        "grpc_inference_port=0\ngrpc_management_port=0\nenable_grpc_ssl=true\n"
        "certificate_file=cert.pem\nprivate_key_file=key.pem\ndisable_token_authorization=true\n")
    command = [program, "--start", "--foreground", "--ts-config", "config.properties", "add=net.tdir"]
    with serving(command, folder) as server:
        ports = [int(server.stdout.readline().rsplit(":", 1)[1]) for _ in range(5)]
        cert = str(pathlib.Path(folder, "cert.pem"))
        curl = lambda *words: subprocess.run(["curl", "-s", "--cacert", cert, *words], capture_output=True).stdout
        url = f"https://localhost:{ports[0]}/v2"
        pathlib.Path(folder, "big").write_bytes(b"x" * 300000)
        big = f"@{folder}/big"
        for version in ("--http1.1", "--http2"):
            c.expect("live over TLS", curl(version, "-w", "%{http_version}", url + "/health/live"),
                     b'{"live":true}' + (b"1.1" if version == "--http1.1" else b"2"))
            c.expect("a large body over TLS", curl(version, "--data-binary", big, url + "/models/add/infer"), lambda got: b"error" in got)
        c.expect("clear text where TLS is spoken", curl(url.replace("https", "http") + "/health/live"), b"")
        roots = pathlib.Path(cert).read_bytes()
        ask = lambda roots: grpc.secure_channel(f"localhost:{ports[3]}", grpc.ssl_channel_credentials(roots)) \
            .unary_unary(KSERVE + "ServerLive")(b"", timeout=20)
        c.expect("gRPC over TLS", ask(roots), put(1, 1))
        subprocess.run(make, cwd=folder, check=True, capture_output=True)
        server.send_signal(signal.SIGHUP)
        for _ in range(100):
            time.sleep(0.05)
            answer = curl(url + "/health/live")  # by the new certificate
            if answer:
                break
        c.expect("new certificates", answer, b'{"live":true}')
        server.terminate()
        c.expect("the end of TLS", server.wait(20), 0)


def main():
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "net.tdir").write_text(GRAPH)
        pathlib.Path(folder, "endless.tdir").write_text(ENDLESS)
        command = [program, "--port", "0", "--enable-model-api", "--most-bytes", "65536", "--model-store", ".", "--workers", "1",
                   "add=net.tdir", "endless.tdir"]
        with serving(command, folder) as server:
            checks = Checks(int(server.stdout.readline().rsplit(":", 1)[1]))
            check_kserve(checks)
            check_torchserve(checks)
            check_rest(checks)
            check_deadlines(checks)
            server.terminate()
            checks.expect("the end", server.wait(20), 0)
        check_tls(checks, program, folder)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
