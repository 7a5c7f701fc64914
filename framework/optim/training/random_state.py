"""Random state of a training: of its generators, of `random` and of `numpy.random`."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ...base.philox import Generator, default_generator


def generators_of(loaders: Iterable[Any]) -> list[Generator]:
    """Return the default generator, and those of loaders, samplers and datasets."""
    found = [getattr(part, "generator", None) for part in _parts(loaders)]
    given = [each for each in found if isinstance(each, Generator)]
    return list({id(each): each for each in (default_generator, *given)}.values())


def samplers_of(loader: Any) -> list[Any]:
    """Return the samplers of a loader, inner ones included."""
    order = getattr(loader, "batch_sampler", None)
    outer = getattr(loader, "sampler", None)
    found = [outer, order, getattr(order, "sampler", None)]
    return list({id(each): each for each in found if each is not None}.values())


def _parts(loaders: Iterable[Any]) -> Iterator[Any]:
    for loader in loaders:
        yield from (loader, *samplers_of(loader))
        dataset = getattr(loader, "dataset", None)
        while dataset is not None:
            yield dataset
            # Of a subset, what it is a part of.
            dataset = getattr(dataset, "dataset", None)


def random_state(generators: Iterable[Generator]) -> dict[str, Any]:
    """Return the state of generators and of the host's, for a checkpoint."""
    version, words, normal = random.getstate()
    return {
        "generators": [each.get_state() for each in generators],
        "python": (version, np.array(words, np.uint32), normal),
        "numpy": np.random.get_state(legacy=False),
    }


def set_random_state(state: dict[str, Any], generators: Iterable[Generator]) -> None:
    """Restore what `random_state` returned, for as many generators.

    Raises
    ------
    ValueError
        If the kind of NumPy's or Python's generator is another; nothing is changed
        then.
    """
    version, words, normal = state["python"]
    before = np.random.get_state(legacy=False)
    np.random.set_state(state["numpy"])
    try:
        random.setstate((version, tuple(words.tolist()), normal))
    except Exception:
        np.random.set_state(before)
        raise
    for generator, numbers in zip(generators, state["generators"], strict=True):
        generator.set_state(tuple(numbers))
