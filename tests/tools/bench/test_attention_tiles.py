"""Attention with other tiles: what is timed."""

import pytest

from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.kernels.attention import coopmat, split
from vkbackend.tools.bench import attention_tiles
from vkbackend.tools.bench.attention_tiles import GRADIENTS, Shape


def test_tiles_of_one_mask_at_a_time(gpu: GpuDevice) -> None:
    shape = Shape(1, 2, 2, 64, 64, 112)
    for kernel in ("attention/flash", *GRADIENTS):
        pair = coopmat.TILES[kernel][128]
        for causal in (False, True):
            for variant in attention_tiles.tile_variants(gpu, kernel, shape, causal):
                ((tiles, most, changed),) = variant.constants
                assert tiles is coopmat.TILES[kernel]
                assert most == 128
                assert changed[not causal] == pair[not causal]


def test_split_variants_name_constants() -> None:
    own, *others = attention_tiles.split_variants()
    assert own.constants == []
    for variant in others:
        ((module, name, value),) = variant.constants
        assert module is split
        assert getattr(split, name) != value


def test_the_table_of_few_queries(
    gpu: GpuDevice,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = attention_tiles.split_variants()[:1]
    monkeypatch.setattr(attention_tiles, "split_variants", lambda: own)
    options = ["--only", "few", "--shape", "1x2x1x2x16x8"]
    assert attention_tiles.main([*options, "--device", gpu.gpu.info.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.startswith("few")]
    assert titles == [
        f"few queries {dtype} 1x2x1x2x16x8" for dtype in ("float32", "float16")
    ]


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert attention_tiles.main(["--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
