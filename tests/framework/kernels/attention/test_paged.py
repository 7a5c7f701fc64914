"""Attention of many queries over pages, beside the reference over the same pages."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import vkbackend.framework as fw
from tests.framework.kernels.attention.test_coopmat import (  # noqa: F401 - fixtures
    emulated,
    kernels,
)
from tests.framework.ops.large import forget_plans, relative_error
from vkbackend.framework.kernels.attention import paged
from vkbackend.framework.ops.attention import cached
from vkbackend.framework.ops.attention.cached import paged_attention
from vkbackend.shader import compiler

HEADS, KEY_HEADS, HEAD, PAGE, COUNT = 4, 2, 48, 24, 40
ROOM = 5 * PAGE
POSITION = np.array([0, 37])


def given(dtype: str = "float32") -> list[Any]:
    """Return queries, keys, values, positions and tables of two sequences."""
    rng = np.random.default_rng(0)
    shapes = (2, HEADS, COUNT, HEAD), *[(12, KEY_HEADS, PAGE, HEAD)] * 2
    vectors = [fw.tensor(rng.standard_normal(each), dtype) for each in shapes]
    tables = rng.permutation(12)[:10].reshape(2, 5)
    return [*vectors, fw.tensor(POSITION), fw.tensor(tables)]


def attended(
    inputs: list[Any], window: int | None, cap: float | None = None
) -> np.ndarray:
    q, k, v, position, tables = inputs
    out = paged_attention(q, k, v, position, tables, HEAD**-0.5, window, cap)
    found: np.ndarray = out.float().numpy()
    return found


@pytest.mark.parametrize(("window", "cap"), [(None, None), (11, None), (None, 0.5)])
def test_each_query_sees_its_tokens(
    window: int | None, cap: float | None, gpu: Any
) -> None:
    inputs = given()
    wanted = attended(inputs, window, cap)
    found = attended([each.to(gpu) for each in inputs], window, cap)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)
    if cap is not None:
        assert np.abs(found - attended(inputs, window)).max() > 0.1


def test_tiles_of_gpus(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = given()
    placed = [each.to(gpu) for each in inputs]
    asked = []

    def rule(call: Any, *rest: Any) -> Any:
        info = dataclasses.replace(call.gpu, kind="discrete")
        asked.append(paged.paged_dispatch(call._replace(gpu=info), *rest))
        return asked[-1]

    monkeypatch.setattr(cached, "paged_dispatch", rule)
    forget_plans()
    found = attended(placed, 11)
    forget_plans()
    np.testing.assert_allclose(found, attended(inputs, 11), rtol=1e-4, atol=1e-5)
    assert {"QUADS", "PAGED"} <= asked[0].defines.keys()


@pytest.mark.parametrize(
    ("window", "cap"),
    [
        (None, None),
        pytest.param(11, None, marks=pytest.mark.wide),
        pytest.param(None, 0.5, marks=pytest.mark.wide),
    ],
)
def test_tensor_cores(
    window: int | None,
    cap: float | None,
    emulated: Any,  # noqa: F811 - the fixture
    kernels: list[str],  # noqa: F811 - the fixture
) -> None:
    inputs = given("float16")
    found = attended([each.to(emulated) for each in inputs], window, cap)
    wanted = attended(
        [each.float() if i < 3 else each for i, each in enumerate(inputs)], window, cap
    )
    assert relative_error(found, wanted) < 1e-3
    assert kernels == ["attention/flash_coopmat"]


def test_cooperative_matrices_are_valid() -> None:
    source, _ = compiler.load_kernel_source("attention/flash_coopmat")
    defines = {"DTYPE": "DTYPE_BFLOAT16", "PAGED": "1"}
    words = compiler.compile_glsl(source, name="flash_coopmat.comp", defines=defines)
    assert compiler.validate_spirv(words) is None
