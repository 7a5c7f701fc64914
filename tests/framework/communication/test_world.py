"""How many processes a launcher has started."""

import pytest

from vkbackend.framework.communication import world


def test_launchers(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in world.SIZES:
        monkeypatch.delenv(name, raising=False)
    assert world.launched_size() == 1
    for name in world.SIZES:
        with monkeypatch.context() as within:
            within.setenv(name, "3")
            assert world.launched_size() == 3
            within.setenv(name, "many")
            assert world.launched_size() == 1
