"""Training steps of several processes beside those of each alone, replayed.

`python -m vkbackend.tools.launch -n 2 -m vkbackend.tools.bench.parallel` prints a row
for each model and way to divide it: the time of a step, the median of the slowest rank;
the median of the times alone by it (the efficiency); tokens or images a second of all
ranks; the time of the exchange of gradients by itself, and how much of that the step is
longer than one alone; the peak of the device's memory. Steps alone and divided ones are
taken in turn, and all ranks compute at once either way, so that both meet the same
machine; they are measured once their times have settled. Below each pair of rows are
the times themselves. `--peer` adds PyTorch's steps, alone and by its own DDP.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from operator import sub, truediv
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import nn
from vkbackend.framework.nn.gradient_reducer import bucket_sizes

from .clock import settled
from .collectives import seconds_of
from .models import Sizes, resnet18, transformer

_WARM = 4
"""Steps in which a step is traced and replayed, before any time counts."""

SMALL = Sizes(64, 16, 16, 2, 2, tied=True)
GPT2_SMALL = Sizes(50257, 1024, 768, 12, 12, tied=True)


class Model(NamedTuple):
    """A model that is trained.

    Attributes
    ----------
    build : callable
        Makes it by a library, `vkbackend.framework` or `torch`.
    data : callable
        Returns inputs and targets of a rank.
    dtype : str
        Of its parameters.
    items : int
        Tokens, or images, of a rank's step.
    """

    build: Callable[[Any], Any]
    data: Callable[[int], tuple[np.ndarray, np.ndarray]]
    dtype: str
    items: int


def _text(sizes: Sizes, batch: int, dtype: str) -> Model:
    def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(rank)
        shape = batch, sizes.length
        return rng.integers(0, sizes.words, shape), rng.integers(0, sizes.words, shape)

    def build(library: Any) -> Any:
        return transformer(library, sizes)

    return Model(build, data, dtype, batch * sizes.length)


def _images(batch: int, size: int, width: int) -> Model:
    def data(rank: int) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(rank)
        images = rng.standard_normal((batch, 3, size, size)).astype(np.float32)
        return images, rng.integers(0, 10, batch)

    def build(library: Any) -> Any:
        return resnet18(library, 10, width)

    return Model(build, data, "float32", batch)


def models(small: bool) -> dict[str, Model]:
    """Return the models by name.

    Parameters
    ----------
    small : bool
        Whether of a size for software devices.
    """
    if small:
        return {"gpt": _text(SMALL, 2, "float32"), "resnet": _images(2, 32, 4)}
    return {
        "gpt2s_f32_b8t1024": _text(GPT2_SMALL, 8, "float32"),
        "gpt2s_bf16_b8t1024": _text(GPT2_SMALL, 8, "bfloat16"),
        "resnet18_f32_b64": _images(64, 224, 64),
    }


def step_of(model: Any, x: fw.Tensor, y: fw.Tensor) -> Callable[[], fw.Tensor]:
    """Return a training step with AdamW, to be replayed."""
    optimizer = fw.optim.AdamW(model.parameters(), 1e-3)

    def step() -> fw.Tensor:
        optimizer.zero_grad()
        found = model(x).float()
        loss = fw.nn.functional.cross_entropy(
            found.reshape(-1, found.shape[-1]), y.reshape(-1)
        )
        loss.backward()
        optimizer.step()
        return loss.detach()

    return fw.jit(step)


class Timed:
    """A training step, and its times.

    Parameters
    ----------
    group : Group
        The ranks that take it.
    step : callable
        Returns the loss, of which `item` waits for it.

    Attributes
    ----------
    times : list of float
        Seconds of the measured steps, each of the slowest rank.
    peak : int
        Most bytes of the device's memory that it took, beside what was there before.
    exchange : float
        Seconds of its exchange of gradients by itself; 0 if that is not known.
    """

    def __init__(self, group: fw.distributed.Group, step: Callable[[], Any]) -> None:
        self._group, self._step = group, step
        self.times: list[float] = []
        self.peak, self.exchange = 0, 0.0

    def seconds(self) -> float:
        """Take a step; return its time, of the slowest rank."""
        self._group.barrier()
        start = time.perf_counter()
        self._step().item()
        found: float = max(self._group.gather_objects(time.perf_counter() - start))
        return found

    @property
    def median(self) -> float:
        """Median of the times."""
        return statistics.median(self.times)


def timed(
    group: fw.distributed.Group,
    model: Model,
    wrap: Callable[[Any], Any],
    rounds: int = 0,
) -> Timed:
    """Return a step of a model that has been traced and replayed.

    Parameters
    ----------
    group : Group
    model : Model
    wrap : callable
        What a module is made to before it is trained.
    rounds : int, default 0
        Times that the exchange is measured by itself, if there is one in buckets.
    """
    # The step before lies in reference cycles, with its memory.
    gc.collect()
    device = group.device
    fw.accelerator.empty_cache()
    before = fw.accelerator.memory_allocated(device)
    fw.accelerator.reset_peak_memory_stats(device)
    fw.manual_seed(0)
    # Made there, or the host would draw all parameters first.
    with fw.device(device):
        made = wrap(model.build(fw).to(getattr(fw, model.dtype)))
    x, y = (fw.tensor(each, device=device) for each in model.data(group.rank))
    x = x.to(getattr(fw, model.dtype)) if x.dtype.is_float else x
    fw.eval(x, y)
    step = Timed(group, step_of(made, x, y))
    for _ in range(_WARM):
        step.seconds()
    step.peak = fw.accelerator.max_memory_allocated(device) - before
    if rounds and isinstance(made, nn.DataParallel):
        step.exchange = exchange_seconds(group, made, rounds)
    return step


def exchange_seconds(
    group: fw.distributed.Group, module: nn.DataParallel, rounds: int
) -> float:
    """Return the time in which gradients are averaged beside which nothing runs.

    Parameters
    ----------
    group : Group
    module : DataParallel
        Whose buckets are exchanged.
    rounds : int
    """
    flats = []
    ordered = [each for each in module.parameters() if each.requires_grad][::-1]
    for bucket in module.reducer.buckets:
        own = [ordered[place] for place in bucket]
        count = sum([each.numel() for each in own])
        flats.append(fw.zeros(count, dtype=own[0].dtype, device=own[0].device))
    fw.eval(*flats)
    step = fw.jit(lambda: [group.all_mean(each * 2) for each in flats])
    return seconds_of(group, step, rounds)


def warm(steps: Sequence[Timed], seconds: float) -> int:
    """Take steps in turn until the times of each have settled; return how many.

    Parameters
    ----------
    steps : sequence of Timed
    seconds : float
        After so much time they count as settled, whatever they are.
    """
    times: list[list[float]] = [[] for _ in steps]
    while sum([each for some in times for each in some]) < seconds:
        for step, found in zip(steps, times):
            found.append(step.seconds())
        if all([settled(found) for found in times]):
            break
    return len(times[0])


def measure(steps: Sequence[Timed], rounds: int) -> None:
    """Time steps in turn, so that all see the same state of the machine.

    Parameters
    ----------
    steps : sequence of Timed
    rounds : int
        Steps of each.
    """
    for step in steps:
        step.times = []
    for _ in range(rounds):
        for step in steps:
            step.times.append(step.seconds())


def efficiency(alone: Timed, step: Timed) -> float:
    """Return the median, over rounds, of the time alone by that of a step."""
    found: float = statistics.median(map(truediv, alone.times, step.times))
    return found


def repeated(module: Any) -> tuple[type, ...]:
    """Return the classes of the blocks that a model is a stack of."""
    names = "Block", "Residual"
    found = {type(each) for each in module.modules()}
    return tuple(each for each in found if each.__name__ in names)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each model and way.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = argparse.ArgumentParser(description="Time training among processes.")
    parser.add_argument("--transport", default="any")
    parser.add_argument("--only", default="", help="part of a model's name")
    parser.add_argument("--ways", default="", help="part of a way's name")
    parser.add_argument(
        "--peer", action="store_true", help="beside PyTorch's DistributedDataParallel"
    )
    parser.add_argument("--size", choices=("full", "small"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument(
        "--warm", type=float, default=5.0, help="most seconds until times have settled"
    )
    parser.add_argument(
        "--buckets", type=int, nargs="+", help="MiB of a bucket, not the default"
    )
    given = parser.parse_args(arguments)
    group = fw.distributed.init(transport=given.transport)
    software = not group.device.is_gpu or group.device.gpu.info.kind == "software"
    small = software if given.size is None else given.size == "small"
    if group.rank == 0:
        print(f"{group.size} ranks, {group.device}, {group.transport}")
        print(
            "| model | way | ms | efficiency | items/s | exchange alone, ms |"
            " visible of it | peak MiB |"
        )
        print("| --- | --- " + "| ---: " * 6 + "|", flush=True)
    ways: dict[str, Callable[[Any], Any]] = {}
    for size in given.buckets or [bucket_sizes(group).most >> 20]:
        ways[f"DataParallel, {size} MiB"] = partial(
            nn.DataParallel, group=group, bucket_bytes=size << 20
        )
    ways["FSDP"] = lambda module: nn.FSDP(
        module, group, auto_wrap_policy=repeated(module)
    )
    for name, model in models(small).items():
        if given.only not in name:
            continue
        chosen = {way: wrap for way, wrap in ways.items() if given.ways in way}
        alone = timed(group, model, lambda module: module)
        for way, wrap in chosen.items():
            step = timed(group, model, wrap, given.rounds)
            _compare(group, name, model, {"alone": alone, way: step}, given)
            del step
        del alone
        if given.peer:
            steps = peer_steps(group, model)
            _compare(group, name, model, steps, given)


def peer_steps(group: fw.distributed.Group, model: Model) -> dict[str, Timed]:
    """Return the steps of PyTorch, alone and by its `DistributedDataParallel`.

    Parameters
    ----------
    group : Group
        The same ranks; its device is that of the local rank.
    model : Model
    """
    from .parallel_peer import TorchRanks

    ranks = TorchRanks(group)
    steps = {
        f"{ranks.name} alone": Timed(group, ranks.step(model, shared=False)),
        f"{ranks.name} DDP, {ranks.backend}": Timed(group, ranks.step(model)),
    }
    for each in steps.values():
        for _ in range(_WARM):
            each.seconds()
    return steps


def _compare(
    group: fw.distributed.Group,
    name: str,
    model: Model,
    steps: dict[str, Timed],
    given: argparse.Namespace,
) -> None:
    """Measure a step alone, and another one, in turn; print what is found."""
    both = list(steps.values())
    warmed = warm(both, given.warm)
    measure(both, given.rounds)
    if group.rank == 0:
        print_rows(name, model.items * group.size, steps, warmed)


def print_rows(name: str, items: int, steps: dict[str, Timed], warmed: int) -> None:
    """Print what was found, and all times that it was found from.

    Parameters
    ----------
    name : str
        Of the model.
    items : int
        Of all ranks' steps.
    steps : dict of str to Timed
        The first is that alone.
    warmed : int
        Rounds before those that count.
    """
    alone, *_ = steps.values()
    for way, each in steps.items():
        visible = "", ""
        if each.exchange:
            late = statistics.median(map(sub, each.times, alone.times))
            visible = f"{1e3 * each.exchange:.2f}", f"{late / each.exchange:.3f}"
        print(
            f"| {name} | {way} | {1e3 * each.median:.2f} |"
            f" {efficiency(alone, each):.3f} | {items / each.median:.0f} |"
            f" {visible[0]} | {visible[1]} | {each.peak / 2**20:.0f} |",
            flush=True,
        )
    for way, each in steps.items():
        times = " ".join([f"{1e3 * seconds:.2f}" for seconds in each.times])
        print(f"  {way}, ms, after {warmed} rounds: {times}", flush=True)


if __name__ == "__main__":
    main()
