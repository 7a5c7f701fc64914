"""The tables speak of what there is, and of all of it."""

from vkbackend.driver import features
from vkbackend.driver.device_info import DeviceInfo
from vkbackend.tools.doctor import requirements


def test_every_feature_has_its_loss() -> None:
    flags = {row.flag for row in features.FEATURES}
    assert flags <= requirements.LOSSES.keys()
    assert requirements.LOSSES.keys() - flags <= DeviceInfo.__dataclass_fields__.keys()


def test_limits_are_fields() -> None:
    names = [row.name for row in requirements.LIMITS]
    assert set(names) <= DeviceInfo.__dataclass_fields__.keys()
    assert len(set(names)) == len(names)


def test_the_core_needs_two_extensions() -> None:
    assert requirements.REQUIRED_EXTENSIONS == (
        "GL_EXT_buffer_reference",
        "GL_EXT_control_flow_attributes",
    )
