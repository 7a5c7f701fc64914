"""Random numbers: known answers, the same stream everywhere, repeatable seeds."""

import numpy as np
import pytest

import vkbackend.framework as fw
from vkbackend.framework import ops
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.base.philox import (
    Generator,
    default_generator,
    philox,
    uniform,
)

# Random123 1.14, tests/kat_vectors, "philox4x32 10": counter, key, answer.
KNOWN = [
    (
        (0, 0, 0, 0),
        (0, 0),
        (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8),
    ),
    (
        (0xFFFFFFFF,) * 4,
        (0xFFFFFFFF,) * 2,
        (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
    ),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_known_answers(
    counter: tuple[int, ...], key: tuple[int, int], answer: tuple[int, ...]
) -> None:
    assert tuple(philox(np.array([counter], np.uint32), key)[0]) == answer


@pytest.mark.parametrize("count", [0, 1, 4, 37, 1024])
def test_draws_are_words_of_blocks(count: int) -> None:
    stream = (5, 6, 7, 8)
    counters = [(block, 7, 8, 0) for block in range(-(-count // 4))]
    words = philox(np.array(counters, np.uint32).reshape(-1, 4), (5, 6)).ravel()
    expected = (words[:count] >> 8) / 2.0**24
    draws = uniform(count, stream)
    assert draws.dtype == np.float32
    assert np.array_equal(draws, expected)


def test_draws_are_uniform() -> None:
    draws = uniform(1 << 16, (1, 0, 0, 0))
    assert draws.min() >= 0
    assert draws.max() < 1
    counts, _ = np.histogram(draws, 16, (0, 1))
    # 4096 expected in each of 16, with a deviation of 62.
    assert np.abs(counts - 4096).max() < 5 * 62


@pytest.mark.core
@pytest.mark.parametrize("shape", [(), (1,), (37,), (3, 113), (64, 64)])
def test_same_stream_on_host_and_device(shape: tuple[int, ...], gpu: GpuDevice) -> None:
    stream = (0xDEADBEEF, 0xFFFFFFFF, 0x12345678, 0x80000000)
    on_host = ops.random_uniform(fw.zeros(shape), stream)
    on_device = ops.random_uniform(fw.zeros(shape, device=gpu), stream)
    assert np.array_equal(on_device.numpy(), on_host.numpy())


@pytest.mark.core
def test_seed_repeats_on_every_device(gpu: GpuDevice) -> None:
    drawn = []
    for device in ("cpu", "cpu", gpu):
        fw.manual_seed(7)
        drawn.append([fw.rand(5, device).numpy() for _ in range(3)])
    assert np.array_equal(drawn[0], drawn[1])
    assert np.array_equal(drawn[0], drawn[2])
    assert len(np.unique(drawn[0])) == 15


def test_generator_counts_calls() -> None:
    generator = Generator((3 << 32) + 2)
    generator.calls = (5 << 32) + 4
    assert generator.stream() == (2, 3, 4, 5)
    assert generator.stream() == (2, 3, 5, 5)
    generator.manual_seed(-1)
    assert generator.stream() == (0xFFFFFFFF, 0xFFFFFFFF, 0, 0)


def test_unseeded_generators_differ() -> None:
    assert Generator().seed != Generator().seed


def test_manual_seed_is_the_default_generator() -> None:
    fw.manual_seed(11)
    assert (default_generator.key, default_generator.calls) == (11, 0)


def test_streams_are_given_back_if_they_were_the_last() -> None:
    generator = Generator(7)
    state = generator.get_state()
    generator.reserve(3)
    generator.give_back(state, 2)
    assert generator.get_state() == (7, 3)
    generator.give_back(state, 3)
    generator.give_back(state, 3)
    assert generator.get_state() == state
    generator.manual_seed(8)
    generator.reserve(3)
    generator.give_back(state, 3)
    assert generator.get_state() == (8, 3)
