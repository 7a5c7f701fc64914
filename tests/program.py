"""Programs over tensors as data, and how PyTorch and the library under test run them.

A program is a sequence of calls by name; each name means the same function in both
libraries. What it should answer comes from PyTorch in float64. How far a float32 answer
may be off comes from the program itself: it is run again with each intermediate result,
and each gradient, changed by about a rounding, and what that changes is allowed. So a
program that turns on the order of two almost equal numbers allows both outcomes.
"""

import functools
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch

import vkbackend.framework as fw
from tests.compare import TOLERANCES
from vkbackend.framework import ops
from vkbackend.framework.base.device import Device

NOISE = 1e-6
"""Relative change of each number: some roundings of float32."""

NOISY_RUNS = 3
MARGIN = 12
"""Times what noise changes, of which few runs show a part."""

ROUNDINGS = {"half_and_back": 2.0**-11}
"""Noise of calls that round more."""

MEASURED = 1e8
"""Beyond this, and where they are not finite, gradients are not compared."""


class Ref(NamedTuple):
    """An earlier value of the program."""

    number: int

    def __repr__(self) -> str:
        return f"v{self.number}"


class Places(tuple[int, ...]):
    """Indices, which become an integer tensor."""

    def __repr__(self) -> str:
        return f"places{tuple(self)}"


@dataclass(frozen=True)
class Step:
    """A call by name; arguments are `Ref`s, `Places`, numbers, and tuples of them."""

    name: str
    arguments: tuple[Any, ...]
    keywords: dict[str, Any] = field(default_factory=dict)

    def __repr__(self) -> str:
        given = [*map(repr, self.arguments)]
        given += [f"{name}={value!r}" for name, value in self.keywords.items()]
        return f"{self.name}({', '.join(given)})"


@dataclass(frozen=True)
class Input:
    """A float tensor that a program starts from."""

    shape: tuple[int, ...]
    requires_grad: bool


@dataclass(frozen=True)
class Program:
    """Inputs and steps, numbered in this order.

    Attributes
    ----------
    seed : int
        Of the inputs' elements.
    kept : frozenset of int
        Values that are compared; others are let go of after their last use.
    """

    seed: int
    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    kept: frozenset[int]

    def __repr__(self) -> str:
        lines = [f"seed {self.seed}"]
        for number, given in enumerate(self.inputs):
            grad = ", requires_grad=True" if given.requires_grad else ""
            lines.append(f"v{number} = input{given.shape}{grad}")
        for number, step in enumerate(self.steps, len(self.inputs)):
            mark = "   # compared" if number in self.kept else ""
            lines.append(f"v{number} = {step!r}{mark}")
        return "\n" + "\n".join(lines)

    def data(self) -> list[np.ndarray]:
        """Return the elements of the inputs, in float64 but exact in float32."""
        rng = np.random.default_rng(self.seed)
        drawn = (rng.uniform(-2, 2, given.shape) for given in self.inputs)
        return [np.asarray(x, np.float32).astype(np.float64) for x in drawn]

    def weight(self, number: int, shape: Sequence[int]) -> np.ndarray:
        """Return what the gradient of a compared value starts from."""
        return np.random.default_rng(number).uniform(-1, 1, shape).astype(np.float32)


def written(x: Any, index: Any, value: Any) -> Any:
    """Return a copy of `x` of which a part was changed in place, through views."""
    base = x.detach().clone()
    part = base[index]
    part.mul_(0.5)
    base.add_(value.detach())
    part.copy_(part + 1)
    return base


def turned(
    x: torch.Tensor, start: int, theta: float, interleaved: bool
) -> torch.Tensor:
    """Return vectors turned by their position: pairs are complex numbers."""
    length, size = x.shape[-2:]
    frequencies = theta ** (-torch.arange(0, size, 2, dtype=x.dtype) / size)
    angles = (start + torch.arange(length, dtype=x.dtype))[:, None] * frequencies
    sin, cos = angles.sin(), angles.cos()
    a, b = (x[..., 0::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    parts = (a * cos - b * sin, a * sin + b * cos)
    return torch.stack(parts, -1).flatten(-2) if interleaved else torch.cat(parts, -1)


COMMON: dict[str, Callable[..., Any]] = {
    "getitem": operator.getitem,
    "half_and_back": lambda x: x.half().to(x.dtype),
    "written": written,
}
OURS: dict[str, Callable[..., Any]] = {
    "sorted": lambda x, dim, descending: ops.sort(x, dim, descending)[0],
    "largest": lambda x, k, dim: ops.topk(x, k, dim)[0],
}
THEIRS: dict[str, Callable[..., Any]] = {
    "sorted": lambda x, dim, descending: torch.sort(x, dim, descending)[0],
    "largest": lambda x, k, dim: torch.topk(x, k, dim)[0],
    "rope": turned,
    "swiglu": lambda gate, x: torch.nn.functional.silu(gate) * x,
    "log_sigmoid": torch.nn.functional.logsigmoid,
    "norm": torch.linalg.vector_norm,
    "expand": torch.Tensor.expand,
    "repeat": torch.Tensor.repeat,
    "unfold": torch.Tensor.unfold,
}


Use = Callable[[torch.Tensor], torch.Tensor]


def normalized(
    name: str, use: Use, x: torch.Tensor, *given: Any, **_: Any
) -> torch.Tensor:
    """Return a normalisation from parts, each used apart.

    The gradients by what is normalised and by the statistics nearly cancel in rows of
    few elements: float32 rounds each, so that noise has to come to each.
    """
    if name == "normalize":
        length = torch.linalg.vector_norm(use(x), given[0], given[1], keepdim=True)
        return use(x) / length.clamp_min(1e-12)
    shape, channels = x.shape, (-1, *[1] * (x.ndim - 2))
    scale, shift = (given[1], None) if len(given) < 4 else given[2:4]
    if name in ("layer_norm", "rms_norm"):
        dims, channels = tuple(range(-len(given[0]), 0)), given[0]
    elif name == "group_norm":
        x, dims = x.reshape(shape[0], given[0], -1), (2,)
    else:
        dims = (*[0] * (name == "batch_norm"), *range(2, x.ndim))
    apart = x if name == "rms_norm" else use(x) - use(x).mean(dims, keepdim=True)
    variance = use(apart).square().mean(dims, keepdim=True)
    out = (use(apart) * (variance + 1e-5).rsqrt()).reshape(shape)
    out = out if scale is None else out * scale.reshape(channels)
    return out if shift is None else out + shift.reshape(channels)


NORMALISATIONS = {
    name: functools.partial(normalized, name)
    for name in (
        *("layer_norm", "rms_norm", "group_norm"),
        *("instance_norm", "batch_norm", "normalize"),
    )
}


def torch_function(name: str) -> Callable[..., Any]:
    """Return what a name means in PyTorch."""
    for known in (COMMON, THEIRS):
        if name in known:
            return known[name]
    found = getattr(torch.nn.functional, name, None) or getattr(torch, name)
    assert callable(found)
    return found  # type: ignore[no-any-return]


def our_function(name: str) -> Callable[..., Any]:
    """Return what a name means in the library under test."""
    known = {**COMMON, **OURS}.get(name)
    return known or getattr(ops, name)  # type: ignore[no-any-return]


def call(
    step: Step,
    function: Callable[..., Any],
    values: Sequence[Any],
    places: Callable[[list[int]], Any],
    use: Callable[[Any], Any] = lambda value: value,
) -> Any:
    """Run one step; `use` is applied to each value where it is an argument."""

    def filled(argument: Any) -> Any:
        if isinstance(argument, Ref):
            return use(values[argument.number])
        if isinstance(argument, Places):
            return places(list(argument))
        if isinstance(argument, tuple):
            return tuple(map(filled, argument))
        return argument

    return function(*map(filled, step.arguments), **step.keywords)


class Answer(NamedTuple):
    """Compared values, then gradients of inputs that require one; None for none."""

    values: list[np.ndarray]
    gradients: list[np.ndarray | None]


Results = tuple[list[fw.Tensor], list[fw.Tensor | None]]
"""Compared values, and gradients, as tensors."""


def last_uses(program: Program) -> list[list[int]]:
    """Return the values to let go of after each step."""
    last: dict[int, int] = {}

    def visit(argument: Any, at: int) -> None:
        if isinstance(argument, Ref):
            last[argument.number] = at
        elif isinstance(argument, tuple) and not isinstance(argument, Places):
            for each in argument:
                visit(each, at)

    for at, step in enumerate(program.steps):
        visit(step.arguments, at)
    gone: list[list[int]] = [[] for _ in program.steps]
    for number, at in last.items():
        if number not in program.kept and number >= len(program.inputs):
            gone[at].append(number)
    return gone


def our_inputs(program: Program, device: Device) -> list[fw.Tensor]:
    """Return the inputs of a program in float32 on a device."""
    return [
        fw.tensor(x.astype(np.float32), device=device, requires_grad=each.requires_grad)
        for x, each in zip(program.data(), program.inputs)
    ]


def compute(program: Program, inputs: Sequence[fw.Tensor], device: Device) -> Results:
    """Run a program and its gradients with the library under test; reads nothing."""
    values: list[Any] = list(inputs)
    gone = last_uses(program)
    for step, unused in zip(program.steps, gone):
        function = our_function(step.name)
        values.append(
            call(step, function, values, lambda at: fw.tensor(at, "int32", device))
        )
        for number in unused:
            values[number] = None
    total: Any = None
    for number in sorted(program.kept):
        if values[number].requires_grad:
            weight = program.weight(number, values[number].shape)
            term = (values[number] * fw.tensor(weight, device=device)).sum()
            total = term if total is None else total + term
    if total is not None:
        total.backward()
    return [values[number].detach() for number in sorted(program.kept)], [
        x.grad for x in inputs
    ]


def run_ours(program: Program, device: Device) -> Answer:
    """Run a program in float32 on a device of the library under test."""
    values, gradients = compute(program, our_inputs(program, device), device)
    return Answer(
        [value.numpy() for value in values],
        [grad if grad is None else grad.numpy() for grad in gradients],
    )


def run_torch(program: Program, noise: np.random.Generator | None = None) -> Answer:
    """Run a program in float64 with PyTorch, with or without noise."""

    def disturbed(x: torch.Tensor, scale: float = NOISE) -> torch.Tensor:
        if noise is None or not x.is_floating_point():
            return x
        change = torch.from_numpy(np.asarray(noise.standard_normal(tuple(x.shape))))
        return x + change * scale * (x.detach().abs() + 0.01)

    def used(x: torch.Tensor) -> torch.Tensor:
        # What flows back through each use is rounded before it is added up.
        if noise is None or not x.requires_grad:
            return x
        alias = x.view_as(x)
        alias.register_hook(disturbed)
        return alias

    inputs = [
        torch.from_numpy(np.asarray(x)).requires_grad_(each.requires_grad)
        for x, each in zip(program.data(), program.inputs)
    ]
    values: list[torch.Tensor] = [disturbed(x) for x in inputs]
    for step in program.steps:
        function = torch_function(step.name)
        if noise is not None and step.name in NORMALISATIONS:
            function = functools.partial(NORMALISATIONS[step.name], used)
        out = call(step, function, values, torch.tensor, used)
        out = disturbed(out, ROUNDINGS.get(step.name, NOISE))
        if out.requires_grad:
            out.register_hook(disturbed)
        values.append(out)
    kept = [(number, values[number]) for number in sorted(program.kept)]
    terms = [
        (value * torch.from_numpy(program.weight(number, value.shape))).sum()
        for number, value in kept
        if value.requires_grad
    ]
    if terms:
        sum(terms[1:], terms[0]).backward()
    return Answer(
        [value.detach().numpy() for _, value in kept],
        [None if x.grad is None else x.grad.numpy() for x in inputs],
    )


def check(program: Program, devices: Sequence[Device]) -> None:
    """Compare every device with PyTorch; an AssertionError shows the program."""
    exact = run_torch(program)
    noisy = [
        run_torch(program, np.random.default_rng(seed)) for seed in range(NOISY_RUNS)
    ]
    for device in devices:
        try:
            found = run_ours(program, device)
            for k, number in enumerate(sorted(program.kept)):
                others = [each.values[k] for each in noisy]
                compare(f"v{number}", found.values[k], exact.values[k], others)
            for k, wanted in enumerate(exact.gradients):
                slope = found.gradients[k]
                # None where nothing flows; a library may say zeros instead.
                if wanted is not None and (slope is not None or wanted.any()):
                    assert slope is not None, f"v{k} has no gradient"
                    others = [np.asarray(each.gradients[k]) for each in noisy]
                    compare(f"gradient of v{k}", slope, wanted, others)
        except Exception as error:
            text = f"on {device.name}: {type(error).__name__}: {error}\n{program!r}"
            raise AssertionError(text) from error


def compare(
    name: str, found: np.ndarray, exact: np.ndarray, noisy: Sequence[np.ndarray]
) -> None:
    """Compare one value with PyTorch's, as exactly as the program allows."""
    assert found.shape == exact.shape, f"{name} is {found.shape}, not {exact.shape}"
    if exact.dtype.kind != "f":
        sure = np.all([other == exact for other in noisy], axis=0)
        np.testing.assert_array_equal(found[sure], exact[sure], name)
        return
    assert found.dtype == np.float32, f"{name} is {found.dtype}"
    absolute, relative = TOLERANCES["float32"]
    with np.errstate(all="ignore"):
        spread = np.max([np.abs(other - exact) for other in noisy], axis=0)
        allowed = absolute + relative * np.abs(exact) + MARGIN * spread
        sure = np.isfinite(allowed) & (np.abs(exact) < MEASURED)
        off = np.abs(found - exact)[sure] > allowed[sure]
        off |= ~np.isfinite(found[sure])
    if off.any():
        worst = found[sure][off][0], exact[sure][off][0], allowed[sure][off][0]
        raise AssertionError(
            f"{name}: {off.sum()} of {exact.size} differ, first {worst[0]!r} instead of"
            f" {worst[1]!r}; up to {worst[2]:.2g} is allowed"
        )
