"""Modules and changes of their graphs, for this library and for PyTorch alike.

Each program takes the library and its `fx`, and returns a graph module and the
arguments of a call.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

Program = Callable[[Any, Any], tuple[Any, tuple[Any, ...]]]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    """Add a program to the table."""
    PROGRAMS[function.__name__] = function
    return function


def numbers(torch: Any, *shape: int) -> Any:
    """Return a tensor of some numbers."""
    return torch.arange(float(math.prod(shape))).reshape(*shape) / 4 - 1


def filled(torch: Any, module: Any) -> Any:
    """Return a module whose parameters are numbers that both libraries have."""
    with torch.no_grad():
        for each in module.parameters():
            each.copy_(numbers(torch, *each.shape) + 1)
    return module.eval()


def block(torch: Any) -> Any:
    """Return a module with layers, a parameter, a buffer and a constant."""

    class Block(torch.nn.Module):  # type: ignore[misc]  # of either library
        def __init__(self) -> None:
            super().__init__()
            self.lin = torch.nn.Linear(2, 2)
            self.w = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("shift", torch.ones(2))
            self.seq = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(2, 3))

        def forward(self, x: Any, y: Any = None, *, scale: float = 2.0) -> Any:
            z = self.lin(x).relu() + self.w - self.shift
            z = torch.cat([z, z], dim=1)[:, :2]
            first, second = torch.chunk(z, 2, dim=1)
            z = self.seq(z) * scale
            z = torch.sigmoid(z) ** 2 / 3 % 5
            rows = z.shape[0]
            return {
                "z": z.view(rows, -1),
                "n": (-z, x // 1, first + second, 1 - z, z.T, z > 1),
            }

    return filled(torch, Block())


@program
def traced(torch: Any, fx: Any) -> Any:
    return fx.symbolic_trace(block(torch)), (numbers(torch, 3, 2),)


@program
def functions(torch: Any, fx: Any) -> Any:
    def function(x: Any, y: Any, scale: float = 0.5) -> Any:
        z = torch.sum(x * scale, dim=1, keepdim=True) + torch.exp(y)
        z = torch.where(z > 0, z, -z).clamp(min=0.1)
        z = torch.stack([z, z]).transpose(0, 1).contiguous()
        z = torch.softmax(z, dim=-1)
        return (
            z.mean(),
            torch.matmul(x, x.t()),
            z.size(0),
            torch.full((2,), 3.0) + z.sum(),
        )

    arguments = numbers(torch, 2, 2), numbers(torch, 2, 1)
    return fx.symbolic_trace(function), arguments


@program
def nested_modules(torch: Any, fx: Any) -> Any:
    class Inner(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm = torch.nn.LayerNorm(2)

        def forward(self, x: Any) -> Any:
            return self.norm(x) + x

    class Outer(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.blocks = torch.nn.ModuleList([Inner(), Inner()])
            self.head = torch.nn.Linear(2, 1, bias=False)

        def forward(self, x: Any) -> Any:
            for each in self.blocks:
                x = each(x)
            return self.head(x).squeeze(-1)

    return fx.symbolic_trace(filled(torch, Outer())), (numbers(torch, 3, 2),)


@program
def a_node_is_inserted(torch: Any, fx: Any) -> Any:
    module = fx.symbolic_trace(block(torch))
    for node in list(module.graph.nodes):
        if node.op == "call_module" and node.target == "lin":
            with module.graph.inserting_after(node):
                new = module.graph.call_function(torch.nn.functional.relu, (node,))
            node.replace_all_uses_with(new)
            new.update_arg(0, node)
    module.graph.lint()
    module.recompile()
    return module, (numbers(torch, 3, 2),)


@program
def operators_are_replaced(torch: Any, fx: Any) -> Any:
    module = fx.symbolic_trace(lambda x, y: (x + y) * torch.tanh(x + y))
    for node in module.graph.nodes:
        if node.target is operator.add:
            node.target = torch.sub
    for node in module.graph.find_nodes(op="call_function", target=torch.tanh):
        with module.graph.inserting_before(node):
            new = module.graph.call_method("sigmoid", node.args)
        node.replace_all_uses_with(new)
        module.graph.erase_node(node)
    module.graph.lint()
    module.recompile()
    return module, (numbers(torch, 2), numbers(torch, 2) * 3)


@program
def dead_code_is_removed(torch: Any, fx: Any) -> Any:
    def function(x: Any, unused: Any = 3) -> Any:
        torch.exp(x).sum()
        return x.cos()

    module = fx.symbolic_trace(function)
    module.graph.eliminate_dead_code()
    module.recompile()
    return module, (numbers(torch, 2),)


@program
def a_pattern_is_replaced(torch: Any, fx: Any) -> Any:
    def function(x: Any, y: Any) -> Any:
        first = torch.relu(x + y)
        return torch.relu(first + x) * torch.relu(x)

    module = fx.symbolic_trace(function)
    fx.replace_pattern(
        module, lambda a, b: torch.relu(a + b), lambda a, b: torch.sigmoid(a - b)
    )
    module.graph.lint()
    return module, (numbers(torch, 3), numbers(torch, 3) + 1)


@program
def a_graph_by_hand(torch: Any, fx: Any) -> Any:
    graph = fx.Graph()
    x = graph.placeholder("x")
    weight = graph.get_attr("layer.weight")
    product = graph.call_function(torch.matmul, (x, weight))
    scaled = graph.call_method("mul", (product, 2.0))
    graph.output((scaled, graph.call_module("layer", (x,))))
    root = torch.nn.Module()
    root.layer = filled(torch, torch.nn.Linear(2, 2))
    return fx.GraphModule(root, graph), (numbers(torch, 2, 2),)


@program
def a_transformed_graph(torch: Any, fx: Any) -> Any:
    class Swap(fx.Transformer):  # type: ignore[misc]
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            if target is torch.sin:
                target = torch.cos
            return super().call_function(target, args, kwargs)

    module = fx.symbolic_trace(lambda x: torch.sin(x).neg() + 1)
    return Swap(module).transform(), (numbers(torch, 3),)


@program
def proxies_write_nodes(torch: Any, fx: Any) -> Any:
    graph = fx.Graph()
    x = fx.Proxy(graph.placeholder("x"))
    y = torch.relu(x)[0] + x.sum(dim=0)
    graph.output(torch.stack([y, y * 2]).node)
    return fx.GraphModule(torch.nn.Module(), graph), (numbers(torch, 2, 2),)


@program
def constants_are_kept(torch: Any, fx: Any) -> Any:
    table = numbers(torch, 2)
    module = fx.symbolic_trace(lambda x: x + table * 2 - table + math.sqrt(4.0))
    return module, (numbers(torch, 2),)


@program
def a_call_is_wrapped(torch: Any, fx: Any) -> Any:
    def function(x: Any) -> Any:
        return x * math.floor(x.sum())

    return fx.symbolic_trace(function), (torch.ones(3),)


@program
def further_arguments(torch: Any, fx: Any) -> Any:
    def function(x: Any, *rest: Any) -> Any:
        return x + rest[0] * rest[1]

    arguments = tuple(numbers(torch, 2) + at for at in range(3))
    return fx.symbolic_trace(function), arguments
