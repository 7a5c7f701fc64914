"""Calls of PyTorch's operator table with one argument replaced by a wrong kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw

WRONG: tuple[tuple[Any, Any], ...] = (
    (None, None),
    ("x", "x"),
    ([1, 2], [1, 2]),
    (np.ones(2), np.ones(2)),
    (object(),) * 2,
    (torch.nn.Linear(2, 2), fw.nn.Linear(2, 2)),
    (1.5, 1.5),
    ({}, {}),
)
CLASSES = (TypeError, ValueError, RuntimeError, IndexError)
INSIDE = re.compile(
    r"object has no|not iterable|not subscriptable|unsupported operand|not callable"
    r"|not supported between|bad operand|can't multiply|could not convert|_[a-z]+\(\)"
    r"|invalid literal|cannot be interpreted|argument must be|unhashable|ufunc|__"
)
"""What says where it failed inside, not what was wrong."""


def reads_well(error: Exception) -> bool:
    """Return whether an error says where, and what is wrong."""
    text = str(error)
    return isinstance(error, CLASSES) and ": " in text and not INSIDE.search(text)


def ours(value: Any) -> Any:
    """Return an argument for PyTorch as one for us."""
    if isinstance(value, torch.Tensor):
        return fw.tensor(value.detach().numpy())
    if isinstance(value, torch.dtype):
        return getattr(fw, str(value)[6:])
    if type(value) in (list, tuple):
        return type(value)(map(ours, value))
    return fw.device("cpu") if isinstance(value, torch.device) else value


def outcome(call: Callable[..., Any], args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Return the error of a call, or None."""
    try:
        call(
            *[each.clone() if hasattr(each, "clone") else each for each in args],
            **kwargs,
        )
    except Exception as error:
        return error
    return None


def samples() -> Iterator[tuple[str, Any, Any, list[Any], dict[str, Any]]]:
    """Yield functions and methods that both libraries have, with valid arguments."""
    from torch.testing._internal import common_methods_invocations as table

    found_ops: Any = table.op_db

    seen = set()
    for op in found_ops:
        name = op.name.replace("special_", "special.").replace("fft_", "fft.")
        if name in seen or name[0] == "_" or torch.float32 not in op.dtypes:
            continue
        seen.add(name)
        torch.manual_seed(0)
        try:
            drawn = list(op.sample_inputs("cpu", torch.float32, requires_grad=False))
            sample = max(drawn[:12], key=lambda each: len([*each.args, *each.kwargs]))
        except Exception:
            continue
        for theirs, mine in ((torch, fw), (torch.Tensor, fw.Tensor)):
            try:
                found = attrgetter(name)(theirs), attrgetter(name)(mine)
                args, kwargs = [sample.input, *sample.args], dict(sample.kwargs)
                valid = outcome(found[0], args, kwargs) is None and not outcome(
                    found[1], [*map(ours, args)], {k: ours(kwargs[k]) for k in kwargs}
                )
            except Exception:
                continue
            if valid:
                yield f"{mine.__name__}.{name}", *found, args, kwargs


def tried() -> tuple[list[str], list[str]]:
    """Return the calls with unclear errors, and those that only PyTorch refuses."""
    unclear, passed = [], []
    for name, theirs, mine, args, kwargs in samples():
        first = ".Tensor." in f".{name}"
        places: list[Any] = [*range(int(first), len(args)), *kwargs]
        for place in places:
            for wrong, own in WRONG:
                given = [list(args), dict(kwargs)]
                given[isinstance(place, str)][place] = wrong  # type: ignore[index]
                if outcome(theirs, *given) is None:  # type: ignore[arg-type]
                    continue
                mapped = [[*map(ours, args)], {k: ours(kwargs[k]) for k in kwargs}]
                mapped[isinstance(place, str)][place] = own  # type: ignore[index]
                error = outcome(mine, *mapped)  # type: ignore[arg-type]
                call = f"{name}({place}={type(wrong).__name__})"
                if error is None:
                    passed.append(call)
                elif not reads_well(error):
                    unclear.append(f"{call}: {error}")
    return unclear, passed
