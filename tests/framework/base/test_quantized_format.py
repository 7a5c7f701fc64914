import pytest

from vkbackend.errors import ArgumentError
from vkbackend.framework.base.errors import ShapeError
from vkbackend.framework.base.quantized_format import FORMATS, find_format

gguf = pytest.importorskip("gguf")


def test_sizes_are_those_of_gguf() -> None:
    for kind in FORMATS.values():
        if kind.gguf is not None:
            sizes = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(kind.gguf)]
            assert (kind.block, kind.size) == sizes
            assert gguf.GGMLQuantizationType(kind.gguf).name.lower() == kind.name


@pytest.mark.parametrize(
    ("name", "columns", "size"),
    [("int8", 48, 64), ("int4_g32", 96, 64), ("int4_g128", 256, 144), ("q8_0", 64, 68)],
)
def test_rows_of_bytes(name: str, columns: int, size: int) -> None:
    assert find_format(name).row_size(columns) == size


def test_names() -> None:
    assert find_format("Q4_K").name == "q4_k"
    assert find_format("int4").name == "int4_g128"
    assert find_format("int4_g96").block == 96


@pytest.mark.parametrize("name", ["q3_k", "int4_g0", "int4_g40", "", 8])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(ArgumentError, match=r"q: format is .*; accepted: q4_0, q4_1"):
        find_format(name, "q")


@pytest.mark.parametrize("columns", [0, 128, 257])
def test_columns_are_blocks(columns: int) -> None:
    with pytest.raises(ShapeError, match="q4_k takes a multiple of 256 above 0"):
        find_format("q4_k").check("f", columns)
