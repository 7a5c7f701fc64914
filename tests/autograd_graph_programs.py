"""Small programs on hooks, the graph, transforms and checkpoints; see the others.

As in `autograd_programs`, each is given the library in the place of `torch`.
"""

from typing import Any

from tests.autograd_programs import raised, ramp, warned


def tensor_hooks(torch: Any) -> Any:
    x = ramp(torch, 3)
    seen = []
    y = x * 2
    y.register_hook(lambda grad: grad * 3)
    y.register_hook(lambda grad: seen.append(grad.clone()))
    handle = x.register_hook(lambda grad: grad + 1)
    (y * y).sum().backward()
    handle.remove()
    (x * 2).sum().backward()
    return [
        x.grad,
        seen,
        raised(lambda: torch.ones(3).register_hook(lambda grad: grad)),
        raised(lambda: _run_hook(torch, lambda grad: grad[:2])),
        raised(lambda: _run_hook(torch, lambda grad: "text")),
    ]


def _run_hook(torch: Any, hook: Any) -> None:
    x = ramp(torch, 3)
    x.register_hook(hook)
    (x * 2).sum().backward()


def accumulation_hooks(torch: Any) -> Any:
    x = ramp(torch, 3)
    seen = []
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf.grad.clone()))
    (x * x).sum().backward()
    (x * x).sum().backward()
    return [
        seen,
        raised(lambda: (x * 2).register_post_accumulate_grad_hook(lambda leaf: None)),
    ]


def several_hooks(torch: Any) -> Any:
    x, w = ramp(torch, 3), ramp(torch, 3)
    seen: list[Any] = []
    graph = torch.autograd.graph
    graph.register_multi_grad_hook([x, w], lambda grads: seen.append(len(grads)))
    graph.register_multi_grad_hook([x, w], lambda grad: seen.append("one"), mode="any")
    (x * w).sum().backward()
    (x * 2).sum().backward()
    return [seen, x.grad, w.grad]


def hooks_of_nodes(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x.exp()
    seen: list[Any] = []
    y.grad_fn.register_hook(lambda inputs, outputs: seen.append((inputs, outputs)))
    y.grad_fn.register_prehook(lambda outputs: (outputs[0] * 2,))
    y.sum().backward()
    return [seen, x.grad]


def functions_with_keywords(torch: Any) -> Any:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, factor: Any) -> Any:
            ctx.factor = factor
            return x * factor

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad * ctx.factor, None

    x = ramp(torch, 3)
    out = Scale.apply(x=x, factor=3)
    Scale.apply(x, factor=2).sum().backward()
    out.sum().backward()
    return [out, x.grad]


def tangents_of_functions(torch: Any) -> Any:
    class Product(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, y: Any) -> Any:
            ctx.save_for_forward(x, y)
            return x * y

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad, grad

        @staticmethod
        def jvp(ctx: Any, x_tangent: Any, y_tangent: Any) -> Any:
            x, y = ctx.saved_tensors
            return x_tangent * y + x * y_tangent

    forward = torch.autograd.forward_ad
    with forward.dual_level():
        one = forward.make_dual(torch.arange(3.0), torch.ones(3))
        first = forward.unpack_dual(Product.apply(one, torch.full((3,), 2.0)))
        second = forward.unpack_dual(Product.apply(torch.full((3,), 2.0), one))
    return [first.primal, first.tangent, second.primal, second.tangent]


def strict_products(torch: Any) -> Any:
    def double(x: Any) -> Any:
        return x * 2

    functional = torch.autograd.functional
    x, y = torch.ones(2), torch.ones(2)
    return [
        raised(lambda: functional.jvp(lambda x, y: x * 2, (x, y), (x, y), strict=True)),
        functional.jvp(lambda x, y: x * 2, (x, y), (x, y)),
        raised(lambda: functional.vjp(lambda x, y: x * 2, (x, y), x, strict=True)),
        *[
            raised(lambda each=each: each(double, x, x, create_graph=True, strict=True))
            for each in (functional.vjp, functional.jvp)
        ],
        raised(lambda: functional.hessian(lambda x: ((x * x).sum(),), x)),
        raised(lambda: functional.hessian(lambda x: (x.sum(),), x, strict=True)),
    ]


def arguments_of_transforms(torch: Any) -> Any:
    def both(x: Any, y: Any) -> Any:
        return (x * y).sum()

    func, x, model = torch.func, ramp(torch, 3).detach(), torch.nn.ReLU()
    hooks = torch.autograd.graph.saved_tensors_hooks
    return [
        func.grad(both, argnums=(-1, 0))(x, x),
        *[
            raised(lambda each=each: func.grad(both, argnums=each)(x, x))
            for each in ("0", [0], (), (0, 0), 2)
        ],
        raised(lambda: func.jacfwd(torch.sin, randomness="other")(x)),
        raised(lambda: func.functional_call(model, 3, (x,))),
        raised(lambda: hooks(1, 2).__enter__()),
        raised(lambda: hooks(abs, None).__enter__()),
    ]


def edges(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x * 2
    edge = torch.autograd.graph.get_gradient_edge(y)
    leaf = torch.autograd.graph.get_gradient_edge(x)
    found = torch.autograd.grad((y**2).sum(), [edge, leaf], retain_graph=True)
    return [
        edge.output_nr,
        edge.node is y.grad_fn,
        found,
        isinstance(edge, torch.autograd.graph.GradientEdge),
        raised(lambda: torch.autograd.graph.get_gradient_edge(torch.ones(3))),
    ]


def packed_tensors(torch: Any) -> Any:
    x = ramp(torch, 3)
    seen: list[Any] = []

    def pack(tensor: Any) -> Any:
        seen.append("pack")
        return tensor.double()

    def unpack(packed: Any) -> Any:
        seen.append("unpack")
        return packed.float()

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        y = x.exp() * x
    y.sum().backward()
    with torch.autograd.graph.save_on_cpu():
        z = (x * x).sum()
    z.backward()
    return [x.grad, seen]


def hooks_that_are_forbidden(torch: Any) -> Any:
    x = ramp(torch, 3)
    graph = torch.autograd.graph

    def inside() -> None:
        with graph.disable_saved_tensors_hooks("none here"):
            with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
                x.exp()

    with graph.saved_tensors_hooks(lambda t: 3, lambda t: t):
        y = x.exp()
    return [raised(inside), raised(lambda: y.sum().backward())]


def changes_of_saved_tensors(torch: Any) -> Any:
    x = ramp(torch, 3)
    with torch.autograd.graph.allow_mutation_on_saved_tensors():
        y = x * 2
        z = y * y
        y.mul_(10)
        z.sum().backward()
    return [x.grad, y]


def counted_versions(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x.exp()
    torch.autograd.graph.increment_version(y)
    return [y._version, raised(lambda: y.sum().backward())]


def saved_values_of_nodes(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x.exp()
    z = x**3
    return [y.grad_fn._saved_result, z.grad_fn._saved_self, z.grad_fn._saved_exponent]


def checkpoints(torch: Any) -> Any:
    from_module = torch.utils.checkpoint
    out = []
    for options in (
        {"use_reentrant": False},
        {"use_reentrant": True},
        {"use_reentrant": False, "early_stop": False},
        {"use_reentrant": False, "preserve_rng_state": False},
        {"use_reentrant": False, "determinism_check": "none"},
    ):
        x, w = ramp(torch, 2, 3), ramp(torch, 3, 3)
        calls = []

        def block(x: Any, w: Any, calls: Any = calls) -> Any:
            calls.append(1)
            hidden = (x @ w).relu()
            return (hidden * hidden).sum()

        from_module.checkpoint(block, x, w, **options).backward()
        out += [x.grad, w.grad, len(calls)]
    return out


def checkpoints_that_stop_early(torch: Any) -> Any:
    out = []
    for early in (True, False):
        seen: list[int] = []

        def block(x: Any, seen: Any = seen) -> Any:
            y = x.exp()
            seen.append(len(seen))
            z = y.sin()
            seen.append(len(seen))
            return z + 1

        x = ramp(torch, 3)
        with torch.utils.checkpoint.set_checkpoint_early_stop(early):
            y = torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)
        y.sum().backward()
        out.append((len(seen), x.grad))
    return out


def sequences_of_checkpoints(torch: Any) -> Any:
    nn = torch.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2), nn.Sigmoid())
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(ramp(torch, *each.shape))
    x = ramp(torch, 2, 3)
    out = torch.utils.checkpoint.checkpoint_sequential(model, 2, x, use_reentrant=False)
    out.sum().backward()
    return [out, x.grad, [each.grad for each in model.parameters()]]


def wrong_checkpoints(torch: Any) -> Any:
    x = ramp(torch, 3)
    count = []

    def changing(x: Any) -> Any:
        count.append(1)
        y = x.exp()
        return y.sin() if len(count) == 1 else y[:2].sin()

    checkpoint = torch.utils.checkpoint.checkpoint
    y = checkpoint(changing, x, use_reentrant=False)
    return [
        raised(lambda: y.sum().backward()),
        raised(lambda: checkpoint(lambda x: x, x, use_reentrant=False, other=3)),
    ]


def anomalies(torch: Any) -> Any:
    x = torch.tensor([0.0, 1.0], requires_grad=True)

    def run() -> None:
        y = x.sqrt() * 0
        y.sum().backward()

    def watched() -> None:
        with torch.autograd.detect_anomaly():
            run()

    def unchecked() -> None:
        with torch.autograd.detect_anomaly(check_nan=False):
            run()

    x.grad = None
    run()
    return [
        x.grad,
        warned(lambda: raised(watched)),
        raised(watched),
        raised(unchecked),
        torch.is_anomaly_enabled(),
    ]


def transforms(torch: Any) -> Any:
    func = torch.func
    x = ramp(torch, 3).detach()
    w = ramp(torch, 2, 3, scale=0.5).detach()

    def f(x: Any) -> Any:
        return (x.sin() * x).sum()

    return [
        func.grad(f)(x),
        func.grad_and_value(f)(x),
        func.jacrev(lambda x: x**2 * x.sum())(x),
        func.jacfwd(lambda x: x**2 * x.sum())(x),
        func.hessian(f)(x),
        func.vmap(f)(w),
        func.vmap(func.grad(f))(w),
        func.vjp(lambda x: x * 2, x)[0],
        func.vjp(lambda x: x * x, x)[1](torch.ones(3)),
        func.jvp(f, (x,), (torch.ones(3),)),
        func.jvp(lambda x, y: x * y, (x, x), (torch.ones(3), x)),
        func.vmap(lambda x, y: x @ y, in_dims=(0, None))(w, x),
        func.vmap(lambda x: x * 2, in_dims=1, out_dims=1)(w),
        func.grad(lambda x, y: (x * y).sum(), argnums=(0, 1))(x, x),
        func.grad(lambda x: ((x**2).sum(), x), has_aux=True)(x),
        func.linearize(lambda x: x.exp(), x)[1](torch.ones(3)),
        raised(lambda: func.grad(lambda x: x * 2)(x)),
        raised(lambda: func.grad(lambda x: 3.0)(x)),
        raised(lambda: func.vmap(lambda x: x)(3)),
        raised(lambda: func.vmap(lambda x: x.item())(x)),
        raised(lambda: func.vmap(lambda x: x + torch.rand(2))(w[0])),
        raised(lambda: func.vmap(lambda x: torch.nn.functional.dropout(x))(w)),
        raised(lambda: func.jacfwd(lambda x: x * torch.rand(3))(x)),
        raised(lambda: func.jacfwd(lambda x: x * x, randomness="same")(x)),
        raised(lambda: func.vmap(lambda x, y: x + y)(x, w)),
    ]


def transforms_of_modules(torch: Any) -> Any:
    model = torch.nn.Linear(3, 2)
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(ramp(torch, *each.shape))
    parameters = {name: each.detach() for name, each in model.named_parameters()}
    x = ramp(torch, 4, 3).detach()

    def loss(parameters: Any, x: Any) -> Any:
        return torch.func.functional_call(model, parameters, (x[None],)).square().sum()

    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
    return [each["weight"], each["bias"], sorted(each)]


def functional_transforms(torch: Any) -> Any:
    functional = torch.autograd.functional
    x, v = ramp(torch, 3).detach(), torch.ones(3)

    def f(x: Any) -> Any:
        return (x**3).sum()

    return [
        functional.jacobian(lambda x: x**2, x),
        functional.jacobian(lambda x, y: x * y, (x, v)),
        functional.hessian(f, x),
        functional.vjp(lambda x: x**2, x, v),
        functional.jvp(lambda x: x**2, x, v),
        functional.vhp(f, x, v),
        functional.hvp(f, x, v),
        functional.jacobian(lambda x: x**2, x, vectorize=True),
        functional.jacobian(lambda x: x**2, x, strategy="forward-mode", vectorize=True),
        functional.hessian(f, x, create_graph=True).requires_grad,
        raised(lambda: functional.jacobian(lambda x: 3.0, x)),
        raised(lambda: functional.hessian(lambda x: x, x)),
    ]


def dual_numbers(torch: Any) -> Any:
    forward = torch.autograd.forward_ad
    x = ramp(torch, 3).detach()
    with forward.dual_level():
        dual = forward.make_dual(x, torch.ones(3))
        y = forward.unpack_dual((dual.sin() * dual).exp())
        plain = forward.unpack_dual(x * 2)
        outside = plain.tangent is None
    return [y.primal, y.tangent, outside, raised(lambda: forward.make_dual(x, x))]


def numeric_checks(torch: Any) -> Any:
    x = ramp(torch, 3).double().detach().requires_grad_()
    return [
        torch.autograd.gradcheck(lambda x: x.sin() * x, (x,)),
        torch.autograd.gradgradcheck(lambda x: x.sin() * x, (x,)),
        raised(lambda: torch.autograd.gradcheck(lambda x: x.detach() * x, (x,))),
        torch.autograd.gradcheck(lambda x: x.detach() * x, (x,), raise_exception=False),
    ]


def module_hooks(torch: Any) -> Any:
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Tanh())
    with torch.no_grad():
        for each in model.parameters():
            each.copy_(ramp(torch, *each.shape))
    seen: list[Any] = []
    model[0].register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    model[0].register_forward_hook(lambda m, args, out: out + 1)
    model[0].register_full_backward_pre_hook(lambda m, grads: (grads[0] * 3,))
    model[0].register_full_backward_hook(
        lambda m, inputs, outputs: seen.append((inputs, outputs))
    )
    model[1].register_forward_hook(
        lambda m, args, kwargs, out: seen.append(sorted(kwargs)), with_kwargs=True
    )
    x = ramp(torch, 2, 3)
    out = model(x)
    out.sum().backward()
    return [out, x.grad, model[0].weight.grad, seen]


def old_module_hooks(torch: Any) -> Any:
    class Twice(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            return (x * 2).exp()

    seen: list[Any] = []
    model = Twice()
    handle = model.register_backward_hook(
        lambda m, inputs, outputs: seen.append((len(inputs), inputs[0], outputs))
    )
    x = ramp(torch, 3)
    model(x).sum().backward()
    both = raised(lambda: model.register_full_backward_hook(lambda m, i, o: None))
    handle.remove()
    model(x).sum().backward()
    return [seen, both, x.grad]


def deep_graphs(torch: Any) -> Any:
    x = ramp(torch, 2)
    y = x
    for _ in range(3000):
        y = y * 1.0001
    y.sum().backward()
    return [x.grad]


def shared_parts(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x
    for _ in range(8):
        y = y + y * 0.1
    y.sum().backward()
    return [x.grad]


def parts_of_the_graph(torch: Any) -> Any:
    x, w = ramp(torch, 3), ramp(torch, 3)
    hidden = x * w
    cut = hidden.detach().requires_grad_()
    (cut**2).sum().backward()
    hidden.backward(cut.grad)
    return [x.grad, w.grad]


def accumulation(torch: Any) -> Any:
    x = ramp(torch, 4)
    for part in range(4):
        ((x[part] * part) ** 2 / 4).backward()
    total = x.grad.clone()
    x.grad.zero_()
    ((x * torch.arange(4)) ** 2).mean().backward()
    return [total, x.grad]


def reversal(torch: Any) -> Any:
    class Reverse(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            ctx.scale = scale
            return x.view_as(x)

        @staticmethod
        def backward(ctx: Any, grad: Any) -> Any:
            return grad.neg() * ctx.scale, None

    x = ramp(torch, 3)
    y = Reverse.apply(x * 2, 0.5)
    y.pow(2).sum().backward()
    return [x.grad, y]


def straight_through(torch: Any) -> Any:
    x = ramp(torch, 4)
    hard = (x > 0).float()
    y = hard + x - x.detach()
    (y * torch.arange(4)).sum().backward()
    return [y, x.grad]


def penalties(torch: Any) -> Any:
    w = ramp(torch, 3)
    x = ramp(torch, 2, 3)
    out = (x * w).tanh().sum()
    (slope,) = torch.autograd.grad(out, x, create_graph=True)
    ((slope.norm(2, 1) - 1) ** 2).mean().backward()
    return [w.grad, x.grad]


def products_with_hessians(torch: Any) -> Any:
    x = ramp(torch, 3)
    v = torch.arange(3.0)
    (slope,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
    return torch.autograd.grad(slope, x, grad_outputs=v)


def inner_steps(torch: Any) -> Any:
    w = ramp(torch, 3)
    fast = w
    for _ in range(2):
        (step,) = torch.autograd.grad((fast**2).sum(), fast, create_graph=True)
        fast = fast - 0.1 * step
    (fast**2).sum().backward()
    return [w.grad, fast]


def changes_of_data(torch: Any) -> Any:
    x = ramp(torch, 4)
    x.data.add_(1)
    first = [x._version, x.data._version]
    data = x.data
    data.add_(1)
    view = data[:2]
    view.add_(1)
    view[0] = 5.0
    data[1:] = 3.0
    second = [data._version, view._version, x._version, view._is_view()]
    detached = x.detach()
    detached.mul_(2)
    third = [detached._version, x._version, x.detach()[:1]._version, data._version]
    y = x * 2
    z = (y * y).sum()
    y.data[:1].zero_()
    z.backward()
    return [first, second, third, x.grad, x, x.data[:1]._version]


def views_made_without_recording(torch: Any) -> Any:
    x = ramp(torch, 4)
    with torch.no_grad():
        views = [
            x[:2], x.view(2, 2), x.expand(2, 4), x.narrow(0, 0, 1), x.unbind()[0],
            x.t(), x.chunk(2)[0], x.permute(0), x.unsqueeze(0),
        ]  # fmt: skip
        part = x[:2]
        part.add_(1)
    return [
        [each.requires_grad for each in views],
        [each.is_leaf for each in views],
        [each._is_view() for each in views],
        [part._version, x._version, x],
        raised(lambda: x[:2].add_(1)),
        x.t() is x,
        x[0].t().shape == (),
    ]


def hooks_where_a_tensor_comes_twice(torch: Any) -> Any:
    functional, seen = torch.nn.functional, []
    for function in (
        functional.smooth_l1_loss,
        functional.mse_loss,
        functional.huber_loss,
        functional.binary_cross_entropy_with_logits,
        lambda x, y: torch.stack([x, y, x]).sum(),
    ):
        x = ramp(torch, 3)
        out = function(x, x)
        node = out.grad_fn
        if node.name() == "SumBackward0":
            ((node, _),) = node.next_functions
        node.register_hook(lambda inner, outer: seen.append([*inner, *outer]))
        out.backward()
        seen.append([x.grad])
    return seen


def hooks_of_likelihoods_that_only_the_tape_keeps(torch: Any) -> Any:
    seen: list[Any] = []
    for shape in ((2, 3), (2, 3, 2), (2, 3, 2, 2)):
        size = 12 if len(shape) > 2 else 6
        x = ramp(torch, size * (len(shape) - 2 or 1)).reshape(shape)
        labels = torch.tensor([0, 2] * (x.numel() // 6)).reshape(2, *shape[2:])
        out = torch.nn.functional.cross_entropy(x * 1, labels * 1, reduction="none")
        node = out.grad_fn
        while "Mul" not in node.name():
            name = node.name()
            node.register_hook(
                lambda inner, outer, name=name: seen.append([name, *inner, *outer])
            )
            ((node, _),) = node.next_functions
        out.sum().backward()
    return seen
