"""CUDA's driver: what its calls raise; their effects are tested with its users'."""

import ctypes
from typing import Any

import pytest

from tests.fake_cuda import FakeCuda
from vkbackend import Device
from vkbackend.cuda import driver as cuda_driver
from vkbackend.cuda.driver import (
    AccessDescriptor,
    AllocationProperties,
    CudaContext,
    CudaDriver,
)
from vkbackend.errors import CudaError


def test_structures_have_the_sizes_of_cuda() -> None:
    """As `cuda.h` of CUDA 12 has them on 64-bit systems."""
    assert ctypes.sizeof(AllocationProperties) == 32
    assert AllocationProperties.location.offset == 8
    assert AllocationProperties.allocFlags.offset == 24
    assert ctypes.sizeof(AccessDescriptor) == 12


def test_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libnowhere.so.1")
    cuda_driver.load.cache_clear()
    with pytest.raises(CudaError, match=r"libnowhere.so.1 cannot be loaded \(libno"):
        cuda_driver.load()

    with pytest.raises(CudaError, match=r"cuInit: .* no such function; install a"):
        CudaDriver(object())


def test_failures_have_names(device: Device) -> None:
    library: Any = FakeCuda(device)
    driver = CudaDriver(library)
    assert driver.version == "12.4"
    context = CudaContext(driver, 0)
    library.fails = "cuMemCreate"
    with pytest.raises(CudaError) as caught:
        context.create(1 << 16)
    assert str(caught.value) == (
        "cuMemCreate: CUDA_ERROR_INVALID_VALUE (1): invalid argument: 65536 bytes"
    )
    assert caught.value.result == 1
    assert driver.described(7) == "unknown error (7): invalid argument"
    library.fails = "cuEventQuery"
    with pytest.raises(CudaError, match="cuEventQuery: CUDA_ERROR_INVALID"):
        context.happened(context.event())
    context.close()
    library.fails = "cuStreamCreate"
    with pytest.raises(CudaError, match="cuStreamCreate"):
        CudaContext(driver, 0)
    assert library.live["context"] == library.live["current"] == 0
