from pathlib import Path

import pytest

from vkbackend.tools.bindings import Manifest, ManifestError, generate, manifest


def test_keys_become_tuples() -> None:
    wanted = manifest.parse('header_version = 7\nstructs = ["VkLate", "VkEither"]')
    assert wanted == Manifest(7, structs=("VkLate", "VkEither"))


def test_unknown_keys_are_refused() -> None:
    with pytest.raises(ManifestError, match=r"unknown keys: struct; known are \w+"):
        manifest.parse('header_version = 7\nstruct = ["VkLate"]')


def test_the_version_is_needed() -> None:
    with pytest.raises(ManifestError, match="header_version is missing"):
        manifest.parse("structs = []")


def test_another_header_version_is_refused(tiny_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"is 7; the manifest pins \d+"):
        generate(tiny_path)


def test_names_are_listed_once() -> None:
    wanted = manifest.read()
    for names in (wanted.extensions, wanted.commands, wanted.structs, wanted.opaque):
        assert len(set(names)) == len(names)
