"""Small programs on the nodes that the graph shows; see the others.

As in `autograd_programs`, each is given the library in the place of `torch`.
"""

from typing import Any

from tests.autograd_programs import raised, ramp


def nodes(torch: Any) -> Any:
    x = ramp(torch, 2, 3)
    w = ramp(torch, 3, 2)
    node = (x * w.t()).relu().exp().grad_fn
    names, each = [], node
    while each is not None:
        names.append(each.name())
        each = each.next_functions[0][0] if each.next_functions else None
    leaf = (x * 1).grad_fn.next_functions[0][0]
    node.metadata["own"] = 3
    return [
        names,
        leaf.variable is x,
        [number for _, number in node.next_functions],
        isinstance(node, torch.autograd.graph.Node),
        node.metadata,
        (x + 1).grad_fn == (x + 1).grad_fn,
        x.grad_fn is None,
    ]


def names_of_nodes(torch: Any) -> Any:
    functional = torch.nn.functional
    x = ramp(torch, 2, 4)
    w = ramp(torch, 3, 4)
    rows = torch.tensor([0, 1])
    image = ramp(torch, 1, 1, 4, 4)
    results = [
        x + 1, x - 1, x * 2, x / 2, x**2, -x, x.exp(), x.log(), x.abs(), x.sin(),
        x.cos(), x.tanh(), x.sigmoid(), x.relu(), x.sqrt(), x.rsqrt(), x.std(),
        x.permute(1, 0), x.view(4, 2), x.reshape(4, 2), x[:, 1:], x.expand(3, 2, 4),
        x.clone(), x.double(), x.split(1)[0], x.chunk(2)[1],
        x.unbind()[0], x.flatten(), x.narrow(0, 0, 1), x.diagonal(), x.addcmul(x,
        x), x.lerp(x, 0.5), torch.cat([x, x]), torch.where(x > 0, x, x),
        torch.maximum(x, x), torch.minimum(x, x), torch.bmm(x[None], w.t()[None]),
        functional.gelu(x), functional.silu(x), functional.elu(x),
        functional.leaky_relu(x), functional.softplus(x), functional.layer_norm(x,
        (4,)), functional.embedding(rows, x), functional.conv2d(image, image),
        functional.max_pool2d(image, 2), x.detach().requires_grad_() * w[0],
        x.erf(), x.scatter(0, rows[None], 1.0), x.reciprocal(), x.sign(), x.round(),
        x.floor(), x.remainder(2), x.atan2(x), torch.outer(x[0], w[0]),
    ]  # fmt: skip
    return [each.grad_fn.name() for each in results]


def graphs_of_composites(torch: Any) -> Any:
    functional = torch.nn.functional
    x, w, b = ramp(torch, 2, 4), ramp(torch, 3, 4), ramp(torch, 3)
    deep, square, rows = ramp(torch, 2, 3, 4), ramp(torch, 4, 4), torch.tensor([0, 1])
    target = torch.ones(2, 4)
    results = [
        functional.linear(x, w), functional.linear(x, w, b),
        functional.linear(deep, w), functional.linear(deep, w, b),
        functional.cross_entropy(x, rows), functional.nll_loss(x, rows),
        functional.cross_entropy(x, rows, reduction="none"),
        functional.mse_loss(x, target), functional.smooth_l1_loss(x, target),
        functional.huber_loss(x, target), functional.l1_loss(x, target),
        functional.binary_cross_entropy(x.sigmoid(), target),
        functional.binary_cross_entropy_with_logits(x, target),
        x.softmax(1), x.log_softmax(1), x.logsumexp(1), x.mean(), x.mean(1), x.sum(),
        x.sum(0), x.prod(), x.prod(1), x.max(), x.min(), x.max(1)[0], x.amax(1),
        x.var(), x.std(1), x.norm(), x.cumsum(1), x @ w.t(), x.mm(w.t()), x @ w[0],
        x[0].dot(w[0]), deep.bmm(deep.mT), torch.addmm(b, x, w.t()),
        torch.baddbmm(ramp(torch, 2, 3, 3), deep, deep.transpose(1, 2)),
        torch.addmv(ramp(torch, 2), x, w[0]), torch.addr(square, w[0], w[1]),
        x.t(), x.transpose(0, 1), x.unsqueeze(0), x[None].squeeze(0), x.select(0, 1),
        x[0], x[rows], x.gather(1, rows[:, None]), x.index_select(0, rows),
        x.sort(1)[0], x.topk(2)[0], torch.stack([x, x]), x.masked_fill(x > 0, 0.0),
        square.tril(), square.triu(), x.unbind()[1], x.split(1)[0],
        functional.group_norm(ramp(torch, 1, 4, 3), 2),
        functional.batch_norm(x, None, None, training=True),
        torch.nn.BatchNorm1d(4).eval()(x),
        functional.conv1d(deep, ramp(torch, 2, 3, 2)), x.relu().mean().exp() * 2,
    ]  # fmt: skip
    return [_text(each.grad_fn) for each in results]


def graphs_of_layers(torch: Any) -> Any:
    functional = torch.nn.functional
    lines, image = ramp(torch, 1, 2, 8), ramp(torch, 1, 2, 4, 4)
    volume, one, bias = ramp(torch, 1, 2, 4, 4, 4), ramp(torch, 2, 4, 4), ramp(torch, 3)
    narrow, square, deep = ramp(torch, 3, 2, 2), ramp(torch, 3, 2, 2, 2), (2, 2, 2, 2)
    grid, rows = ramp(torch, 1, 2, 2, 2), torch.tensor([0, 1])
    results = [
        functional.avg_pool1d(lines, 2), functional.avg_pool1d(lines[0], 2),
        functional.adaptive_avg_pool1d(lines, 2), functional.max_pool1d(lines, 2),
        functional.adaptive_max_pool1d(lines, 2), functional.avg_pool2d(image, 2),
        functional.adaptive_avg_pool2d(image, 2), functional.max_pool3d(volume, 2),
        functional.adaptive_avg_pool2d(image, 1), functional.avg_pool3d(volume, 2),
        functional.adaptive_max_pool2d(image, 3), functional.max_pool2d(image, 2),
        functional.adaptive_avg_pool3d(volume, 2), functional.pad(lines, (1, 1)),
        functional.adaptive_max_pool3d(volume, 2), functional.unfold(image, 2),
        functional.interpolate(lines, 4), functional.interpolate(image, 8),
        functional.interpolate(lines, 4, mode="linear"), functional.pad(image, (1, 1)),
        functional.interpolate(image, (8, 8), mode="bilinear", antialias=True),
        functional.interpolate(image, 8, mode="bicubic"),
        functional.interpolate(image, 2, mode="nearest-exact"),
        functional.interpolate(volume, 2, mode="trilinear"),
        functional.pad(image, (1, 1, 1, 1), mode="reflect"),
        functional.pad(lines, (1, 1), mode="replicate"),
        functional.conv1d(lines, narrow, bias), functional.conv1d(lines[0], narrow),
        functional.conv2d(image, square, bias), functional.conv2d(one, square),
        functional.conv3d(volume, ramp(torch, 3, *deep)),
        functional.conv_transpose1d(lines, ramp(torch, 2, 3, 2), bias),
        functional.conv_transpose2d(image, ramp(torch, 2, 3, 2, 2)),
        functional.conv_transpose2d(one, ramp(torch, 2, 3, 2, 2)),
        functional.conv_transpose3d(volume, ramp(torch, *deep, 2)),
        functional.prelu(image, bias[:1].detach()), functional.rrelu(image),
        functional.grid_sample(image, grid, align_corners=False),
        functional.grid_sample(volume, ramp(torch, 1, 2, 2, 2, 3), align_corners=False),
        functional.channel_shuffle(image, 2), image.unfold(2, 2, 2),
        functional.embedding_bag(rows[None], ramp(torch, 3, 2)),
        functional.embedding_bag(rows[None], ramp(torch, 3, 2), mode="max"),
        functional.dropout(image), functional.pixel_shuffle(ramp(torch, 1, 4, 2, 2), 2),
    ]  # fmt: skip
    return [_text(each.grad_fn) for each in results]


def graphs_of_functions(torch: Any) -> Any:
    x, y, square = ramp(torch, 2, 4), ramp(torch, 2, 4), ramp(torch, 3, 3)
    places, scalar = torch.tensor([[0, 1]]), x.sum()
    square = square @ square.detach().t() + torch.eye(3)
    right = ramp(torch, 3, 2)
    results = [
        1 - x, x - 1, x - y, 2**x, x**y, x**3, x % 2, x % y, x.fmod(2), x.fmod(y),
        x.clamp_max(1), x.clamp_max(y), x.copysign(-1), x.copysign(y), x.lerp(y, y),
        x.xlogy(2), torch.xlogy(2, x), x.xlogy(y), torch.rsub(x, 2), x.cumprod(1),
        torch.div(x, y, rounding_mode="trunc"), x.angle(), x.sgn(), torch.polar(x, y),
        x.scatter_reduce(0, places, y, "sum"), x.scatter_reduce(0, places, y, "amax"),
        x.index_reduce(0, places[0], y, "mean"), x.put(places, y[:1, :2] * 1),
        x.index_put((places[0],), y), x.select_scatter(y[0], 0, 0), x.diagonal(),
        x.slice_scatter(y, 0), x.diagonal_scatter(y[0, :2]), x.median(), x.mvlgamma(2),
        x.median(1)[0], x.nanmedian(), x.nanmedian(1)[0], x.mode()[0],
        x.polygamma(1), torch.special.entr(x), torch.special.i1(x),
        torch.vdot(x[0], y[0]), torch.special.erfcx(x), scalar.sum(),
        scalar.mean(), scalar.amax(), scalar.cumsum(0), scalar.prod(), scalar.sort()[0],
        torch.diagonal_copy(x), torch.permute_copy(x, (1, 0)), torch.select_copy(x, 0,
        0), torch.view_as_complex(ramp(torch, 3, 2)), torch.linalg.inv(square),
        torch.linalg.solve(square, right), torch.linalg.solve(square, right[:, 0]),
        torch.linalg.lu(square)[1], torch.linalg.lu_factor(square)[0],
        torch.linalg.cholesky(square), torch.linalg.eigvals(square),
        torch.cholesky_solve(right, torch.linalg.cholesky(square)),
        torch.linalg.pinv(right), torch.linalg.lstsq(square, right)[0],
        torch.linalg.solve_triangular(square, right, upper=True), x.clone().copy_(y),
    ]  # fmt: skip
    return [_text(each.grad_fn) for each in results]


def graph_of_a_copied_part(torch: Any) -> Any:
    return _text(ramp(torch, 2, 4).narrow_copy(0, 0, 1).grad_fn)


def graphs_of_products(torch: Any) -> Any:
    functional, infinite = torch.nn.functional, float("inf")
    x, w, bias, deep = ramp(torch, 2, 4), ramp(torch, 3, 4), ramp(torch, 4), (2, 3, 4)
    heads, three, other = ramp(torch, 1, 2, 3, 4), ramp(torch, *deep), ramp(torch, 2, 4)
    numbers, pairs = torch.tensor([[0, 1]]), ramp(torch, 2, 2, 4, 3)
    results = [
        three @ w.t(), three @ ramp(torch, 2, 4, 5), three @ bias, bias @ w.t(),
        ramp(torch, 2, 2, 3, 4) @ pairs, functional.softsign(x),
        functional.layer_norm(three, (4,), bias, bias), functional.layer_norm(x, (4,)),
        functional.layer_norm(three, (3, 4)), functional.embedding(numbers, x),
        functional.embedding(numbers[0, 0], x), torch.cat([x]), x.split([1, 1])[0],
        x.sort(stable=True)[0], x.round(decimals=1), x.norm(infinite),
        x.clone().zero_(),
        torch.linalg.vector_norm(x, -infinite), x.clone().fill_(1.0), torch.fft.fft(x),
        functional.nll_loss(bias, numbers[0, 0]), torch.fft.rfft(x), torch.fft.rfft2(x),
        functional.scaled_dot_product_attention(heads, heads, heads),
        torch.fft.irfft(torch.fft.rfft(x)), torch.where(x > 0, x, 0.0), x.softmax(0),
        torch.where(x > 0, 0.0, x), torch.where(x > 0, x, other), x.t() * 2,
        torch.vstack([bias, bias]), x.masked_fill(x > 0, bias.sum()), x[:1, :2],
        x[0, 1:], x[None, ..., 0], bias.broadcast_to(2, 4), bias.broadcast_to((2, 4)),
    ]  # fmt: skip
    return [_text(each.grad_fn) for each in results]


def classes_of_nodes(torch: Any) -> Any:
    x = ramp(torch, 3)
    y = x.clone()
    y[0] = x[1]
    found = [(x + 1).grad_fn, x.exp().sum().grad_fn, y.grad_fn]
    found += [found[1].next_functions[0][0], found[0].next_functions[0][0]]
    texts = [str(each).partition(" at 0x")[0] for each in found]
    edge = torch.autograd.graph.get_gradient_edge(x * 2)
    (x * 2 + y).sum().backward()
    return [type(each).__name__ for each in found], texts, type(edge.node).__name__, x


def answers_of_hooks(torch: Any) -> Any:
    def gradient(hook: Any, before: bool = False) -> Any:
        x = ramp(torch, 3)
        y = x * 2
        node = y.grad_fn
        (node.register_prehook if before else node.register_hook)(hook)
        y.sum().backward()
        return x.grad

    return [
        gradient(lambda given, _: (given[0] * 10, None)),
        gradient(lambda given: (given[0] * 10,), before=True),
        raised(lambda: gradient(lambda given, _: (given[0] * 10,))),
        raised(lambda: gradient(lambda given, _: (given[0], given[0]))),
        raised(lambda: gradient(lambda given, _: 3)),
        raised(lambda: gradient(lambda given, _: (given[0][:1], None))),
        raised(lambda: gradient(lambda given: (given[0], None), before=True)),
        raised(lambda: gradient(lambda given: "text", before=True)),
    ]


def numbers_beside_tensors(torch: Any) -> Any:
    x = ramp(torch, 3)
    results = [x + 1, 1 + x, x - 1, 1 - x, x * 2, 2 * x, x / 2, x**2, x % 2, x * x]
    results += [torch.where(x > 0, x, 0.0), torch.where(x > 0, 0.0, x)]
    return [[each is None for each, _ in out.grad_fn.next_functions] for out in results]


def _text(node: Any) -> str:
    """Return the names of a node and of all that it leads to."""
    if node is None:
        return "None"
    parts = ", ".join(_text(each) for each, _ in node.next_functions)
    # Absent weights are left out by one, and None in the other.
    parts = parts.replace(", None", "")
    return f"{node.name()}({parts})"


def nodes_that_are_one_of_several_ops(torch: Any) -> Any:
    x, y = ramp(torch, 3), ramp(torch, 3)
    results = [
        torch.add(x, y, alpha=2),
        torch.sub(x, y, alpha=2),
        torch.fill(x, 2.0),
        torch.fill(x, y[0]),
        x.index_fill(0, torch.tensor([1]), 2.0),
        torch.nn.functional.dropout(x, 0.5),
        torch.nn.functional.softsign(x),
    ]
    return [x.quantile(0.5, 0).grad_fn.name()] + [
        [out.grad_fn.name(), [e and e.name() for e, _ in out.grad_fn.next_functions]]
        for out in results
    ]
