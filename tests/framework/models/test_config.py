"""Settings of models, checked as they are read."""

import pytest

from vkbackend.framework.base.errors import FileFormatError
from vkbackend.framework.models import ModelConfig


def test_settings() -> None:
    config = ModelConfig({"a": 3, "b": None, "c": 2.5, "d": "x", "e": True})
    assert config.size("a") == 3
    assert config.size("b", 7) == 7
    assert config.get("a", float) == 3.0
    assert config.get("c", float) == 2.5
    assert config.get("e", bool) is True
    config.require("d", "x", "y")
    config.require("missing", "x")


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda config: config.size("missing"), r"^where: `missing` is missing$"),
        (lambda config: config.size("d"), r"`d` is 'x'; it must be int"),
        (lambda config: config.size("zero"), r"`zero` is 0; it must be above 0"),
        (lambda config: config.size("e"), r"`e` is True; it must be int"),
        (lambda config: config.require("d", "y"), r"`d` is 'x'; accepted: 'y'"),
    ],
)
def test_refusals(read: object, message: str) -> None:
    config = ModelConfig({"d": "x", "e": True, "zero": 0}, "where")
    with pytest.raises(FileFormatError, match=message):
        read(config)  # type: ignore[operator]  # a lambda above
