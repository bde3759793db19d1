"""A data engineer: tables as they are, missing values that are named, pickled models in a pool of processes."""

import pickle
import subprocess
import sys

import numpy as np
import onnx
import pandas as pd
import pyarrow as pa

from trial import answer, check, finish, refuses, step, treadle as run
import treadle

rng = np.random.default_rng(0)
weights = rng.standard_normal((3, 2)).astype("f4")
helper = onnx.helper


def save(path, weights):
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["features", "w"], ["scores"], name="linear")], "g",
        [helper.make_tensor_value_info("features", 1, ["rows", 3])], [helper.make_tensor_value_info("scores", 1, ["rows", 2])],
        [onnx.numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


save("net.onnx", weights)
frame = pd.DataFrame({"age": [30, 40, 50], "height": [1.7, 1.8, 1.6], "smokes": [True, False, True]})
want = frame.to_numpy(dtype="f4") @ weights
model = treadle.load("net.onnx")

with step("tables in, arrays out"):
    for table in (frame, pa.Table.from_pandas(frame), pa.RecordBatch.from_pandas(frame)):
        check(type(table).__name__, np.allclose(model(table), want, rtol=1e-5))
    check("a table of other rows", np.asarray(model(frame[:1])).shape == (1, 2))
refuses("a column too many", treadle.BadArgument, "has 4 columns", lambda: model(frame.assign(name="x")))
refuses("text", treadle.BadArgument, "column name holds", lambda: model(frame[["age", "height"]].assign(name="x")))

with step("a column for each input"):
    tower = treadle.load(b'tdir 1\ninput %0 "age": i64[n]\ninput %1 "height": f32[n, 1]\nconst %2: f32[] = {2}\n'
                         b'%3 = aten::mul(%1, %2)\noutput "twice" %3\noutput "age" %0\n')
    twice, age = tower(frame)
    check("by name", np.allclose(twice[:, 0], 2 * frame["height"]) and list(age) == [30, 40, 50])
refuses("missing whole numbers", treadle.BadArgument, "missing ones make floats",
        lambda: tower(frame.assign(age=[30, None, 50])))

with step("what is no number is named"):
    np.save("x.npy", frame.assign(height=[1.7, np.nan, 1.6]).to_numpy(dtype="f4"))
    got = run("run", "net.onnx", "--input", "x.npy")
    check("the input", "result scores holds NaN" in got.stderr and "input features holds NaN" in got.stderr, got.stderr)
    broken = weights.copy()
    broken[1, 1] = np.nan
    save("broken.onnx", broken)
    got = run("run", "broken.onnx")
    check("the weight", "the weight w holds NaN" in got.stderr, got.stderr)
    check("in JSON", answer("run", "broken.onnx")["outputs"][0]["nan"] == 1)


with step("another process gets the model by its path"):
    with open("model.pkl", "wb") as file:
        pickle.dump((model, frame), file)
    code = "import pickle, treadle; model, frame = pickle.load(open('model.pkl', 'rb')); print(float(model(frame).sum()))"
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    check("the same scores", np.isclose(float(got), want.sum(), rtol=1e-4), got, want.sum())
finish()
