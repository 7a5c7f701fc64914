"""Variants of the calls in PyTorch's table: methods, in place, `out`, aliases, views.

Each yields calls for `operator_table`: what to call there and here, and with what.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import torch

import vkbackend.framework as fw

Functions = tuple[Callable[..., Any], Callable[..., Any]]


def _pair(name: str, tensor: bool = False) -> Functions | None:
    """Return what both libraries have under a name, `None` where one has it not."""
    places = ((torch.Tensor, fw.Tensor),) if tensor else ((torch, fw),)
    for theirs, ours in places:
        try:
            return attrgetter(name)(theirs), attrgetter(name)(ours)
        except AttributeError:
            continue
    return None


def _method(variant: Any) -> Functions | None:
    """Return the methods of a variant of the table's, which may also be a lambda."""
    name = getattr(variant, "__name__", "")
    return _pair(name, True) if name.isidentifier() else None


def method(op: Any) -> Iterator[Functions]:
    """Yield the method of an operator."""
    found = _method(op.method_variant)
    if found:
        yield found


def inplace(op: Any) -> Iterator[Functions]:
    """Yield the method that changes its tensor, called on a copy."""
    found = _method(op.inplace_variant)
    if found:
        yield _of_copy(found[0]), _of_copy(found[1])


def _of_copy(change: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that changes a copy: the answer, and the copy itself."""

    def call(x: Any, *args: Any, **kwargs: Any) -> Any:
        copy = x.clone()
        answer = change(copy, *args, **kwargs)
        assert answer is copy, "the method returns another tensor"
        return copy

    return call


def alias(op: Any) -> Iterator[Functions]:
    """Yield other names of an operator, and of its method and its change in place."""
    for each in op.aliases:
        found = _pair(each.name)
        if found:
            yield found
        if each.method_variant and (found := _pair(each.name, True)):
            yield found
        if each.inplace_variant and (found := _pair(f"{each.name}_", True)):
            yield _of_copy(found[0]), _of_copy(found[1])


def out(op: Any) -> Iterator[Functions]:
    """Yield the function written into tensors of the result's shape, and empty ones."""
    found = _pair(op.name) if op.supports_out else None
    if found:
        for empty in (False, True):
            yield _into(found[0], torch, empty), _into(found[1], fw, empty)


def _into(
    function: Callable[..., Any], library: Any, empty: bool
) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        with library.no_grad():
            answer = function(*args, **kwargs)
            if isinstance(answer, library.Tensor):
                places = _place(library, answer, empty)
            else:
                places = tuple([_place(library, each, empty) for each in answer])
            written = function(*args, **kwargs, out=places)
        same = written is places or all(
            one is two for one, two in zip(written, places, strict=True)
        )
        assert same, "out is not what is returned"
        return written

    return call


def _place(library: Any, like: Any, empty: bool) -> Any:
    if empty:
        return library.empty(0, dtype=like.dtype, device=like.device)
    return library.ones_like(like)
