"""Models in a folder, as other engines run them: does Treadle agree on every level of kernels, and who is faster?

usage: zoo.py FOLDER... [--models a,b] [--treadle PATH] [--levels avx512,avx2,vector,scalar] [--only agree|speed|plain|artifacts]
              [--engines onnxruntime,openvino] [--threads 1,2] [--rounds 5] [--burst 0.5]
Each FOLDER holds NAME.onnx, and may hold inputs NAME.input_0.npy ...; where they are missing, inputs are noise. Needs
numpy and onnxruntime (and openvino for its part of the table) in this Python. A line per model and level, then tables of
medians over rounds in which the engines take turns; the last line counts agreement.

Plain loops: no step of a model, nor of a built-in one, may run as a reference where it takes more than 1 % of the time.

Artifacts: a model compiled to .tdl, and for sizes of 2 where dimensions are open, gives the bits of the model that was
compiled alike when it ran, trusted and not.

Agreement: |a - b| <= rtol |b| + atol max(1, largest |b|) against ONNX Runtime, rtol 1e-3, atol 1e-4.
"""
import argparse
import json
import math
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

DTYPES = {"float": np.float32, "double": np.float64, "int64": np.int64, "int32": np.int32, "bool": np.bool_}


def load_inputs(session, path):
    """By name: the files beside the model, or noise; whole numbers are small and not negative, open dims are 1."""
    rng = np.random.default_rng(0)
    feed = {}
    for i, value in enumerate(session.get_inputs()):
        file = path.with_name(f"{path.stem}.input_{i}.npy")
        dtype = DTYPES[re.fullmatch(r"tensor\((\w+)\)", value.type).group(1)]
        shape = [d if isinstance(d, int) and d > 0 else 1 for d in value.shape]
        if file.exists():
            feed[value.name] = np.load(file)
        elif np.issubdtype(dtype, np.floating):
            feed[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            feed[value.name] = rng.integers(0, 2, shape).astype(dtype)
    return feed


def runtime_session(path, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


# ---- agreement ----

def safe_name(name):
    return re.sub(r"[^A-Za-z0-9._-]", "_", name)


def difference(got, wanted, options):
    """The worst difference in units of what is allowed, or a sentence."""
    if got.shape != wanted.shape or got.dtype != wanted.dtype:
        return f"{got.dtype}{got.shape} instead of {wanted.dtype}{wanted.shape}"
    a, b = got.astype(np.float64), wanted.astype(np.float64)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return "NaN elsewhere"
    allowed = options.rtol * np.abs(b) + options.atol * max(1.0, float(np.nanmax(np.abs(b), initial=0)))
    return float(np.nanmax(np.where(a == b, 0, np.abs(a - b)) / allowed, initial=0))


def agree(path, level, feed, wanted, options):
    """None: it agrees; else why not. The worst difference too."""
    with tempfile.TemporaryDirectory() as folder:
        command = [options.treadle, "run", str(path), "--isa", level, "--threads", "1", "--output", folder]
        for i, (name, array) in enumerate(feed.items()):
            np.save(f"{folder}/in_{i}.npy", array)
            command += ["--input", f"{name}={folder}/in_{i}.npy"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()[-200:], math.nan
        worst = 0.0
        for name, expected in wanted.items():
            found = difference(np.load(f"{folder}/{safe_name(name)}.npy"), expected, options)
            if isinstance(found, str):
                return f"{name}: {found}", math.nan
            worst = max(worst, found)
        return (None if worst <= 1 else f"{worst:.3g} times what is allowed"), worst


def levels_here(options, path):
    """Those that this machine has."""
    run = [options.treadle, "inspect", str(path), "--isa"]
    return [l for l in options.levels.split(",") if subprocess.run(run + [l], capture_output=True).returncode == 0]


def check_agreement(paths, options):
    passed = failed = 0
    levels = levels_here(options, paths[0]) if paths else []
    for path in paths:
        session = runtime_session(path, 1)
        feed = load_inputs(session, path)
        names = [o.name for o in session.get_outputs()]
        wanted = dict(zip(names, session.run(names, feed)))
        for level in levels:
            reason, worst = agree(path, level, feed, wanted, options)
            passed, failed = passed + (reason is None), failed + (reason is not None)
            text = f"ok   {path.stem} {level}: {worst:.2g} of what is allowed" if reason is None else \
                f"FAIL {path.stem} {level}: {reason}"
            print(text, flush=True)
    return passed, failed


# ---- plain loops ----

PLAIN_SHARE = 0.01


def builtin_models():
    table = pathlib.Path(__file__).parent.parent / "src/import/builtin/builtin.def"
    return [f"builtin:{name}" for name in re.findall(r"^BUILTIN\((\w+)\)", table.read_text(), re.MULTILINE)]


def check_plain(models, options):
    """Steps are named by their kernels, those that run as references by their operators, as aten::add."""
    passed = failed = 0
    for model in models:
        command = [options.treadle, "bench", str(model), "--threads", "1", "--min-time", "0.05", "--layers", "--json"]
        done = subprocess.run(command, capture_output=True, text=True)
        layers = json.loads(done.stdout)["layers"] if done.returncode == 0 else []
        total = sum(layer["us"] for layer in layers)
        plain = [f"{layer['kernel']} {layer['us'] / total:.1%} ({layer['name']})" for layer in layers
                 if "::" in layer["kernel"] and layer["us"] > PLAIN_SHARE * total]
        good = bool(layers) and not plain
        passed, failed = passed + good, failed + (not good)
        print(f"ok   {model}: no plain loops" if good else
              f"FAIL {model}: {', '.join(plain) or done.stderr.strip()[-200:]}", flush=True)
    return passed, failed


# ---- saved plans ----

def outputs_of(model, arguments, options):
    """The bytes of each output of a run with seeded inputs, by file; a sentence where it fails."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([options.treadle, "run", str(model), "--output", folder, *arguments], capture_output=True, text=True)
        if done.returncode:
            return done.stderr.strip()[-200:]
        return {file.name: file.read_bytes() for file in sorted(pathlib.Path(folder).iterdir())}


def check_artifacts(models, options):
    passed = failed = 0
    for model in models:
        described = subprocess.run([options.treadle, "info", str(model)], capture_output=True, text=True).stdout
        inputs = re.findall(r"^ +input .*\[(.*)\]", described, re.MULTILINE)
        symbols = sorted({d.strip() for dims in inputs for d in dims.split(",") if re.fullmatch(r"[A-Za-z_]\w*", d.strip())})
        forms = [[]] + ([["--specialise", " ".join(f"{s}=2" for s in symbols)]] if symbols else [])
        shape = [part for s in symbols for part in ("--shape", f"{s}=2")]
        for form in forms:
            wanted = outputs_of(model, shape + form, options)
            with tempfile.TemporaryDirectory() as folder:
                file = f"{folder}/net.tdl"
                made = subprocess.run([options.treadle, "compile", str(model), "-o", file, *form], capture_output=True, text=True)
                for trust in ([], ["--trusted"]):
                    got = outputs_of(file, shape + trust, options) if made.returncode == 0 else made.stderr.strip()[-200:]
                    good = isinstance(got, dict) and got == wanted
                    passed, failed = passed + good, failed + (not good)
                    why = got if isinstance(got, str) else wanted if isinstance(wanted, str) else "other bits than the model itself"
                    what = " ".join([str(model), "as .tdl", *form, *trust])
                    print(f"ok   {what}" if good else f"FAIL {what}: {why}", flush=True)
    return passed, failed


# ---- speed ----

def onnxruntime_call(path, threads):
    session = runtime_session(path, threads)
    feed = load_inputs(session, path)
    return lambda: session.run(None, feed)


def openvino_call(path, threads):
    import openvino
    config = {"PERFORMANCE_HINT": "LATENCY", "INFERENCE_NUM_THREADS": threads, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(str(path), "CPU", config).create_infer_request()
    inputs = list(load_inputs(runtime_session(path, 1), path).values())
    return lambda: request.infer(inputs, share_inputs=True)


CALLS = {"onnxruntime": onnxruntime_call, "openvino": openvino_call}


def serve(engine, path, threads):
    """One engine in a process of its own: a line is a burst's length in seconds; the answer, its mean in ms."""
    call = CALLS[engine](pathlib.Path(path), threads)
    for _ in range(3):
        call()
    print("ready", flush=True)
    for line in sys.stdin:
        count, start = 0, time.perf_counter()
        while count < 2 or time.perf_counter() - start < float(line):
            call()
            count += 1
        print((time.perf_counter() - start) / count * 1e3, flush=True)


class Peer:
    def __init__(self, engine, path, threads):
        self.process = subprocess.Popen(pinned(threads) + [sys.executable, __file__, "--serve", engine, str(path), str(threads)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.alive = self.process.stdout.readline().startswith("ready")

    def burst(self, seconds):
        if not self.alive:
            return None
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline() or "nan")

    def close(self):
        self.process.kill()
        self.process.wait()


def pinned(threads):
    return ["taskset", "-c", ",".join(str(i) for i in range(threads))]


def treadle_burst(path, threads, seconds, options):
    done = subprocess.run(pinned(threads) + [options.treadle, "bench", str(path), "--threads", str(threads), "--json",
                                             "--min-time", str(seconds)], capture_output=True, text=True)
    return json.loads(done.stdout)["latency_ms"]["mean"] if done.returncode == 0 else None


def measure(path, threads, options):
    """Medians in ms by engine."""
    peers = {engine: Peer(engine, path, threads) for engine in options.engines.split(",")}
    times = {"treadle": []} | {engine: [] for engine in peers}
    for _ in range(options.rounds):
        times["treadle"].append(treadle_burst(path, threads, options.burst, options))
        for engine, peer in peers.items():
            times[engine].append(peer.burst(options.burst))
    for peer in peers.values():
        peer.close()
    return {engine: statistics.median(t) for engine, t in times.items() if None not in t}


def compare_speed(paths, threads, options):
    ratios = []
    print(f"| model, {threads} thread{'s' * (threads > 1)} | Treadle, ms | best peer, ms | faster |\n|---|---|---|---|")
    for path in paths:
        medians = measure(path, threads, options)
        mine = medians.pop("treadle", None)
        if mine is None or not medians:
            print(f"| {path.stem} | {'-' if mine is None else f'{mine:.3g}'} | - | - |", flush=True)
            continue
        best = min(medians, key=medians.get)
        ratios.append(medians[best] / mine)
        print(f"| {path.stem} | {mine:.3g} | {medians[best]:.3g} ({best}) | {ratios[-1]:.2f}x |", flush=True)
    if ratios:
        print(f"geometric mean {statistics.geometric_mean(ratios):.2f}x over {len(ratios)} models, "
              f"{sum(r < 1 for r in ratios)} below 1\n", flush=True)


def main():
    if sys.argv[1:2] == ["--serve"]:
        return serve(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--models")
    parser.add_argument("--treadle", default="build/treadle")
    parser.add_argument("--levels", default="avx512,avx2,vector,scalar")
    parser.add_argument("--only", choices=["agree", "speed", "plain", "artifacts"])
    parser.add_argument("--engines", default="onnxruntime,openvino")
    parser.add_argument("--threads", default="1")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--burst", type=float, default=0.5)
    parser.add_argument("--rtol", type=float, default=1e-3)
    parser.add_argument("--atol", type=float, default=1e-4)
    options = parser.parse_args()
    wanted = options.models.split(",") if options.models else None
    paths = [p for f in options.folders for p in sorted(pathlib.Path(f).glob("*.onnx")) if not wanted or p.stem in wanted]
    if not paths:
        sys.exit(f"zoo.py: no *.onnx in {' '.join(options.folders)}")
    passed = failed = 0
    if options.only in (None, "speed"):
        for threads in options.threads.split(","):
            compare_speed(paths, int(threads), options)
    if options.only in (None, "plain"):
        passed, failed = check_plain(paths + ([] if wanted else builtin_models()), options)
    if options.only in (None, "artifacts"):
        more = check_artifacts(paths + ([] if wanted else builtin_models()), options)
        passed, failed = passed + more[0], failed + more[1]
    if options.only in (None, "agree"):
        more = check_agreement(paths, options)
        passed, failed = passed + more[0], failed + more[1]
    if options.only != "speed":
        print(f"{passed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
