"""Distribution, the base of all distributions, and what they share."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from .. import ops
from ..autograd.grad_mode import enable_grad, no_grad
from ..base import trace_hooks
from ..base.docstring import shares_parameters
from ..base.dtype import DType, float32
from ..base.shape import Shape, Size, broadcast_shapes, size_of
from ..tensor.from_data import tensor
from ..tensor.random import randn
from ..tensor.tensor import Tensor
from . import constraints
from .constraints import Constraint

T = TypeVar("T")
Self = TypeVar("Self", bound="Distribution")
Number = Tensor | float


class Distribution:
    """Probability distribution over values of shape `event_shape`.

    Parameters
    ----------
    batch_shape : sequence of int, default ()
        Shape of a batch of independent, not identically distributed variables.
    event_shape : sequence of int, default ()
        Shape of one value.
    validate_args : bool, optional
        Whether parameters and values are compared with their constraints; None takes
        the class's default, True.

    Attributes
    ----------
    arg_constraints : mapping of str to Constraint
        Constraints of the parameters, by name.
    support : Constraint
        Constraint of the values.
    has_rsample, has_enumerate_support : bool
        Whether `rsample` and `enumerate_support` are there.

    Notes
    -----
    A check reads its result, which waits for the device; in a function under `fw.jit`
    nothing is checked.
    """

    has_rsample = False
    has_enumerate_support = False
    arg_constraints: Mapping[str, Constraint] = {}
    support: Any = constraints.dependent
    _validate_args: bool = __debug__
    # Names of the tensors that `expand` enlarges, with the dimensions of an event.
    _parameters: ClassVar[Mapping[str, int]] = {}

    def __init__(
        self,
        batch_shape: Iterable[int] = (),
        event_shape: Iterable[int] = (),
        validate_args: bool | None = None,
    ) -> None:
        self._batch_shape: Shape = tuple(batch_shape)
        self._event_shape: Shape = tuple(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args and not trace_hooks.running:
            self._check_parameters()

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check what they are given.

        Raises
        ------
        ValueError
            If `value` is neither True nor False.
        """
        if value not in (True, False):
            raise ValueError(
                f"set_default_validate_args: value is {value!r}; it must be a bool"
            )
        Distribution._validate_args = value

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint):
                continue
            value = vars(self).get(name)
            if value is None and not isinstance(
                getattr(type(self), name, None), lazy_property
            ):
                value = getattr(self, name, None)
            if not isinstance(value, Tensor):
                continue
            if not bool(constraint.check(value.detach()).all()):
                raise ValueError(
                    f"{type(self).__name__}: parameter {name} of shape"
                    f" {tuple(value.shape)} is not all in {constraint!r}: {value!r}"
                )

    def _validate_sample(self, value: Tensor) -> None:
        """Raise ValueError if a value is not one of the distribution's."""
        if not isinstance(value, Tensor):
            raise ValueError(
                f"{type(self).__name__}: value is a {type(value).__name__}; it must be"
                " a tensor"
            )
        shape = (*self._batch_shape, *self._event_shape)
        event = len(self._event_shape)
        if event and tuple(value.shape[value.ndim - event :]) != self._event_shape:
            raise ValueError(
                f"{type(self).__name__}: value is {tuple(value.shape)}; its last sizes"
                f" must be {self._event_shape}"
            )
        try:
            broadcast_shapes("value", tuple(value.shape), shape)
        except ValueError:
            raise ValueError(
                f"{type(self).__name__}: value is {tuple(value.shape)}; it must"
                f" broadcast with {shape}"
            ) from None
        if trace_hooks.running:
            return
        support = self.support
        if not constraints.is_dependent(support) and not bool(
            support.check(value.detach()).all()
        ):
            raise ValueError(
                f"{type(self).__name__}: value of shape {tuple(value.shape)} is not"
                f" all in {support!r}: {value!r}"
            )

    # Shapes

    @property
    def batch_shape(self) -> Size:
        """Shape of the batch of parameters."""
        return size_of(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        """Shape of one value."""
        return size_of(self._event_shape)

    def _extended_shape(self, sample_shape: Iterable[int] = ()) -> Shape:
        if isinstance(sample_shape, int):
            sample_shape = (sample_shape,)
        return (*sample_shape, *self._batch_shape, *self._event_shape)

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """Return the object that `expand` of a class fills: new, or the one given."""
        if _instance is not None:
            return _instance
        own: Any = type(self)
        if own.__init__ is not cls.__init__:
            raise NotImplementedError(
                f"{type(self).__name__}.expand: it has an __init__ of its own, but"
                f" not the expand of {cls.__name__}; define expand, too"
            )
        return type(self).__new__(type(self))

    def expand(self: Self, batch_shape: Iterable[int], _instance: Any = None) -> Self:
        """Return the distribution with parameters expanded to a batch shape.

        A subclass may give `_instance`, an object that it has begun itself.
        """
        shape = tuple(batch_shape)
        new = type(self).__new__(type(self)) if _instance is None else _instance
        vars(new).update({**vars(self), **vars(new)})
        for name, event_dim in self._parameters.items():
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                event = tuple(value.shape[value.ndim - event_dim :])
                vars(new)[name] = value.expand((*shape, *event))
        new._batch_shape = shape
        return new

    # What each distribution defines

    @property
    def mean(self) -> Tensor:
        """Mean."""
        raise NotImplementedError(f"{type(self).__name__}.mean: it is not defined")

    @property
    def mode(self) -> Tensor:
        """Most probable value."""
        raise NotImplementedError(f"{type(self).__name__}.mode: it is not defined")

    @property
    def variance(self) -> Tensor:
        """Variance."""
        raise NotImplementedError(f"{type(self).__name__}.variance: it is not defined")

    @property
    def stddev(self) -> Tensor:
        """Standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws without a gradient, of shape sample, batch and event."""
        with no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Iterable[int] = ()) -> Tensor:
        """Return draws through which gradients flow to the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__}.rsample: draws of it have no gradient; use sample"
        )

    def sample_n(self, n: int) -> Tensor:
        """Return `n` draws."""
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density or probability at `value`."""
        raise NotImplementedError(f"{type(self).__name__}.log_prob: it is not defined")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of what is at most `value`."""
        raise NotImplementedError(f"{type(self).__name__}.cdf: it is not defined")

    def icdf(self, value: Tensor) -> Tensor:
        """Return where the cumulative distribution is `value`."""
        raise NotImplementedError(f"{type(self).__name__}.icdf: it is not defined")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values, along the first dimension."""
        raise NotImplementedError(
            f"{type(self).__name__}.enumerate_support: its values cannot be listed"
        )

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        raise NotImplementedError(f"{type(self).__name__}.entropy: it is not defined")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return self.entropy().exp()

    def __repr__(self) -> str:
        shown = []
        for name in self.arg_constraints:
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                one = value.numel() == 1
                shown.append(f"{name}: {value if one else value.shape}")
        return f"{type(self).__name__}({', '.join(shown)})"


@shares_parameters(Distribution)
class ExponentialFamily(Distribution):
    """Distribution of an exponential family; its members define their entropies."""


def broadcast_all(*values: Number) -> list[Tensor]:
    """Return numbers and tensors as tensors of one shape.

    Numbers take the dtype and device of the first tensor; float32 and the host if
    there is none.

    Raises
    ------
    ValueError
        If a value is neither a number nor a tensor, or shapes do not broadcast.
    """
    for value in values:
        if not isinstance(value, Tensor | int | float):
            raise ValueError(
                "broadcast_all: a parameter is a"
                f" {type(value).__name__}; it must be a number or a tensor"
            )
    anchor = next((each for each in values if isinstance(each, Tensor)), None)
    made = [
        each if isinstance(each, Tensor) else _number_like(each, anchor)
        for each in values
    ]
    shape = broadcast_shapes("broadcast_all", *(tuple(each.shape) for each in made))
    return [each if each.shape == shape else each.expand(shape) for each in made]


def standard_normal(shape: Sequence[int], dtype: DType, device: Any) -> Tensor:
    """Return numbers of the standard normal distribution."""
    return randn(*shape, dtype=dtype, device=device)


def _number_like(value: float, anchor: Tensor | None) -> Tensor:
    if anchor is None:
        return tensor(float(value), dtype=float32)
    dtype: DType = anchor.dtype if anchor.dtype.is_float else float32
    return tensor(float(value), dtype=dtype, device=anchor.device)


def filled(value: float, like: Tensor) -> Tensor:
    """Return a tensor of one value in the shape and dtype of another."""
    made: Tensor = ops.fill_like(like, like.shape, value, like.dtype)
    return made


def counted(
    count: int, like: Tensor, start: int = 0, dtype: DType | None = None
) -> Tensor:
    """Return the numbers from `start` on, on the device of another tensor."""
    kind = like.dtype if dtype is None else dtype
    made: Tensor = ops.arange_like(like, (count,), start, 1, kind)
    return made


def softplus(x: Tensor) -> Tensor:
    """Return log(1 + exp(x)), exact for large elements too."""
    return -ops.log_sigmoid(-x)


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """Return the sum over the last `count` dimensions."""
    if count == 0:
        return value
    return value.reshape((*value.shape[: value.ndim - count], -1)).sum(-1)


class lazy_property(cached_property[T]):  # noqa: N801 - as `property`
    """Property computed once, when it is first read, with gradients.

    An assignment takes its place, so either of two parametrisations may be given.
    """

    if TYPE_CHECKING:

        def __get__(self, instance: Any, owner: type | None = None) -> T:  # type: ignore[override]  # none asks the class for it
            """Return the value."""

    else:

        def __get__(self, instance: Any, owner: type | None = None) -> T:
            """Return the value, computed when it is first read."""
            with enable_grad():
                return super().__get__(instance, owner)


EPS = {
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float32": 2.0**-23,
    "float64": 2.0**-52,
}
"""Distance from 1 to the next number, by dtype."""


def clamp_probs(probs: Tensor) -> Tensor:
    """Return probabilities kept from 0 and 1 by an ulp, for their logarithms."""
    eps = EPS.get(probs.dtype.name, EPS["float32"])
    return probs.clamp(min=eps, max=1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Return the log odds of probabilities, or of classes their logarithms."""
    clamped = clamp_probs(probs)
    if is_binary:
        return clamped.log() - ops.log1p(-clamped)
    return clamped.log()


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Return the probabilities of log odds, or of classes."""
    return ops.sigmoid(logits) if is_binary else ops.softmax(logits, -1)


def exactly_one(name: str, probs: object, logits: object) -> None:
    """Raise ValueError unless one of two parametrisations is given."""
    if (probs is None) == (logits is None):
        which = "neither" if probs is None else "both"
        raise ValueError(
            f"{name}: of probs and logits {which} were given; give exactly one"
        )


LOG_2_PI = math.log(2 * math.pi)
EULER = 0.57721566490153286060
