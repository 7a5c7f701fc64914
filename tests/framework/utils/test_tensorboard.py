"""Without the package the import says what to install."""

import importlib
import sys

import pytest


def test_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)
    with pytest.raises(ModuleNotFoundError, match="pip install tensorboardX"):
        importlib.import_module("vkbackend.framework.utils.tensorboard")
