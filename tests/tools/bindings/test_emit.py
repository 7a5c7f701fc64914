import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vkbackend.vk
from vkbackend.tools import bindings
from vkbackend.tools.bindings import RegistryError, __main__, manifest

from .conftest import DATA

GENERATED = Path(vkbackend.vk.__file__).with_name("generated.py")


def test_regenerating_gives_the_same_bytes(published_registry: Path) -> None:
    assert bindings.generate(published_registry).encode() == GENERATED.read_bytes()


def test_the_registry_made_by_hand_gives_the_golden_file(
    tiny_path: Path, golden: str
) -> None:
    assert bindings.generate(tiny_path, manifest.read(DATA / "tiny.toml")) == golden


def test_bit_fields_share_a_word(tiny: dict[str, Any]) -> None:
    late = tiny["VkLate"]
    assert late.index.offset == late.mask.offset == 256 + 12 * 4
    assert late.either.offset == late.index.offset + 8  # aligned for the union
    value = late(index=0x123456, mask=0xAB)
    word = bytes(value)[late.index.offset :][:4]
    assert int.from_bytes(word, "little") == 0xAB123456


def test_array_sizes_run_from_outer_to_inner(tiny: dict[str, Any]) -> None:
    matrix = tiny["VkLate"]().matrix
    assert len(matrix) == 3
    assert len(matrix[0]) == 4


def test_unions_overlap(tiny: dict[str, Any]) -> None:
    either = tiny["VkEither"]
    assert either.i64.offset == either.f64.offset == 0
    assert ctypes.sizeof(either) == 8


def test_wide_flags_have_64_bits(tiny: dict[str, Any]) -> None:
    assert tiny["VkPaintInfo"].wide.size == 8
    assert tiny["VkPaintInfo"].flags.size == 4


def test_opaque_structures_are_void_pointers_and_never_values(
    tiny: dict[str, Any], generate: Callable[[str], str]
) -> None:
    assert dict(tiny["VkPaintInfo"]._fields_)["pHidden"] is ctypes.c_void_p
    with pytest.raises(RegistryError, match="either: VkEither by value cannot be"):
        generate('structs = ["VkLate"]\nopaque = ["VkEither"]')


def test_array_parameters_are_pointers(tiny: dict[str, Any]) -> None:
    level, result, parameters = tiny["FUNCTIONS"]["vkPaintEXT"]
    assert (level, result) == ("device", ctypes.c_int32)
    assert parameters[2] is ctypes.POINTER(ctypes.c_float)


def test_callbacks_can_be_called(tiny: dict[str, Any]) -> None:
    told = []

    @tiny["PFN_vkTell"]  # type: ignore[untyped-decorator]
    def tell(info: Any, user_data: int) -> int:
        told.append((info.contents.flags, user_data))
        return -4

    assert tell(tiny["VkPaintInfo"](flags=3), 17) == -4
    assert told == [(3, 17)]


def test_the_command_writes_and_checks(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    published_registry: Path,
    tiny_path: Path,
) -> None:
    output = tmp_path / "generated.py"
    arguments = [str(published_registry), "--output", str(output)]
    assert __main__.main(arguments) == 0
    assert output.read_bytes() == GENERATED.read_bytes()
    assert __main__.main([*arguments, "--check"]) == 0
    output.write_text("edited by hand")
    assert __main__.main([*arguments, "--check"]) == 1
    assert output.read_text() == "edited by hand"
    assert __main__.main([str(tiny_path)]) == 2
    assert "the manifest pins" in capsys.readouterr().err
