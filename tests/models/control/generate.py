#!/usr/bin/env python3
"""Writes the cases of this folder: small ONNX models with control flow, functions, scopes and sparse constants, each with
inputs and the outputs that ONNX Runtime gives for them. Needs onnx, onnxruntime and numpy; `treadle check` reads the
result, so that running the tests needs none of them."""
import os
import shutil

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

ROOT = os.path.dirname(os.path.abspath(__file__))
random = np.random.default_rng(0)


def floats(*shape):
    return random.standard_normal(shape).astype(np.float32)


def info(name, shape=None, dtype=T.FLOAT):
    return h.make_tensor_value_info(name, dtype, shape)


def graph(nodes, inputs, outputs, initializers=()):
    return h.make_graph(nodes, "g", inputs, outputs, list(initializers))


def node(op, inputs, outputs, **attributes):
    return h.make_node(op, inputs, outputs, **attributes)


def save(name, body, inputs, opset=17, ir=8, functions=()):
    model = h.make_model(body, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("local", 1)], ir_version=ir,
                         functions=list(functions))
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    outputs = session.run(None, inputs)
    folder = f"{ROOT}/{name}/test_data_set_0"
    shutil.rmtree(f"{ROOT}/{name}", ignore_errors=True)
    os.makedirs(folder)
    onnx.save(model, f"{ROOT}/{name}/model.onnx")
    for i, x in enumerate(body.input):
        if x.name in inputs:
            onnx.save_tensor(nh.from_array(inputs[x.name], x.name), f"{folder}/input_{i}.pb")
    for i, value in enumerate(outputs):
        onnx.save_tensor(nh.from_array(np.asarray(value), body.output[i].name), f"{folder}/output_{i}.pb")


def scans():
    body = graph([node("Add", ["s", "a"], ["t"]), node("Mul", ["t", "b"], ["u"]), node("Identity", ["t"], ["t2"])],
                 [info("s", [3]), info("a", [3]), info("b", [3])], [info("t2", [3]), info("u", [3])])
    for k, (axes, directions, out_axis, out_direction) in enumerate(
            [([0, 1], [0, 1], 0, 0), ([1, 0], [1, 0], 1, 1), ([-1, -2], [1, 1], -1, 1)]):
        shapes = [(4, 3) if axis in (0, -2) else (3, 4) for axis in axes]
        scan = node("Scan", ["s0", "x", "y"], ["sf", "z"], body=body, num_scan_inputs=2, scan_input_axes=axes,
                    scan_input_directions=directions, scan_output_axes=[out_axis], scan_output_directions=[out_direction])
        save(f"scan9_{k}", graph([scan], [info("s0", [3]), info("x", shapes[0]), info("y", ["n", "m"])],
                                 [info("sf"), info("z")]),
             {"s0": floats(3), "x": floats(*shapes[0]), "y": floats(*shapes[1])})
    body = graph([node("Add", ["s", "a"], ["t"]), node("Identity", ["t"], ["u"])], [info("s", [2]), info("a", [2])],
                 [info("t", [2]), info("u", [2])])
    for lengths in (None, np.array([2, 3, 1], np.int64)):
        for direction in (0, 1):
            inputs = {"s0": floats(3, 2), "x": floats(3, 4, 2)}
            values = [info("s0", [3, 2]), info("x", [3, 4, 2])]
            if lengths is not None:
                inputs["lengths"] = lengths
                values = [info("lengths", [3], T.INT64)] + values
            scan = node("Scan", ["" if lengths is None else "lengths", "s0", "x"], ["sf", "z"], body=body,
                        num_scan_inputs=1, directions=[direction])
            save(f"scan8_{'all' if lengths is None else 'lengths'}_{direction}",
                 graph([scan], values, [info("sf"), info("z")]), inputs, opset=8, ir=3)


def loop(name, nodes, trips, cond, x, shape, counter_shape=()):
    """A loop that carries v (from x) to vo and collects so."""
    counter = list(counter_shape)
    body = graph(nodes, [info("i", counter, T.INT64), info("c", counter, T.BOOL), info("v", shape)],
                 [info("co", None, T.BOOL), info("vo"), info("so")])
    inputs, values = {"x": x}, [info("x", shape)]
    for key, value, dtype in (("M", trips, T.INT64), ("C", cond, T.BOOL)):
        if value is not None:
            inputs[key] = np.array(value, np.int64 if dtype == T.INT64 else np.bool_)
            values.append(info(key, list(inputs[key].shape), dtype))
    names = ["" if trips is None else "M", "" if cond is None else "C", "x"]
    save(name, graph([node("Loop", names, ["y", "z"], body=body)], values, [info("y"), info("z")]), inputs)


def loops():
    goes_on = node("Identity", ["c"], ["co"])
    doubles = [goes_on, node("Add", ["v", "v"], ["vo"]), node("Identity", ["vo"], ["so"])]
    loop("loop_for", doubles, 5, None, floats(2, 3), [2, 3])
    loop("loop_zero", doubles, 0, None, floats(2, 3), [2, 3])
    loop("loop_false", doubles, 5, False, floats(2, 3), [2, 3])
    loop("loop_vectors", doubles, [3], [True], floats(2, 3), [2, 3], counter_shape=[1])
    loop("loop_grow", [goes_on, node("Concat", ["v", "v"], ["vo"], axis=0), node("ReduceSum", ["vo"], ["so"], keepdims=0)],
         3, True, floats(2, 3), ["a", 3])
    loop("loop_rank", [goes_on, node("Constant", [], ["axis"], value_ints=[0]), node("Unsqueeze", ["v", "axis"], ["vo"]),
                       node("Cast", ["i"], ["so"], to=T.FLOAT)], 3, True, floats(4), None)
    ends = [node("Add", ["v", "v"], ["vo"]), node("ReduceMax", ["vo"], ["most"], keepdims=0),
            node("Constant", [], ["limit"], value=nh.from_array(np.float32(50))), node("Less", ["most", "limit"], ["co"]),
            node("Cast", ["i"], ["so"], to=T.FLOAT)]
    loop("loop_while", ends, None, True, np.abs(floats(4)), [4])
    loop("loop_while_unconditional", ends, None, None, np.abs(floats(4)), [4])
    inner = graph([node("Identity", ["ic"], ["ico"]), node("Add", ["w", "v"], ["wo"]), node("Mul", ["wo", "x"], ["io"])],
                  [info("ii", [], T.INT64), info("ic", [], T.BOOL), info("w", [2])],
                  [info("ico", [], T.BOOL), info("wo", [2]), info("io", [2])])
    loop("loop_nested", [goes_on, node("Loop", ["i", "", "v"], ["vo", "all"], body=inner),
                         node("ReduceSum", ["all"], ["so"], keepdims=0)], 4, True, floats(2), [2])
    branches = {"then_branch": graph([node("Add", ["v", "x"], ["tv"])], [], [info("tv")]),
                "else_branch": graph([node("Sub", ["v", "x"], ["ev"])], [], [info("ev")])}
    loop("loop_if", [goes_on, node("Constant", [], ["two"], value_int=2), node("Less", ["i", "two"], ["early"]),
                     node("If", ["early"], ["vo"], **branches), node("Identity", ["vo"], ["so"])], 5, True, floats(3), ["n"])
    # Shapes move from one carried value to the next: more rounds than there are precise ones.
    names = [f"r{k}" for k in range(7)]
    body = graph([goes_on] + [node("Identity", [names[k + 1]], [f"o{k}"]) for k in range(6)] +
                 [node("Concat", ["r6", "r0"], ["o6"], axis=0)],
                 [info("i", [], T.INT64), info("c", [], T.BOOL)] + [info(n) for n in names],
                 [info("co", [], T.BOOL)] + [info(f"o{k}") for k in range(7)])
    save("loop_shift", graph([node("Loop", ["M", ""] + ["x"] * 7, [f"f{k}" for k in range(7)], body=body)],
                             [info("M", [], T.INT64), info("x", [2])], [info(f"f{k}") for k in range(7)]),
         {"M": np.array(9, np.int64), "x": floats(2)})
    sequence = h.make_tensor_sequence_value_info
    body = graph([goes_on, node("SequenceInsert", ["q", "x"], ["qo"])],
                 [info("i", [], T.INT64), info("c", [], T.BOOL), sequence("q", T.FLOAT, None)],
                 [info("co", [], T.BOOL), sequence("qo", T.FLOAT, None)])
    save("loop_sequence", graph([node("SequenceEmpty", [], ["e"], dtype=1), node("Loop", ["M", "", "e"], ["qs"], body=body),
                                 node("ConcatFromSequence", ["qs"], ["y"], axis=0, new_axis=1)],
                                [info("M", [], T.INT64), info("x", ["n"])], [info("y")]),
         {"M": np.array(3, np.int64), "x": floats(2)})


def branches():
    three, five = (nh.from_array(np.arange(n, dtype=np.float32), f"k{n}") for n in (3, 5))
    ranks = {"then_branch": graph([node("Identity", ["x"], ["xx"])], [], [info("xx"), info("k3")], [three]),
             "else_branch": graph([node("ReduceSum", ["x"], ["sum"], keepdims=0)], [], [info("sum"), info("k5")], [five])}
    nested = graph([node("If", ["d"], ["inner"], then_branch=graph([node("Neg", ["x"], ["minus"])], [], [info("minus")]),
                         else_branch=graph([node("Identity", ["x"], ["same"])], [], [info("same")]))], [], [info("inner")])
    positive = graph([node("Abs", ["x"], ["positive"])], [], [info("positive")])
    for c in (True, False):
        save(f"if_rank_{c}", graph([node("If", ["c"], ["y", "z"], **ranks)], [info("c", [], T.BOOL), info("x", ["n", 2])],
                                   [info("y"), info("z")]), {"c": np.array(c), "x": floats(3, 2)})
        save(f"if_nested_{c}", graph([node("If", ["c"], ["y"], then_branch=nested, else_branch=positive)],
                                     [info("c", [1], T.BOOL), info("d", [], T.BOOL), info("x", ["n", 2])], [info("y")]),
             {"c": np.array([c]), "d": np.array(not c), "x": floats(3, 2)})


def reference(target, name, ref):
    target.attribute.append(onnx.AttributeProto(name=name, type=onnx.AttributeProto.FLOAT, ref_attr_name=ref))


def functions():
    sets = [h.make_opsetid("", 17), h.make_opsetid("local", 1)]
    linear = h.make_function("local", "Linear", ["a", "b", "bias"], ["r"],
                             [node("Gemm", ["a", "b", "bias"], ["q"]), node("Constant", [], ["factor"]),
                              node("Mul", ["q", "factor"], ["r"])], sets, attributes=["k"])
    reference(linear.node[1], "value_float", "k")
    two = h.make_function("local", "Two", ["a", "b"], ["r", "r2"],
                          [node("Linear", ["a", "b"], ["t"], domain="local"),
                           node("Linear", ["t", "b", "b"], ["r"], domain="local"), node("Relu", ["t"], ["r2"])], sets,
                          attributes=["j"], attribute_protos=[h.make_attribute("default", 3.0)])
    reference(two.node[0], "k", "default")
    reference(two.node[1], "k", "j")
    then_branch = graph([node("Two", ["x", "w"], ["ty", "tz"], domain="local", j=0.5)], [], [info("ty"), info("tz")])
    else_branch = graph([node("Two", ["x", "w"], ["ey", "ez"], domain="local", j=0.25, default=2.0)], [],
                        [info("ey"), info("ez")])
    weights = nh.from_array(floats(2, 2), "w")
    for c in (True, False):
        save(f"function_{c}", graph([node("If", ["c"], ["y", "z"], then_branch=then_branch, else_branch=else_branch)],
                                    [info("c", [], T.BOOL), info("x", [2, 2])], [info("y"), info("z")], [weights]),
             {"c": np.array(c), "x": floats(2, 2)}, functions=[linear, two])


def others():
    body = graph([node("Add", ["x", "w"], ["y"])], [info("x", [2]), info("w", [2])], [info("y")],
                 [nh.from_array(floats(2), "w")])
    save("default_used", body, {"x": floats(2)})
    save("default_overridden", body, {"x": floats(2), "w": floats(2)})
    sparse = h.make_sparse_tensor(nh.from_array(np.array([1, 2], np.float32), "v"),
                                  nh.from_array(np.array([[0, 1], [2, 0]], np.int64), "i"), [3, 2])
    save("sparse_constant", graph([node("Constant", [], ["s"], sparse_value=sparse), node("Add", ["x", "s"], ["y"])],
                                  [info("x", [3, 2])], [info("y")]), {"x": floats(3, 2)})
    body = graph([node("Add", ["p", "q"], ["po"]), node("ReduceSum", ["p"], ["pr"], keepdims=0)], [info("p"), info("q")],
                 [info("po"), info("pr")])
    save("sequence_map", graph([node("SplitToSequence", ["x"], ["items"], axis=0),
                                node("SequenceMap", ["items", "q0"], ["so", "sr"], body=body),
                                node("ConcatFromSequence", ["so"], ["y"], axis=0),
                                node("ConcatFromSequence", ["sr"], ["z"], axis=0, new_axis=1)],
                               [info("x", ["n", 2]), info("q0", [2])], [info("y"), info("z")]),
         {"x": floats(3, 2), "q0": floats(2)})


if __name__ == "__main__":
    scans()
    loops()
    branches()
    functions()
    others()
