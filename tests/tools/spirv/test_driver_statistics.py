import ctypes
from typing import Any

import pytest

import vkbackend
from vkbackend.tools.spirv.driver_statistics import (
    FLAG,
    PipelineExecutable,
    Representation,
    Statistic,
    executables,
    read,
)
from vkbackend.vk import generated as vk

from .shaders import SHARED, compiled


class Driver:
    """What a driver that knows the extension answers, for one executable."""

    CODE = b"MOV R1, R2\n\0"

    def vkGetPipelineExecutablePropertiesKHR(
        self, device: int, info: Any, count: Any, rows: Any
    ) -> int:
        count._obj.value = 1
        if rows:
            rows[0].name = b"Compute"
            rows[0].description = b"a compute shader"
            rows[0].subgroupSize = 32
        return vk.VK_SUCCESS

    def vkGetPipelineExecutableStatisticsKHR(
        self, device: int, info: Any, count: Any, rows: Any
    ) -> int:
        assert info._obj.pipeline == 77
        count._obj.value = 4
        if rows:
            rows[0].name, rows[0].format = b"Register Count", 2
            rows[0].value.u64 = 254
            rows[1].name, rows[1].format = b"Local Memory Size", 2
            rows[1].value.u64 = (1 << 36) + 16
            rows[2].name, rows[2].format = b"Spills", 0
            rows[2].value.b32 = 1
            rows[3].name, rows[3].format = b"Occupancy", 3
            rows[3].value.f64 = 0.5
        return vk.VK_SUCCESS

    def vkGetPipelineExecutableInternalRepresentationsKHR(
        self, device: int, info: Any, count: Any, rows: Any
    ) -> int:
        count._obj.value = 2
        if rows:
            for row, text in zip(rows, (True, False), strict=True):
                row.name = b"Assembly" if text else b"Binary"
                row.isText = text
                if row.pData:
                    ctypes.memmove(row.pData, self.CODE, row.dataSize)
                row.dataSize = len(self.CODE)
        return vk.VK_SUCCESS


for _name in [name for name in vars(Driver) if name.startswith("vk")]:
    getattr(Driver, _name).__name__ = _name


def test_what_a_driver_says() -> None:
    assert read(Driver(), 1, 77) == (
        PipelineExecutable(
            "Compute",
            "a compute shader",
            32,
            (
                Statistic("Register Count", "", 254),
                Statistic("Local Memory Size", "", 16),
                Statistic("Spills", "", True),
                Statistic("Occupancy", "", 0.5),
            ),
            (
                Representation("Assembly", "", "MOV R1, R2\n", len(Driver.CODE)),
                Representation("Binary", "", "", len(Driver.CODE)),
            ),
        ),
    )


@pytest.mark.device
def test_a_device(device: vkbackend.Device) -> None:
    found = executables(device.logical, compiled(SHARED), {"ROWS": 16})
    if FLAG not in device.info.supported:
        assert found == ()
    else:
        assert found[0].statistics
