"""An FX graph of ATen operators as the JSON program of torch.export (schema 8), as models/model.json of a .pt2 has it, and
the tensors that it names. Only data goes into the text: tensors stay where they are."""

import json
import math
import operator
import re

import torch
import torch.fx
import torch.utils._pytree as pytree

_SCALAR_TYPES = {name: number for number, name in enumerate(
    ("uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex32", "complex64", "complex128", "bool",
     "bfloat16"), 1)}
_SCALAR_TYPES.update(uint16=28, float8_e4m3fn=29, float8_e5m2=30, float8_e4m3fnuz=31, float8_e5m2fnuz=32)
_MEMORY_FORMATS = {torch.contiguous_format: 1, torch.channels_last: 2, torch.channels_last_3d: 3, torch.preserve_format: 4}
_STRIDED = 7
# What Dynamo puts before the user's path of a module: the argument that leads to it. A global variable stays as a name.
_DYNAMO_ROOT = re.compile(r"^(?:L\['\w+'\](?:\.__self__)?\.?|G\['(\w+)'\])")


class CannotSay(Exception):
    """The program has something that the JSON has no word for."""


def _dtype(dtype):
    try:
        return _SCALAR_TYPES[str(dtype).partition(".")[2]]
    except KeyError:
        raise CannotSay(f"elements of type {dtype}") from None


def _sym(value):
    """A SymInt, SymFloat or SymBool, or a plain number."""
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        import sympy
        expr = value.node.expr
        known = value.node.maybe_as_int() if isinstance(value, torch.SymInt) else None
        if known is not None:
            return {"as_int": known}
        return {"as_expr": {"expr_str": sympy.srepr(expr), "hint": None}}
    if isinstance(value, bool):
        return {"as_bool": value}
    return {"as_int": value} if isinstance(value, int) else {"as_float": _float(value)}


def _float(value):
    if math.isnan(value):
        return "NaN"
    return value if math.isfinite(value) else "Infinity" if value > 0 else "-Infinity"


def _meta(tensor):
    if tensor.layout != torch.strided:
        raise CannotSay(f"a {tensor.layout} tensor")
    return {"dtype": _dtype(tensor.dtype), "sizes": [_sym(d) for d in tensor.shape], "strides": [_sym(d) for d in tensor.stride()],
            "storage_offset": {"as_int": 0}, "requires_grad": False, "device": {"type": "cpu", "index": None}, "layout": _STRIDED}


def _is_tensor(node):
    return isinstance(node, torch.fx.Node) and isinstance(node.meta.get("val"), torch.Tensor)


def _wants_first(node):
    return all(user.target is operator.getitem and user.args[1] == 0 for user in node.users)


def _shows_all(node):
    """as_strided of what stands as it says already: how PyTorch fixes the order of memory."""
    if node.target is not torch.ops.aten.as_strided.default or not _is_tensor(node.args[0]) or len(node.args) > 3:
        return False
    of, shown = node.args[0].meta["val"], node.meta["val"]
    if tuple(of.shape) != tuple(shown.shape) or of.storage_offset() != shown.storage_offset():
        return False
    return all(d == 1 or a == b for d, a, b in zip(of.shape, of.stride(), shown.stride()))


class _Graph:
    """One graph; those of control flow are graphs of their own."""

    def __init__(self, module):
        self.module = module
        self.names = {}  # node -> name in the program, of getitem that of what it takes
        self.tensor_values = {}
        self.sym_values = {"sym_int": {}, "sym_float": {}, "sym_bool": {}}
        self.nodes = []
        self.inputs = []
        self.outputs = []
        self.constants = []  # (placeholder name, attribute) of get_attr nodes

    # ---- values ----

    def define(self, name, value):
        """Enters what `name` holds; gives its argument."""
        if isinstance(value, torch.Tensor):
            self.tensor_values[name] = _meta(value)
            return {"as_tensor": {"name": name}}
        for kind, types, zero in (("sym_bool", (torch.SymBool, bool), False), ("sym_int", (torch.SymInt, int), 0),
                                  ("sym_float", (torch.SymFloat, float), 0.0)):
            if isinstance(value, types):
                self.sym_values[kind][name] = _sym(value)
                return {f"as_{kind}": {"as_name": name}}
        if value is None:
            return {"as_none": True}
        raise CannotSay(f"a value of type {type(value).__name__}")

    def named(self, node):
        value = node.meta.get("val")
        name = self.names[node]
        if isinstance(value, torch.Tensor):
            return {"as_tensor": {"name": name}}
        if isinstance(value, (torch.SymBool, bool)):
            return {"as_sym_bool": {"as_name": name}}
        if isinstance(value, (torch.SymInt, int)):
            return {"as_sym_int": {"as_name": name}}
        if isinstance(value, (torch.SymFloat, float)):
            return {"as_sym_float": {"as_name": name}}
        if value is None:
            return {"as_none": True}
        if isinstance(value, (list, tuple)):
            return {"as_tensors": [{"name": n} for n in name]}
        raise CannotSay(f"an argument of type {type(value).__name__}")

    def argument(self, value, wanted=""):
        """`wanted`: the type of the schema, for what the value itself does not say."""
        if isinstance(value, torch.fx.Node):
            if value.op == "get_attr" and isinstance(self.attribute(value.target), torch.fx.GraphModule):
                return {"as_graph": {"name": value.target, "graph": _inner(self.attribute(value.target))}}
            return self.named(value)
        for types, tag, say in _PLAIN:
            if isinstance(value, types):
                return {tag: say(value)}
        if isinstance(value, (list, tuple)):
            return self.list(list(value), wanted)
        if isinstance(value, torch._ops.OpOverload):
            return {"as_operator": _target(value)}
        raise CannotSay(f"an argument of type {type(value).__name__}")

    def list(self, values, wanted):
        if not values:
            return {"as_tensors" if "Tensor" in wanted else "as_floats" if "float" in wanted else "as_ints": []}
        if all(_is_tensor(v) for v in values):
            return {"as_tensors": [{"name": self.names[v]} for v in values]}
        if any(_is_tensor(v) for v in values) or all(v is None for v in values):
            if not all(v is None or _is_tensor(v) for v in values):
                raise CannotSay("a list of tensors and other things")
            return {"as_optional_tensors": [{"as_tensor": {"name": self.names[v]}} if v is not None else {"as_none": True}
                                            for v in values]}
        if any(isinstance(v, (list, tuple)) for v in values):
            if all(isinstance(i, int) for v in values for i in v):
                return {"as_int_lists": [list(v) for v in values]}
            return {"as_nested_tensors": [[{"name": self.names[i]} for i in v] for v in values]}
        if any(isinstance(v, torch.fx.Node) for v in values):
            return self.symbols(values)
        for types, tag in ((bool, "as_bools"), (int, "as_ints"), ((int, float), "as_floats"), (str, "as_strings")):
            if all(isinstance(v, types) for v in values):
                return {tag: [_float(float(v)) for v in values] if tag == "as_floats" else values}
        raise CannotSay("a list of " + ", ".join(sorted({type(v).__name__ for v in values})))

    def symbols(self, values):
        kind = "as_sym_ints"
        out = []
        for v in values:
            if isinstance(v, torch.fx.Node):
                if isinstance(v.meta.get("val"), (torch.SymFloat, float)):
                    kind = "as_sym_floats"
                out.append({"as_name": self.names[v]})
            else:
                out.append({"as_int": v} if isinstance(v, int) else {"as_float": _float(v)})
        return {kind: out}

    def attribute(self, path):
        value = self.module
        for part in path.split("."):
            value = getattr(value, part)
        return value

    # ---- nodes ----

    def placeholder(self, node):
        self.names[node] = node.name
        self.inputs.append(self.define(node.name, node.meta.get("val")))

    def get_attr(self, node):
        value = self.attribute(node.target)
        self.names[node] = node.name
        if isinstance(value, torch.Tensor):
            node.meta.setdefault("val", value)
            self.inputs.append(self.define(node.name, value))
            self.constants.append((node.name, node.target))
        elif not isinstance(value, torch.fx.GraphModule):
            raise CannotSay(f"a constant of type {type(value).__name__}")

    def call(self, node):
        if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node) \
                and isinstance(node.args[0].meta.get("val"), (list, tuple)):
            self.names[node] = self.names[node.args[0]][node.args[1]]
            return
        if _shows_all(node):
            self.names[node] = self.names[node.args[0]]
            return
        if node.target is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default and _wants_first(node):
            self.attention(node)
            return
        self.nodes.append({"target": _target(node.target), "inputs": self.call_inputs(node), "outputs": self.call_outputs(node),
                           "metadata": _metadata(node), "name": node.name, "is_hop_single_tensor_return": None})

    def attention(self, node):
        """What PyTorch's own kernel for CPUs computes, under the name that it has everywhere."""
        names = ("query", "key", "value", "dropout_p", "is_causal")
        given = dict(zip(names, node.args), **node.kwargs)
        inputs = [{"name": name, "arg": self.argument(given[name]), "kind": 1} for name in names[:3]]
        inputs += [{"name": name, "arg": self.argument(given[name]), "kind": 2}
                   for name in ("attn_mask", "dropout_p", "is_causal", "scale") if given.get(name) is not None]
        outputs = self.call_outputs(node)[:1]
        self.nodes.append({"target": "torch.ops.aten.scaled_dot_product_attention.default", "inputs": inputs, "outputs": outputs,
                           "metadata": _metadata(node), "name": node.name, "is_hop_single_tensor_return": None})

    def call_inputs(self, node):
        schema = getattr(node.target, "_schema", None)
        arguments = schema.arguments if schema is not None else ()
        inputs = []
        for i, value in enumerate(node.args):
            name = arguments[i].name if i < len(arguments) else "ab"[i] if i < 2 else f"arg{i}"
            inputs.append({"name": name, "arg": self.argument(value, str(arguments[i].type) if i < len(arguments) else ""), "kind": 1})
        types = {a.name: str(a.type) for a in arguments}
        for name, value in node.kwargs.items():
            inputs.append({"name": name, "arg": self.argument(value, types.get(name, "")), "kind": 2})
        return inputs

    def call_outputs(self, node):
        value = node.meta.get("val")
        if isinstance(value, (list, tuple)):
            return self.several(node, value)
        self.names[node] = node.name
        return [] if value is None else [self.define(node.name, value)]

    def several(self, node, values):
        """The schema distinguishes a tuple from a list: each of a tuple is an output, a list is one."""
        users = {}
        for user in node.users:
            if user.target is operator.getitem:
                users.setdefault(user.args[1], user.name)
        names = [users.get(i, f"{node.name}_unused_{i}") for i in range(len(values))]
        self.names[node] = names
        said = [self.define(name, value) for name, value in zip(names, values)]
        schema = getattr(node.target, "_schema", None)
        if schema is not None and len(schema.returns) == 1 and isinstance(schema.returns[0].type, torch.ListType):
            return [{"as_tensors": [{"name": name} for name in names]}]
        return said

    def output(self, node):
        values = node.args[0]
        for value in values if isinstance(values, (list, tuple)) else [values]:
            self.outputs.append(self.argument(value))

    def run(self):
        for node in self.module.graph.nodes:
            {"placeholder": self.placeholder, "get_attr": self.get_attr, "call_function": self.call,
             "output": self.output}.get(node.op, _refuse)(node)
        return self

    def text(self):
        return {"inputs": self.inputs, "outputs": self.outputs, "nodes": self.nodes, "tensor_values": self.tensor_values,
                "sym_int_values": self.sym_values["sym_int"], "sym_float_values": self.sym_values["sym_float"],
                "sym_bool_values": self.sym_values["sym_bool"], "custom_obj_values": {}, "is_single_tensor_return": False}


_PLAIN = (
    (type(None), "as_none", lambda v: True), (bool, "as_bool", bool), (int, "as_int", int), (float, "as_float", _float),
    (str, "as_string", str), (complex, "as_complex", lambda v: {"real": v.real, "imag": v.imag}),
    (torch.dtype, "as_scalar_type", _dtype), (torch.device, "as_device", lambda v: {"type": v.type, "index": v.index}),
    (torch.memory_format, "as_memory_format", _MEMORY_FORMATS.get), (torch.layout, "as_layout", lambda v: _STRIDED),
)


def _refuse(node):
    raise CannotSay(f"a node that is a {node.op}: {node.target}")


def _inner(module):
    """A graph of control flow: what it captures, it is given as operands."""
    graph = _Graph(module).run()
    if graph.constants:
        raise CannotSay("constants inside control flow")
    return graph.text()


def _target(target):
    if target is torch.ops.aten.lift_fresh_copy.default:
        target = torch.ops.aten.clone.default
    if isinstance(target, torch._ops.OpOverload):
        return f"torch.ops.{target.namespace}.{target._schema.name.partition('::')[2]}.{target._overloadname}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return f"torch.ops.higher_order.{target.name()}"
    module = getattr(target, "__module__", "")
    if module in ("_operator", "math") or target is round:
        return f"{module}.{target.__name__}"
    if module.startswith("torch") and target.__name__.startswith("sym_"):
        return f"torch.{target.__name__}"
    if module == "torch.fx.experimental.sym_node" or module == "torch":
        return f"torch.{target.__name__}"
    raise CannotSay(f"a call of {target}")


def _metadata(node):
    said = {}
    if node.meta.get("stack_trace"):
        said["stack_trace"] = node.meta["stack_trace"]
    stack = node.meta.get("nn_module_stack")
    if stack:
        said["nn_module_stack"] = ";".join(f"{key},{_DYNAMO_ROOT.sub(lambda m: m[1] or '', path)},{getattr(kind, '__qualname__', kind)}" for key, (path, kind) in stack.items())
    return said


def _document(graph, input_specs, output_specs, signature, ranges, guards):
    calls = [{"fqn": "", "signature": signature}] if signature else []
    return json.dumps({
        "graph_module": {"graph": graph.text(), "signature": {"input_specs": input_specs, "output_specs": output_specs},
                         "module_call_graph": calls, "metadata": {}, "treespec_namedtuple_fields": {}},
        "opset_version": {"aten": 10}, "range_constraints": ranges, "schema_version": {"major": 8, "minor": 8},
        "verifiers": ["TRAINING"], "torch_version": torch.__version__, "guards_code": guards}).encode()


def _constant_specs(graph, weights):
    specs = []
    for name, path in graph.constants:
        weights[path] = graph.attribute(path)  # not detached yet: PyTorch may be making fake tensors now
        specs.append({"tensor_constant": {"arg": {"name": name}, "tensor_constant_name": path}})
    return specs


def of_graph(module, static=()):
    """The program of an FX module that aot_autograd made, and its weights by name, to fill in: placeholders whose
    positions are in `static` become weights named "static.POSITION"."""
    graph = _Graph(module).run()
    weights = {}
    placeholders = len(graph.inputs) - len(graph.constants)
    users, held = [], []
    at = 0
    constants = {name for name, _ in graph.constants}
    for argument in graph.inputs:
        name = argument.get("as_tensor", {}).get("name")
        if name in constants:
            continue
        if at in static and name:
            held.append({"parameter": {"arg": {"name": name}, "parameter_name": f"static.{at}"}})
        else:
            held.append({"user_input": {"arg": argument}})
        users.append(argument)
        at += 1
    assert at == placeholders
    ordered = _ordered(graph, held, _constant_specs(graph, weights))
    outputs = [{"user_output": {"arg": argument}} for argument in graph.outputs]
    return _document(graph, ordered, outputs, None, {}, []), weights


def _ordered(graph, specs, constants):
    """Specs stand beside the inputs of the graph; constants stand where their get_attr did."""
    by_name = {spec["tensor_constant"]["arg"]["name"]: spec for spec in constants}
    rest = iter(specs)
    return [by_name[name] if (name := argument.get("as_tensor", {}).get("name")) in by_name else next(rest)
            for argument in graph.inputs]


_INPUTS = {"PARAMETER": ("parameter", "parameter_name"), "BUFFER": ("buffer", "buffer_name"),
           "CONSTANT_TENSOR": ("tensor_constant", "tensor_constant_name")}
_OUTPUTS = {"BUFFER_MUTATION": ("buffer_mutation", "buffer_name"), "PARAMETER_MUTATION": ("parameter_mutation", "parameter_name"),
            "USER_INPUT_MUTATION": ("user_input_mutation", "user_input_name")}


def _input_spec(spec, argument):
    kind = spec.kind.name
    if kind in _INPUTS:
        tag, key = _INPUTS[kind]
        said = {"arg": argument["as_tensor"], key: spec.target}
        if kind == "BUFFER":
            said["persistent"] = spec.persistent is not False
        return {tag: said}
    if kind != "USER_INPUT":
        raise CannotSay(f"an input of kind {kind}")
    if "as_none" in argument or hasattr(spec.arg, "value"):
        return {"constant_input": {"name": spec.arg.name, "value": _constant(getattr(spec.arg, "value", None))}}
    return {"user_input": {"arg": argument}}


def _constant(value):
    for types, tag, say in _PLAIN:
        if isinstance(value, types):
            return {tag: say(value)}
    raise CannotSay(f"a constant argument of type {type(value).__name__}")


def _output_spec(spec, argument):
    kind = spec.kind.name
    if kind == "USER_OUTPUT":
        return {"user_output": {"arg": argument}}
    if kind not in _OUTPUTS:
        raise CannotSay(f"an output of kind {kind}")
    tag, key = _OUTPUTS[kind]
    return {tag: {"arg": argument["as_tensor"], key: spec.target}}


def _ranges(program):
    said = {}
    for symbol, values in program.range_constraints.items():
        low, high = (int(v) if v.is_Integer or str(v).isdigit() else None for v in (values.lower, values.upper))
        said[str(symbol)] = {"min_val": low, "max_val": high}
    return said


def of_exported(program):
    """The program of a torch.export.ExportedProgram, and its tensors by name."""
    graph = _Graph(program.graph_module)
    placeholders = {n.name: n for n in program.graph_module.graph.nodes if n.op == "placeholder"}
    specs = program.graph_signature.input_specs
    for spec in specs:  # constants among the arguments have no value to define
        node = placeholders.get(getattr(spec.arg, "name", ""))
        if node is not None and not isinstance(node.meta.get("val"), (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)) \
                and hasattr(spec.arg, "value"):
            node.meta["val"] = None
    graph.run()
    inputs = [argument for argument in graph.inputs
              if argument.get("as_tensor", {}).get("name") not in {name for name, _ in graph.constants}]
    weights = dict(program.state_dict)
    weights.update({name: t for name, t in program.constants.items() if isinstance(t, torch.Tensor)})
    held = [_input_spec(spec, argument) for spec, argument in zip(specs, inputs)]
    ordered = _ordered(graph, held, _constant_specs(graph, weights))
    outputs = [_output_spec(spec, argument) for spec, argument in zip(program.graph_signature.output_specs, graph.outputs)]
    entry = program.module_call_graph[0].signature
    signature = None
    if entry is not None:
        signature = {"inputs": [], "outputs": [], "in_spec": pytree.treespec_dumps(entry.in_spec),
                     "out_spec": pytree.treespec_dumps(entry.out_spec), "forward_arg_names": entry.forward_arg_names}
    return _document(graph, ordered, outputs, signature, _ranges(program), list(getattr(program, "_guards_code", []) or [])), weights
