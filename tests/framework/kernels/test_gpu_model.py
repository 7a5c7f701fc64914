"""Which figures kernels are chosen by on which device."""

import dataclasses
import itertools

import pytest

import vkbackend
from vkbackend.framework.kernels.gemm.tiles import SIMT, TENSOR_CORES
from vkbackend.framework.kernels.gpu_model import (
    H200,
    MODELS,
    SOFTWARE,
    device_class,
    model_of,
)


@pytest.mark.parametrize(
    ("vendor", "found"),
    [(0x10DE, "NVIDIA"), (0x1002, "AMD"), (0x8086, "Intel"), (0x13B5, "other")],
)
def test_vendors_are_classes(
    discrete: vkbackend.DeviceInfo, vendor: int, found: str
) -> None:
    info = dataclasses.replace(discrete, vendor_id=vendor)
    assert device_class(info) == found
    assert model_of(info) is MODELS[found]


def test_software_is_a_class_whoever_makes_it(device: vkbackend.Device) -> None:
    info = dataclasses.replace(device.info, kind="software", vendor_id=0x10DE)
    assert device_class(info) == "software"
    assert model_of(info) is SOFTWARE


def test_occupancy_never_lowers_efficiency() -> None:
    for costs in H200.gemm.values():
        for tile in (*costs.tiles, *costs.unaligned_tiles):
            assert tile.efficiency[-1] == 1
            pairs = itertools.pairwise(tile.efficiency)
            assert all(few <= many for few, many in pairs)


def test_unaligned_operands_have_tiles_of_their_own_on_tensor_cores() -> None:
    assert all(tile.unaligned for tile in H200.gemm[TENSOR_CORES].unaligned_tiles)
    assert not H200.gemm[SIMT].unaligned_tiles
