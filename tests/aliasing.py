"""Aliasing of results and operands: the library beside PyTorch.

    python -m tests.aliasing                    every call, layout and dtype on the host
    python -m tests.aliasing --device llvmpipe  the same on a device

Nothing looks at addresses: operands are changed in place and results looked at, then
the reverse. The exit status says whether there was a difference.
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import torch

import vkbackend.framework as fw
from tests.alias_calls import CALLS, Shape
from vkbackend.framework import nn, ops
from vkbackend.framework.base.device import Device

DTYPES = ("float32", "int32", "bool")

LAYOUTS: dict[str, tuple[Callable[[Shape], Shape], Callable[[Any], Any]]] = {
    "plain": (lambda shape: shape, lambda base: base),
    "turned": (
        lambda shape: tuple(reversed(shape)),
        lambda base: base.permute(tuple(reversed(range(base.ndim)))),
    ),
    "part": (lambda shape: (3, *shape), lambda base: base[1]),
    "strided": (lambda shape: (*shape, 2), lambda base: base[..., 1]),
}
"""How an operand lies in its base: the base's shape, and the view of it."""


class Ours:
    """PyTorch's names in the library under test."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def __getattr__(self, name: str) -> Any:
        for module in (nn.functional, fw, nn, ops):
            # Some of the library's modules have names of functions.
            found = getattr(module, name, None)
            if found is not None and not isinstance(found, ModuleType):
                return found
        raise AttributeError(name)

    def made(self, data: np.ndarray, grad: bool = False) -> fw.Tensor:
        """Return a tensor of NumPy's elements."""
        return fw.tensor(data, None, self.device, grad)

    def BatchNorm2d(self, *args: Any, **options: Any) -> Any:
        """Return the layer on the device."""
        return nn.BatchNorm2d(*args, **options).to(self.device)


class Theirs:
    """The same names in PyTorch, on the host."""

    def __getattr__(self, name: str) -> Any:
        for module in (torch.nn.functional, torch, torch.nn):
            if hasattr(module, name):
                return getattr(module, name)
        raise AttributeError(name)

    def made(self, data: np.ndarray, grad: bool = False) -> torch.Tensor:
        """Return a tensor of NumPy's elements."""
        return torch.tensor(data, requires_grad=grad)

    def norm(self, x: torch.Tensor, p: float = 2, dim: int | None = None) -> Any:
        """Return what `norm` of the library under test is called in PyTorch."""
        return torch.linalg.vector_norm(x, p, dim)

    max_pool2d_with_indices = staticmethod(torch.nn.functional.max_pool2d_with_indices)
    im2col = staticmethod(torch.nn.functional.unfold)
    col2im = staticmethod(torch.nn.functional.fold)


class Namespace:
    """What calls use: a library's functions, and tensors beside the operands."""

    def __init__(self, library: Ours | Theirs) -> None:
        self.library = library

    def __getattr__(self, name: str) -> Any:
        return getattr(self.library, name)

    def places(self, numbers: Sequence[int]) -> Any:
        """Return an index."""
        return self.made(np.asarray(list(numbers), np.int64))

    def own_places(self, x: Any) -> Any:
        """Return for each element its place along the first dimension."""
        shape = tuple(x.shape)
        found = np.indices(shape)[0] if shape else np.zeros(())
        return self.made(found.astype(np.int64))

    def filled(self, x: Any, value: int, *shape: int) -> Any:
        """Return a tensor of the dtype of `x`."""
        return self.made(np.full(shape, value, elements(x).dtype))

    def unit_of(self, x: Any) -> Any:
        """Return the matrix that leaves the rows of `x` as they are."""
        return self.made(np.eye(x.shape[-1], dtype=elements(x).dtype))

    def listed(self, x: Any) -> Any:
        """Return the elements as lists."""
        return x.detach().tolist()


class Try(NamedTuple):
    """One call of a row of the table."""

    name: str
    shapes: tuple[Shape, ...]
    dtype: str
    layout: str
    grad: bool


def tries(name: str) -> Iterator[Try]:
    """Return every way to try a row."""
    for shapes in CALLS[name].shapes:
        for dtype in DTYPES:
            for layout in LAYOUTS:
                yield Try(name, shapes, dtype, layout, False)
                if dtype == "float32":
                    yield Try(name, shapes, dtype, layout, True)


def elements(x: Any) -> np.ndarray:
    """Return a copy of the elements."""
    return np.array(x.detach().numpy())


def change(x: Any, library: Namespace) -> None:
    """Change every element in place."""
    data = elements(x)
    other = ~data if data.dtype == np.bool_ else data + data.dtype.type(7)
    x.detach().copy_(library.made(other))


def operands(library: Namespace, each: Try) -> tuple[list[Any], list[Any]]:
    """Return bases, and the views of them that a call takes."""
    whole, view = LAYOUTS[each.layout]
    bases = []
    for number, shape in enumerate(each.shapes):
        size = int(np.prod(whole(shape)))
        data = np.random.default_rng(number).permutation(size) + 1
        if each.dtype == "bool":
            data %= 2
        data = data.reshape(whole(shape)).astype(each.dtype)
        bases.append(library.made(data, each.grad))
    return bases, [view(base) for base in bases]


def called(library: Namespace, each: Try) -> tuple[list[Any], list[Any]]:
    """Return the bases of new operands, and the results of a call on them."""
    bases, views = operands(library, each)
    found = CALLS[each.name].function(library, *views)
    return bases, list(found) if isinstance(found, tuple | list) else [found]


def moved(bystanders: Sequence[Any], x: Any, library: Namespace) -> list[bool]:
    """Return which of some tensors a change of another one changes."""
    before = [elements(each) for each in bystanders]
    change(x, library)
    return [
        bool((elements(each) != data).any()) for each, data in zip(bystanders, before)
    ]


def sharing(library: Namespace, each: Try) -> list[object]:
    """Return what a change of each operand, then of each result, changes.

    "refused" stands for a result that cannot be changed, as elements share memory.
    """
    bases, results = called(library, each)
    found: list[object] = [moved(results, base, library) for base in bases]
    for number in range(len(results)):
        bases, results = called(library, each)
        others = [*bases, *results[:number], *results[number + 1 :]]
        try:
            found.append(moved(others, results[number], library))
        except (RuntimeError, ValueError):
            found.append("refused")
    return found


def slopes(library: Namespace, each: Try) -> list[np.ndarray | None]:
    """Return the gradients of the operands' bases by the squares of the results."""
    bases, results = called(library, each)
    terms = [(result * result).sum() for result in results if result.requires_grad]
    if terms:
        sum(terms[1:], terms[0]).backward()
    return [None if base.grad is None else elements(base.grad) for base in bases]


def compare(each: Try, ours: Namespace, theirs: Namespace) -> bool:
    """Compare one call; return whether both libraries take it.

    Raises
    ------
    AssertionError
        If results share otherwise, or gradients differ.
    """
    try:
        wanted = sharing(theirs, each)
    except (RuntimeError, ValueError, IndexError, TypeError):
        return False
    try:
        found = sharing(ours, each)
    except (TypeError, ValueError):
        return False  # dtypes and sizes that are refused have tests of their own
    except Exception as error:
        raise AssertionError(f"{each}: {type(error).__name__}: {error}") from error
    assert found == wanted, f"{each}: shares {found}; PyTorch {wanted}"
    if each.grad:
        try:
            answers = slopes(theirs, each)
        except RuntimeError:
            return True  # PyTorch has no gradient of it
        for slope, exact in zip(slopes(ours, each), answers):
            assert (slope is None) == (exact is None), f"{each}: {slope}, not {exact}"
            if slope is not None and exact is not None:
                np.testing.assert_allclose(slope, exact, 1e-4, 1e-4, err_msg=f"{each}")
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare every call as the command line says; exit with 0 if all agree."""
    parser = argparse.ArgumentParser(prog="python -m tests.aliasing")
    parser.add_argument("--device", default="cpu", help="a device's name or number")
    device = fw.device(parser.parse_args(arguments).device)
    ours, theirs = Namespace(Ours(device)), Namespace(Theirs())
    taken = failures = 0
    for name in CALLS:
        count = 0
        for each in tries(name):
            try:
                count += compare(each, ours, theirs)
            except AssertionError as error:
                failures += 1
                print(error, flush=True)
        taken += count
        if not count:
            failures += 1
            print(f"{name}: no call of it was taken", flush=True)
    print(f"{len(CALLS)} rows, {taken} calls, {failures} differences, on {device.name}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
