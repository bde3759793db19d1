"""What stands around a graph whose arguments or results are not as Treadle has them: complex numbers, which it keeps as
real ones with a last axis of 2; tokens, by which PyTorch orders effects, and which it passes as None; random numbers, which
are PyTorch's; results whose memory is in another order, or another's."""

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


# ---- random numbers ----

# what operators make of a tensor's sizes and type alone
_LIKE = frozenset(getattr(torch.ops.aten, name) for name in (
    "rand_like", "randn_like", "randint_like", "uniform", "normal_functional", "exponential", "log_normal", "cauchy", "geometric"))


def _draws(node):
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def _is_like(node):
    return node.target is torch.ops.aten.bernoulli.p or getattr(node.target, "overloadpacket", None) in _LIKE


def _is_known(value):
    return isinstance(value, torch.Tensor) and all(isinstance(d, int) for d in (*value.shape, *value.stride()))


def drawn_graph(module):
    """(the same graph, given the random numbers that no computed value goes into as further arguments; a module that
    makes these of the first arguments, as PyTorch draws them); None: there are none."""
    rest, draws, made, early = torch.fx.Graph(), torch.fx.Graph(), {}, {}

    def stand_in(given):
        if given in early:
            return early[given]
        value = given.meta["val"]
        return draws.call_function(torch.ops.aten.empty_strided.default, (tuple(value.shape), value.stride()), {"dtype": value.dtype})

    def is_early(node, given):
        return given in early or (_draws(node) and _is_like(node) and _is_known(given.meta.get("val")))

    for node in module.graph.nodes:
        if node.op == "placeholder":
            made[node], early[node] = rest.node_copy(node), draws.node_copy(node)
    drawn = []
    for node in module.graph.nodes:
        is_number = isinstance(node.meta.get("val"), (torch.SymInt, int))
        one = is_number or (_draws(node) and isinstance(node.meta.get("val"), torch.Tensor))
        if node.op == "call_function" and one and all(is_early(node, n) for n in node.all_input_nodes):
            early[node] = draws.node_copy(node, stand_in)
            if not is_number:
                drawn.append(node)
    if not drawn:
        return None
    for node in drawn:
        made[node] = rest.placeholder(node.name)
        made[node].meta = dict(node.meta)
    for node in module.graph.nodes:
        if node not in made:
            made[node] = rest.node_copy(node, made.__getitem__)
    draws.output(tuple(early[n] for n in drawn))
    return torch.fx.GraphModule(module, rest), torch.fx.GraphModule(module, draws)


def with_draws(run, draws):
    """`run`, given what `draws` makes of the other arguments."""
    def drawing_run(args):
        args.extend(draws(*args))
        return run(args)
    drawing_run._boxed_call = True
    return drawing_run


# ---- memory of results ----


def _order_of_memory(value):
    """Dimensions as they follow one another in memory; None: as they are numbered, or there are gaps or overlaps."""
    if not _is_known(value) or value.is_contiguous():
        return None
    order = sorted(range(value.dim()), key=lambda d: (-value.stride(d), value.shape[d] == 1, d))
    return order if value.permute(order).is_contiguous() else None


def _fills_its_memory(value):
    return value.numel() * value.itemsize == value.untyped_storage().nbytes() and \
        (value.is_contiguous() or _order_of_memory(value) is not None)


def _views(values, arguments):
    """(result, the result in whose memory it is, sizes, strides, offset) of those that are views of others."""
    taken, whole, views = {v.untyped_storage()._cdata for v in arguments}, {}, []
    known = [(i, v) for i, v in enumerate(values) if _is_known(v) and v.untyped_storage()._cdata not in taken]
    for i, value in known:
        if _fills_its_memory(value):
            whole.setdefault(value.untyped_storage()._cdata, i)
    for i, value in known:
        of = whole.get(value.untyped_storage()._cdata, i)
        if of != i and value.dtype == values[of].dtype:
            views.append((i, of, tuple(value.shape), value.stride(), value.storage_offset()))
    return tuple(views)


def placed_graph(module):
    """(the same graph, its results with their dimensions in the order of memory; (result, how they are put back) of those
    that this changes; views of other results as _views has them); None: no result shares memory, and all are in order."""
    output = next(n for n in module.graph.nodes if n.op == "output")
    values = [n.meta.get("val") if isinstance(n, torch.fx.Node) else None for n in output.args[0]]
    views = _views(values, [n.meta["val"] for n in module.graph.nodes if n.op == "placeholder" and _is_known(n.meta.get("val"))])
    for i, *_ in views:
        values[i] = None
    orders = {i: order for i, v in enumerate(values) if (order := _order_of_memory(v)) is not None}
    if not orders and not views:
        return None
    new, made = torch.fx.Graph(), {}
    for node in module.graph.nodes:
        if node is not output:
            made[node] = new.node_copy(node, made.__getitem__)
    results = [made.get(n, n) if isinstance(n, torch.fx.Node) else n for n in output.args[0]]
    for i, *_ in views:
        results[i] = None
    for i, order in orders.items():
        results[i] = new.call_function(torch.ops.aten.permute.default, (results[i], order))
        results[i].meta = dict(output.args[0][i].meta, val=values[i].permute(order))
    new.output(tuple(results))
    back = tuple((i, tuple(order.index(d) for d in range(len(order)))) for i, order in orders.items())
    return torch.fx.GraphModule(module, new), back, views


def put_back(run, orders, views):
    """`run`, its results as placed_graph found them: dimensions as they are numbered, views in what they are views of."""
    def placed_run(args):
        results = list(run(args))
        for i, order in orders:
            results[i] = results[i].permute(order)
        for i, of, sizes, strides, offset in views:
            results[i] = results[of].as_strided(sizes, strides, offset)
        return results
    placed_run._boxed_call = True
    return placed_run
