"""Products with other tiles: what is timed."""

from typing import Any

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels import gpu_model
from vkbackend.framework.kernels.gemm import slice_sum
from vkbackend.framework.ops.matmul import matmul
from vkbackend.tools.bench import product_tiles


def test_variants_are_those_of_the_product(gpu: GpuDevice) -> None:
    a, b = product_tiles._operands(gpu, (1, 5, 8, 9), "float32", turned=True)
    own = vars(matmul)["gemm_dispatches"]
    variants = product_tiles.variants_of(gpu, a, b, lambda: [a @ b])
    assert vars(matmul)["gemm_dispatches"] is own
    names = [variant.name for variant in variants]
    assert names[0] == "as chosen"
    assert any(name.startswith("fallback GEMM") for name in names)
    assert variants[0].constants == []
    for variant in variants[1:-2]:
        ((module, name, rule),) = variant.constants
        assert (module, name) == (matmul, "gemm_dispatches")
        assert rule()
    slices, thin = variants[-2:]
    assert slices.constants == [(slice_sum, "MOST_SLICES", 0)]
    for models, name, model in thin.constants:
        assert models is gpu_model.MODELS
        assert not any(costs.thin_tiles for costs in model.gemm.values()), name


def test_the_table(
    gpu: GpuDevice,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = product_tiles.variants_of

    def few(*call: Any) -> list[product_tiles.Variant]:
        return own(*call)[:2]

    monkeypatch.setattr(product_tiles, "variants_of", few)
    options = ["--product", "2x3x4x5", "--dtype", "float32"]
    assert product_tiles.main([*options, "--device", gpu.name]) == 0
    _, title, *rows = capsys.readouterr().out.splitlines()
    assert title == "float32 2x3x4x5"
    assert len(rows) == 2
    assert sum(row.split()[0] == "*" for row in rows) == 1
    fw.eval()


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert product_tiles.main(["--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
