"""Which declared ops the sweep's functions reach."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from types import FunctionType, ModuleType
from typing import Any

import vkbackend.framework.nn.layers  # noqa: F401 - declares its ops
from vkbackend.framework.dispatch.op import REGISTRY, Op

from ...op_table import names_and_texts
from .units import SweptFunction

REACHED_BY: Mapping[str, str] = {
    "gru_steps": "nn.GRU",
    "gru_states": "nn.GRU",
    "lstm_steps": "nn.LSTM",
    "lstm_states": "nn.LSTM",
    "cell_gradients": "nn.LSTM",
    "rnn_steps": "nn.RNN",
    "elman_states": "nn.RNN",
    "state_gradients": "nn.RNN",
    "multi_tensor_square_sum": "total_norm",
}
"""Ops that a function of the sweep reaches through a module or a method."""

NOT_SWEPT: Mapping[str, str] = {
    "decode_attention": "PyTorch has no such cache",
    "prefill_attention": "PyTorch has no such cache",
    "dequantize_blocks": "PyTorch has no such formats",
    "extend_cache": "PyTorch has no such cache",
    "gated_gemv": "PyTorch has no such product",
    "gated_quantized_gather_mm": "PyTorch has no such formats",
    "gated_quantized_gemv": "PyTorch has no such formats",
    "gather_mm": "PyTorch has no product with matrices by number",
    "move": "it crosses to another device, which `bench.transfers` measures",
    "quantized_gather_mm": "PyTorch has no such formats",
    "quantized_gemm": "PyTorch has no such formats",
    "quantized_gemv": "PyTorch has no such formats",
    "quantized_grouped_gemm": "PyTorch has no such formats",
    "quantized_grouped_mm": "PyTorch has no such formats",
    "quantized_product": "PyTorch has no such formats",
}
"""Ops that the sweep has not, and why."""


def reached(units: Iterable[SweptFunction]) -> set[str]:
    """Return the ops that functions name, or that what they name does.

    Gradient rules and the functions behind composite ops are followed. What is named is
    not always called, so that the set may be too large.
    """
    found: set[str] = set()
    seen: set[int] = set()
    pending: list[Any] = [_plain(unit.function) for unit in units]
    while pending:
        known = pending.pop()
        if isinstance(known, Op):
            if known.name not in found:
                found.add(known.name)
                pending += [known.function, known.rule, known.keyword_form]
        elif id(known) not in seen:
            seen.add(id(known))
            pending += _named(known)
    return found


def _plain(function: Any) -> Any:
    return function.func if isinstance(function, partial) else function


def _named(known: Any) -> list[Any]:
    """Return what of the library a function or a class names."""
    if inspect.isclass(known):
        members = [member for _, member in inspect.getmembers(known, inspect.isroutine)]
        # Of class methods, the functions behind them.
        return [getattr(member, "__func__", member) for member in members]
    if not callable(known):
        return []
    function = inspect.unwrap(known, stop=lambda each: isinstance(each, Op))
    if isinstance(function, Op):
        return [function]
    if not isinstance(function, FunctionType):
        return []
    names = names_and_texts(function.__code__)[0]
    found = [function.__globals__.get(name) for name in names]
    tables = [each for each in found if isinstance(each, dict)]
    found += [value for table in tables for value in table.values()]
    modules = [each for each in found if isinstance(each, ModuleType) and _ours(each)]
    found += [getattr(module, name, None) for module in modules for name in names]
    return [each for each in found if isinstance(each, Op) or _ours(each)]


def _ours(found: Any) -> bool:
    if isinstance(found, ModuleType):
        name = found.__name__
    elif inspect.isfunction(found) or inspect.isclass(found):
        name = found.__module__
    else:
        return False
    return name.startswith("vkbackend.framework")


def missing(units: Mapping[str, SweptFunction]) -> set[str]:
    """Return the declared ops that the sweep neither reaches nor says why not."""
    through = {op for op, name in REACHED_BY.items() if name in units}
    return set(REGISTRY) - reached(units.values()) - through - set(NOT_SWEPT)
