from collections.abc import Callable
from typing import Any

import pytest

from vkbackend.tools.bindings import closure


@pytest.mark.parametrize(
    "name", ["VK_SHADE_OFF_BIT", "VK_STRUCTURE_TYPE_UNREACHED", "VkUnused", "VkHidden"]
)
def test_what_nothing_reaches_is_left_out(tiny: dict[str, Any], name: str) -> None:
    assert name not in tiny


def test_aliases_come_only_when_asked_for(tiny: dict[str, Any]) -> None:
    assert tiny["VkPaintInfoEXT"] is tiny["VkPaintInfo"]
    assert tiny["VK_COLOR_RED_EXT"] == tiny["VK_COLOR_RED_KHR"]
    assert "VkPaintInfoKHR" not in tiny
    assert "VK_WIDE_2_OLD_BIT" not in tiny
    assert list(tiny["FUNCTIONS"]) == ["vkPaintEXT"]


def test_structures_come_after_what_they_need(golden: str) -> None:
    order = ["class VkEither", "class VkLate", "class VkPaintInfo", "PFN_vkTell ="]
    places = [golden.index(text) for text in order]
    assert places == sorted(places)


@pytest.mark.parametrize(
    ("depends", "holds"),
    [
        ("", True),
        ("a", True),
        ("x", False),
        ("a+x", False),
        ("x,a", True),
        ("x+(a,b)", False),
        ("(x,a)+b", True),
        ("a,b+x", False),  # from left to right: (a or b) and x
        ("(x,(a+b))+a", True),
        ("VkFeatures::member", False),
    ],
)
def test_dependencies(depends: str, holds: bool) -> None:
    assert closure._dependency_met(depends, {"a", "b"}) is holds


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ('structs = ["VkNone"]', "manifest: VkNone is not in the registry"),
        ('extensions = ["VK_EXT_off"]', "manifest: VK_EXT_off is not in the registry"),
        ('structs = ["VkLoop"]', "VkLoop: refers to itself: VkLoop -> VkLoop"),
        ('structs = ["VkWindows"]', "HANDLE: a platform's type"),
        ('opaque = ["VkLoop"]', "opaque names that nothing reaches: VkLoop"),
    ],
)
def test_bad_manifests(
    generate: Callable[[str], str], wanted: str, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        generate(wanted)
