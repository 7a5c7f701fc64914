"""Sparse tensors in files: the parts that they are made of, checked when read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..base.memory_format import sparse_coo, sparse_csc, sparse_csr
from ..sparse.compressed import CompressedTensor, SparseCscTensor, SparseCsrTensor
from ..sparse.construct import sparse_compressed_tensor, sparse_coo_tensor
from ..sparse.coo import SparseTensor
from ..tensor.tensor import Tensor

LAYOUTS = {each.name: each for each in (sparse_coo, sparse_csr, sparse_csc)}
"""Layouts that files hold, by name."""

KINDS = (SparseTensor, SparseCsrTensor, SparseCscTensor)
"""Classes that files hold."""


def parts_of(x: SparseTensor | CompressedTensor) -> tuple[Any, ...]:
    """Return what PyTorch writes of a sparse tensor: indices, values, sizes."""
    if isinstance(x, SparseTensor):
        return x._indices(), x._values(), x.shape, x.coalesced
    return x.bounds.detach(), x.others.detach(), x._values(), x.shape


def made_of(name: str, parts: Sequence[Any]) -> Tensor:
    """Return the sparse tensor of a layout's name and of its parts.

    Raises
    ------
    ValueError
        If they do not fit to each other.
    """
    if name not in LAYOUTS:
        raise ValueError(f"a sparse tensor has the layout {name[:40]!r}")
    if name == "sparse_coo":
        indices, values, size, coalesced = parts
        _check(indices, values)
        return sparse_coo_tensor(
            indices,
            values,
            tuple(size),
            check_invariants=True,
            is_coalesced=bool(coalesced),
        )
    bounds, others, values, size = parts
    _check(bounds, others, values)
    made: Tensor = sparse_compressed_tensor(
        bounds,
        others,
        values,
        tuple(size),
        layout=LAYOUTS[name],
        check_invariants=True,
    )
    return made


def _check(*parts: Any) -> None:
    for each in parts:
        if not isinstance(each, Tensor):
            raise ValueError(f"a part of a sparse tensor is a {type(each).__name__}")
