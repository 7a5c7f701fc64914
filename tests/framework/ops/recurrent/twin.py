"""Both ways in which the host computes a recurrent op and its gradients."""

from collections.abc import Callable
from typing import Any

import numpy as np

import vkbackend.framework as fw
from tests.compare import assert_close
from vkbackend.framework.ops.recurrent import common


def check_host_steps(op: Callable[..., Any], *sizes: tuple[int, ...]) -> None:
    """Compare NumPy's steps with those that are recorded, by bits of float64.

    `op` takes a mask of steps and sequences, or None, and tensors of these sizes.
    """
    rng = np.random.default_rng(0)
    for mask in (None, fw.tensor(rng.random((*sizes[0][:2], 1)) > 0.4)):
        given = [fw.tensor(rng.normal(size=each), requires_grad=True) for each in sizes]
        with fw.no_grad():
            assert common.on_host(given[0])
        out = op(mask, *given)
        seed = fw.tensor(rng.normal(size=tuple(out.shape)))
        found = fw.autograd.grad((out * seed).sum(), given)
        recorded = fw.autograd.grad(
            (op(mask, *given) * seed).sum(), given, create_graph=True
        )
        for each, expected in zip(found, recorded, strict=True):
            assert expected.requires_grad
            assert not each.requires_grad
            assert_close(each, expected.detach().numpy(), scale=100)
