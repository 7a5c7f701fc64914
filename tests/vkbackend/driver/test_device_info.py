"""What is recorded about a device: each flag's attribute tells of that flag."""

import dataclasses

import pytest

from vkbackend.driver.device_info import DeviceInfo
from vkbackend.driver.features import FEATURES

FLAGS = [
    row.flag
    for row in FEATURES
    if isinstance(getattr(DeviceInfo, row.flag, 0), property)
]


def bare(supported: frozenset[str]) -> DeviceInfo:
    """Return a record that is empty but for its flags."""
    values = {field.name: None for field in dataclasses.fields(DeviceInfo)}
    return DeviceInfo(**{**values, "supported": supported})  # type: ignore[arg-type]


@pytest.mark.parametrize("flag", FLAGS)
def test_attribute_follows_flag(flag: str) -> None:
    assert getattr(bare(frozenset({flag})), flag) is True
    assert getattr(bare(frozenset(FLAGS) - {flag}), flag) is False


def test_every_property_is_a_flag() -> None:
    properties = {
        name for name, value in vars(DeviceInfo).items() if isinstance(value, property)
    }
    assert properties == set(FLAGS)
