"""What stands around a graph whose arguments are not as Treadle takes them: complex numbers, which it keeps as real ones
with a last axis of 2; tokens, by which PyTorch orders effects, and which it passes as None."""

import torch


def _is_complex(node):
    value = getattr(node, "meta", {}).get("val")
    return isinstance(value, torch.Tensor) and value.is_complex()


def _as_real(node):
    return torch.view_as_real(node.meta["val"].resolve_conj())


def real_graph(module):
    """(the same graph over real numbers, positions of complex arguments, of complex results); None: it has neither."""
    old = module.graph
    output = next(n for n in old.nodes if n.op == "output")
    inputs = [i for i, n in enumerate(n for n in old.nodes if n.op == "placeholder") if _is_complex(n)]
    outputs = [i for i, n in enumerate(output.args[0]) if _is_complex(n)]
    if not inputs and not outputs:
        return None
    new, made = torch.fx.Graph(), {}
    for node in old.nodes:
        if node.op == "output":
            break
        made[node] = new.node_copy(node, made.__getitem__)
        if node.op == "placeholder" and _is_complex(node):
            made[node].meta = dict(node.meta, val=_as_real(node))
            made[node] = new.call_function(torch.ops.aten.view_as_complex.default, (made[node],))
            made[node].meta = dict(node.meta)
    results = []
    for node in output.args[0]:
        results.append(made.get(node, node) if isinstance(node, torch.fx.Node) else node)
        if _is_complex(node):
            results[-1] = new.call_function(torch.ops.aten.view_as_real.default, (results[-1],))
            results[-1].meta = dict(node.meta, val=_as_real(node))
    new.output(tuple(results))
    return torch.fx.GraphModule(module, new), tuple(inputs), tuple(outputs)


def around(run, inputs, outputs):
    """`run`, of a list of real arguments, as one of the arguments that the complex graph takes."""
    def complex_run(args):
        for i in inputs:
            args[i] = torch.view_as_real(args[i].resolve_conj())
        results = list(run(args))
        for i in outputs:
            results[i] = torch.view_as_complex(results[i])
        return results
    complex_run._boxed_call = True
    return complex_run


def token_positions(module):
    """Arguments that are tokens."""
    effects = torch.ops.higher_order.with_effects
    return tuple(i for i, n in enumerate(n for n in module.graph.nodes if n.op == "placeholder")
                 if any(user.target is effects and user.args[0] is n for user in n.users))


def with_tokens(run, tokens):
    """`run`, given something for each token."""
    def token_run(args):
        for i in tokens:
            args[i] = torch.empty(0)
        return run(args)
    token_run._boxed_call = True
    return token_run
