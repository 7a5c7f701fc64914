"""Calls on sparse tensors, written as for PyTorch, beside PyTorch.

`m` is the library. `A` is a sparse matrix one of whose places comes twice, `Ac` the
same coalesced, `S` the same in compressed rows; `H` has a dense dimension. `D` is dense
and of the shape of `A`, `X` and `V` fit on its right, `E` is of the shape of `A @ X`.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import vkbackend.framework as fw
from vkbackend.framework.base.device import CPU, Device


def scope(m: Any, place: Any) -> dict[str, Any]:
    """Return the names of calls, in a library and on a device."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return _scope(m, place)


def _scope(m: Any, place: Any) -> dict[str, Any]:
    rng = np.random.default_rng(3)

    def made(*shape: int) -> Any:
        return m.tensor(rng.normal(size=shape).astype(np.float32), device=place)

    def places(rows: Any) -> Any:
        return m.tensor(rows, device=place)

    v = m.tensor([1.0, 2.0, 3.0, 4.0], device=place)
    i = places([[0, 1, 1, 2], [2, 0, 0, 1]])
    a = m.sparse_coo_tensor(i, v, (3, 4))
    h = m.sparse_coo_tensor(places([[2, 0, 2]]), made(3, 2), (4, 2))
    s = a.to_sparse_csr()
    dense = {"D": made(3, 4), "X": made(4, 2), "V": made(4), "E": made(3, 2)}
    return {
        "m": m, "A": a, "Ac": a.coalesce(), "H": h, "S": s, "i": i, "v": v,
        "place": place, **dense,
    }  # fmt: skip


def told(found: Any) -> tuple[Any, ...]:
    """Return what a result is, and its elements, to be compared."""
    if isinstance(found, tuple | list) and not isinstance(found, torch.Size | fw.Size):
        return tuple([told(each) for each in found])
    if not isinstance(found, torch.Tensor | fw.Tensor):
        return (str(found),)
    kind = str(found.layout)
    sparse = kind.startswith("torch.sparse")
    dense = found.to_dense() if sparse else found
    array = np.asarray(dense.detach().cpu().numpy(), np.float64)
    notes = (
        kind if sparse else "torch.strided",
        found._nnz() if sparse else None,
        found.is_coalesced() if kind == "torch.sparse_coo" else None,
    )
    return (tuple(found.shape), str(found.dtype), *notes, np.round(array, 4).tolist())


def answer(expression: str, names: dict[str, Any]) -> tuple[Any, ...]:
    """Return what a call gives, or the error that it raises."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = eval(expression, dict(names))  # the tests' own
    except Exception as error:
        return "error", type(error), str(error).partition("\n")[0][:100]
    return told(found)


def check(expressions: str, device: Device = CPU) -> None:
    """Compare calls, one a line, with PyTorch's: results, or classes of errors."""
    ours, theirs = scope(fw, device), scope(torch, "cpu")
    wrong = []
    for line in expressions.split("\n"):
        expression = line.strip()
        if not expression:
            continue
        expected, found = answer(expression, theirs), answer(expression, ours)
        same = expected == found
        if expected[0] == "error" == found[0]:
            same = issubclass(found[1], expected[1])
        if not same:
            wrong.append(f"{expression}: {found}, PyTorch {expected}")
    assert not wrong, "\n".join(wrong)
