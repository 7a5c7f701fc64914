"""Attention of many queries over a cache, beside the reference over the same one."""

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
from vkbackend.framework.kernels.attention.prefill import prefill_dispatch
from vkbackend.framework.ops.attention import prefill
from vkbackend.framework.ops.attention.prefill import prefill_attention
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
    out = prefill_attention(q, k, v, position, tables, HEAD**-0.5, window, cap)
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


@pytest.mark.wide
def test_tiles_of_gpus(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = given()
    placed = [each.to(gpu) for each in inputs]
    asked = []

    def rule(call: Any, *rest: Any) -> Any:
        info = dataclasses.replace(call.gpu, kind="discrete")
        asked.append(prefill_dispatch(call._replace(gpu=info), *rest))
        return asked[-1]

    monkeypatch.setattr(prefill, "prefill_dispatch", rule)
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


def contiguous(inputs: list[Any], window: int | None, position: int) -> np.ndarray:
    """Return the same where each sequence has all of its tokens side by side."""
    q, k, v = inputs
    at = fw.tensor(position, device=q.device)
    out = prefill_attention(q, k, v, at, None, HEAD**-0.5, window)
    found: np.ndarray = out.float().numpy()
    return found


@pytest.mark.wide
@pytest.mark.parametrize(("window", "position"), [(None, 0), (11, 30)])
def test_sequences_in_one_piece(window: int | None, position: int, gpu: Any) -> None:
    q, *_ = given()
    rng = np.random.default_rng(1)
    k, v = (rng.standard_normal((2, KEY_HEADS, ROOM, HEAD)) for _ in range(2))
    for each in (k, v):
        each[:, :, position + COUNT :] = np.nan  # is not read
    inputs = [q, *(fw.tensor(each, "float32") for each in (k, v))]
    wanted = contiguous(inputs, window, position)
    assert not np.isnan(wanted).any()
    found = contiguous([each.to(gpu) for each in inputs], window, position)
    np.testing.assert_allclose(found, wanted, rtol=1e-4, atol=1e-5)


def test_a_prompt_reads_its_cache_in_place(
    emulated: Any,  # noqa: F811 - the fixture
    kernels: list[str],  # noqa: F811 - the fixture
) -> None:
    """Up to its last token, without a mask of all the room."""
    cache = fw.models.KeyValueCache(1, 2, KEY_HEADS, ROOM, HEAD, emulated, "float16")
    host = fw.models.KeyValueCache(1, 2, KEY_HEADS, ROOM, HEAD)
    rng = np.random.default_rng(2)
    shapes = [(2, n, COUNT, HEAD) for n in (HEADS, KEY_HEADS, KEY_HEADS)]
    for _ in range(2):
        vectors = [fw.tensor(rng.standard_normal(each), "float16") for each in shapes]
        found = cache.step(COUNT).attend(0, *(each.to(emulated) for each in vectors))
        wanted = host.step(COUNT).attend(0, *(each.float() for each in vectors))
        assert relative_error(found.float().numpy(), wanted.numpy()) < 1e-3
        for each in (cache, host):
            each.advance(COUNT)
    assert {*kernels} == {"attention/flash_coopmat"}
    step = cache.step(COUNT)
    step.attend(0, *(each.to(emulated) for each in vectors))
    assert step._mask is None
