import gzip
from pathlib import Path

import pytest

from vkbackend.tools.bindings import registry
from vkbackend.tools.bindings.registry import Declaration, Registry, RegistryError


@pytest.fixture(scope="module")
def known(tiny_text: str) -> Registry:
    return registry.parse(tiny_text)


def test_compressed_files_are_read(
    known: Registry, tiny_text: str, tmp_path: Path
) -> None:
    path = tmp_path / "vk.xml.gz"
    path.write_bytes(gzip.compress(tiny_text.encode()))
    assert registry.read(path) == known


def test_header_version_is_that_of_this_api(known: Registry) -> None:
    assert known.header_version == 7


def test_declarations(known: Registry) -> None:
    paint = {member.name: member for member in known.structs["VkPaintInfo"].members}
    assert paint["ppNames"] == Declaration("ppNames", "char", pointers=2)
    assert paint["pLate"] == Declaration("pLate", "VkLate", pointers=1)  # a comment
    late = {member.name: member for member in known.structs["VkLate"].members}
    assert late["name"] == Declaration("name", "char", sizes=("VK_NAME_SIZE",))
    assert late["matrix"] == Declaration("matrix", "float", sizes=("3", "4"))
    assert late["index"] == Declaration("index", "uint32_t", bits=24)


def test_members_and_parameters_of_vulkan_sc_are_left_out(known: Registry) -> None:
    names = [member.name for member in known.structs["VkPaintInfo"].members]
    assert names.count("ppNames") == 1
    assert len(known.commands["vkForget"].parameters) == 1


def test_handles_know_whether_they_are_dispatchable(known: Registry) -> None:
    assert known.handles == {"VkDevice": True, "VkBuffer": False, "VkUnused": False}


def test_constants(known: Registry) -> None:
    assert known.constants["VK_NAME_SIZE"] == 256
    assert known.constants["VK_WHOLE_SIZE"] == 2**64 - 1
    assert known.constants["VK_EXTERNAL"] == 2**32 - 2
    assert known.constants["VK_EXT_PAINT_EXTENSION_NAME"] == "VK_EXT_paint"


def test_flags_may_be_wide(known: Registry) -> None:
    wide = known.enumerations["VkWideFlagBits2"]
    assert (wide.width, wide.values) == (64, {"VK_WIDE_2_FORTY_BIT": 1 << 40})
    assert known.flag_bits["VkWideFlags2"] == "VkWideFlagBits2"


def test_values_of_extensions_are_counted_from_the_extensions_number(
    known: Registry,
) -> None:
    assert known.enumerations["VkColorKHR"].values["VK_COLOR_BLUE_KHR"] == 1_000_002_000
    types = known.enumerations["VkStructureType"].values
    assert types["VK_STRUCTURE_TYPE_PAINT_INFO"] == 1_000_002_001  # added by core
    assert known.enumerations["VkResult"].values["VK_ERROR_FADED"] == -1_000_002_002


def test_disabled_extensions_and_vulkan_sc_add_nothing(known: Registry) -> None:
    assert list(known.extensions) == ["VK_EXT_paint"]
    assert list(known.versions) == ["VK_VERSION_1_0"]
    bits = known.enumerations["VkShadeFlagBits"].values
    assert bits == {"VK_SHADE_FOUR_BIT": 16, "VK_SHADE_BOTH": 3}


def test_aliases_of_aliases_are_resolved(known: Registry) -> None:
    assert known.resolve("VkPaintInfoEXT") == "VkPaintInfo"
    assert known.resolve("vkPaintEXT") == "vkPaint"
    assert known.resolve("VkLate") == "VkLate"


def test_conflicting_values_are_an_error(tiny_text: str) -> None:
    text = tiny_text.replace(
        'offset="2" extends="VkResult"', 'offset="5" extends="VkResult"'
    )
    with pytest.raises(RegistryError, match=r"VK_ERROR_FADED: two values: -\d+ and -"):
        registry.parse(text)


def test_broken_xml_is_an_error(tiny_text: str) -> None:
    with pytest.raises(RegistryError, match="registry: not well-formed XML"):
        registry.parse(tiny_text.replace("</registry>", ""))
