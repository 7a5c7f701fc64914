"""Transforms and their combinations: inverse, in a row, of parts, of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from ... import ops
from ...tensor.tensor import Tensor
from .. import constraints
from ..constraints import Constraint
from ..distribution import filled, sum_rightmost


class Transform:
    """Invertible map with a known Jacobian.

    Parameters
    ----------
    cache_size : int, default 0
        1 keeps the last pair of argument and result, so that `inv` returns it exactly.

    Attributes
    ----------
    domain, codomain : Constraint
        Where arguments and results lie.
    bijective : bool
        Whether each result has one argument.
    sign : int
        1 if it rises, -1 if it falls.

    Raises
    ------
    ValueError
        If `cache_size` is neither 0 nor 1.
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real
    sign: Any = 1

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(
                f"Transform: cache_size is {cache_size}; it must be 0 or 1"
            )
        self._cache_size = cache_size
        self._cached: tuple[Tensor, Tensor] | None = None

    @property
    def event_dim(self) -> int:
        """Dimensions of a value; of domain and codomain the same."""
        first: int = self.domain.event_dim
        if first != self.codomain.event_dim:
            raise ValueError(
                f"{type(self).__name__}.event_dim: domain has {first}, codomain"
                f" {self.codomain.event_dim}; ask these"
            )
        return first

    @property
    def inv(self) -> Transform:
        """Inverse map."""
        return _InverseTransform(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return this map with a cache, or without."""
        self._cache_size = cache_size
        self._cached = None
        return self

    def __call__(self, x: Tensor) -> Tensor:
        """Return the result for `x`."""
        if self._cache_size == 0:
            return self._call(x)
        if self._cached is not None and self._cached[0] is x:
            return self._cached[1]
        y = self._call(x)
        self._cached = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size and self._cached is not None and self._cached[1] is y:
            return self._cached[0]
        x = self._inverse(y)
        if self._cache_size:
            self._cached = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: no map is defined")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__}: no inverse is defined")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the Jacobian's determinant, without its sign."""
        raise NotImplementedError(f"{type(self).__name__}: no Jacobian is defined")

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result for an argument of a shape."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the argument for a result of a shape."""
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _InverseTransform(Transform):
    """Inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__()
        self._inv = transform
        self.bijective = transform.bijective
        self.sign = transform.sign
        self.domain, self.codomain = transform.codomain, transform.domain

    @property
    def inv(self) -> Transform:
        """The map itself."""
        return self._inv

    def __call__(self, x: Tensor) -> Tensor:
        """Return the argument whose result is `x`."""
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the logarithm of the Jacobian's determinant, without its sign."""
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result for an argument of a shape."""
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the argument for a result of a shape."""
        return self._inv.forward_shape(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __hash__(self) -> int:
        return hash((_InverseTransform, self._inv))


class ComposeTransform(Transform):
    """Several maps, one after the other.

    Parameters
    ----------
    parts : sequence of Transform
    cache_size : int, default 0
        See `Transform`.
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        self.parts = [
            each.with_cache(cache_size) if cache_size else each for each in parts
        ]
        super().__init__(cache_size)
        self.bijective = all(each.bijective for each in self.parts)
        self.sign = 1
        for each in self.parts:
            self.sign = self.sign * each.sign
        self.domain, self.codomain = self._ends()

    def _ends(self) -> tuple[Constraint, Constraint]:
        if not self.parts:
            return constraints.real, constraints.real
        first, last = self.parts[0].domain, self.parts[-1].codomain
        forward = first.event_dim
        for part in self.parts:
            forward = max(forward, part.domain.event_dim)
            forward += part.codomain.event_dim - part.domain.event_dim
        backward = last.event_dim
        for part in self.parts[::-1]:
            backward = max(backward, part.codomain.event_dim)
            backward += part.domain.event_dim - part.codomain.event_dim
        if backward > first.event_dim:
            first = constraints.independent(first, backward - first.event_dim)
        if forward > last.event_dim:
            last = constraints.independent(last, forward - last.event_dim)
        return first, last

    @property
    def inv(self) -> Transform:
        """Inverses of the maps in the other order."""
        return ComposeTransform([each.inv for each in self.parts[::-1]])

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in self.parts[::-1]:
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over the maps."""
        if not self.parts:
            return filled(0, x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        values.append(y)
        total: Tensor | None = None
        event_dim = self.domain.event_dim
        for part, before, after in zip(self.parts, values, values[1:]):
            term = sum_rightmost(
                part.log_abs_det_jacobian(before, after),
                event_dim - part.domain.event_dim,
            )
            total = term if total is None else total + term
            event_dim += part.codomain.event_dim - part.domain.event_dim
        assert total is not None
        return total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result for an argument of a shape."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the argument for a result of a shape."""
        for part in self.parts[::-1]:
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(tuple(self.parts))

    def __repr__(self) -> str:
        inner = ",\n    ".join(map(repr, self.parts))
        return f"ComposeTransform(\n    {inner}\n)"


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """Map whose last batch dimensions become part of a value.

    Parameters
    ----------
    base_transform : Transform
    reinterpreted_batch_ndims : int
    cache_size : int, default 0
        See `Transform`.
    """

    def __init__(
        self,
        base_transform: Transform,
        reinterpreted_batch_ndims: int,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = count = reinterpreted_batch_ndims
        self.bijective, self.sign = base_transform.bijective, base_transform.sign
        self.domain = constraints.independent(base_transform.domain, count)
        self.codomain = constraints.independent(base_transform.codomain, count)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inv_call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the sum over the reinterpreted dimensions."""
        inner = self.base_transform.log_abs_det_jacobian(x, y)
        return sum_rightmost(inner, self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result for an argument of a shape."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the argument for a result of a shape."""
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Change of the shape of a value.

    Parameters
    ----------
    in_shape, out_shape : sequence of int
        With as many elements.
    cache_size : int, default 0
        See `Transform`.

    Raises
    ------
    ValueError
        If the numbers of elements differ.
    """

    bijective = True

    def __init__(
        self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0
    ) -> None:
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(
                f"ReshapeTransform: in_shape is {self.in_shape}, out_shape"
                f" {self.out_shape}; they must have as many elements"
            )
        super().__init__(cache_size)
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _swapped(
        self, shape: Sequence[int], old: tuple[int, ...], new: tuple[int, ...]
    ) -> tuple[int, ...]:
        cut = len(shape) - len(old)
        if cut < 0 or tuple(shape[cut:]) != old:
            raise ValueError(
                f"ReshapeTransform: the shape is {tuple(shape)}; it must end in {old}"
            )
        return (*shape[:cut], *new)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(self.forward_shape(x.shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(self.inverse_shape(y.shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return zeros."""
        batch = x.shape[: x.ndim - len(self.in_shape)]
        return x.new_zeros(batch)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the result for an argument of a shape."""
        return self._swapped(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Return the shape of the argument for a result of a shape."""
        return self._swapped(shape, self.out_shape, self.in_shape)


class CatTransform(Transform):
    """Maps of pieces along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int, default 0
    lengths : sequence of int, optional
        Sizes of the pieces; 1 each if not given.
    cache_size : int, default 0
        See `Transform`.
    """

    def __init__(
        self,
        tseq: Sequence[Transform],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
        cache_size: int = 0,
    ) -> None:
        super().__init__(cache_size)
        self.transforms = list(tseq)
        self.lengths = list(lengths) if lengths is not None else [1] * len(tseq)
        self.dim = dim
        self.bijective = all(each.bijective for each in self.transforms)
        rules = [each.domain for each in self.transforms]
        self.domain = constraints.cat(rules, dim, self.lengths)
        rules = [each.codomain for each in self.transforms]
        self.codomain = constraints.cat(rules, dim, self.lengths)

    def _each(self, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        pieces = [value.split(self.lengths, self.dim) for value in values]
        done = [function(t, *part) for t, *part in zip(self.transforms, *pieces)]
        return ops.cat(done, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return self._each(lambda transform, piece: transform(piece), x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._each(lambda transform, piece: transform._inv_call(piece), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the pieces, joined."""
        return self._each(
            lambda transform, *pair: transform.log_abs_det_jacobian(*pair), x, y
        )


class StackTransform(Transform):
    """Maps of the slices along a dimension.

    Parameters
    ----------
    tseq : sequence of Transform
    dim : int, default 0
    cache_size : int, default 0
        See `Transform`.
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(each.bijective for each in self.transforms)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def _each(self, function: Callable[..., Tensor], *values: Tensor) -> Tensor:
        slices = [value.unbind(self.dim) for value in values]
        done = [function(t, *part) for t, *part in zip(self.transforms, *slices)]
        return ops.stack(done, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return self._each(lambda transform, piece: transform(piece), x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._each(lambda transform, piece: transform._inv_call(piece), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return those of the slices, stacked."""
        return self._each(
            lambda transform, *pair: transform.log_abs_det_jacobian(*pair), x, y
        )
