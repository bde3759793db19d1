#!/usr/bin/env python3
"""Two sessions at once against one, Treadle and its peers with their defaults: sessions.py BUILD [NAME [SECONDS]].

NAME is a model of torchvision that Treadle has built in. "one" is a session on all cores, "two" are two that run at the
same time: runs per second, p50 and p99 in ms. Needs torch, torchvision, onnx and onnxruntime. In turns, as other work on
the machine hits all alike then."""
import io
import subprocess
import sys
import threading
import time


def clients(run, count, seconds):
    """Milliseconds of each run of `count` clients that call at the same time."""
    times = []

    def call():
        end = time.monotonic() + seconds
        began = time.monotonic()
        while began < end:
            run()
            now = time.monotonic()
            times.append(1e3 * (now - began))
            began = now

    threads = [threading.Thread(target=call) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return times


def peers(name):
    import numpy
    import onnxruntime
    import torch
    import torchvision
    module = getattr(torchvision.models, name)().eval()
    x = torch.rand(1, 3, 224, 224)
    file = io.BytesIO()
    torch.onnx.export(module, (x,), file, dynamo=False)
    session = onnxruntime.InferenceSession(file.getvalue(), providers=["CPUExecutionProvider"])
    feed = {session.get_inputs()[0].name: numpy.asarray(x)}

    def run_torch():
        with torch.inference_mode():
            module(x)

    return {"ONNX Runtime": lambda: session.run(None, feed), "PyTorch": run_torch}


def line(who, what, times, seconds):
    times.sort()
    print(f"{who:14} {what:8} {len(times) / seconds:8.2f}/s  p50 {times[len(times) // 2]:8.2f}  p99 {times[len(times) * 99 // 100]:8.2f} ms",
          flush=True)


def main():
    build, name, seconds = sys.argv[1], (sys.argv[2:] or ["resnet50"])[0], float((sys.argv[3:] or ["6"])[0])
    ours = subprocess.run([f"{build}/bench_sessions", f"builtin:{name}", "8", str(seconds)], check=True, text=True, stdout=subprocess.PIPE)
    for text in ours.stdout.splitlines():
        print("Treadle       ", text)
    for who, run in peers(name).items():
        run()
        times = {1: [], 2: []}
        for _ in range(4):
            for count, all_times in times.items():
                all_times += clients(run, count, seconds / 4)
        line(who, "one", times[1], seconds)
        line(who, "two", times[2], seconds)


if __name__ == "__main__":
    main()
