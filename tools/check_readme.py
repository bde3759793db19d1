#!/usr/bin/env python3
"""What README.md says of the server, run: check_readme.py BUILD [--client]. The archive and the picture that it names are
made here: a resnet18 of random weights with labels, and a drawing. Each command of the block of shell must succeed and
answer what is said beside it; the block of Python is run with --client, by a Python that has tritonclient. Ends with a
count of checks."""
import json
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import zipfile
import zlib

PLACE = "127.0.0.1:8080"
LABELS = {str(i): f"class {i}" for i in range(1000)}


def block_of(kind):
    """The block of README.md that speaks of the server's port."""
    found = re.findall(rf"^```{kind}\n(.*?)^```$", pathlib.Path("README.md").read_text(), re.MULTILINE | re.DOTALL)
    return next(block for block in found if ":8080" in block)


def drawing(size=64):
    part = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + bytes(v for x in range(size) for v in (x * 4, y * 4, 128)) for y in range(size))
    return (b"\x89PNG\r\n\x1a\n" + part(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
            part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b""))


def write_files(treadle, folder):
    model = pathlib.Path(folder, "model.tdl")
    subprocess.run([treadle, "compile", "builtin:resnet18", "-o", model], check=True, capture_output=True)
    manifest = {"model": {"modelName": "resnet", "modelVersion": "1.0", "handler": "image_classifier", "serializedFile": "model.tdl"}}
    with zipfile.ZipFile(pathlib.Path(folder, "resnet.mar"), "w") as archive:
        archive.writestr("MAR-INF/MANIFEST.json", json.dumps(manifest))
        archive.writestr("index_to_name.json", json.dumps(LABELS))
        archive.write(model, "model.tdl")
    pathlib.Path(folder, "cat.png").write_bytes(drawing())


def is_right(command, said):
    if "/predictions/" in command:
        shares = json.loads(said)
        return len(shares) == 5 and set(shares) <= set(LABELS.values()) and list(shares.values()) == sorted(shares.values(), reverse=True)
    return ("<html" in said) if command.endswith(":8080/") else "# TYPE ts_inference_requests_total counter" in said


def check_commands(lines, place):
    """Those of the block behind the one that starts the server."""
    for line in lines:
        command = line.split(" #")[0].strip()
        done = subprocess.run(["sh", "-c", command.replace(PLACE, place) + " -sS"], capture_output=True, text=True)
        yield command, done.returncode == 0 and is_right(command, done.stdout), done.stdout[-300:] + done.stderr


def check_client(block, place):
    names = {}
    exec(block.replace(PLACE, place), names)
    yield "the client", names["scores"].shape == (1, 1000), names["scores"].shape


def check(place, lines, client):
    passed = failed = 0
    for what, good, said in [*check_commands(lines, place), *(check_client(client, place) if client else [])]:
        passed, failed = passed + good, failed + (not good)
        if not good:
            print(f"FAILED {what}: {said}")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    start, *lines = block_of("sh").splitlines()
    client = block_of("python") if "--client" in sys.argv else None
    words = re.fullmatch(r"treadle (serve .*) &", start)[1].split()
    with tempfile.TemporaryDirectory() as folder:
        write_files(build / "treadle", folder)
        environment = {**os.environ, "XDG_CACHE_HOME": folder}
        server = subprocess.Popen([build / "treadle", *words, "--port", "0"], cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
        try:
            place = "127.0.0.1:" + server.stdout.readline().strip().rsplit(":", 1)[1]
            os.chdir(folder)
            return check(place, lines, client)
        finally:
            server.kill()
            server.wait()


sys.exit(main())
