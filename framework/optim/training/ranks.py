"""What a training shares among the ranks of a group: batches, numbers, checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...base.errors import FileFormatError, StateError
from ...communication.group import alone
from ...data.dataloader import DataLoader
from ...data.sampler import DistributedSampler, RandomSampler, Sampler
from ...io.part_files import PartReader, is_part_folder, nested, write_parts
from ...nn.data_parallel import DataParallel
from ...nn.divided import owner_of
from ...nn.module import Module
from ..divided_state import (
    MemoryReader,
    Reader,
    load_model_state,
    load_optimizer_state,
    model_state,
    optimizer_state,
)
from ..optimizer import Optimizer
from .checkpoint import load_checkpoint, save_checkpoint

if TYPE_CHECKING:
    from ...communication.group import Group

Path_ = str | os.PathLike[str]


class Ranks:
    """The ranks of a training, perhaps this process alone.

    Parameters
    ----------
    group : Group or None
    """

    def __init__(self, group: Group | None) -> None:
        self.group = group
        self.size = 1 if group is None else group.size
        self.rank = 0 if group is None else group.rank
        self._wrapped: dict[int, tuple[Module, Module]] = {}

    # Models and batches

    def wrapped(self, model: Module) -> Module:
        """Return a model whose gradients are means over the ranks.

        One that is divided does that by itself.
        """
        if self.size == 1 or isinstance(model, DataParallel):
            return model
        if owner_of(model.parameters()) is not None:
            return model
        if id(model) not in self._wrapped:
            self._wrapped[id(model)] = model, DataParallel(model, self.group)
        return self._wrapped[id(model)][1]

    def training_loader(self, loader: Iterable[Any]) -> Iterable[Any]:
        """Return a loader of this rank's part of each epoch.

        One that is no `DataLoader`, or has a `DistributedSampler`, is this rank's own.
        A group of one rank takes samples in the order of several, too.
        """
        if self.group is None or not isinstance(loader, DataLoader):
            return loader
        if isinstance(loader.sampler, DistributedSampler):
            return loader
        shuffle = isinstance(loader.sampler, RandomSampler)
        sampler = DistributedSampler(loader.dataset, shuffle=shuffle, group=self.group)
        return _with_sampler(loader, sampler)

    def validation_loader(self, loader: Iterable[Any] | None) -> Iterable[Any] | None:
        """Return a loader of this rank's part of what is evaluated, no sample twice."""
        if self.size == 1 or not isinstance(loader, DataLoader):
            return loader
        if isinstance(loader.sampler, DistributedSampler | _Share):
            return loader
        count = len(loader.dataset)
        if count < self.size:
            raise ValueError(
                f"fit: val has {count} samples for {self.size} ranks; each needs one"
            )
        return _with_sampler(loader, _Share(count, self.rank, self.size))

    def most_batches(self, loader: Iterable[Any]) -> int:
        """Return the number of batches of the rank that has the most."""
        if self.group is None:
            return 0
        length = len(loader) if isinstance(loader, Sized) else 0
        found: list[int] = self.group.gather_objects(length)
        return max(found)

    # Numbers

    def mean(self, value: float) -> float:
        """Return the mean over the ranks, the same on all."""
        if self.group is None:
            return value
        found: list[float] = self.group.gather_objects(value)
        return sum(found) / self.size

    def totals(self, values: list[float], count: int) -> tuple[list[float], int]:
        """Return sums over the ranks of values and of a count."""
        if self.group is None:
            return values, count
        found = self.group.gather_objects((values, count))
        sums = [sum(each) for each in zip(*[values for values, _ in found])]
        return sums, sum(count for _, count in found)

    def any(self, flag: bool) -> bool:
        """Return whether a flag is set on a rank."""
        return flag if self.group is None else any(self.group.gather_objects(flag))

    # Checkpoints

    def save(
        self,
        state: Mapping[str, Any],
        model: Module,
        optimizer: Optimizer,
        path: Path_,
    ) -> None:
        """Write a checkpoint: a folder of several ranks, or where there is such a one.

        Parameters
        ----------
        state : mapping
            Of this rank, without those of model and optimizer.
        model : Module
        optimizer : Optimizer
        path : str or path-like
        """
        divided = owner_of(model.parameters()) is not None
        if self.size == 1 and not divided and not is_part_folder(path):
            own = dict(model.state_dict()), optimizer.state_dict()
            save_checkpoint({**state, "model": own[0], "optimizer": own[1]}, path)
            return
        shared = {key: x for key, x in state.items() if key not in _OWN}
        own_state = {key: state[key] for key in _OWN}
        write_parts(
            {
                **shared,
                "size": self.size,
                "ranks": {str(self.rank): own_state},
                "model": model_state(model),
                "optimizer": optimizer_state(model, optimizer),
            },
            path,
            self.group or alone(),
        )

    def read(self, path: Path_, names: frozenset[str]) -> tuple[dict[str, Any], Reader]:
        """Return the state of a checkpoint, and what reads model and optimizer.

        Parameters
        ----------
        path : str or path-like
        names : frozenset of str
            What a state has, beside those.
        """
        if not is_part_folder(path):
            known = names | {"model", "optimizer"}
            whole = load_checkpoint(path, known)
            reader = MemoryReader({key: whole.pop(key) for key in _TENSORS})
            return whole, reader
        parts = PartReader(path)
        kept = {
            key: value for key, value in parts.objects.items() if key[0] not in _TENSORS
        }
        kept |= {key: parts.read(key) for key in parts.shapes if key[0] not in _TENSORS}
        state: dict[str, Any] = nested(kept)
        size, ranks = state.pop("size", None), state.pop("ranks", {})
        if not isinstance(size, int) or state.keys() != names - set(_OWN):
            raise FileFormatError(
                f"fit: {path!s} is no checkpoint of a training; give one that"
                " checkpoint= wrote"
            )
        own = ranks[str(self.rank % size)]
        return {**state, **own}, parts

    def at_batch(self, within: Any, loader: Iterable[Any]) -> Any:
        """Return how far an epoch was, in batches of this rank.

        Parameters
        ----------
        within : dict or None
            Of a checkpoint: "batches" of a rank, "samples" of all, and "losses".
        loader : iterable
        """
        size = getattr(loader, "batch_size", None)
        if within is None or not within.get("samples") or size is None:
            return within
        batches, rest = divmod(within["samples"], size * self.size)
        if rest:
            raise StateError(
                f"fit: the checkpoint is of {within['samples']} samples of an epoch,"
                f" which {self.size} ranks with batches of {size} do not have behind"
                " them; resume as it was trained, or from the end of an epoch"
            )
        losses = dict(within["losses"])
        before = losses["steps"]
        losses["steps"] = max(before * batches // within["batches"], 1)
        losses["total"] = losses["total"] * (losses["steps"] / max(before, 1))
        return {**within, "batches": batches, "losses": losses}

    def samples(self, batches: int, loader: Iterable[Any]) -> int:
        """Return the samples of all ranks in so many batches of this one; 0: unknown.

        Parameters
        ----------
        batches : int
        loader : iterable
        """
        return batches * (getattr(loader, "batch_size", None) or 0) * self.size

    @staticmethod
    def load(reader: Reader, model: Module, optimizer: Optimizer) -> None:
        """Load what a checkpoint has of a model and its optimizer."""
        load_model_state(model, reader, ("model",))
        load_optimizer_state(model, optimizer, reader, ("optimizer",))

    def exists(self, path: Path_) -> bool:
        """Return whether there is a checkpoint; all ranks get the answer of rank 0."""
        found = Path(path).is_file() or is_part_folder(path)
        return found if self.group is None else bool(self.group.broadcast_object(found))


_OWN = ("random", "within")
"""What each rank has in a checkpoint."""

_TENSORS = ("model", "optimizer")
"""What is read by parts."""


class _Share(Sampler[int]):
    """Every so many samples of a dataset."""

    def __init__(self, count: int, rank: int, size: int) -> None:
        self._places = range(rank, count, size)

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


def _with_sampler(loader: DataLoader, sampler: Sampler[int]) -> DataLoader:
    """Return a loader as another one, with a sampler of its own."""
    if loader.batch_size is None:
        raise ValueError(
            "fit: a loader has a batch_sampler, which ranks cannot divide; give one"
            " with a DistributedSampler"
        )
    return DataLoader(
        loader.dataset,
        loader.batch_size,
        sampler=sampler,
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
        in_order=loader.in_order,
        device=loader.device,
    )
