"""The two sides of a comparison: their inputs, calls and gradients."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, Protocol

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import DTYPES

from ..baseline import Peer
from .forms import Call, Given, filled, flatten
from .units import SweptFunction

_BLOCK = 5_000_011
"""Random numbers that are drawn; larger inputs repeat them, out of step with rows."""

_KEPT = {True: 12 << 30, False: 1 << 30}
"""Bytes of inputs that are kept for further cases, on a GPU and in software."""

Run = Callable[[], list[Any]]


class Side(Protocol):
    """What a side has to do."""

    def made(self, values: np.ndarray[Any, Any], dtype: str) -> Any:
        """Return a tensor of values, converted."""

    def function(self, unit: SweptFunction) -> Callable[..., Any] | None:
        """Return the function of a unit, if the side has it."""

    def grad(self, outputs: Any, inputs: Any, seeds: Any) -> Sequence[Any]:
        """Return the gradients of the inputs, None where there is none."""

    def host(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return a tensor's elements as float64 or complex128."""


class Here:
    """The library on a device.

    Parameters
    ----------
    device : framework device
        A Vulkan one, or the host, whose ops are NumPy.
    """

    def __init__(self, device: Any) -> None:
        self.device = device

    def made(self, values: np.ndarray[Any, Any], dtype: str) -> Any:
        """Return a tensor of values, converted."""
        tensor = fw.tensor(values, device=self.device).to(DTYPES[dtype])
        fw.eval(tensor)
        return tensor

    def function(self, unit: SweptFunction) -> Callable[..., Any] | None:
        """Return the function of a unit."""
        return unit.function

    def grad(self, outputs: Any, inputs: Any, seeds: Any) -> Sequence[Any]:
        """Return the gradients of the inputs, None where there is none."""
        return fw.autograd.grad(outputs, inputs, seeds, allow_unused=True)

    def host(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return a tensor's elements as float64 or complex128."""
        tensor = tensor.detach()
        if tensor.dtype is fw.bfloat16:
            tensor = tensor.to(fw.float32)
        return wide(tensor.numpy())


class Torch:
    """PyTorch on the device of a `Peer`."""

    def __init__(self, peer: Peer) -> None:
        self.torch = peer.torch
        self.place = "cuda" if peer.cuda else "cpu"

    def made(self, values: np.ndarray[Any, Any], dtype: str) -> Any:
        """Return a tensor of values, converted."""
        tensor = self.torch.from_numpy(values)
        return tensor.to(self.place, getattr(self.torch, dtype))

    def function(self, unit: SweptFunction) -> Callable[..., Any] | None:
        """Return the function of a unit, if PyTorch has it."""
        if unit.peer is None:
            return None
        if not isinstance(unit.peer, str):
            return partial(unit.peer, self.torch)
        try:
            found = attrgetter(unit.peer)(self.torch)
        except AttributeError:
            return None
        return found if callable(found) else None

    def grad(self, outputs: Any, inputs: Any, seeds: Any) -> Sequence[Any]:
        """Return the gradients of the inputs, None where there is none."""
        found: Sequence[Any] = self.torch.autograd.grad(
            outputs, inputs, seeds, allow_unused=True
        )
        return found

    def host(self, tensor: Any) -> np.ndarray[Any, Any]:
        """Return a tensor's elements as float64 or complex128."""
        tensor = tensor.detach().resolve_conj()
        if tensor.dtype is self.torch.bfloat16:
            tensor = tensor.float()
        return wide(tensor.cpu().numpy())


class Arbiter(Torch):
    """PyTorch on the host in float64: it tells which of two results is off.

    Its tensors have the elements that those of the other sides have, rounded to their
    dtype.
    """

    def __init__(self, peer: Peer) -> None:
        super().__init__(peer)
        self.place = "cpu"

    def made(self, values: np.ndarray[Any, Any], dtype: str) -> Any:
        """Return a tensor of values, rounded to a dtype and then widened."""
        tensor = super().made(values, dtype)
        if tensor.is_complex():
            return tensor.to(self.torch.complex128)
        return tensor.double() if tensor.is_floating_point() else tensor


class NumPy(Here):
    """NumPy: the reference of an element-wise op, and the host's ops for the rest."""

    def __init__(self) -> None:
        super().__init__(fw.device("cpu"))


def side_of(peer: Peer) -> Torch | NumPy:
    """Return the other side of a comparison."""
    return NumPy() if peer.torch is None else Torch(peer)


def wide(array: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return elements as float64 or complex128."""
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def values_of(given: Given, dtype: str) -> np.ndarray[Any, Any]:
    """Return the elements of a tensor as its layout stores them."""
    rng = np.random.default_rng(given.seed)
    shape = given.shape
    if given.layout == "transposed":
        shape = (*shape[:-2], shape[-1], shape[-2])
    elif given.layout == "expanded":
        shape = (*shape[:-1], 1)
    count = int(np.prod(shape))
    if given.kind == "permutation":
        return rng.permutation(count).reshape(shape)
    if dtype == "bool":
        return np.resize(rng.integers(0, 2, min(count, _BLOCK)).astype(bool), shape)
    if not dtype.startswith(("float", "bfloat", "complex")):
        least = 1 if given.low is None else int(given.low)
        most = 10 if given.high is None else int(given.high)
        if given.kind in _WHOLE:
            return _WHOLE[given.kind](shape, most, rng)
        numbers = rng.integers(least, max(most, least + 1), min(count, _BLOCK))
        return np.resize(numbers, shape)
    low = -0.95 if given.low is None else given.low
    high = 0.95 if given.high is None else given.high
    drawn = rng.random(min(count, _BLOCK), np.float32) * (high - low) + low
    drawn = drawn.astype(np.float32)
    if dtype.startswith("complex"):
        return np.asarray(np.resize(drawn, shape) + 1j * np.resize(drawn[::-1], shape))
    values = np.resize(drawn, shape)
    if given.kind.startswith("distinct"):
        turned = (given.layout == "transposed") != (given.kind == "distinct columns")
        return _distinct(values, rng, -2 if turned else -1)
    return _special(values, given.kind)


def _ends(
    shape: tuple[int, ...], most: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return where parts of about one length end; the last one ends with the whole."""
    return np.arange(1, shape[0] + 1) * most // shape[0]


def _starts(
    shape: tuple[int, ...], most: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return where parts of about one length start; the last one starts at `most`."""
    return np.arange(shape[0]) * most // max(shape[0] - 1, 1)


def _places(
    shape: tuple[int, ...], most: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return a place for each element of images, each among its own."""
    size = int(np.prod(shape[2:]))
    found = np.arange(size) * most + rng.integers(0, most, size)
    return np.broadcast_to(found.reshape(shape[2:]), shape).copy()


def _some_labels(
    shape: tuple[int, ...], most: int, rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Return the labels of rows, and -1 for the rest."""
    found = np.full(shape, -1)
    found[..., :most] = rng.permutation(shape[-1])[:most]
    return found


_WHOLE = {"starts": _starts, "ends": _ends, "places": _places, "labels": _some_labels}
"""Kinds of whole numbers that are not drawn one by one."""


def _distinct(
    values: np.ndarray[Any, Any], rng: np.random.Generator, along: int
) -> np.ndarray[Any, Any]:
    """Return values from -1 to 1 of which none are equal along a dimension."""
    rows = np.moveaxis(values, along, -1).shape
    # Up to 2^11 steps each way are exact in float16, up to 2^24 in float32.
    steps = np.arange(rows[-1]) - rows[-1] // 2
    steps = steps * 2.0 ** (1 - (rows[-1] - 1).bit_length())
    mixed = rng.permuted(np.broadcast_to(steps.astype(np.float32), rows), axis=-1)
    return np.moveaxis(mixed, -1, along)


def _special(values: np.ndarray[Any, Any], kind: str) -> np.ndarray[Any, Any]:
    """Return values made into what a kind asks for."""
    if kind == "uniform":
        return values
    if kind == "sorted":
        return np.sort(values, -1)
    order = values.shape[-1]
    if kind == "definite":
        made = values @ values.swapaxes(-1, -2) / order + np.eye(order)
    elif kind == "separate":
        # A reflection of evenly spaced numbers
        normal = values[..., :1]
        normal = normal / np.linalg.norm(normal, axis=-2, keepdims=True)
        mirror = np.eye(order) - 2 * normal @ normal.swapaxes(-1, -2)
        made = mirror * np.linspace(1, 2, order) @ mirror
        made = (made + made.swapaxes(-1, -2)) / 2
    elif kind == "unit":
        made = values / (4 * order**0.5) + np.eye(order)
    else:
        made = values / order**0.5 + 2 * np.eye(order)
    if kind == "lower":
        made = np.tril(made)
    elif kind == "upper":
        made = np.triu(made)
    return np.asarray(made, np.float32)


class Inputs:
    """Inputs for each side, kept while there is room for them."""

    def __init__(self, *sides: Side, on_gpu: bool) -> None:
        self.sides = sides
        self.room = _KEPT[on_gpu]
        self.kept: OrderedDict[Any, tuple[list[Any], int]] = OrderedDict()

    def of(self, given: Given, dtype: str) -> list[Any]:
        """Return one tensor for each side."""
        dtype = given.dtype or dtype
        key = given, dtype
        if key in self.kept:
            self.kept.move_to_end(key)
            return self.kept[key][0]
        values = values_of(given, dtype)
        tensors = [_laid(side.made(values, dtype), given) for side in self.sides]
        self.kept[key] = tensors, values.nbytes
        while len(self.kept) > 1 and sum(n for _, n in self.kept.values()) > self.room:
            self.kept.popitem(last=False)
        return tensors

    def seeds(self, outputs: Sequence[Any], dtype: str, which: int) -> list[Any]:
        """Return incoming gradients for the outputs of one side."""
        seeds = []
        for number, out in enumerate(outputs):
            name = str(out.dtype).rpartition(".")[2]
            if isinstance(self.sides[which], Arbiter):
                name = _narrow(name, dtype)
            given = Given(tuple(out.shape), seed=7 + number)
            seeds.append(self.of(given, name)[which])
        return seeds


def _narrow(name: str, dtype: str) -> str:
    """Return the dtype that a result of the arbiter has in a case of a dtype."""
    if name == "complex128":
        return "complex64"
    if name == "float64":
        return "float32" if dtype == "complex64" else dtype
    return name


def _laid(tensor: Any, given: Given) -> Any:
    """Return a tensor in the layout of its description."""
    if given.layout == "transposed":
        return tensor.transpose(-1, -2)
    if given.layout == "expanded":
        return tensor.expand(given.shape)
    return tensor


def tensors_in(found: Any) -> list[Any]:
    """Return the tensors of a result, in order."""
    if isinstance(found, tuple | list):
        return [each for part in found for each in tensors_in(part)]
    return [found] if hasattr(found, "detach") else []


def bound(
    side: Side,
    which: int,
    unit: SweptFunction,
    arguments: Call,
    dtype: str,
    inputs: Inputs,
) -> tuple[Run, Run] | None:
    """Return how a side runs a call forward, and forward and backward.

    Parameters
    ----------
    side : Side
    which : int
        Its number: 0 is the library.
    unit : SweptFunction
    arguments : Call
    dtype : str
        Under test.
    inputs : Inputs
    """
    function = side.function(unit)
    if function is None:
        return None
    given = flatten(arguments)
    plain = {id(each): inputs.of(each, dtype)[which] for each in given}
    if isinstance(side, Torch):
        arguments = _for_torch(arguments, side.torch)
    args, keywords = filled(arguments.args, plain), filled(arguments.keywords, plain)

    def forward() -> list[Any]:
        return tensors_in(function(*args, **keywords))

    leaves = {
        key: tensor.detach().requires_grad_() if _is_float(tensor) else tensor
        for key, tensor in plain.items()
    }
    wanted = [
        leaves[id(each)]
        for each in given
        if _is_float(plain[id(each)]) and each.dtype is None
    ]
    own = filled(arguments.args, leaves), filled(arguments.keywords, leaves)
    seeds: list[Any] = []

    def both() -> list[Any]:
        results = tensors_in(function(*own[0], **own[1]))
        outputs = [each for each in results if each.requires_grad]
        if not outputs or not wanted:
            raise NoGradientError
        if not seeds:
            seeds[:] = inputs.seeds(outputs, dtype, which)
        found = side.grad(outputs, wanted, seeds)
        return results + [each for each in found if each is not None]

    return forward, both


class NoGradientError(Exception):
    """A result that has no gradient."""


def _is_float(tensor: Any) -> bool:
    return bool(tensor.is_floating_point())


def _for_torch(arguments: Call, torch: Any) -> Call:
    """Return arguments with PyTorch's dtypes in place of those here."""

    def converted(found: Any) -> Any:
        if isinstance(found, type(fw.float32)):
            return getattr(torch, found.name)
        return found

    return Call(
        tuple(converted(each) for each in arguments.args),
        {name: converted(each) for name, each in arguments.keywords.items()},
    )


@contextlib.contextmanager
def exact(peer: Peer) -> Any:
    """Compute float32 products and convolutions of the peer in float32 inside."""
    with peer.exactly():
        yield
