"""Convolutions with and without Winograd's minimal filtering: what is timed."""

import pytest

import vkbackend.framework as fw
from vkbackend.framework.base.device import GpuDevice
from vkbackend.tools.bench import conv_variants


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("forward", "1x2x5x4x3x3x3"),
        ("by images", "1x2x5x4x3x3x3x2"),
        ("by filters", "1x2x5x4x3x3x3"),
    ],
)
def test_the_table(
    gpu: GpuDevice, capsys: pytest.CaptureFixture[str], name: str, shape: str
) -> None:
    options = ["--shape", shape, "--only", name, "--precision", "high"]
    before = fw.get_float32_matmul_precision()
    assert conv_variants.main([*options, "--device", gpu.name]) == 0
    assert fw.get_float32_matmul_precision() == before
    _, title, *rows = capsys.readouterr().out.splitlines()
    assert title == f"{name} {shape}"
    assert len(rows) == len(conv_variants.variants())
    assert sum(row.split()[0] == "*" for row in rows) == 1


def test_a_shape_has_seven_or_eight_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        conv_variants.main(["--shape", "1x2x3"])
    assert "IMAGESxCHANNELS" in capsys.readouterr().err


def test_without_a_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    assert conv_variants.main(["--device", "cpu"]) == 1
    assert "no Vulkan device" in capsys.readouterr().err
