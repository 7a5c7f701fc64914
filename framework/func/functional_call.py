"""Modules as functions of their parameters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import ops
from ..nn import Module
from ..nn.utils.stateless import functional_call

__all__ = ["functional_call", "stack_module_state"]


def stack_module_state(
    models: Sequence[Module],
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the stacked parameters and buffers of modules of one class.

    Parameters
    ----------
    models : sequence of Module
        In the same mode of training, and of the same structure.

    Returns
    -------
    tuple of dict
        Parameters, as leaves that require gradients as they did, and buffers, with a
        first dimension of the models; for `vmap` of `functional_call`.

    Raises
    ------
    RuntimeError
        If there is no model, or they differ in class or mode.
    """
    modules = [*models]
    if not modules:
        raise RuntimeError("stack_module_state: there is no model; give one or more")
    if len({type(each) for each in modules}) > 1:
        raise RuntimeError(
            "stack_module_state: the models are of the classes"
            f" {', '.join(sorted({type(each).__name__ for each in modules}))}; they"
            " must be of one"
        )
    if len({each.training for each in modules}) > 1:
        raise RuntimeError(
            "stack_module_state: some models are in training mode and some are not;"
            " call train() or eval() on all"
        )
    stacked = []
    for kind in ("named_parameters", "named_buffers"):
        rows = [dict(getattr(each, kind)()) for each in modules]
        found = {}
        for name, first in rows[0].items():
            made = ops.stack([row[name].detach() for row in rows])
            made.requires_grad = first.requires_grad
            found[name] = made
        stacked.append(found)
    return stacked[0], stacked[1]
