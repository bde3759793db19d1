#!/usr/bin/env python3
"""deploy/'s jobs on Ray: check_ray.py [--pictures N] [--texts N] [--table] [--only batch|scale|serve|table].

On a cluster of several nodes on this machine (ray.cluster_utils): N pictures (10,000) by two actors, of which one loses its
node half-way, then a table of N texts (1,000): every row once, the bytes those of a run without Ray, weights in memory once.
What two actors do against one is printed: on a machine that others use it is not the code's fault. Replicas of Ray Serve
under load: one killed, one that hangs, one taken away while it answers, and requests that are wrong. --table, with torch,
torchvision, transformers, onnx and onnxruntime: the same batch job by PyTorch, ONNX Runtime and Treadle. ./dev test-ray
runs it; ends with a count of checks."""
import argparse
import concurrent.futures
import http.client
import json
import logging
import multiprocessing
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import numpy
import pyarrow.parquet
import ray

import ray_batch
import ray_parts
import ray_treadle
from ray_parts import Machines

MODEL, BERT = "builtin:mobilenet_v2", "builtin:minilm_l6"
BATCH, CLIENTS, MIB = 16, 4, 1 << 20
OUT = sys.stdout  # what Ray prints goes to standard error
passed = failed = 0


def say(text):
    print(text, file=OUT, flush=True)


def expect(what, good, said=""):
    global passed, failed
    passed, failed = passed + bool(good), failed + (not good)
    if not good:
        say(f"FAILED {what}: {said}")


def wait_for(what, holds, seconds=90):
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            expect(what, False, f"not within {seconds} s")
            return False
        time.sleep(0.1)
    expect(what, True)
    return True


def table(folder):
    return pyarrow.parquet.read_table(str(folder))


# ---- without Ray ----

def alone(kind, arguments, columns):
    """In a process of its own, as an actor computes: the rows, and the seconds that they took."""
    actor = kind(cores=1, **arguments)
    count, found, begin = len(next(iter(columns.values()))), [], time.perf_counter()
    for at in range(0, count, BATCH):
        found.append(actor({name: values[at:at + BATCH] for name, values in columns.items()}))
    return {key: numpy.concatenate([part[key] for part in found]) for key in found[0]}, time.perf_counter() - begin


def direct(kind, arguments, columns):
    """All rows by a process for each core; of the result the columns."""
    cores = len(ray_treadle.core_sets(1))
    parts = [{name: part for name, part in zip(columns, split)}
             for split in zip(*(numpy.array_split(values, cores) for values in columns.values()))]
    with concurrent.futures.ProcessPoolExecutor(cores, multiprocessing.get_context("spawn")) as pool:
        found = [future.result()[0] for future in [pool.submit(alone, kind, arguments, part) for part in parts]]
    return {key: numpy.concatenate([part[key] for part in found]) for key in found[0]}


def check_rows(what, found, key, wanted, columns):
    """Each row once, and its values to the bit."""
    keys, expected = found[key].to_pylist(), {value: at for at, value in enumerate(wanted[key].tolist())}
    expect(f"{what}: every row once", len(keys) == len(expected) and set(keys) == set(expected),
           f"{len(keys)} rows, {len(set(keys))} of them different, of {len(expected)}")
    places = [expected[value] for value in keys]
    for column in columns:
        got, right = numpy.array(found[column].to_pylist()), numpy.asarray(wanted[column])[places]
        expect(f"{what}: {column}", numpy.array_equal(got.astype(right.dtype), right),
               f"{(got != right).sum()} of {got.size} differ")


# ---- the batch job ----

def check_lost_node(folder, paths, wanted):
    """Two actors on two nodes; half-way one node is killed, later there is a new one."""
    out = folder / "lost"
    rows = lambda: ray_batch.pictures(paths, MODEL, actors=2, batch=BATCH)
    with Machines(2) as machines:
        job = threading.Thread(target=lambda: ray_batch.write(rows(), str(out)))
        begin = time.monotonic()
        job.start()
        blocks = len(paths) / (BATCH * ray_batch.BATCHES_OF_BLOCK)
        held = {}

        def half():
            found = {} if held else ray_parts.holders(plan_name(MODEL))
            if len(found) == 2:  # the second actor may come late
                held.update(found)
            return held and len(list(out.glob("*.parquet"))) >= blocks / 2 or not job.is_alive()

        wait_for("pictures: half of them", half, 900)
        machines.kill()
        expect("pictures: the node was killed while they were computed", job.is_alive())
        machines.add()
        job.join()
        say(f"pictures: {len(paths)} by two actors, one node lost half-way: {time.monotonic() - begin:.1f} s")
        check_command(folder, paths[:50], machines)
    expect("pictures: two processes map the weights", len(held) == 2, held)
    expect("pictures: and have no copy of their own",
           all(kinds["Rss"] > kinds["Pss"] and not kinds["Anonymous"] for kinds in held.values()), held)
    found = table(out)
    check_rows("pictures", found, "path", wanted, ["classes", "probabilities"])
    broken = [path for path, error in zip(found["path"].to_pylist(), found["error"].to_pylist()) if error]
    expect("pictures: the one that is none says so, and it alone",
           [pathlib.Path(path).stem for path in broken] == ["broken"], broken)


def check_command(folder, paths, machines):
    """The script as users call it: its actors find its classes in the files that it sends along."""
    few, out = folder / "few", folder / "command"
    few.mkdir()
    for path in paths:
        shutil.copy(path, few)
    command = [sys.executable, ray_batch.__file__, "--model", MODEL, "--pictures", str(few), "--out", str(out)]
    done = subprocess.run(command, env={**os.environ, "RAY_ADDRESS": machines.cluster.address}, stdout=subprocess.DEVNULL,
                          stderr=sys.stderr)
    expect("the command ends well", done.returncode == 0 and table(out).num_rows == len(paths), done.returncode)


def plan_name(model):
    return pathlib.Path(ray_treadle.plan_of(model)).name


def check_texts(folder, source, tokenizer, wanted):
    out = folder / "vectors"
    with Machines(2) as machines:
        job = threading.Thread(target=lambda: ray_batch.write(
            ray_batch.texts([str(source)], BERT, str(tokenizer), actors=2, batch=BATCH), str(out)))
        job.start()
        wait_for("texts: some of them", lambda: list(out.glob("*.parquet")) or not job.is_alive(), 300)
        machines.kill()  # and none comes in its place
        job.join()
    check_rows("texts", table(out), "row", wanted, ["text", "vector"])


def check_batch(folder, counts):
    paths = ray_batch.files_of(str(folder / "pictures"))
    source, tokenizer = folder / "texts.parquet", folder / "tokenizer.json"
    ray_parts.make_texts(source, tokenizer, counts.texts)
    texts = {name: numpy.array(column) for name, column in pyarrow.parquet.read_table(source).to_pydict().items()}
    begin = time.monotonic()
    wanted = direct(ray_batch.Pictures, {"model": MODEL}, {"path": numpy.array(paths)})
    say(f"pictures: {len(paths)} without Ray, a process for each core: {time.monotonic() - begin:.1f} s")
    arguments = {"model": BERT, "tokenizer": str(tokenizer), "length": 128}
    vectors = direct(ray_batch.Texts, arguments, texts)
    check_lost_node(folder, paths, wanted)
    check_texts(folder, source, tokenizer, vectors)


# ---- how fast ----

def measured(rows, out):
    """Rows per second while all actors work; seconds of the whole job; the largest memory of an actor."""
    shutil.rmtree(out, ignore_errors=True)
    begin = time.monotonic()
    ray_batch.write(rows, str(out))
    seconds = time.monotonic() - begin
    found = table(out)
    return ray_parts.rate(found), seconds, max(found["memory"].to_pylist())


def check_scale(folder, counts):
    """Prints what one and two actors do; that one core alone is as fast is for the reader to see."""
    paths = ray_batch.files_of(str(folder / "pictures"))[:counts.measured]
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, context) as pool:
        _, seconds = pool.submit(alone, ray_batch.Pictures, {"model": MODEL}, {"path": numpy.array(paths)}).result()
    say(f"scale: one process without Ray: {len(paths) / seconds:.1f} pictures/s")
    rates = {}
    for actors in (1, 2, 1, 2):
        with Machines(actors):
            rows = ray_batch.pictures(paths, MODEL, actors=actors, batch=BATCH, kind=ray_parts.timed(ray_batch.Pictures))
            found, seconds, _ = measured(rows, folder / "rate")
        rates[actors] = max(found, rates.get(actors, 0))
        say(f"scale: {actors} actor{'s' * (actors > 1)}: {found:.1f} pictures/s, the whole job {seconds:.1f} s")
    say(f"scale: two actors are {rates[2] / rates[1]:.2f} times one; asked on an idle machine: 1.9")


def print_table(folder, counts):
    """The same job by others: one node with a core, then two. Answers of all are compared."""
    models = folder / "models"
    models.mkdir()
    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        pool.submit(ray_parts.export, models).result()
    paths = ray_batch.files_of(str(folder / "pictures"))[:counts.measured]
    source, tokenizer = folder / "some.parquet", folder / "some.json"
    ray_parts.make_texts(source, tokenizer, counts.measured // 4)
    engines = [("PyTorch", "pt", ray_parts.PyTorch), ("ONNX Runtime", "onnx", ray_parts.OnnxRuntime),
               ("Treadle", "onnx", ray_treadle.load)]
    jobs = [("pictures", "path", "probabilities", lambda ending, **more: ray_batch.pictures(
                paths, f"{models}/mobilenet.{ending}", batch=BATCH, kind=ray_parts.timed(ray_batch.Pictures), **more)),
            ("texts", "row", "vector", lambda ending, **more: ray_batch.texts(
                [str(source)], f"{models}/bert.{ending}", str(tokenizer), batch=BATCH, kind=ray_parts.timed(ray_batch.Texts),
                **more))]
    say("| job | engine | 1 actor | 2 actors | | memory of an actor |\n|---|---|---|---|---|---|")
    for what, key, answer, rows in jobs:
        answers = {}
        for engine, ending, load in engines:
            rates = []
            for actors in (1, 2):
                with Machines(actors):
                    found, _, memory = measured(rows(ending, actors=actors, load=load), folder / "rate")
                rates.append(found)
            done = table(folder / "rate").sort_by(key)
            answers[engine] = numpy.array(done[answer].to_pylist())
            say(f"| {what} | {engine} | {rates[0]:.1f}/s | {rates[1]:.1f}/s | x {rates[1] / rates[0]:.2f} | "
                  f"{memory / MIB:.0f} MiB |")
        for engine, found in answers.items():
            expect(f"{what}: {engine} agrees with PyTorch", found.shape == answers["PyTorch"].shape and
                   numpy.allclose(found, answers["PyTorch"], 1e-3, 1e-4), numpy.abs(found - answers["PyTorch"]).max())


# ---- Ray Serve ----

class Clients:
    """Each asks one after the other and compares the answer; `wrong` has what was no good one."""

    def __init__(self, port, body, right):
        self.port, self.body, self.right = port, body, right
        self.good, self.wrong, self.over = 0, [], False
        self.threads = [threading.Thread(target=self.ask) for _ in range(CLIENTS)]
        for thread in self.threads:
            thread.start()

    def ask(self):
        while not self.over:
            status, said = post(self.port, self.body, "application/octet-stream")
            if status == 200 and said == self.right:
                self.good += 1
            else:
                self.wrong.append((status, str(said)[:200]))

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join()


def post(port, body, kind, method="POST"):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, "/", body, {"Content-Type": kind})
        reply = connection.getresponse()
        return reply.status, json.loads(reply.read())
    except (OSError, ValueError, http.client.HTTPException) as error:
        return 0, repr(error)
    finally:
        connection.close()


def json_body(name, shape, value=0.0):
    return json.dumps({"inputs": [{"name": name, "datatype": "FP32", "shape": shape,
                                   "data": [value] * int(numpy.prod(shape))}]})



def under_load(what, port, body, right, act, done, allowed):
    """No request fails while `act` is done and until `done()` holds, but `allowed` of them: those in flight on what died."""
    clients = Clients(port, body, right)
    wait_for(f"{what}: answers before", lambda: clients.good >= 3 * CLIENTS)
    begin = time.monotonic()
    act()
    wait_for(what, done)
    seconds, after = time.monotonic() - begin, clients.good
    wait_for(f"{what}: answers after", lambda: clients.good >= after + 3 * CLIENTS)
    clients.end()
    expect(f"{what}: requests that failed are at most {allowed}", len(clients.wrong) <= allowed, clients.wrong[:5])
    say(f"serve: {what}: {clients.good} answers, {len(clients.wrong)} failed, done after {seconds:.1f} s")


def check_requests(port, picture):
    status, said = post(port, None, "text/plain", "GET")
    expect("serve: tells its inputs", status == 200 and said["inputs"][0]["shape"] == [-1, 3, 224, 224], said)
    status, said = post(port, json_body("input", [2, 3, 224, 224]), "application/json")
    expect("serve: V2", status == 200 and said["outputs"][0]["shape"] == [2, 1000], str(said)[:200])
    text = "application/json"
    for what, body, kind in [("no picture", b"junk", "image/jpeg"), ("another name", json_body("x", [1, 3, 224, 224]), text),
                             ("another size", json_body("input", [1, 3, 4, 4]), text), ("no JSON", b"{", text),
                             ("no inputs", b"{}", text)]:
        status, said = post(port, body, kind)
        expect(f"serve: {what} is refused", status == 400 and said.get("error"), (status, said))
    status, said = post(port, picture, "image/jpeg")
    expect("serve: and answers still", status == 200, said)


def check_together(handle, pixels):
    """Requests that wait together are one run, and each has the answer that it has alone."""
    alone = handle.predict.remote({"input": pixels}).result(timeout_s=60)["logits"]
    before = handle.state.remote().result(timeout_s=60)
    long = handle.predict.remote({"input": numpy.repeat(pixels, 32, axis=0)})  # while it is computed the others wait
    answers = [handle.predict.remote({"input": pixels}) for _ in range(24)]
    long.result(timeout_s=60)
    same = [numpy.array_equal(answer.result(timeout_s=60)["logits"], alone) for answer in answers]
    expect("serve: answers of a batch are those of one", all(same))
    after = handle.state.remote().result(timeout_s=60)
    requests, runs = after["requests"] - before["requests"], after["runs"] - before["runs"]
    # seven at least wait behind the long one: two runs of four; probes are runs, too
    expect("serve: requests that wait together are one run", requests >= 25 and requests - runs >= 5, (requests, runs))


def check_serve(folder, counts):
    from ray import serve

    import ray_serve

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    picture = pathlib.Path(ray_batch.files_of(str(folder / "pictures"))[0]).read_bytes()
    pixels = ray_treadle.picture(picture)[None]
    classes, shares = ray_treadle.likeliest(ray_batch.first(ray_treadle.load(MODEL, 1)(pixels)))
    right = {str(number): float(share) for number, share in zip(classes[0], shares[0])}
    options = {"model": plan_copy(folder), "batch": 4, "health": 1, "timeout": 5, "drain": 20}

    def deploy(count):
        return serve.run(ray_serve.app({**options, "replicas": count}), name="net")

    with Machines(2):
        serve.start(http_options={"host": "127.0.0.1", "port": port}, logging_config={"log_level": "ERROR"})
        handle = deploy(1)
        check_together(handle, pixels)
        check_requests(port, picture)
        deploy(2)
        first = holders(options)
        expect("serve: two replicas", len(first) == 2, first)
        bound = [frozenset(os.sched_getaffinity(pid)) for pid in first]
        expect("serve: each on cores of its own", len(set(bound)) == 2 and not bound[0] & bound[1], bound)
        victim, other = sorted(first)
        under_load("a replica is killed", port, picture, right, lambda: os.kill(victim, signal.SIGKILL),
                   lambda: len(holders(options) - {victim}) == 2, CLIENTS)
        under_load("a replica hangs", port, picture, right, lambda: os.kill(other, signal.SIGSTOP),
                   lambda: len(holders(options) - {victim, other}) == 2, 2 * CLIENTS)
        under_load("a replica is taken away", port, picture, right, lambda: deploy(1), lambda: len(holders(options)) == 1, 0)
        serve.shutdown()
    expect("serve: none is left", not holders(options), holders(options))


def plan_copy(folder):
    """A plan that no other process has mapped, this one included."""
    copy = folder / "served.tdl"
    shutil.copyfile(ray_treadle.plan_of(MODEL), copy)
    return str(copy)


def holders(options):
    return set(ray_parts.holders(options["model"]))


CHECKS = {"batch": check_batch, "scale": check_scale, "serve": check_serve}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--pictures", type=int, default=10000)
    parser.add_argument("--texts", type=int, default=1000)
    parser.add_argument("--measured", type=int, default=3000, help="pictures for a rate; a quarter as many texts")
    parser.add_argument("--table", action="store_true", help="PyTorch and ONNX Runtime beside it")
    parser.add_argument("--only", choices=[*CHECKS, "table"])
    counts = parser.parse_args()
    if len(ray_treadle.core_sets(1)) < 2:
        sys.exit("two nodes of a core each need two cores: this process may use one")
    sys.stdout = sys.stderr
    for name in ("ray.data", "ray.serve"):
        logging.getLogger(name).setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory(prefix="treadle-ray-") as name:
        folder = pathlib.Path(name)
        os.environ["TMPDIR"] = tempfile.tempdir = str(folder / "tmp")  # plans and locks of this run alone; actors inherit it
        (folder / "tmp").mkdir()
        ray_parts.make_pictures(folder / "pictures", counts.pictures)
        (folder / "pictures/broken.jpg").write_bytes(b"no picture")
        for what, check in CHECKS.items():
            if counts.only in (None, what):
                check(folder, counts)
        if counts.table or counts.only == "table":
            print_table(folder, counts)
    say(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
