"""Registry of maps from unconstrained numbers onto constraints."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from . import constraints, transforms
from .constraints import Constraint
from .transforms import Transform

Factory = Callable[[Any], Transform]


class ConstraintRegistry:
    """Registry of the transforms onto constraints, by their class.

    Parameters
    ----------
    name : str
        What errors call it.

    Examples
    --------
    >>> transform_to(constraints.positive)(fw.tensor(0.0)).item()
    1.0
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._factories: dict[type[Constraint], Factory] = {}

    def register(
        self, constraint: Constraint | type[Constraint], factory: Factory | None = None
    ) -> Callable[[Factory], Factory]:
        """Declare the transform onto a constraint; a decorator without `factory`."""
        if factory is None:
            return lambda function: self._declare(constraint, function)
        self._declare(constraint, factory)
        return lambda function: function

    def _declare(
        self, constraint: Constraint | type[Constraint], factory: Factory
    ) -> Factory:
        key = constraint if isinstance(constraint, type) else type(constraint)
        if not issubclass(key, Constraint):
            raise TypeError(
                f"{self.name}.register: constraint is {constraint!r}; it must be a"
                " Constraint or its class"
            )
        self._factories[key] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        """Return the transform onto a constraint.

        Raises
        ------
        NotImplementedError
            If there is none.
        """
        for key in type(constraint).__mro__:
            if key in self._factories:
                return self._factories[key](constraint)
        raise NotImplementedError(
            f"{self.name}: there is no transform onto {constraint!r}; register one"
        )


biject_to = ConstraintRegistry("biject_to")
transform_to = ConstraintRegistry("transform_to")


def _register_both(constraint: Constraint | type[Constraint], factory: Factory) -> None:
    for registry in (biject_to, transform_to):
        registry.register(constraint, factory)


def _above(constraint: Any) -> Transform:
    if constraint.lower_bound == 0:
        return transforms.ExpTransform()
    return transforms.ComposeTransform(
        [
            transforms.ExpTransform(),
            transforms.AffineTransform(constraint.lower_bound, 1),
        ]
    )


def _below(constraint: Any) -> Transform:
    shift = transforms.AffineTransform(constraint.upper_bound, -1)
    return transforms.ComposeTransform([transforms.ExpTransform(), shift])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    scale = transforms.AffineTransform(low, high - low)
    return transforms.ComposeTransform([transforms.SigmoidTransform(), scale])


_register_both(constraints.real, lambda _: transforms.identity_transform)
_register_both(constraints.greater_than, _above)
_register_both(constraints.less_than, _below)
_register_both(constraints.interval, _between)
_register_both(constraints.corr_cholesky, lambda _: transforms.CorrCholeskyTransform())
_register_both(
    constraints.lower_cholesky, lambda _: transforms.LowerCholeskyTransform()
)
for _matrices in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_matrices, lambda _: transforms.PositiveDefiniteTransform())
biject_to.register(constraints.simplex, lambda _: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda _: transforms.SoftmaxTransform())


def _register_parts(registry: ConstraintRegistry) -> None:
    """Declare the transforms of constraints that are made of others."""

    @registry.register(constraints.independent)
    def _independent(constraint: Any) -> Transform:
        inner = registry(constraint.base_constraint)
        count = constraint.reinterpreted_batch_ndims
        return transforms.IndependentTransform(inner, count)

    @registry.register(constraints.cat)
    def _cat(constraint: Any) -> Transform:
        parts = [registry(each) for each in constraint.cseq]
        return transforms.CatTransform(parts, constraint.dim, constraint.lengths)

    @registry.register(constraints.stack)
    def _stack(constraint: Any) -> Transform:
        parts = [registry(each) for each in constraint.cseq]
        return transforms.StackTransform(parts, constraint.dim)


_register_parts(biject_to)
_register_parts(transform_to)
