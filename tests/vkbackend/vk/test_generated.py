"""The generated bindings against two independent readings of Vulkan.

The PyPI package `vulkan` was made from the C headers, so it knows sizes and offsets, up
to its version. `vulkan-object` is Khronos' own reader of the registry we generate from.
"""

import ctypes
import importlib.util
import re
from ast import literal_eval
from pathlib import Path
from typing import Any

import pytest

from vkbackend.vk import generated as vk

pytestmark = pytest.mark.null

# At least so many were compared when the manifest was last looked at.
LEAST_STRUCTS = 116
LEAST_MEMBERS = 895
LEAST_CONSTANTS = 613
LEAST_COMMANDS = 96
LEAST_REGISTRY_VALUES = 679


def oracle_file(name: str) -> Path:
    """Return a file of `vulkan`, whose import would open the loader."""
    spec = importlib.util.find_spec("vulkan")
    assert spec
    assert spec.origin
    return Path(spec.origin).with_name(name)


@pytest.fixture(scope="module")
def ffi() -> Any:
    """The parsed headers of `vulkan`."""
    path = oracle_file("_vulkancache.py")
    spec = importlib.util.spec_from_file_location("vulkan_headers", path)
    assert spec
    assert spec.loader
    headers = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(headers)
    return headers.ffi


@pytest.fixture(scope="module")
def constants(ffi: Any) -> dict[str, int | str]:
    """Every constant of `vulkan`: from its Python side and from its headers."""
    text = oracle_file("_vulkan.py").read_text(encoding="utf-8")
    literal = re.compile(r"^(VK_\w+) = (-?(?:0x)?[\dA-Fa-f]+|\".*\")$", re.MULTILINE)
    known = {name: literal_eval(value) for name, value in literal.findall(text)}
    for name, value in known.items():  # that side drops these signs
        if name.startswith("VK_ERROR_"):
            known[name] = -abs(value)
    known["VK_WHOLE_SIZE"] %= 1 << 64  # and has this one too many
    for described in known_types(ffi).values():
        if described.kind == "enum":
            known.update(described.relements)
    return known


def known_types(ffi: Any) -> dict[str, Any]:
    typedefs, _, _ = ffi.list_types()
    return {name: ffi.typeof(name) for name in typedefs if name[:2] in ("Vk", "PF")}


def is_described(value: object) -> bool:
    bases = (ctypes.Structure, ctypes.Union)
    return isinstance(value, type) and issubclass(value, bases) and value not in bases


def test_structs_have_the_layout_of_the_headers(ffi: Any) -> None:
    known = known_types(ffi)
    structs = members = 0
    for name, struct in vars(vk).items():
        if not is_described(struct) or name not in known:
            continue
        structs += 1
        assert ctypes.sizeof(struct) == ffi.sizeof(known[name]), name
        assert [f[0] for f in struct._fields_] == [f[0] for f in known[name].fields]
        for member, described in known[name].fields:
            members += 1
            ours = getattr(struct, member)
            theirs = (described.offset, ffi.sizeof(described.type))
            assert (ours.offset, ours.size) == theirs, f"{name}.{member}"
    assert structs >= LEAST_STRUCTS
    assert members >= LEAST_MEMBERS


def test_constants_have_the_values_of_the_headers(
    constants: dict[str, int | str],
) -> None:
    ours = {name: value for name, value in vars(vk).items() if name in constants}
    assert ours == {name: constants[name] for name in ours}
    assert len(ours) >= LEAST_CONSTANTS


def test_commands_have_the_parameters_of_the_headers(ffi: Any) -> None:
    known = known_types(ffi)
    compared = 0
    for name, (_, result, parameters) in vk.FUNCTIONS.items():
        if f"PFN_{name}" not in known:
            continue
        compared += 1
        described = known[f"PFN_{name}"]
        sizes = [ffi.sizeof(argument) for argument in described.args]
        assert [ctypes.sizeof(parameter) for parameter in parameters] == sizes, name
        assert (result is None) == (described.result.kind == "void"), name
    assert compared >= LEAST_COMMANDS


def test_values_are_those_that_khronos_reads_from_the_registry() -> None:
    registry = importlib.import_module("vulkan_object").get_vulkan_object()
    assert int(registry.headerVersion) == vk.VK_HEADER_VERSION
    values: dict[str, int] = {}
    for group in (*registry.enums.values(), *registry.bitmasks.values()):
        for entry in group.fields if hasattr(group, "fields") else group.flags:
            values.update(dict.fromkeys((entry.name, *entry.aliases), entry.value))
    ours = {name: value for name, value in vars(vk).items() if name in values}
    assert ours == {name: values[name] for name in ours}
    assert len(ours) >= LEAST_REGISTRY_VALUES


def test_every_structure_type_is_that_of_its_structure() -> None:
    for struct, value in vk.STRUCTURE_TYPES.items():
        assert struct._fields_[0] == ("sType", vk.VkStructureType)
        words = re.sub(r"[^A-Z]", "", struct.__name__.removeprefix("Vk").upper())
        names = [
            re.sub(r"[^A-Z]", "", name.removeprefix("VK_STRUCTURE_TYPE_"))
            for name, other in vars(vk).items()
            if name.startswith("VK_STRUCTURE_TYPE_") and other == value
        ]
        assert words in names


def test_results_are_named() -> None:
    assert vk.RESULT_NAMES[vk.VK_ERROR_DEVICE_LOST] == "VK_ERROR_DEVICE_LOST"
    assert vk.RESULT_NAMES[0] == "VK_SUCCESS"


def test_levels_follow_the_first_parameter() -> None:
    level = {name: entry[0] for name, entry in vk.FUNCTIONS.items()}
    assert level["vkCreateInstance"] == "global"
    assert level["vkCreateDevice"] == "instance"
    assert level["vkQueueSubmit2"] == "device"
    assert level["vkCmdDispatch"] == "device"
