"""The tree of modules: what an import finds in a checkout, an installation has too."""

from tests.tree import FOLDERS, MODULES


def test_each_folder_of_modules_is_a_package() -> None:
    """One without `__init__.py` imports in a checkout, and no wheel holds it."""
    lacking = {
        str(path.parent)
        for path in MODULES.values()
        if not (path.parent / "__init__.py").exists()
    }
    assert lacking == set()


def test_modules_differ_in_more_than_case() -> None:
    """Two that do not are one file where the file system ignores case."""
    assert len({name.lower() for name in MODULES}) == len(MODULES) > len(FOLDERS)
