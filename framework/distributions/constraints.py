"""Constraints: sets that parameters and samples of distributions lie in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import ops
from ..base.dtype import bool_
from ..base.public_names import defined_names as _defined_names
from ..ops import linear_algebra as linalg
from ..tensor.tensor import Tensor

__all__ = [
    "Constraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]

Bound = Tensor | float


class Constraint:
    """Set of values; `check` says which elements are in it.

    Attributes
    ----------
    is_discrete : bool
        Whether its values are whole numbers.
    event_dim : int
        Number of trailing dimensions that make one value.
    """

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Return, for each value, whether it is in the set.

        Parameters
        ----------
        value : Tensor, shape (batch..., event...)

        Returns
        -------
        Tensor, shape (batch...), bool
        """
        raise NotImplementedError(f"{type(self).__name__}.check: it is not defined")

    def __repr__(self) -> str:
        name = type(self).__name__.lstrip("_")
        return f"{name[:1].upper()}{name[1:]}()"


class _Dependent(Constraint):
    """Set that depends on other parameters, so nothing can be checked alone."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def check(self, value: Tensor) -> Tensor:
        raise ValueError(
            "dependent.check: the set depends on a distribution's parameters; ask its"
            " `support`"
        )


class dependent_property(property):  # noqa: N801 - PyTorch's name
    """Property of a distribution that is a constraint, and one of its class as well.

    Parameters
    ----------
    function : callable, optional
        The getter; without it, this is a decorator with arguments.
    is_discrete, event_dim
        See `Constraint`.
    """

    def __init__(
        self,
        function: Callable[[Any], Constraint] | None = None,
        *,
        is_discrete: bool = False,
        event_dim: int = 0,
    ) -> None:
        super().__init__(function)
        self.is_discrete = is_discrete
        self.event_dim = event_dim

    def __call__(self, function: Callable[[Any], Constraint]) -> dependent_property:
        """Return the property of a getter."""
        return dependent_property(
            function, is_discrete=self.is_discrete, event_dim=self.event_dim
        )

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return _Dependent(is_discrete=self.is_discrete, event_dim=self.event_dim)
        return super().__get__(instance, owner)


class independent(Constraint):  # noqa: N801 - PyTorch's name
    """Set whose values are whole blocks, each element of which is in another set.

    Parameters
    ----------
    base_constraint : Constraint
    reinterpreted_batch_ndims : int
        Dimensions that become part of a value.
    """

    def __init__(
        self, base_constraint: Constraint, reinterpreted_batch_ndims: int
    ) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value)
        if self.reinterpreted_batch_ndims == 0:
            return inside
        kept = inside.ndim - self.reinterpreted_batch_ndims
        if kept < 0:
            raise ValueError(
                f"independent.check: value is {tuple(value.shape)}; it must have at"
                " least"
                f" {self.event_dim} dimensions"
            )
        return inside.reshape((*inside.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        count = self.reinterpreted_batch_ndims
        return f"IndependentConstraint({self.base_constraint!r}, {count})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        is_boolean = ((value == 0) | (value == 1)).all(-1)
        return is_boolean & (value.sum(-1) == 1)


class integer_interval(Constraint):  # noqa: N801 - PyTorch's name
    """Whole numbers from `lower_bound` to `upper_bound`."""

    is_discrete = True

    def __init__(self, lower_bound: Bound, upper_bound: Bound) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        inside = (value >= self.lower_bound) & (value <= self.upper_bound)
        return inside & (value % 1 == 0)

    def __repr__(self) -> str:
        bounds = f"lower_bound={self.lower_bound}, upper_bound={self.upper_bound}"
        return f"IntegerInterval({bounds})"


class _IntegerFrom(Constraint):
    is_discrete = True

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)

    def __repr__(self) -> str:
        return f"IntegerGreaterThan(lower_bound={self.lower_bound})"


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value


class greater_than(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers above `lower_bound`."""

    def __init__(self, lower_bound: Bound) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound

    def __repr__(self) -> str:
        return f"GreaterThan(lower_bound={self.lower_bound})"


class greater_than_eq(greater_than):  # noqa: N801 - PyTorch's name
    """Numbers from `lower_bound` on."""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound

    def __repr__(self) -> str:
        return f"GreaterThanEq(lower_bound={self.lower_bound})"


class less_than(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers below `upper_bound`."""

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound

    def __repr__(self) -> str:
        return f"LessThan(upper_bound={self.upper_bound})"


class interval(Constraint):  # noqa: N801 - PyTorch's name
    """Numbers from `lower_bound` to `upper_bound`."""

    def __init__(self, lower_bound: Bound, upper_bound: Bound) -> None:
        self.lower_bound = lower_bound
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)

    def __repr__(self) -> str:
        return (
            f"Interval(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"
        )


class half_open_interval(interval):  # noqa: N801 - PyTorch's name
    """Numbers from `lower_bound` to before `upper_bound`."""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)

    def __repr__(self) -> str:
        return f"HalfOpen{super().__repr__()}"


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class multinomial(Constraint):  # noqa: N801 - PyTorch's name
    """Counts of classes whose sum is at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Bound) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(_LowerTriangular):
    def check(self, value: Tensor) -> Tensor:
        positive = (value.diagonal(0, -2, -1) > 0).all(-1)
        return super().check(value) & positive


class _CorrCholesky(_LowerCholesky):
    def check(self, value: Tensor) -> Tensor:
        # Ten ulp of float32 for each product of a row.
        slack = 1.2e-7 * value.shape[-1] * 10
        length = value.detach().square().sum(-1).sqrt()
        unit = ((length - 1).abs() <= slack).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        is_square = value.shape[-2] == value.shape[-1]
        made: Tensor = ops.fill_like(value, value.shape[:-2], is_square, bool_)
        return made


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return value.isclose(value.mT, atol=1e-6).flatten(-2).all(-1)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (linalg.cholesky_ex(value)[1] == 0)


class cat(Constraint):  # noqa: N801 - PyTorch's name
    """Values joined along `dim` from pieces that are each in a set of their own.

    Parameters
    ----------
    cseq : sequence of Constraint
    dim : int, default 0
    lengths : sequence of int, optional
        Sizes of the pieces; 1 each if not given.
    """

    def __init__(
        self,
        cseq: Sequence[Constraint],
        dim: int = 0,
        lengths: Sequence[int] | None = None,
    ) -> None:
        self.cseq = list(cseq)
        self.dim = dim
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.cseq)
        self.is_discrete = any(each.is_discrete for each in self.cseq)
        self.event_dim = max(each.event_dim for each in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = value.split(self.lengths, self.dim)
        checks = [rule.check(piece) for rule, piece in zip(self.cseq, pieces)]
        return ops.cat(checks, self.dim)


class stack(Constraint):  # noqa: N801 - PyTorch's name
    """Values stacked along `dim` from ones that are each in a set of their own."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq = list(cseq)
        self.dim = dim
        self.is_discrete = any(each.is_discrete for each in self.cseq)
        deepest = max(each.event_dim for each in self.cseq)
        self.event_dim = deepest + 1 if deepest + dim < 0 else deepest

    def check(self, value: Tensor) -> Tensor:
        pieces = value.unbind(self.dim)
        checks = [rule.check(piece) for rule, piece in zip(self.cseq, pieces)]
        return ops.stack(checks, self.dim)


class MixtureSameFamilyConstraint(Constraint):
    """Values of a mixture, which are each in the set of all components.

    Parameters
    ----------
    base_constraint : Constraint
        Of the components.

    Raises
    ------
    AssertionError
        If `base_constraint` is no `Constraint`.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        if not isinstance(base_constraint, Constraint):
            raise AssertionError(
                "MixtureSameFamilyConstraint: base_constraint is a"
                f" {type(base_constraint).__name__}; it must be a Constraint"
            )
        self.base_constraint = base_constraint
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        inside = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        kept = value.ndim - self.event_dim
        if kept < 0:
            raise ValueError(
                f"MixtureSameFamilyConstraint.check: value is {tuple(value.shape)}; it"
                f" must have at least {self.event_dim} dimensions"
            )
        return inside.reshape((*inside.shape[:kept], -1)).all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


def is_dependent(constraint: Constraint) -> bool:
    """Return whether a constraint can be checked only with a distribution at hand."""
    return isinstance(constraint, _Dependent)


dependent = _Dependent()
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerFrom(0)
positive_integer = _IntegerFrom(1)
real = _Real()
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()


def __dir__() -> list[str]:
    """Return the public names, without what is behind them."""
    return _defined_names(globals())
