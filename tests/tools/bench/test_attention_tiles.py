"""Attention with other tiles: what is timed."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.dtype import float32
from vkbackend.framework.kernels.attention import coopmat, simt, split
from vkbackend.tools.bench import attention_tiles
from vkbackend.tools.bench.attention_tiles import GRADIENTS, Shape
from vkbackend.tools.bench.variants import Variant


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


@pytest.mark.parametrize("kernel", simt.KERNELS)
def test_register_tiles_that_there_is_room_for(kernel: str, gpu: GpuDevice) -> None:
    own, small, *others = attention_tiles.simt_variants(gpu, kernel, 80)
    assert own.constants == []
    assert small.constants == [(simt.USED, kernel, False)]
    assert others
    for variant in others:
        (tiles, most, tile), used = variant.constants
        assert tiles is simt.TILES[kernel]
        assert most in tiles
        assert most >= 80
        assert tile.fits(gpu.gpu.info, 80)
        assert used == (simt.USED, kernel, True)
    assert len(attention_tiles.simt_variants(gpu, kernel, simt.MOST_HEAD + 1)) == 1


def test_the_tables_of_float32(
    gpu: GpuDevice,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    own = [Variant("as chosen", [])]
    monkeypatch.setattr(attention_tiles, "simt_variants", lambda *_: own)
    options = ["--only", "simt", "--shape", "1x2x1x40x17x8"]
    assert attention_tiles.main([*options, "--device", gpu.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.startswith("attention")]
    assert titles == [f"{kernel} float32 1x2x1x40x17x8" for kernel in simt.KERNELS]


def test_tiles_of_float32(gpu: GpuDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    info = gpu.gpu.info
    shape = Shape(1, 2, 2, 64, 64, 64)
    for kernel, head in (("attention/flash", 64), ("attention/flash_dkv", 128)):
        shape = shape._replace(head=head)
        if head == 128:
            monkeypatch.setitem(coopmat.TILES_OF_FLOAT32, kernel, {})
        chosen = coopmat.tiles_of(kernel, float32, head)
        rows = attention_tiles.tile_variants(gpu, kernel, shape, False, "float32")
        if chosen is None:
            assert rows.pop(0).constants == []
        for variant in rows:
            ((tiles, most, (tile, other)),) = variant.constants
            assert tiles is coopmat.TILES_OF_FLOAT32[kernel]
            assert most == head
            assert tile.fits(info, head, float32)
            assert other == (chosen[1] if chosen else tile)


def test_high_precision_ends_with_its_tables(gpu: GpuDevice) -> None:
    tables = list(attention_tiles.high_tables(gpu, Shape(1, 1, 1, 20, 20, 16)))
    assert fw.get_float32_matmul_precision() == "highest"
    fw.set_float32_matmul_precision("high")
    try:
        trusted = coopmat.trusts_tensor_cores(gpu, float32)
    finally:
        fw.set_float32_matmul_precision("highest")
    assert len(tables) == (len(coopmat.KERNELS) if trusted else 0)


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
    assert attention_tiles.main([*options, "--device", gpu.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.startswith("few")]
    assert titles == [
        f"few queries {dtype} 1x2x1x2x16x8" for dtype in ("float32", "float16")
    ]


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert attention_tiles.main(["--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
