"""Training steps of vision transformers, U-Nets, LSTMs, mobile and graph networks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .models import resnet18
from .networks import graph_network, lstm_by_hand, mobile_net, u_net, vision_transformer
from .training import EXACT, ExecutionMode, StepOptions, training_case
from .workload import Bench, Case, workload


def _images(
    network: Callable[..., Any], labels_of_pixels: bool = False
) -> Callable[..., Any]:
    """Return what makes a network of images, and its data."""

    def make(bench: Bench, batch: int, size: int, *sizes: int) -> Any:
        shape = (batch, size, size) if labels_of_pixels else (batch,)
        data = bench.uniform(batch, 3, size, size), bench.whole(*shape, below=sizes[-1])
        return lambda library: network(library, *sizes), data

    return make


def _residual(library: Any, width: int, classes: int) -> Any:
    return resnet18(library, classes, width)


def _sequences(bench: Bench, batch: int, length: int, *sizes: int) -> Any:
    data = bench.uniform(batch, length, sizes[0]), bench.whole(batch, below=sizes[-1])
    return lambda library: lstm_by_hand(library, *sizes), data


def _graphs(bench: Bench, *sizes: int) -> Any:
    nodes, _, width, _, classes = sizes
    data = bench.uniform(nodes, width), bench.whole(nodes, below=classes)
    return lambda library: graph_network(library, *sizes), data


def _patches(bench: Bench, batch: int, size: int, *sizes: int) -> Any:
    data = bench.uniform(batch, 3, size, size), bench.whole(batch, below=sizes[-1])
    return lambda library: vision_transformer(library, size, *sizes), data


_NETWORKS: dict[str, tuple[Any, tuple[int, ...], tuple[int, ...]]] = {
    "vit_s": (_patches, (64, 224, 16, 384, 6, 12, 1000), (2, 16, 8, 16, 2, 1, 10)),
    "u_net": (_images(u_net, True), (8, 128, 32, 3, 8), (1, 16, 8, 1, 3)),
    "lstm_by_hand": (_sequences, (64, 64, 128, 256, 10), (2, 4, 8, 8, 3)),
    "mobile_net": (_images(mobile_net), (32, 128, 16, 1000), (2, 32, 2, 5)),
    "graph_network": (_graphs, (50_000, 500_000, 64, 3, 16), (20, 50, 8, 1, 3)),
    "resnet18": (_images(_residual), (64, 224, 64, 1000), (2, 32, 8, 10)),
}
"""By name what makes a network and its data, and its sizes: full, then small."""


_OPTIONS = {
    "f32": EXACT,
    "high": StepOptions(precision="high"),
    "autocast": StepOptions(autocast=True),
}


def _add(name: str, short: str, how: ExecutionMode) -> None:
    make, full, small = _NETWORKS[name]

    def trained(bench: Bench, *sizes: int) -> Case:
        build, data = make(bench, *sizes)
        return training_case(bench, build, data, how, using=_OPTIONS[short])

    workload(
        f"{name}_{short}_{how}",
        full=full,
        small=small if short == "f32" and how == "eager" else None,
    )(trained)


for _name in _NETWORKS:
    for _short in _OPTIONS:
        if (_name, _short) != ("resnet18", "f32"):  # in `training`
            _add(_name, _short, "eager")
        _add(_name, _short, "compiled")
