"""Lengths of Fourier transforms."""

import math

from vkbackend.framework.kernels.fft import pass_radices, radices_of, split_length


def test_lengths_are_products_of_radices() -> None:
    assert radices_of(1) == ()
    assert radices_of(2 * 16 * 9 * 13) == (4, 4, 2, 3, 3, 13)
    assert radices_of(17) is None


def test_a_long_row_is_split() -> None:
    assert split_length(4096, 2048) == (64, 64)
    assert split_length(6000, 2048) == (80, 75)
    assert split_length(2 * 17, 2048) is None


def test_passes_are_few_and_even() -> None:
    assert pass_radices(1) == ()
    assert sorted(map(math.prod, pass_radices(512))) == [16, 32]
    assert sorted(map(math.prod, pass_radices(64))) == [8, 8]
    assert sorted(map(math.prod, pass_radices(1001))) == [7, 11, 13]
    assert len(pass_radices(1 << 20)) == 4
