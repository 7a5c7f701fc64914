"""Batched tensors: what a function under `vmap` is given in the place of its tensors.

A batched tensor has the shape of one element of a batch, and stands for a real tensor
with the batch dimensions in front, one for each level of `vmap`. The tape is that of
the real tensors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ..base.errors import GradArgumentError, GradError
from ..base.scoped_setting import ScopedSetting, ScopeFrame, SettingScope
from ..base.shape import Layout, Shape
from ..base.torch_function import disabled_torch_function_impl
from ..dispatch import batching
from ..eager.base_tensor import assembled
from ..tensor.tensor import Tensor

_numbers = itertools.count()

draws: ScopedSetting = ScopedSetting("same")
"""Whether a transform that runs a function once lets it draw: as `randomness`."""


class BatchLevel:
    """Level of nested `vmap`s.

    Attributes
    ----------
    number : int
        Larger for the inner ones.
    size : int
        Elements of the batch.
    randomness : {"error", "same", "different"}
        What draws inside give.
    """

    def __init__(self, size: int, randomness: str) -> None:
        self.number = next(_numbers)
        self.size = size
        self.randomness = randomness


RANDOMNESS = ("error", "same", "different")


def check_randomness(name: str, randomness: object) -> None:
    """Raise an error for a `randomness` that there is not."""
    if randomness not in RANDOMNESS:
        raise GradArgumentError(
            f"{name}: randomness is {randomness!r}; it must be one of"
            f" {', '.join(RANDOMNESS)}"
        )


def active_levels() -> tuple[BatchLevel, ...]:
    """Return the levels of this thread, the outermost first."""
    found: tuple[BatchLevel, ...] = batching.levels.top.value
    return found


class batching_level(SettingScope):  # noqa: N801 - used as a function
    """Block of a transform, in which tensors may be batched along more levels."""

    def __init__(self, *levels: BatchLevel) -> None:
        super().__init__(batching.levels, levels)

    def value(self, outer: tuple[BatchLevel, ...]) -> tuple[BatchLevel, ...]:
        """Return the levels inside."""
        return (*outer, *[each for each in self._value if each not in outer])

    def on_enter(self, scope_frame: ScopeFrame) -> None:
        """Count the level."""
        batching.count(scope_frame, entered=True)

    def on_exit(self, scope_frame: ScopeFrame) -> None:
        """Uncount the level."""
        batching.count(scope_frame, entered=False)


class BatchedTensor(Tensor):
    """Tensor of one element of a batch, of all elements at once.

    Attributes
    ----------
    whole : Tensor
        All elements, with a dimension for each of `levels` in front.
    levels : tuple of BatchLevel
        The outermost first.
    """

    __slots__ = ("levels", "whole")

    results = Tensor
    __torch_function__ = disabled_torch_function_impl  # type: ignore[assignment]  # not asked

    whole: Tensor
    levels: tuple[BatchLevel, ...]

    def __repr__(self) -> str:
        return f"BatchedTensor(levels={len(self.levels)}, value={self.whole!r})"

    def _refuse(self, *_: object, **__: object) -> Any:
        raise GradError(
            f"vmap: a batched tensor of shape {self.shape} is read on the host, where"
            " each element of the batch may differ; choose with where(), or read it"
            " outside of vmap"
        )

    numpy = item = tolist = host_copy = host_view = __bool__ = __float__ = __int__ = (
        _refuse
    )
    __index__ = __array__ = __dlpack__ = _refuse

    def backward(self, *_: object, **__: object) -> None:
        """Refuse: gradients of batched tensors are asked for, not accumulated."""
        raise GradError(
            "vmap: backward is called on a batched tensor, whose leaves have no"
            " gradient of their own; use fw.func.grad, or backward outside of vmap"
        )

    def view_of(self, layout: Layout) -> Any:
        """Return the same elements off the tape; other layouts have no batch."""
        if layout == self.layout:
            return wrapped(self.whole.detach(), self.levels)
        return self._refuse()

    def alias(self) -> Any:
        """Return the same elements and tape entry, in a storage of their own."""
        return wrapped(self.whole.alias(), self.levels)

    @property
    def requires_grad(self) -> bool:
        """Whether the real tensor requires a gradient."""
        return self.whole.requires_grad

    @requires_grad.setter
    def requires_grad(self, flag: bool) -> None:
        self.whole.requires_grad = flag

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made the real tensor."""
        return self.whole.is_leaf

    @property
    def grad_fn(self) -> Any:
        """The node of the tape that made the real tensor."""
        return self.whole.grad_fn


def wrapped(real: Tensor, levels: tuple[BatchLevel, ...]) -> Any:
    """Return a batched tensor for a real one with batch dimensions in front."""
    if not levels:
        return real
    # A layout of its own, which is in the key of no cached call.
    layout = Layout(*Layout.contiguous(real.shape[len(levels) :]))
    made = assembled(BatchedTensor, real.array, layout, real.device)
    made.whole, made.levels = real, levels
    return made


def real_of(tensor: Tensor) -> Tensor:
    """Return the real tensor behind one that may be batched."""
    return tensor.whole if isinstance(tensor, BatchedTensor) else tensor


def levels_of(tensors: Sequence[Any]) -> tuple[BatchLevel, ...]:
    """Return the levels along which any of the tensors is batched."""
    found = {
        level.number: level
        for each in tensors
        if isinstance(each, BatchedTensor)
        for level in each.levels
    }
    return tuple([found[number] for number in sorted(found)])


def sizes_of(levels: tuple[BatchLevel, ...]) -> Shape:
    """Return the sizes of the batch dimensions."""
    return tuple([level.size for level in levels])


def aligned(tensor: Tensor, levels: tuple[BatchLevel, ...], ndim: int = 0) -> Tensor:
    """Return a real tensor with a dimension for each level, of size 1 where unbatched.

    With fewer than `ndim` dimensions, others of size 1 are put behind those.
    """
    own = tensor.levels if isinstance(tensor, BatchedTensor) else ()
    batch = tuple([level.size if level in own else 1 for level in levels])
    padding = (1,) * (ndim - tensor.ndim)
    real = real_of(tensor)
    shape = (*batch, *padding, *tensor.shape)
    return real if real.shape == shape else real.reshape(shape)


def flat(tensor: Tensor, levels: tuple[BatchLevel, ...]) -> Tensor:
    """Return a real tensor with one batch dimension in front, of all elements."""
    sizes = sizes_of(levels)
    real = aligned(tensor, levels).expand((*sizes, *tensor.shape))
    count = 1
    for size in sizes:
        count *= size
    return real.reshape((count, *tensor.shape))


def unflat(real: Tensor, levels: tuple[BatchLevel, ...]) -> Any:
    """Return a batched tensor for a real one with one batch dimension in front."""
    return wrapped(real.reshape((*sizes_of(levels), *real.shape[1:])), levels)


def batched_along(tensor: Tensor, levels: tuple[BatchLevel, ...]) -> Any:
    """Return a tensor that is batched along all of the levels."""
    if not levels or (isinstance(tensor, BatchedTensor) and tensor.levels == levels):
        return tensor
    real = aligned(tensor, levels).expand((*sizes_of(levels), *tensor.shape))
    return wrapped(real, levels)
