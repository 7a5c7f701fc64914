"""Each group of rows, of columns or of products has its own matrix product."""

from typing import Any

import numpy as np
import pytest
import torch

import vkbackend.framework as fw
from vkbackend.framework.nn.functional import grouped_mm

SHAPES = [
    ((7, 8), (2, 8, 16)),
    ((2, 8, 8), (8, 16)),
    ((8, 8), (8, 16)),
    ((2, 8, 8),) * 2,
]


@pytest.mark.parametrize("shapes", SHAPES)
def test_it_is_pytorchs(shapes: Any, gpu: Any) -> None:
    a, b = (
        np.random.default_rng(0).normal(size=shape).astype(np.float32)
        for shape in shapes
    )
    ends = {(2, 3): [3, 7], (3, 2): [0, 16], (2, 2): [5, 8]}.get((a.ndim, b.ndim))
    results = []
    for of, place in ((fw, gpu), (torch, "cpu")):
        x, y = (
            of.tensor(each, device=place, dtype=of.float32, requires_grad=True)
            for each in (a, b)
        )
        offs = None if ends is None else of.tensor(ends, dtype=of.int32, device=place)
        function = grouped_mm if of is fw else torch.nn.functional.grouped_mm
        out = function(x, y, offs=offs)
        results.append((out, *of.autograd.grad(out.square().sum(), [x, y])))
    for found, expected in zip(*results, strict=True):
        np.testing.assert_allclose(
            found.detach().cpu().numpy(), expected.detach().numpy(), 1e-4, 1e-4
        )


def test_refusals() -> None:
    a, b, ends = fw.ones(4, 2), fw.ones(2, 2, 3), fw.tensor([1, 3])
    assert grouped_mm(a, b, offs=ends, bias=fw.ones(3))[3].tolist() == [1.0] * 3
    assert grouped_mm(a, b, offs=ends, out_dtype=fw.float16).dtype is fw.float16
    for arguments, said in (
        ((a, b, None), "offs missing"),
        ((b, b, ends), "offs given"),
        ((a, b, fw.tensor([1])), "mat_b has 2 groups, offs 1"),
        ((a, b, fw.tensor([1, 5])), "offset 5 is out of range: offsets rise, up to 4"),
    ):
        with pytest.raises(ValueError, match=said):
            grouped_mm(*arguments[:2], offs=arguments[2])
