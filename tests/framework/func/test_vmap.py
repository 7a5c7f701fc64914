"""Dimensions and structures of batches, beside PyTorch's."""

from typing import Any

import pytest

from tests.torch_log import Log, assert_logs_agree


def structures(log: Log) -> None:
    vmap = log.library.func.vmap
    x = log.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], grad=False)
    y = log.tensor([1.0, 10.0, 100.0], grad=False)
    log.add(vmap(lambda x, y: x @ y, in_dims=(0, None))(x, y))
    log.add(vmap(lambda x, y: x * y, in_dims=(-1, 0), out_dims=1)(x, y))
    log.add(vmap(lambda x: (x, x.sum()), out_dims=(1, 0))(x))
    log.add(vmap(lambda x: (x, y), out_dims=(0, None))(x))
    log.add(vmap(lambda x: y)(x))
    log.add(vmap(lambda x, n: x * n, in_dims=(0, None))(x, 3))
    log.add(vmap(lambda x, *, z: x + z)(x, z=x))
    log.add(
        vmap(lambda d: d["a"] * d["b"][0], ({"a": 0, "b": [None]},))({"a": x, "b": [y]})
    )
    log.add(vmap(lambda x: x.sum() * x, chunk_size=1, out_dims=1)(x))
    log.add(vmap(vmap(lambda x, y: x * y), in_dims=(0, None))(x, y))
    log.add(vmap(vmap(lambda x, y: x * y, (None, 0)), (0, None))(y, x))


def refusals(log: Log) -> None:
    vmap, x = log.library.func.vmap, log.tensor([[1.0, 2.0], [3.0, 4.0]], grad=False)
    log.refused(lambda: vmap(lambda x: x)(3.0))
    log.refused(lambda: vmap(lambda x: x)())
    log.refused(lambda: vmap(lambda x: 3)(x))
    log.refused(lambda: vmap(lambda x, y: x)(x, log.tensor([1.0])))
    log.refused(lambda: vmap(lambda x: x, in_dims=None)(x))
    log.refused(lambda: vmap(lambda x: x, in_dims=2)(x))
    log.refused(lambda: vmap(lambda x: x, in_dims=(0, 0))(x))
    log.refused(lambda: vmap(lambda x: x, in_dims=({"a": 0},))(x))
    log.refused(lambda: vmap(lambda x: x, out_dims=None)(x))
    log.refused(lambda: vmap(lambda x: x, out_dims=(0, 0))(x))
    log.refused(lambda: vmap(lambda x: x.sum().item())(x))
    log.refused(lambda: vmap(lambda x: x, chunk_size=0)(x))


@pytest.mark.parametrize("program", [structures, refusals])
def test_batches_are_those_of_torch(program: Any) -> None:
    assert_logs_agree(program)
