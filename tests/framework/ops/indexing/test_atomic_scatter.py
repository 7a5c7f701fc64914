"""Rows combined by the host's reference, beside a loop, and by ranges of places."""

import dataclasses

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.ops.agree import need
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES
from vkbackend.framework.base.index_checks import UNCHECKED
from vkbackend.framework.kernels import scatter
from vkbackend.framework.kernels.gpu_model import MODELS
from vkbackend.framework.ops.indexing import segment_sum
from vkbackend.framework.ops.indexing.atomic_scatter import scatter_atomic

JOINS = {"max": max, "min": min, "prod": lambda a, b: a * b, "sum": lambda a, b: a + b}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("operation", JOINS)
def test_reference(operation: str, include_self: bool) -> None:
    rng = np.random.default_rng(0)
    base, source = rng.integers(1, 5, (2, 4, 3)), rng.integers(1, 5, (2, 9, 3))
    rows = rng.integers(0, 4, 9)
    wanted = base.copy()
    for outer, inner in np.ndindex(2, 3):
        for row in range(4):
            terms = source[outer, rows == row, inner].tolist()
            if include_self or not terms:
                terms.append(int(base[outer, row, inner]))
            total = terms[0]
            for each in terms[1:]:
                total = JOINS[operation](total, each)
            wanted[outer, row, inner] = total
    given = (fw.tensor(each) for each in (base, rows, source))
    found = scatter_atomic(*given, operation, include_self, UNCHECKED, False)
    assert np.array_equal(found.numpy(), wanted)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32"])
@pytest.mark.parametrize("reduce", ["sum", "amax", "amin", "prod"])
def test_ranges_of_places_and_narrow_sources(
    reduce: str, dtype: str, gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two-byte floats are read as they are, and rounded once."""
    need(dtype, gpu)
    info, kind = gpu.gpu.info, DTYPES[dtype]
    target = dataclasses.replace(info.target, hides_latency=True)
    monkeypatch.setitem(info.__dict__, "target", target)
    monkeypatch.setattr(segment_sum, "ATOMIC_KEYS", 1)
    monkeypatch.setattr(segment_sum, "MATCHED_ENTRIES", 0)
    monkeypatch.setattr(segment_sum, "SHARED_ENTRIES", 0)
    monkeypatch.setattr(scatter, "LEAST_RANGED", 1)
    for name, model in MODELS.items():
        ranged = dataclasses.replace(model, cached_scatter_bytes=1000)
        monkeypatch.setitem(MODELS, name, ranged)
    rng = np.random.default_rng(2)
    base, source = rng.integers(1, 4, (20, 30)), rng.integers(1, 4, (45, 30))
    index = rng.integers(0, 20, (45, 30))
    join = {"sum": np.add, "amax": np.maximum, "amin": np.minimum, "prod": np.multiply}
    for include_self in (True, False):
        wanted = base.astype(np.float64)
        named = index, np.arange(30)
        if not include_self:
            start = {"sum": 0, "amax": -9, "amin": 9, "prod": 1}
            wanted[named] = start[reduce]
        join[reduce].at(wanted, named, source)
        with gpu.fresh_plan_cache():
            x, given = (fw.tensor(e, device=gpu, dtype=kind) for e in (base, source))
            places = fw.tensor(index, device=gpu)
            found = x.scatter_reduce(
                0, places, given, reduce, include_self=include_self
            )
            right = fw.tensor(wanted).to(kind)
            assert np.array_equal(found.cpu().float().numpy(), right.float().numpy())


def test_the_last_writer_of_ranges(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scatter, "LEAST_RANGED", 1)
    for name, model in MODELS.items():
        ranged = dataclasses.replace(model, cached_scatter_bytes=1000)
        monkeypatch.setitem(MODELS, name, ranged)
    rng = np.random.default_rng(2)
    wanted, index = np.zeros(900, np.float32), rng.integers(-900, 900, 700)
    source = np.arange(700, dtype=np.float32)
    for place, value in zip(index, source):
        wanted[place] = value
    with gpu.fresh_plan_cache():
        x, places, given = (
            fw.tensor(each, device=gpu) for each in (wanted * 0, index, source)
        )
        assert np.array_equal(x.put(places, given).numpy(), wanted)
