"""How functions and gradients take the batched tensors of `func.vmap`, set from above.

Batched tensors are not on the tape themselves: the real tensors behind them are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class BatchedRules(NamedTuple):
    """What is called where one of several tensors may be batched.

    Attributes
    ----------
    batched : callable
        Whether any of its arguments is a batched tensor.
    apply : callable
        `Function.apply` of a class and its arguments.
    gradients : callable
        Gradients of outputs, with theirs, for inputs; and whether they are recorded.
    """

    batched: Callable[..., bool]
    apply: Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
    gradients: Callable[[Sequence[Any], Sequence[Any], Sequence[Any], bool], list[Any]]


_rules: list[BatchedRules] = []


def register(rules: BatchedRules) -> None:
    """Set the rules, which are above this package."""
    _rules[:] = [rules]


def rules_for(*tensors: Any) -> BatchedRules | None:
    """Return the rules if any argument is a batched tensor; None otherwise."""
    if _rules and _rules[0].batched(*tensors):
        return _rules[0]
    return None
