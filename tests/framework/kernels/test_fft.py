"""Lengths of Fourier transforms."""

import dataclasses
import math

import vkbackend
from vkbackend.framework.base.dtype import complex64
from vkbackend.framework.base.shape import Layout
from vkbackend.framework.ir.kernel_call import StridedSpec
from vkbackend.framework.kernels.fft import (
    IN_REGISTERS,
    LEAST_BESIDE,
    MOST_PASSES,
    compiles_rows,
    convolution_dispatches,
    fft_dispatches,
    fits_registers,
    pass_radices,
    radices_of,
    split_columns,
    split_length,
    takes_columns,
    takes_convolutions,
    takes_rows,
)


def test_lengths_are_products_of_radices() -> None:
    assert radices_of(1) == ()
    assert radices_of(2 * 16 * 9 * 13) == (4, 4, 2, 3, 3, 13)
    assert radices_of(2 * 17 * 31) == (2, 17, 31)
    assert radices_of(37) is None


def test_rows_that_stay_in_registers(device: vkbackend.Device) -> None:
    info = dataclasses.replace(
        device.info, max_shared_memory=49152, kind="discrete", vendor_id=0x10DE
    )
    assert fits_registers(info, 4096)
    assert fits_registers(info, 8192)
    assert not fits_registers(info, 16384)
    software = dataclasses.replace(device.info, kind="software")
    assert not fits_registers(software, 64)
    assert takes_rows(8192)
    assert not takes_rows(2 * 37)
    for n in (1, 2, 16, 31, 100, 255, 1000, 2187, 3125, 4096, 8192, 17 * 31 * 13):
        shape = (1000, n)
        x = StridedSpec(shape, complex64, Layout.contiguous(shape))
        (only,) = fft_dispatches(info, x, False, 1.0)
        passes = int(only.defines["PASSES"])
        assert passes <= MOST_PASSES
        size = math.prod(
            int(only.defines[f"FIRST_{k}"]) * int(only.defines[f"SECOND_{k}"])
            for k in range(passes)
        )
        assert size == n
        rows = only.constants["ROWS"]
        assert only.grid[0] * rows >= 1000
        assert only.constants["LOCAL_X"] == rows * only.constants["THREADS"] <= 1024
        # Of the longest, real and imaginary parts are there one after the other.
        assert only.defines["SPLIT"] == str(int(n > 6000))
        assert rows * (4 if n > 6000 else 8) * (n + n // 16 + 1) <= 49152
        assert n // int(only.constants["THREADS"]) <= int(only.defines["HELD"])
        assert ("LARGEST_RADIX" in only.defines) == (n % 17 == 0 or n == 31)


def test_large_radices_are_for_devices_that_compile_them(
    device: vkbackend.Device,
) -> None:
    info = dataclasses.replace(device.info, kind="discrete")
    assert all(compiles_rows(info, n) for n in (1, 13, 2 * 17, 31))
    assert not compiles_rows(info, 37)
    slow = dataclasses.replace(device.info, kind="software")
    target = dataclasses.replace(slow.target, compiles_row_kernels=False)
    slow.__dict__["target"] = target
    assert compiles_rows(slow, 13)
    assert not compiles_rows(slow, 2 * 17)


def test_long_rows_are_matrices() -> None:
    assert split_length(1 << 20, 1400) == (1024, 1024)
    assert split_length(8192, 1400) == (64, 128)
    assert split_length(2 * 37, 1400) is None
    # Their tables would share one of 9 * 8 * 7 * 5 * 11 * 13 numbers.
    assert split_length(2520 * 143, 1400) is None


def test_longer_rows_are_cubes() -> None:
    assert split_length(1 << 23, 1400) == (128, 256, 256)
    assert split_length(1 << 24, 1400) == (256, 256, 256)
    assert split_length(1 << 24, 200) is None


def test_long_rows_are_matrices_of_split_columns(device: vkbackend.Device) -> None:
    info = dataclasses.replace(
        device.info, max_shared_memory=49152, kind="discrete", vendor_id=0x10DE
    )
    assert split_columns(info, 1 << 21) == (1024, 2048)
    shape = (16, 1 << 21)
    x = StridedSpec(shape, complex64, Layout.contiguous(shape))
    first, second = fft_dispatches(info, x, False, 1.0)
    assert (first.defines["SPLIT"], second.defines["SPLIT"]) == ("0", "1")
    assert second.constants["ROWS"] == LEAST_BESIDE


def test_convolutions_take_factors_as_they_read_and_write(
    device: vkbackend.Device,
) -> None:
    info = dataclasses.replace(
        device.info, max_shared_memory=49152, kind="discrete", vendor_id=0x10DE
    )
    for n, size, count in ((2039, 4096, 2), (8191, 16384, 4), (1048575, 1 << 21, 4)):
        assert takes_convolutions(info, size)
        made = convolution_dispatches(info, 3, n, size, False, 0.5)
        assert len(made) == count
        assert (made[0].push["taken"], made[0].push["in_factors"]) == (n, "chirp")
        assert (made[-1].push["kept"], made[-1].push["out_factors"]) == (n, "chirp")
        middle = made[count // 2 - 1].push
        assert (middle["kept"], middle["out_factors"]) == (size, "response")
        assert made[-1].push["scale"] == 0.5 / size
    assert not takes_convolutions(info, 1 << 29)


def test_columns_lie_beside_each_other(device: vkbackend.Device) -> None:
    info = dataclasses.replace(
        device.info, max_shared_memory=49152, kind="discrete", vendor_id=0x10DE
    )
    shape = (3, 256, 100)
    x = StridedSpec(shape, complex64, Layout.contiguous(shape))
    (only,) = fft_dispatches(info, x, False, 1.0)
    rows = int(only.constants["ROWS"])
    assert rows >= LEAST_BESIDE
    assert only.grid[0] * rows >= 300
    shape = (2, 4096, 7)
    x = StridedSpec(shape, complex64, Layout.contiguous(shape))
    first, second = fft_dispatches(info, x, False, 1.0)
    assert first.constants["N"] * second.constants["N"] == 4096
    assert (first.defines["TWIDDLED"], second.defines["ALONG"]) == ("1", "1")
    software = dataclasses.replace(device.info, kind="software")
    assert not takes_columns(software, 64)


def test_passes_are_few_and_even() -> None:
    assert pass_radices(1) == ()
    assert sorted(map(math.prod, pass_radices(512))) == [16, 32]
    assert sorted(map(math.prod, pass_radices(64))) == [8, 8]
    assert sorted(map(math.prod, pass_radices(1001))) == [7, 11, 13]
    assert sorted(map(math.prod, pass_radices(255, IN_REGISTERS))) == [15, 17]
    assert len(pass_radices(1 << 20)) == 4
    assert len(pass_radices(4096, IN_REGISTERS)) == 3
