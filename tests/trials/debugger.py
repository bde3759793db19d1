"""Who is to find a fault: wrong outputs, NaN, crashes, operators that are not there; answers that a script can read."""

import os

import onnx

from trial import answer, check, finish, step, treadle as run

with open("net.tdir", "w") as file:
    file.write('tdir 1\ninput %0 "a": f32[1, 8]\ninput %1 "b": f32[839, 8]\n%2 = aten::neg(%0)  # "node /neg (Neg)"\n'
               '%3 = aten::maximum(%2, %1)  # "node /max (Max)"\n%4 = aten::cat(%3, %0) {dim = 0}  # "node /cat (Concat)"\n'
               'output "y" %4\n')

with step("a fault is found, in JSON"):
    check("nothing to find", answer("bisect", "net.tdir")["parts"] is False)
    found = answer("bisect", "net.tdir", "--inject", "neg:wrong", status=1)
    check("the kernel", found["parts"] and "neg" in (found["kernels"] or found["pass"] or ""), found)
    parts = answer("compare", "net.tdir", "--inject", "neg:wrong", status=1)
    check("the node", parts["first_node"]["name"] == "/neg", parts)
    small = answer("minify", "net.tdir", "--inject", "neg:wrong", "--output", "small")
    check("one node is left", small["nodes"] == 1 and os.path.isfile("small/run.sh"), small)
    bundle = answer("repro", "net.tdir", "--output", "bundle")
    check("a script", os.access(f"{bundle['folder']}/run.sh", os.X_OK), bundle)

with step("a recording of other inputs is not the kernels' fault"):
    run("run", "net.tdir", "--seed", "1", "--output", "recorded")
    got = run("compare", "net.tdir", "--seed", "2", "--expect", "recorded", status=1)
    check("inputs or weights", "other inputs, other weights" in got.stderr, got.stderr)

with step("NaN has a name"):
    with open("log.tdir", "w") as file:
        file.write('tdir 1\ninput %0 "x": f32[4]\n%1 = aten::neg(%0)  # "/neg"\n%2 = aten::log(%1)  # "/log"\noutput "y" %2\n')
    got = run("run", "log.tdir", "--input", "x=4:f32:2")
    check("the result", "result y holds NaN, in 4 elements" in got.stderr and "--check-nan" in got.stderr, got.stderr)
    got = answer("compare", "log.tdir", "--input", "x=4:f32:2", "--check-nan", status=1)
    check("the node", got["first_not_finite"] in ("/log", "y"), got)

with step("a graph with operators that are not there is shown all the same"):
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["a"], name="first"), helper.make_node("Frobnicate", ["a"], ["b"], name="odd", domain="mine"),
         helper.make_node("Relu", ["b"], ["y"], name="last")], "g",
        [helper.make_tensor_value_info("x", 1, [2])], [helper.make_tensor_value_info("y", 1, [2])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("mine", 1)], ir_version=9)
    onnx.save(model, "odd.onnx")
    got = run("inspect", "odd.onnx", status=4)
    check("every node", all(name in got.stdout for name in ("first", "odd", "last")), got.stdout)
    check("and what is not there", "Frobnicate" in got.stderr, got.stderr)

with step("and so is a program of PyTorch's"):
    import torch
    library = torch.library.Library("mine", "DEF")
    library.define("whirl(Tensor x) -> Tensor")
    library.impl("whirl", torch.sin, "CompositeExplicitAutograd")
    torch.library.register_fake("mine::whirl")(torch.empty_like)

    class Odd(torch.nn.Module):
        def forward(self, x):
            return torch.ops.mine.whirl(x.relu()) * 2

    torch.jit.script(Odd()).save("odd.pt")
    torch.export.save(torch.export.export(Odd(), (torch.ones(2),)), "odd.pt2")
    for model, line in (("odd.pt", "ops.mine.whirl(torch.relu(x))"), ("odd.pt2", "whirl = mine::whirl(relu)")):
        got = run("inspect", model, *(["--shape", "x=2"] if model == "odd.pt" else []), status=4)
        check(model, any(line in row and row.endswith(": not supported") for row in got.stdout.splitlines()), got.stdout)

with step("modules of an ONNX file that torch.onnx wrote"):
    import torch
    net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU()).eval()
    torch.onnx.export(net, (torch.zeros(2, 4),), "scopes.onnx", dynamo=True, verbose=False)
    check("they are in front", '"0/node_' in run("inspect", "scopes.onnx", "--stage", "imported").stdout)

with step("shapes that do not go together are said"):
    with open("add.tdir", "w") as file:
        file.write('tdir 1\ninput %0 "x": f32[n, 3]\ninput %1 "z": f32[m, 3]\n%2 = aten::add(%0, %1)\noutput "y" %2\n')
    got = run("run", "add.tdir", "--shape", "x=2x3", "--shape", "z=4x3", status=2)
    check("both", "f32[2,3]" in got.stderr and "f32[4,3]" in got.stderr, got.stderr)
finish()
