"""Rows of the op table: cases, samples and refusals."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework.base.dtype import DTYPES

Oracle = Callable[..., Any] | None


class Draw(NamedTuple):
    """Random elements of one argument; `dtype` None is the one under test."""

    shape: tuple[int, ...]
    low: float = -2.0
    high: float = 2.0
    dtype: str | None = None

    def array(self, rng: np.random.Generator, dtype: str) -> np.ndarray:
        """Return the elements."""
        wanted = DTYPES[self.dtype or dtype].numpy
        if wanted.kind == "c":
            parts = rng.uniform(self.low, self.high, (2, *self.shape))
            return (parts[0] + 1j * parts[1]).astype(wanted)
        if wanted.kind == "f":
            return rng.uniform(self.low, self.high, self.shape).astype(wanted)
        if self.dtype is not None:
            return rng.integers(int(self.low), int(self.high), self.shape).astype(
                wanted
            )
        if wanted.kind == "b":
            return rng.integers(0, 2, self.shape).astype(wanted)
        # The ends of the range, so that results overflow and wrap.
        info = np.iinfo(wanted)
        small = np.arange(-3 if info.min else 0, 5)
        edges = [info.min, info.min + 1, info.max - 1, info.max]
        return rng.choice(np.array([*small, *edges], wanted), self.shape)


@dataclass(frozen=True)
class Sample:
    """Arguments of one call: drawn arrays, then keywords."""

    draws: tuple[Draw, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether an argument has no elements."""
        return any(0 in draw.shape for draw in self.draws)


class Bad(NamedTuple):
    """A call that must fail: from a maker of tensors of ones, and how it fails."""

    call: Callable[[Callable[..., fw.Tensor]], Any]
    error: type[Exception]
    text: str


@dataclass(frozen=True)
class Case:
    """One op.

    Parameters
    ----------
    call : callable
        The public function, over tensors and a sample's keywords.
    numpy, torch : callable or None
        Oracles over arrays and over PyTorch tensors, with the same keywords.
    samples : tuple of Sample
        The first is the one that other dtypes and layouts are tried with.
    exact : bool
        Whether float results have one right answer.
    device_dtypes : tuple of str or None
        What it takes on a device, for an op that is written with others.
    gradient : bool
        Whether there is one, that finite differences can find.
    twice : bool
        Whether the gradient can be differentiated again.
    scale : float
        Factor on the tolerances, with the reason beside it.
    bad : tuple of Bad
        Calls that must fail, with pinned texts.
    """

    call: Callable[..., Any]
    samples: tuple[Sample, ...]
    numpy: Oracle = None
    torch: Oracle = None
    exact: bool = False
    device_dtypes: tuple[str, ...] | None = None
    gradient: bool = True
    twice: bool = True
    scale: float = 1.0
    bad: tuple[Bad, ...] = ()


def sample(*shapes: tuple[int, ...], **keywords: Any) -> Sample:
    """Return a sample of arguments of these shapes."""
    return Sample(tuple(Draw(shape) for shape in shapes), keywords)
