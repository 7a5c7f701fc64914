"""Fragmentation of the pool, reserved over used bytes: `python -m tests.fragmentation`.

Prints the peaks of both for random allocations and frees, in six patterns of sizes one
after the other on one pool, and for the training that the examples do. Nothing here
looks at a clock, and the random part needs no device.
"""

import argparse
import random
from collections.abc import Callable

import numpy as np

import vkbackend.framework as fw
from tests.vkbackend.memory.test_pool import MIB, FakeQueue, make_pool, point, release
from vkbackend import Device
from vkbackend.driver.physical_device import choose
from vkbackend.framework import nn, optim
from vkbackend.framework.base.device import GpuDevice
from vkbackend.framework.examples import digits
from vkbackend.memory.pool import Pool
from vkbackend.memory.span import MemorySpan

LIVE = 320 * MIB
"""Bytes that are alive at most."""

Sizes = Callable[[random.Random], int]


def _between(low: int, high: int) -> Sizes:
    """Return sizes whose logarithms are spread evenly."""
    return lambda rng: int(low * (high / low) ** rng.random())


_MODEL = (4, 256, 1024, 36_864, 65_536, 401_408, 1_605_632, 3_211_264, 12_845_056)

PATTERNS: dict[str, Sizes] = {
    "small": _between(1, 64 << 10),
    "mixed": _between(256, 16 * MIB),
    "model": lambda rng: rng.choice(_MODEL),
    "powers": lambda rng: 1 << rng.randrange(8, 25),
    "large": lambda rng: rng.randrange(MIB, 32 * MIB),
    "batches": lambda rng: rng.randrange(1, 65) * rng.choice((3072, 16_384, 200_704)),
}


def churn(
    pool: Pool, sizes: Sizes, count: int, live: list[MemorySpan], rng: random.Random
) -> None:
    """Allocate and free at random, within `LIVE` bytes."""
    queue = FakeQueue()
    queue.completed = count
    held = sum(span.size for span in live)
    for number in range(count):
        size = sizes(rng)
        while live and (held + size + 256 > LIVE or rng.random() < 0.4):
            place = rng.randrange(len(live))
            live[place], live[-1] = live[-1], live[place]
            span = live.pop()
            held -= span.size
            release(pool, span, point(queue, number))
        span = pool.allocate(size, "")
        held += span.size
        live.append(span)


def random_patterns(count: int, seed: int = 0) -> dict[str, tuple[int, int]]:
    """Return the peaks of what is reserved and in use after each pattern in turn."""
    pool, _ = make_pool(1 << 40)
    rng = random.Random(seed)
    live: list[MemorySpan] = []
    peaks = {}
    for name, sizes in PATTERNS.items():
        churn(pool, sizes, count // len(PATTERNS), live, rng)
        found = pool.statistics()
        peaks[name] = found["peak_reserved"], found["peak_in_use"]
    return peaks


def _figures(reserved: int, used: int) -> tuple[str, ...]:
    return (
        f"reserved {reserved / MIB:8.1f} MiB",
        f"in use {used / MIB:8.1f} MiB",
        f"ratio {reserved / max(1, used):5.2f}",
    )


def _perceptron() -> nn.Sequential:
    hidden = nn.Linear(512, 512), nn.ReLU()
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), *hidden, nn.Linear(512, 10)
    )


def _images() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 14 * 14, 10),
    )


def _steps(model: nn.Module, device: GpuDevice) -> None:
    """Train eagerly on batches of two sizes, and read each loss."""
    model.to(device)
    optimizer = optim.AdamW(model.parameters(), lr=1e-3)
    rng = np.random.default_rng(0)
    for step in range(7):
        count = 61 if step % 3 else 37
        pictures = rng.random((count, 1, 28, 28), np.float32)
        labels = rng.integers(0, 10, count).astype(np.int32)
        optimizer.zero_grad()
        scores = model(fw.tensor(pictures, device=device))
        loss = nn.functional.cross_entropy(scores, fw.tensor(labels, device=device))
        loss.backward()
        optimizer.step()
        loss.item()


def _digits(device: GpuDevice) -> None:
    digits.train(digits.make_model().to(device), digits.Digits(), device, 1)


TRAININGS: dict[str, Callable[[GpuDevice], None]] = {
    "digits": _digits,
    "perceptron": lambda device: _steps(_perceptron(), device),
    "images": lambda device: _steps(_images(), device),
}


def training(name: str) -> tuple[int, int]:
    """Return the peaks of what is reserved and in use of a training, alone."""
    device = GpuDevice(Device(choose()))
    try:
        TRAININGS[name](device)
        found = device.gpu.memory_stats()
    finally:
        device.gpu.close()
    return found["peak_reserved"], found["peak_in_use"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    for name, peaks in random_patterns(options.count, options.seed).items():
        print(f"{name:<10}", *_figures(*peaks))
    for name in TRAININGS:
        print(f"{name:<10}", *_figures(*training(name)))


if __name__ == "__main__":
    main()
