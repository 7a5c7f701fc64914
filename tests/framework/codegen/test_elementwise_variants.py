"""How many elements an invocation takes: the ways, and the choice by measurement."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vkbackend
import vkbackend.framework as fw
from tests.framework.codegen.built_kernels import check_kernels
from tests.framework.codegen.graphs import apply, memory, result
from tests.hardware import skip_where_it_crashes
from vkbackend.framework.autotune import autotune
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import DTYPES, DType, bfloat16, float16, float32
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.codegen import elementwise_variants
from vkbackend.framework.codegen.elementwise_variants import (
    BASELINE,
    COMPUTE_HEAVY,
    MEMORY_BOUND_16BIT,
    MIN_VEC4S,
    NARROW,
    Variant,
    build_chosen_kernel,
    default_variant,
    variants,
    with_variant,
)
from vkbackend.framework.codegen.glsl.wide import GROUPS
from vkbackend.framework.codegen.lower import build_kernel
from vkbackend.framework.scheduler import kernel_search, lowering_cache

pytestmark = pytest.mark.device

Tensors = tuple[fw.Tensor, ...]


def hardware(info: vkbackend.DeviceInfo) -> vkbackend.DeviceInfo:
    return dataclasses.replace(
        info,
        kind="discrete",
        max_workgroup_invocations=1024,
        max_workgroup_size=(1024, 1024, 64),
    )


@pytest.mark.parametrize(
    ("dtype", "offset", "joins"),
    [(float32, 0, False), (float16, 0, True), (float16, 4, False), (float16, 8, True)],
)
def test_ways(device: vkbackend.Device, dtype: DType, offset: int, joins: bool) -> None:
    node = apply("add", memory((), dtype, Layout((1 << 12,), (1,), offset)), 1)
    kernel = build_kernel([node], {id(node.outputs[0])})
    found = variants(hardware(device.info), kernel)
    assert BASELINE in found.values()
    forms = {"", "apart"} | ({"four"} if dtype is float16 else set())
    forms |= {"joined"} if joins else set()
    assert {variant.pairs for variant in found.values()} == forms
    assert len(set(found.values())) == len(found) == 3 * len(forms)
    assert any(variant.pairs == "joined" for variant in found.values()) == joins
    small = dataclasses.replace(device.info, max_workgroup_invocations=256)
    assert {variant.workgroup for variant in variants(small, kernel).values()} == {
        128,
        256,
    }


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("neg", BASELINE),
        ("exp", BASELINE),
        ("tanh", COMPUTE_HEAVY),
        ("sin", COMPUTE_HEAVY),
        ("erf", COMPUTE_HEAVY),
    ],
)
def test_long_functions_take_more_elements(
    device: vkbackend.Device, name: str, variant: Variant
) -> None:
    info = hardware(device.info)
    small, large = (memory((4 * count,)) for count in (MIN_VEC4S - 1, MIN_VEC4S))
    built = []
    for x in (small, large):
        node = apply(name, x)
        wanted = {id(node.outputs[0])}
        kernel = build_kernel([node], wanted)
        assert default_variant(kernel) == variant
        with autotune.collecting_keys() as collected:
            built.append(build_chosen_kernel([node], wanted, info))
    assert built[0].program.pairs == ""
    assert Variant(built[1].program.pairs, built[1].workgroup) == variant
    [search_space] = collected.values()
    assert search_space is not None
    assert variants(info, kernel)[search_space.own] == variant


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float32", "int8"])
def test_results_of_two_bytes_take_more_elements(name: str) -> None:
    node = apply("cast", memory((8,)), compute=DTYPES[name])
    kernel = build_kernel([node], {id(node.outputs[0])})
    assert node.outputs[0].dtype is DTYPES[name]
    assert default_variant(kernel) == (
        COMPUTE_HEAVY if name.endswith("16") else BASELINE
    )


@pytest.mark.parametrize(
    ("name", "variant"),
    [
        ("relu", MEMORY_BOUND_16BIT),
        ("exp", MEMORY_BOUND_16BIT),
        ("silu", MEMORY_BOUND_16BIT),
        ("log", NARROW),
        ("gelu_tanh", NARROW),
    ],
)
def test_what_moves_two_bytes_only_takes_most(name: str, variant: Variant) -> None:
    for dtype in (float16, bfloat16):
        node = apply(name, memory((64,), dtype))
        kernel = build_kernel([node], {id(node.outputs[0])})
        assert default_variant(kernel) == variant
        more = apply("mul", result(node), result(node))
        kernel = build_kernel([node, more], {id(more.outputs[0])})
        assert default_variant(kernel) == NARROW
        # Eight of them do not lie at an address for them all.
        node = apply(name, memory((), dtype, Layout((64,), (1,), 4)))
        kernel = build_kernel([node], {id(node.outputs[0])})
        assert default_variant(kernel) == NARROW


def test_the_usual_way_changes_nothing(device: vkbackend.Device) -> None:
    node = apply("add", memory((1003,)), 1)
    kernel = build_kernel([node], {id(node.outputs[0])})
    assert with_variant(kernel, BASELINE) == kernel
    assert with_variant(kernel, Variant("apart", 128)).grid == (1, 1, 1)
    assert with_variant(kernel, Variant("", 128)).grid == (2, 1, 1)


def _chain(x: fw.Tensor) -> Tensors:
    return ((x * 2 + 1).relu(),)


def _cast(x: fw.Tensor) -> Tensors:
    return (x.to("float16"), x.to("int8"), x > 0)


def _back(x: fw.Tensor) -> Tensors:
    return (x.to("float16").to("float32") * 3, x.to("uint8").to("float16"))


def _views(x: fw.Tensor) -> Tensors:
    half = x.to("float16")
    fw.eval(half)
    # At an address that 8 bytes divide, and at one that 16 do.
    return (half[4:] * 2, half[8:] + 1, half[1:] - 1)


def _broadcast(x: fw.Tensor) -> Tensors:
    table = x[: x.shape[0] // 12 * 12].reshape(-1, 12)
    return (table + table[0], table * table[:, :1], table[:, 1:] + table[:, :-1])


def _drawn(x: fw.Tensor) -> Tensors:
    fw.manual_seed(3)
    numbers = fw.arange(x.shape[0], device=x.device)
    return (fw.nn.functional.dropout(x.half(), 0.5), numbers)


def _siblings(x: fw.Tensor) -> Tensors:
    third = x.shape[0] // 3
    parts = [x[:third].clone(), x[third:].clone()]
    fw.eval(*parts)
    return tuple(part.to("float16") for part in parts)


def _over(x: fw.Tensor) -> Tensors:
    """Write a parameter's new value over its old one."""
    weight = fw.nn.Parameter(x.clone())
    optimizer = fw.optim.SGD([weight], lr=0.5)

    @fw.jit
    def step() -> fw.Tensor:
        optimizer.zero_grad()
        loss = (weight * weight).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(3):
        step()
    return (weight.detach(),)


@pytest.mark.core
@pytest.mark.parametrize(
    "make", [_chain, _cast, _back, _views, _broadcast, _drawn, _siblings, _over]
)
@pytest.mark.parametrize("pairs", GROUPS)
def test_every_way_is_right(
    make: Callable[[fw.Tensor], Tensors], pairs: str, gpu: GpuDevice
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    info = hardware(gpu.gpu.info)
    used: list[str] = []

    def build(nodes: Any, wanted: Any, *_: Any, **__: Any) -> Any:
        kernel = build_kernel(nodes, wanted)
        # Workgroups of 16, so that few elements are many of them and ragged at the end.
        offered = {variant.pairs for variant in variants(info, kernel).values()}
        chosen = pairs if pairs in offered | {"four"} else "apart"
        used.append(chosen)
        return with_variant(kernel, Variant(chosen, 16))

    check_kernels(gpu, build, make, (1001, 1024, 13))
    assert pairs in used or (pairs == "joined" and make in (_chain, _broadcast, _over))


@pytest.mark.usefixtures("untuned")
def test_a_measured_way_is_used(
    gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_where_it_crashes(gpu.gpu.info)
    info = hardware(gpu.gpu.info)
    chosen = elementwise_variants.build_chosen_kernel
    built: list[Variant] = []

    def build(nodes: Any, wanted: Any, *_: Any, **__: Any) -> Any:
        kernel = chosen(nodes, wanted, info)
        built.append(Variant(kernel.program.pairs, kernel.workgroup))
        return kernel

    def seconds(_: object, runs: Any, *__: object) -> dict[str, float]:
        return {name: 0.5 if "joined, 128" in name else 1.0 for name in runs}

    monkeypatch.setattr(lowering_cache, "build_chosen_kernel", build)
    monkeypatch.setattr(elementwise_variants, "MIN_VEC4S", 1 << 12)
    monkeypatch.setattr(kernel_search._Benchmark, "_seconds", seconds)
    data = np.linspace(-2, 2, 20_001, dtype=np.float32)
    x, small = fw.tensor(data, device=gpu), fw.tensor(data[:99], device=gpu)
    fw.eval(x, small)
    gpu.plans.clear()
    fw.autotune()
    fw.eval((small * 3).to("float16"))
    assert autotune.measured == []
    found = (x * 3).to("float16").numpy()
    [row] = autotune.measured
    assert row.tuning_key.startswith("mul+cast in0=float32[16384/1]")
    assert row.tuning_key.endswith("outputs=['float16']")
    assert row.verdict.default == "8 elements apart, 128 invocations"
    assert row.verdict.choice == "8 elements joined, 128 invocations"
    assert built[-1] == Variant("joined", 128)
    np.testing.assert_array_equal(found, (data * np.float32(3)).astype(np.float16))
    gpu.plans.clear()


def test_software_devices_have_no_choice(gpu: GpuDevice) -> None:
    info = dataclasses.replace(gpu.gpu.info, kind="software")
    node = apply("add", memory((1 << 23,)), 1)
    wanted = {id(node.outputs[0])}
    with autotune.collecting_keys() as collected:
        kernel = elementwise_variants.build_chosen_kernel([node], wanted, info)
    assert not collected
    assert kernel == build_kernel([node], wanted, software=info.shader_int64)
