"""Views as copies: PyTorch's values, new storage, the view's gradient."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw

CALLS: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = [
    ("alias_copy", (), {}),
    ("as_strided_copy", ((2, 2), (3, 1), 1), {}),
    ("detach_copy", (), {}),
    ("diagonal_copy", (1,), {"dim1": 1, "dim2": 0}),
    ("expand_copy", ((4, 2, 3),), {"implicit": False}),
    ("permute_copy", ((1, 0),), {}),
    ("select_copy", (1, -1), {}),
    ("slice_copy", (-1,), {"start": 1, "end": None}),
    ("slice_copy", (1, 0, 3, 2), {}),
    ("split_copy", (2, 1), {}),
    ("split_with_sizes_copy", ([1, 2],), {"dim": 1}),
    ("squeeze_copy", (), {}),
    ("squeeze_copy", (0,), {}),
    ("t_copy", (), {}),
    ("transpose_copy", (0, 1), {}),
    ("unbind_copy", (1,), {}),
    ("unfold_copy", (1, 2, 1), {}),
    ("unsqueeze_copy", (-1,), {}),
    ("view_copy", ((3, 2),), {}),
]


@pytest.mark.parametrize(("name", "args", "options"), CALLS)
def test_copies(name: str, args: Any, options: dict[str, Any]) -> None:
    results, gradients = [], []
    for lib in (fw, torch):
        x = lib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)
        found = getattr(lib, name)(x, *args, **options)
        parts = found if isinstance(found, tuple | list) else (found,)
        # PyTorch's is on the tape, without a derivative.
        if parts[0].requires_grad and name != "detach_copy":
            sum((part * part).sum() for part in parts).backward()
        kept = x.detach().tolist()
        with lib.no_grad():
            for part in parts:
                part.zero_()
        assert x.tolist() == kept
        results.append([tuple(part.shape) for part in parts])
        gradients.append(None if x.grad is None else x.grad.numpy())
    assert results[0] == results[1]
    if gradients[1] is None:
        assert gradients[0] is None
    else:
        np.testing.assert_array_equal(*gradients)


def test_slice_of_no_dimension() -> None:
    with pytest.raises(IndexError, match="dim is 2 for shape"):
        fw.slice_copy(fw.ones(2, 3), 2)
