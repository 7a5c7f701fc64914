"""What several GPUs and machines would reach, computed from what two were measured at.

    python -m vkbackend.tools.bench.scaling

prints the table of docs/SCALING.md, which has the sources of the figures and the limits
of the model.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass

GIGA = 1e9
BUCKET = 25 * 2**20
"""Bytes of gradients that are exchanged together, at most."""

# Two H200 of one host, driver 580.159.04, 2026-11-22; bytes a second.
CARD = 57 * GIGA
"""In and out of one card's host link together."""

HOST_MEMORY = 110.9 * GIGA
"""All copies of two cards together; what the memory gives beyond was not measured."""

PULL = 373 * GIGA
"""Out of each of two cards into the other, while both do so."""

ADD = 3600 * GIGA / 3
"""Elements added to others in a card's memory: two reads and a write each."""

MPI = 1.1 * GIGA
"""Host memory through Allreduce of one process: a core copies and adds."""

NETWORK = 12.5 * GIGA
"""Of a machine, in each direction: 100 Gbit/s, assumed."""

BACKWARD = 2 / 3
"""Share of a step during which gradients appear."""

SLOWED_BY_COPIES = 26.0 / 25.5
"""Time of kernels beside copies through the host's pages, by their time alone."""

SLOWED_BY_PULLS = 25.6 / 25.5


@dataclass(frozen=True)
class Step:
    """Training step of one card.

    Parameters
    ----------
    name : str
    seconds : float
        Of a step without exchange.
    gradients : float
        Bytes.
    last : float, default 25 MiB
        Those of the last bucket, which is complete when nothing is left to compute.
    """

    name: str
    seconds: float
    gradients: float
    last: float = BUCKET


# `gpt2s_bf16_compiled_b8t1024` and `resnet18_bf16_b64` of results/nvidia-h200.jsonl;
# gradients are float32. Words are a bucket by themselves.
STEPS = (
    Step("GPT-2 small, 8 x 1024 tokens", 45.078e-3, 124.44e6 * 4, 50257 * 768 * 4),
    Step("ResNet-18, 64 images", 13.733e-3, 11.69e6 * 4, 2**20),
)


@dataclass(frozen=True)
class Layout:
    """How many cards exchange gradients, and by what.

    Parameters
    ----------
    transport : str
        "host" or "cuda" within a machine, "mpi" between machines.
    cards, machines : int
        Cards of a machine, and machines.
    is_memory_ample : bool, default False
        Whether host memory feeds all cards at the speed of their links.
    is_network_full : bool, default False
        Whether machines exchange at the speed of the network, which "mpi" does not.
    """

    transport: str
    cards: int
    machines: int = 1
    is_memory_ample: bool = False
    is_network_full: bool = False

    def exchange(self, size: float) -> float:
        """Return the seconds of an exchange by itself.

        Parameters
        ----------
        size : float
            Bytes of gradients of a card.
        """
        return self._within(size) + self._between(size)

    def _within(self, size: float) -> float:
        others = (self.cards - 1) / self.cards
        if self.cards == 1:
            return 0.0
        if self.transport == "cuda":
            return 2 * others * size / PULL + others * size / ADD
        # A card writes all it has, the sums of its part among it, and reads the others'
        # elements of its part and the others' sums; two need no second phase.
        moved = size * (2 if self.cards == 2 else 1 + 2 * others)
        whole = self.cards * CARD if self.is_memory_ample else HOST_MEMORY
        return moved / min(CARD, whole / self.cards)

    def _between(self, size: float) -> float:
        if self.machines == 1:
            return 0.0
        moved = 2 * (self.machines - 1) / self.machines * size
        full = moved / NETWORK
        return full if self.is_network_full else max(full, moved / self.cards / MPI)

    def visible(self, step: Step) -> float:
        """Return the seconds that an exchange adds to a step.

        Parameters
        ----------
        step : Step
        """
        whole = self.exchange(step.gradients)
        # The last bucket is complete when nothing is left to compute beside it.
        early = 1 - min(1.0, step.last / step.gradients)
        hidden = min(whole, BACKWARD * step.seconds) * early
        is_pulled = self.transport == "cuda" and self.machines == 1
        slowed = SLOWED_BY_PULLS if is_pulled else SLOWED_BY_COPIES
        return whole - hidden + hidden * (slowed - 1)


LAYOUTS = {
    "2 cards, `host`": Layout("host", 2),
    "2 cards, `cuda`": Layout("cuda", 2),
    "8 cards, `host`, memory as measured": Layout("host", 8),
    "8 cards, `host`, ample memory": Layout("host", 8, is_memory_ample=True),
    "8 cards, `cuda`": Layout("cuda", 8),
    "64 machines of 1 card, `mpi`": Layout("mpi", 1, 64),
    "64 machines of 8 cards, `cuda` and `mpi`": Layout("cuda", 8, 64),
    "64 machines of 1 card, network full": Layout("mpi", 1, 64, is_network_full=True),
    "64 machines of 8 cards, network full": Layout("cuda", 8, 64, is_network_full=True),
}


def table() -> Iterator[str]:
    """Yield the lines of the table, in Markdown."""
    yield "| cards | step | exchange, ms | visible, ms | efficiency |"
    yield "| --- | --- | ---: | ---: | ---: |"
    for name, layout in LAYOUTS.items():
        for step in STEPS:
            whole, visible = layout.exchange(step.gradients), layout.visible(step)
            share = step.seconds / (step.seconds + visible)
            yield (
                f"| {name} | {step.name} | {whole * 1e3:.1f} | {visible * 1e3:.1f}"
                f" | {share:.2f} |"
            )


def main() -> int:
    """Print the table."""
    print(*table(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
