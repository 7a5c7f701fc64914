"""Peaks of memory of a decoder that fills much of a card, whole and divided by FSDP.

`python -m vkbackend.tools.launch -n 2 -m vkbackend.tools.bench.sharded_memory` prints a
row for each rank of each model. Parameters, gradients and AdamW's moments in float32
take `--share` of the device's memory. Whole, every rank trains the model alone on its
card; that peak is also predicted, from two models of few layers, so that one that does
not fit has a figure to compare with.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn

from .models import Sizes, transformer
from .parallel import repeated, step_of

_GIBIBYTE = 2**30
_STATE = 16
"""Bytes of a parameter, its gradient and its two moments."""

_STEPS, _TRACED = 5, 3
"""Steps that are taken, and those of them before replays are counted apart."""

_LARGE = Sizes(32000, 256, 3072, 24, 0, tied=True)
_SMALL = Sizes(256, 8, 96, 4, 0, tied=True)
_SMALL_CARD = 139 << 20
"""Bytes that software devices are taken to have."""


class Found(NamedTuple):
    """What training of a model took.

    Attributes
    ----------
    seconds : float
        Of the quickest step.
    peak, replayed : int
        Most bytes of the device's memory: in all, and of replays.
    parameters : int
        Number of the model's own elements, before they are divided.
    losses : list of float
    """

    seconds: float
    peak: int
    replayed: int
    parameters: int
    losses: list[float]


def layers_of(sizes: Sizes, state: float) -> int:
    """Return how many layers a decoder has whose state takes so many bytes.

    Parameters
    ----------
    sizes : Sizes
        Of the decoder, but for its layers.
    state : float
        Bytes of parameters, gradients and moments; there are at least 6 layers.

    Examples
    --------
    >>> layers_of(_LARGE, 0.6 * (139 << 30))
    49
    """
    layer = 12 * sizes.width**2 + 13 * sizes.width
    left = int(state / _STATE) - sizes.words * sizes.width
    return max(6, -(-left // layer))


def trained(
    group: fw.distributed.Group, sizes: Sizes, wrap: Callable[[Any], Any]
) -> Found:
    """Train a decoder for a few steps, and let go of it.

    Parameters
    ----------
    group : Group
    sizes : Sizes
    wrap : callable
        What the module is made to before it is trained.
    """
    device = group.device
    clear(device)
    before = fw.accelerator.memory_allocated(device)
    fw.manual_seed(0)
    # On the device: there are no copies on the host.
    with fw.device(device):
        model = transformer(fw, sizes)
    count = sum([each.numel() for each in model.parameters()])
    model = wrap(model)
    clear(device)
    rng = np.random.default_rng(group.rank)
    shape = 1, sizes.length
    x, y = (
        fw.tensor(rng.integers(0, sizes.words, shape), device=device) for _ in range(2)
    )
    fw.accelerator.reset_peak_memory_stats(device)
    step, losses, times, first = step_of(model, x, y), [], [], 0
    for number in range(_STEPS):
        if number == _TRACED:
            first = fw.accelerator.max_memory_allocated(device)
            fw.accelerator.reset_peak_memory_stats(device)
        start = time.perf_counter()
        losses.append(float(step().item()))
        times.append(time.perf_counter() - start)
    last = fw.accelerator.max_memory_allocated(device)
    del step, model
    clear(device)
    peak = max(first, last) - before
    return Found(min(times), peak, last - before, count, losses)


def clear(device: Any) -> None:
    """Let go of all memory of the device that nothing uses."""
    gc.collect()
    device.synchronize()
    fw.accelerator.empty_cache()


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each rank of each model, and what FSDP takes of one card's peak.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = argparse.ArgumentParser(description="Peaks of memory, whole and divided.")
    parser.add_argument("--transport", default="any")
    parser.add_argument("--share", type=float, default=0.6, help="of a card's memory")
    parser.add_argument("--gibibytes", type=float, help="of a card; else what it has")
    parser.add_argument("--size", choices=("full", "small"))
    given = parser.parse_args(arguments)
    group = fw.distributed.init(transport=given.transport)
    device = group.device
    software = not device.is_gpu or device.gpu.info.kind == "software"
    small = software if given.size is None else given.size == "small"
    card = _SMALL_CARD if small else fw.accelerator.get_memory_info(device)[1]
    if given.gibibytes is not None:
        card = int(given.gibibytes * _GIBIBYTE)
    sizes = _SMALL if small else _LARGE
    sizes = sizes._replace(blocks=layers_of(sizes, given.share * card))

    def say(text: str) -> None:
        if group.rank == 0:
            print(text, flush=True)

    def row(name: str, sizes: Sizes, wrap: Callable[[Any], Any]) -> Found:
        """Print what each rank took; return the most."""
        every = group.gather_objects(trained(group, sizes, wrap))
        for rank, each in enumerate(every):
            say(
                f"| {name} | {rank} | {sizes.blocks} |"
                f" {_STATE * each.parameters / _GIBIBYTE:.4f} |"
                f" {each.peak / _GIBIBYTE:.4f} | {each.replayed / _GIBIBYTE:.4f} |"
                f" {1e3 * each.seconds:.1f} | {each.losses[-1]:.4f} |"
            )
        found: Found = max(every, key=lambda each: each.peak)
        return found

    say(f"{group.size} ranks, {device}, {group.transport}")
    say("| model | rank | layers | state, GiB | peak | of replays | step, ms | loss |")
    say("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    few = [max(2, sizes.blocks // 16), max(4, sizes.blocks // 8)]
    peaks = [
        row("alone", sizes._replace(blocks=each), lambda module: module).peak
        for each in few
    ]
    slope = (peaks[1] - peaks[0]) / (few[1] - few[0])
    whole = peaks[1] + slope * (sizes.blocks - few[1])
    say(f"predicted for {sizes.blocks} layers on a card: {whole / _GIBIBYTE:.4f} GiB")
    try:
        whole = row("alone", sizes, lambda module: module).peak
    except MemoryError as error:
        say(f"alone: {error}")
    found = row(
        "FSDP",
        sizes,
        lambda module: nn.FSDP(
            module, group, auto_wrap_policy=repeated(module), init_sync=False
        ),
    )
    say(
        f"FSDP over one card: {found.peak / whole:.4f} in all,"
        f" {found.replayed / whole:.4f} of replays"
    )


if __name__ == "__main__":
    main()
