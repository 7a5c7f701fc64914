"""Each source file has its test file, and each test file its source."""

from pathlib import Path

import pytest

from tests.tree import FOLDERS, MODULES, ROOT, folder_of

pytestmark = pytest.mark.checkout

LONGEST = 700
GENERATED = {"generated.py", "table.py"}

# Sources without a test file of their own, and why.
EXCEPTIONS: dict[str, str] = {}


def expected_tests() -> dict[str, Path]:
    """Return the test file that each module should have."""
    expected = {}
    for module, path in MODULES.items():
        # A package's own file, and what starts a program, are tested through the rest.
        if not path.name.startswith("__"):
            folder = folder_of(module)
            inner = path.relative_to(FOLDERS[folder])
            expected[module] = mirror_of(folder) / inner.with_name(f"test_{path.name}")
    return expected


def mirror_of(folder: str) -> Path:
    """Return where the tests of one of `FOLDERS` are."""
    return ROOT / "tests" / folder.rpartition(".")[2]


def test_each_source_has_a_test_file() -> None:
    missing = [
        str(test.relative_to(ROOT))
        for module, test in expected_tests().items()
        if module not in EXCEPTIONS and not test.exists()
    ]
    assert missing == []


def test_each_test_file_has_a_source() -> None:
    found = {
        test for folder in FOLDERS for test in mirror_of(folder).rglob("test_*.py")
    }
    orphans = sorted(found - set(expected_tests().values()))
    assert [str(path.relative_to(ROOT)) for path in orphans] == []


def test_exceptions_are_needed() -> None:
    expected = expected_tests()
    assert [name for name in EXCEPTIONS if expected[name].exists()] == []


def test_files_are_short() -> None:
    folders = (*FOLDERS.values(), ROOT / "tests")
    long = {
        str(path.relative_to(ROOT))
        for folder in folders
        for pattern in ("*.py", "*.comp", "*.glsl")
        for path in folder.rglob(pattern)
        if path.name not in GENERATED
        and len(path.read_text("utf-8").splitlines()) > LONGEST
    }
    assert long == set()
