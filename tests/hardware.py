"""Kernels that the library runs on hardware alone, tried on software devices."""

import dataclasses
from typing import Any

import pytest

from vkbackend import DeviceInfo


def as_hardware(info: DeviceInfo, **more: Any) -> DeviceInfo:
    """Return what a device would say of itself if it were for speed, and `more`."""
    return dataclasses.replace(
        info,
        kind="discrete",
        subgroup_size=32,
        max_shared_memory=49152,
        max_workgroup_invocations=1024,
        **more,
    )


def skip_where_it_crashes(info: DeviceInfo) -> None:
    """Skip a test of such a kernel on SwiftShader.

    Its compiler ends the process where a buffer reference is converted to another type.
    """
    if info.kind == "software" and not info.storage_16bit:
        pytest.skip(f"{info.name} crashes at kernels that only hardware takes")
