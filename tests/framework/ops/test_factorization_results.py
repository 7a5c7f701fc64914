"""Results of factorizations have the names of PyTorch's, in its order."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

import vkbackend.framework as fw

CALLS: dict[str, Callable[[Any, Any], Any]] = {
    "qr": lambda library, x: library.linalg.qr(x),
    "slogdet": lambda library, x: library.linalg.slogdet(x),
    "eig": lambda library, x: library.linalg.eig(x),
    "eigh": lambda library, x: library.linalg.eigh(x),
    "svd": lambda library, x: library.linalg.svd(x),
    "lu": lambda library, x: library.linalg.lu(x),
    "lu_factor": lambda library, x: library.linalg.lu_factor(x),
    "lu_factor_ex": lambda library, x: library.linalg.lu_factor_ex(x),
    "cholesky_ex": lambda library, x: library.linalg.cholesky_ex(x),
    "inv_ex": lambda library, x: library.linalg.inv_ex(x),
    "solve_ex": lambda library, x: library.linalg.solve_ex(x, x),
    "lstsq": lambda library, x: library.linalg.lstsq(x, x),
}


@pytest.mark.parametrize("name", CALLS)
def test_names_and_order(name: str) -> None:
    ours, theirs = (
        CALLS[name](library, library.tensor([[2.0, 1.0], [1.0, 3.0]]))
        for library in (fw, torch)
    )
    names = [each for each in dir(theirs) if not each.startswith(("_", "n_"))]
    names = [each for each in names if each not in ("count", "index")]
    assert sorted(ours._fields) == sorted(names)
    for position, field in enumerate(ours._fields):
        assert getattr(theirs, field) is theirs[position] or torch.equal(
            getattr(theirs, field), theirs[position]
        )
        assert getattr(ours, field) is ours[position]


def test_where_a_factor_is_singular() -> None:
    data = [[[1.0, 2.0], [2.0, 4.0]], [[1.0, 0.0], [0.0, 1.0]]]
    ours = fw.linalg.lu_factor_ex(fw.tensor(data))
    theirs = torch.linalg.lu_factor_ex(torch.tensor(data))
    assert ours.info.tolist() == theirs.info.tolist() == [2, 0]
    assert ours.info.dtype is fw.int32
    for library in (fw, torch):
        with pytest.raises(Exception, match=r"singular|zero"):
            library.linalg.lu_factor_ex(library.tensor(data), check_errors=True)
