"""Calls of every function that is here and in PyTorch, and how their outcomes differ.

Each function is called with each of a list of argument patterns, tensors of one dtype
among them. Most of these calls are no use of the function: they must be refused. What
is known to differ is in `tests/data/generated_calls.txt`, under the reason for each;
`python -m tests.generated_calls` writes it anew, of all sweeps or those that are named,
and prints what differs.
"""

from __future__ import annotations

import sys
import types
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

import vkbackend.framework as fw
from tests.operator_calls import FREE, RANDOM, gap, same_dtype, tensors
from vkbackend.framework.base.device import CPU, Device

DTYPES = (
    "float32", "int64", "float64", "bool", "float16", "uint8", "complex64", "int32",
    "bfloat16", "int8",
)  # fmt: skip
SPACES = ("torch", "nn.functional", "special", "linalg", "fft", "Tensor")
SWEEPS = tuple(f"{where} {space}" for where in ("host", "lavapipe") for space in SPACES)
"""Where the calls are made, and the functions of which module."""

STEPS = {"host": 7, "lavapipe": 150}
"""Of how many patterns one is called with a dtype, another with the next; on the host
float32 meets all."""

KNOWN = Path(__file__).parent / "data" / "generated_calls.txt"
"""Differences that there are, under the reason for each, in brackets: sweep, function,
kind, and how many calls differ."""
UNEXPLAINED = "unexplained"

# `s v m b e` have 0, 1, 2, 3 dimensions and no elements, `q` is square, `n` a view that
# is not contiguous, `r` broadcasts; `i j` are indices, `k` a mask; `o p c` are float32,
# float64 and complex64, the others of the dtype of the sweep.
ONE = """
s | v | m | q | b | e | n
m, 0 | m, -1 | m, 2 | m, -3 | s, 0 | s, -1 | s, 1 | e, 0 | e, 1 | v, 2 | m, None
m, 1, True | m, dim=-2 | m, dim=1, keepdim=True | b, (0, -1) | b, (0, 0) | b, dim=()
m, True | m, 1.5 | m, -1.5 | m, 'sum' | m, (1, 1) | m, [2] | m, 1j | b, 1, 2
m, dtype=T.float32 | m, dtype=T.int64 | m, dtype=T.complex64 | m, dtype='float32'
[m, m] | (v, v) | [m, r], 0 | [v, s] | [] | m, out=T.empty(0) | m, 0, out=T.empty(3)
m, out=T.empty(2, 3, dtype=T.int64) | m, 1, 1 | m, 0, 1, 2 | v, 1, 0, 2 | b, 2, 0, 1
None | 2 | 1.5 | 'a'
"""
TWO = """
m, m | m, r | r, n | m, s | s, m | q, q | v, v | m, v | q, v | b, b | e, e | e, r
m, v[:2] | 2, m | 1.5, m | m, i | m, k | m, o | o, m | m, p | s, o | m, c | s, s
m, m, out=T.empty(0) | m, m, out=T.empty(2, 3, dtype=T.int64) | m, m, m[0] | m, [0, 1]
m, q | v, i[::2]
"""
THREE = """
m, m, m | q, q, q | v, v, v | m, r, s | k, m, m | k, m, 2 | k, 1.5, m | m, k, m
m, k, s | m, 0, j | m, -1, j | m, 0, j, m | m, 0, j, 2 | m, 0, i[:2], m | m, 0, i, m
m, 5, j | m, m, 0.5 | m, m, m, 2 | m, m, 1, 2 | v, q, v | m, m, q | q, v, v | b, b, b
m, m, o | m, o, m | m, m, alpha=2 | m, m, alpha=1.5 | m, m, m, value=0.5 | q, q, dim=0
m, m, reduction='none' | m, m, reduction='x' | m, 0, 2 | m, 1, 0, 2 | m, v, i[:2]
m, i[:2] | m, k, 2
"""
PATTERNS = [
    pattern.strip()
    for lines in (ONE, TWO, THREE)
    for pattern in lines.replace("\n", "|").split("|")
    if pattern.strip()
]
CODE = {each: compile(f"f({each})", each, "eval") for each in PATTERNS}
WITHOUT_TENSOR = ("[", "(", "None", "2", "1.5", "'a'")
"""How patterns begin that are no calls of a method."""

BEYOND = ("m, 2", "m, -3", "s, 1", "v, 2", "m, 5, j")
"""Patterns of which nothing is wrong but a dimension, where PyTorch says IndexError."""

# Functions of a process's state, of files and devices, and what gives memory as it is.
LEFT_OUT = """
set_ get_ is_anomaly is_autocast is_deterministic is_inference is_grad are_det
autocast_ use_det clear_ seed initial_seed manual_seed save load compile from_ vmap
empty frombuffer storage untyped data_ptr record_stream share_memory cuda cpu
pin_memory is_pinned to_dlpack resize new apply_ map_ sym_ register_ retain backward
is_storage can_cast numpy as_strided sparse to_sparse indices values coalesce ccol crow
col_ row_ is_coalesced type
"""

BY_BLAS = ("addmv_", "addmm_", "addbmm_", "baddbmm_")
"""Products that are added to their first argument. Where that is one of the others too,
PyTorch reads what it has written, in the order of the processor's BLAS."""

# What PyTorch raises where an argument is of a kind that a function does not take,
# before it looks at any value. Which of several wrong arguments is named is free.
WRONG_KIND = (TypeError, AttributeError, AssertionError, ZeroDivisionError)
REFUSALS = (TypeError, ValueError, RuntimeError, IndexError)


class Function(NamedTuple):
    """A function by its name, of PyTorch and here."""

    name: str
    theirs: Callable[..., Any]
    ours: Callable[..., Any]


class Difference(NamedTuple):
    """One difference: its kind, the call, and what came of it."""

    kind: str
    call: str
    detail: str


def functions(space: str) -> Iterator[Function]:
    """Yield the public functions of a module that are here and in PyTorch."""
    theirs, ours = torch, fw
    for part in () if space == "torch" else space.split("."):
        theirs, ours = getattr(theirs, part), getattr(ours, part)
    left_out = tuple(LEFT_OUT.split())
    for name in dir(theirs):
        one, two = getattr(theirs, name), getattr(ours, name, None)
        if name.startswith(("_", *left_out)) or not (callable(one) and callable(two)):
            continue
        if not isinstance(one, type | types.ModuleType):
            yield Function(f"{space}.{name}", one, two)


def place(where: str) -> Device:
    """Return the host or the Vulkan device."""
    return CPU if where == "host" else fw.device()


def differences(sweep: str) -> Iterator[Difference]:
    """Make the calls of a sweep, and compare their outcomes."""
    where, space = sweep.split()
    for function in functions(space):
        for at, dtype in enumerate(DTYPES):
            step = 1 if where == "host" and not at else STEPS[where]
            for pattern in PATTERNS[at % step :: step]:
                if space == "Tensor" and pattern.startswith(WITHOUT_TENSOR):
                    continue
                yield from _differences(function, pattern, dtype, place(where))


def _differences(
    function: Function, pattern: str, dtype: str, device: Device
) -> Iterator[Difference]:
    wanted = outcome(function.theirs, pattern, scope(torch, dtype, None))
    found = outcome(function.ours, pattern, scope(fw, dtype, device))
    beyond = isinstance(wanted, IndexError) and pattern in BEYOND
    first, *others = pattern.split(", ")
    undefined = function.name.endswith(BY_BLAS) and first in others
    for kind, detail in _compared(function.name, wanted, found, beyond, undefined):
        yield Difference(kind, f"{function.name}({pattern}) of {dtype}", detail)


def scope(library: Any, dtype: str, device: Device | None) -> dict[str, Any]:
    """Return the arguments by their names in the patterns."""
    kind, at = getattr(library, dtype), {} if device is None else {"device": device}

    def made(values: Any, dtype: Any = kind) -> Any:
        return library.tensor(values, **at).to(dtype)

    whole = dtype in ("bool", "uint8")
    m = [[1, 0, 2], [3, 1, 1]] if whole else [[0.5, -1.25, 2], [0, 1, -3]]
    q = [[2, 1, 0], [1, 3, 1], [0, 1, 2]]
    return {
        "T": library, "s": made(2), "v": made([1, 2, 3]), "m": made(m), "q": made(q),
        "b": made([q, q]), "e": made(np.ones((0, 3)).tolist()).reshape(0, 3),
        "n": made([*zip(*m, strict=True)]).transpose(0, 1), "r": made([[2, 1, 1]]),
        "i": made([0, 1, 1], library.int64), "j": made([[0, 1, 1]], library.int64),
        "k": made([[True, False, True], [False, True, True]], library.bool),
        "o": made(m, library.float32), "p": made(m, library.float64),
        "c": made(m, library.complex64),
    }  # fmt: skip


def outcome(function: Callable[..., Any], pattern: str, names: dict[str, Any]) -> Any:
    """Return what a call gives, with the tensors that it may change; or its error."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            answer = eval(CODE[pattern], {**names, "f": function})
            answer = list(answer) if isinstance(answer, Iterator) else answer
            for tensor in tensors(answer):
                if isinstance(tensor, fw.Tensor):
                    tensor.detach().numpy()
        except Exception as error:
            return error
        changed = function.__name__.endswith("_")
        given = [x for x in names.values() if isinstance(x, torch.Tensor | fw.Tensor)]
        return answer, given if changed else []


def _compared(
    name: str, wanted: Any, found: Any, beyond: bool, undefined: bool
) -> Iterator[tuple[str, str]]:
    if isinstance(wanted, Exception):
        if not isinstance(found, Exception):
            if not isinstance(wanted, WRONG_KIND):
                yield "passes", f"{type(wanted).__name__}: {wanted}"
        elif type(found) is not type(wanted) and not isinstance(
            found, IndexError if beyond else REFUSALS
        ):
            yield "class", f"{found!r}, not {wanted!r}"
    elif isinstance(found, Exception):
        yield "raises", f"{found!r}"
    else:
        free = name.rpartition(".")[2] in FREE
        random = undefined or free or any(each in name for each in RANDOM)
        yield from _results(wanted, found, random)


def _results(wanted: Any, found: Any, random: bool) -> Iterator[tuple[str, str]]:
    one, two = list(tensors(wanted, numbers=True)), list(tensors(found, numbers=True))
    if len(one) != len(two):
        yield "shape", f"{len(two)} results, not {len(one)}"
        return
    for theirs, ours in zip(one, two, strict=True):
        if isinstance(theirs, torch.Tensor) != isinstance(ours, fw.Tensor):
            yield "dtype", f"{type(ours).__name__}, not {type(theirs).__name__}"
        elif not isinstance(theirs, torch.Tensor):
            if not random and not np.allclose(ours, theirs, 1e-3, equal_nan=True):
                yield "value", f"{ours}, not {theirs}"
        elif tuple(theirs.shape) != tuple(ours.shape):
            yield "shape", f"{tuple(ours.shape)}, not {tuple(theirs.shape)}"
        elif not same_dtype(theirs, ours):
            yield "dtype", f"{ours.dtype}, not {theirs.dtype}"
        elif not random and (between := gap(theirs, ours)):
            yield "value", between
        else:
            continue
        return


def known() -> dict[str, dict[str, int]]:
    """Return the differences that are written down: their numbers, by reason."""
    found: dict[str, dict[str, int]] = {}
    reason = UNEXPLAINED
    for line in KNOWN.read_text().splitlines():
        if line.startswith("["):
            reason = line.strip("[]")
        else:
            key, _, number = line.rpartition(" ")
            found.setdefault(reason, {})[key] = int(number)
    return found


def sweep_of(key: str) -> str:
    """Return the sweep that a difference is of."""
    return key.split()[0] + " " + next(s for s in SPACES if f" {s}." in key)


def main() -> None:
    """Write the known differences anew."""
    before = known() if KNOWN.exists() else {}
    reasons = {key: reason for reason, keys in before.items() for key in keys}
    counts: Counter[str] = Counter()
    sweeps = sys.argv[1:] or SWEEPS
    for sweep in sweeps:
        for each in differences(sweep):
            where, name = sweep.split()[0], each.call.partition("(")[0]
            key = f"{where} {name} {each.kind}"
            counts[key] += 1
            if key not in reasons:
                print(key, each.call, each.detail.replace("\n", " "), sep="\t")
    for keys in before.values():
        counts.update({k: n for k, n in keys.items() if sweep_of(k) not in sweeps})
    groups: dict[str, list[str]] = {reason: [] for reason in (*before, UNEXPLAINED)}
    for key, number in counts.items():
        groups[reasons.get(key, UNEXPLAINED)].append(f"{key} {number}\n")
    text = (f"[{why}]\n{''.join(lines)}" for why, lines in groups.items() if lines)
    KNOWN.write_text("".join(text))


if __name__ == "__main__":
    main()
