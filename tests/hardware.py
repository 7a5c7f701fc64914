"""Kernels that the library runs on hardware alone, tried on software devices."""

import pytest

from vkbackend import DeviceInfo


def skip_where_it_crashes(info: DeviceInfo) -> None:
    """Skip a test of such a kernel on SwiftShader.

    Its compiler ends the process where a buffer reference is converted to another type.
    """
    if info.kind == "software" and not info.storage_16bit:
        pytest.skip(f"{info.name} crashes at kernels that only hardware takes")
