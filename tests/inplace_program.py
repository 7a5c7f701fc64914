"""In-place programs as data, and a builder that makes one step by step.

Elements are small whole numbers, so that every result is exact and libraries must
agree to the last bit. A `Maker` runs each step in PyTorch as it adds it; what PyTorch
refuses, and what would leave the small numbers, is left out. Documented differences are
too: what requires a gradient is not changed in place, and what is saved for a gradient
neither. Another is evened out: results are contiguous, where PyTorch's keep the strides
of operands, so that `reshape` of a result is a view more often.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from hypothesis import strategies as st

from tests.program import Ref, Step, call

LARGEST = 100
MOST_ELEMENTS = 64
MOST_DIMS = 4

DYNAMIC = {"chosen", "masked_select"}
"""Calls whose shapes depend on elements, which a trace cannot have."""


@dataclass(frozen=True)
class Given:
    """A tensor that a program starts from; `fed` ones are not changed in place."""

    shape: tuple[int, ...]
    dtype: str
    fed: bool
    grad: bool


@dataclass(frozen=True)
class InPlaceProgram:
    """Inputs and steps, whose values are numbered in this order."""

    seed: int
    inputs: tuple[Given, ...]
    steps: tuple[Step, ...]

    def __repr__(self) -> str:
        lines = [f"seed {self.seed}"]
        for number, each in enumerate(self.inputs):
            notes = ", fed" * each.fed + ", requires_grad=True" * each.grad
            lines.append(f"v{number} = input({each.shape}, {each.dtype}{notes})")
        for number, step in enumerate(self.steps, len(self.inputs)):
            lines.append(f"v{number} = {step!r}")
        return "\n" + "\n".join(lines)

    @property
    def is_static(self) -> bool:
        """Whether a trace can have all steps."""
        return not any(step.name in DYNAMIC for step in self.steps)

    def data(self) -> list[np.ndarray]:
        """Return the elements of the inputs."""
        rng = np.random.default_rng(self.seed)
        return [
            np.asarray(rng.integers(-3, 4, each.shape)).astype(each.dtype)
            for each in self.inputs
        ]


def _set(lib: Any, x: Any, index: Any, value: Any) -> Any:
    x[index] = value
    return x


def _added(lib: Any, x: Any, index: Any, value: Any) -> Any:
    x[index] += value
    return x


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "getitem": lambda lib, x, index: x[index],
    "chosen": lambda lib, x, mask: x[mask],
    "setitem": _set,
    "additem": _added,
    "one_of": lambda lib, x, name, number, *args: getattr(x, name)(*args)[number],
    "T": lambda lib, x: x.T,
    "mT": lambda lib, x: x.mT,
    "cat": lambda lib, parts, dim: lib.cat(parts, dim),
    "stack": lambda lib, parts, dim: lib.stack(parts, dim),
    "where": lambda lib, mask, x, y: lib.where(mask, x, y),
    "pad": lambda lib, x, pad: lib.nn.functional.pad(x, pad),
    "einsum": lambda lib, x: lib.einsum("...->...", x),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5, False),
    "same_dtype": lambda lib, x: x.to(x.dtype),
    "drop": lambda lib, x: None,
    "read": lambda lib, x: x,
}
"""What is no method of that name."""


def function(name: str, lib: Any) -> Callable[..., Any]:
    """Return what a name means in a library."""
    found = FUNCTIONS.get(name)
    if found is not None:
        return lambda *args, **keywords: found(lib, *args, **keywords)
    return lambda x, *args, **keywords: getattr(x, name)(*args, **keywords)


def in_torch(step: Step, values: Sequence[Any]) -> Any:
    """Return what a step makes of earlier values; contiguous if it is no view."""
    made = call(step, function(step.name, torch), values, torch.tensor)
    if isinstance(made, torch.Tensor) and not made.is_contiguous():
        before = {memory(value) for value in values if value is not None}
        return made if memory(made) in before else made.contiguous()
    return made


def is_small(x: torch.Tensor) -> bool:
    """Return whether all elements are numbers that every dtype holds."""
    return not x.numel() or bool((x.detach().double().abs() <= LARGEST).all())


class Maker:
    """A program in the making, and what its values are in PyTorch."""

    def __init__(
        self, draw: Callable[[Any], Any], seed: int, inputs: tuple[Given, ...]
    ) -> None:
        self.draw = draw
        self.inputs = inputs
        self.steps: list[Step] = []
        self.values: list[Any] = [
            torch.tensor(data, requires_grad=each.grad)
            for data, each in zip(InPlaceProgram(seed, inputs, ()).data(), inputs)
        ]
        self.bases = list(self.values)
        self.fed = {
            memory(value) for value, each in zip(self.values, inputs) if each.fed
        }

    def one(self, choices: Sequence[Any]) -> Any:
        """Return one of some choices."""
        return self.draw(st.sampled_from(list(choices)))

    def number(self, least: int, most: int) -> int:
        """Return a number, both ends included."""
        found: int = self.draw(st.integers(least, most))
        return found

    def refs(self, fits: Callable[[torch.Tensor], bool]) -> list[Ref]:
        """Return the values there are that fit, newest first."""
        return [
            Ref(number)
            for number, value in reversed(list(enumerate(self.values)))
            if value is not None and fits(value)
        ]

    def any(self, fits: Callable[[torch.Tensor], bool] = lambda x: True) -> Ref | None:
        """Return a value that fits, if there is one."""
        found = self.refs(fits)
        return self.one(found) if found else None

    def target(
        self, fits: Callable[[torch.Tensor], bool] = lambda x: True
    ) -> Ref | None:
        """Return a value that may be changed in place.

        None that shares memory with one on the tape, as what `detach` gives does.
        """
        kept = self.fed | {
            memory(value)
            for value in self.values
            if value is not None and value.requires_grad
        }
        return self.any(
            lambda x: (
                not x.requires_grad
                and memory(x) not in kept
                and not overlaps(x)
                and fits(x)
            )
        )

    def source(self, target: Ref) -> Ref | None:
        """Return a value that broadcasts to a target and is of its dtype."""
        x = self[target]
        return self.any(
            lambda y: (
                y.dtype is x.dtype
                and not y.requires_grad
                and fits_into(tuple(y.shape), tuple(x.shape))
                and memory(y) != memory(x)
            )
        )

    def __getitem__(self, ref: Ref) -> torch.Tensor:
        value = self.values[ref.number]
        assert value is not None
        return value  # type: ignore[no-any-return]

    def add(self, name: str, *arguments: Any, **keywords: Any) -> None:
        """Add a step unless PyTorch refuses it or numbers become too large."""
        step = Step(name, arguments, keywords)
        before = [(base, base.detach().clone()) for base in self._storages()]
        try:
            made = in_torch(step, self.values)
        except (RuntimeError, IndexError, ValueError, TypeError):
            made = False
        fits = made is None or (
            isinstance(made, torch.Tensor)
            and made.numel() <= MOST_ELEMENTS
            and made.ndim <= MOST_DIMS
            and is_small(made)
            and all(is_small(base) for base, _ in before)
        )
        if not fits:
            for base, data in before:
                base.detach().copy_(data)
            return
        if name == "drop":
            self.values[arguments[0].number] = None
        self.steps.append(step)
        self.values.append(made)

    def _storages(self) -> list[torch.Tensor]:
        """Return one tensor for each storage, that covers it."""
        found = {}
        for value in [*self.bases, *self.values]:
            if value is not None and not value.requires_grad and value.numel():
                whole = value.detach().as_strided(
                    (value.untyped_storage().nbytes() // value.element_size(),), (1,), 0
                )
                found.setdefault(memory(value), whole)
        return list(found.values())


def memory(x: torch.Tensor) -> int:
    """Return what tells the storage of a tensor from others."""
    return x.untyped_storage().data_ptr()


def overlaps(x: torch.Tensor) -> bool:
    """Return whether elements of a tensor may share memory with each other."""
    dims = sorted((step, size) for step, size in zip(x.stride(), x.shape) if size > 1)
    reach = 1
    for step, size in dims:
        if step < reach:
            return True
        reach = step * (size - 1) + reach
    return False


def fits_into(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """Return whether a shape broadcasts to another."""
    return len(shape) <= len(wanted) and all(
        size in (1, other) for size, other in zip(shape[::-1], wanted[::-1])
    )
