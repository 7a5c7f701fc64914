"""Packed and padded sequences of different lengths."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ... import ops
from ...base.device import CPU
from ...base.errors import ShapeError
from ...tensor.from_data import tensor
from ...tensor.tensor import Tensor


class _Fields(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None
    unsorted_indices: Tensor | None


class PackedSequence(_Fields):
    """Sequences of different lengths without padding, step after step.

    Parameters
    ----------
    data : Tensor, shape (sum of lengths, ...)
        The elements of the first step of all sequences, then of the second, and so on.
    batch_sizes : Tensor of int64, shape (longest,), on the host
        Number of sequences that reach each step.
    sorted_indices, unsorted_indices : Tensor of int64, shape (batch,), or None
        Order of the sequences by length, and how to undo it; one gives the other.

    Notes
    -----
    Made by `pack_padded_sequence` and `pack_sequence`; the elements are those that
    PyTorch has.
    """

    def __new__(
        cls,
        data: Tensor,
        batch_sizes: Tensor | None = None,
        sorted_indices: Tensor | None = None,
        unsorted_indices: Tensor | None = None,
    ) -> PackedSequence:
        """Return a sequence of the given parts."""
        if batch_sizes is None:
            data, batch_sizes = data
        if batch_sizes.is_gpu:
            raise ValueError(
                "PackedSequence: batch_sizes is on a device; it must be on the host"
            )
        if unsorted_indices is None and sorted_indices is not None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, batch_sizes, sorted_indices, unsorted_indices)

    def _with_data(self, data: Tensor) -> PackedSequence:
        return PackedSequence(
            data, self.batch_sizes, self.sorted_indices, self.unsorted_indices
        )

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Return the sequence with its data on a device, in a dtype, or both."""
        return self._with_data(self.data.to(*args, **kwargs))

    def cuda(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """Do what `Tensor.cuda` does with the data."""
        return self._with_data(self.data.cuda(*args, **kwargs))

    def cpu(self) -> PackedSequence:
        """Return the sequence on the host."""
        return self._with_data(self.data.cpu())

    def pin_memory(self) -> PackedSequence:
        """Return the sequence; there is nothing to pin."""
        return self

    def float(self) -> PackedSequence:
        """Return the sequence in float32."""
        return self._with_data(self.data.float())

    def double(self) -> PackedSequence:
        """Return the sequence in float64."""
        return self._with_data(self.data.double())

    def half(self) -> PackedSequence:
        """Return the sequence in float16."""
        return self._with_data(self.data.half())

    @property
    def is_cuda(self) -> bool:
        """Whether the data is on a CUDA device: it never is."""
        return False

    def is_pinned(self) -> bool:
        """Return whether the data is in pinned memory: it never is."""
        return False


def lengths_of(batch_sizes: Tensor) -> np.ndarray:
    """Return the lengths of packed sequences, in their sorted order.

    Parameters
    ----------
    batch_sizes : Tensor of integers, shape (steps,)
        How many sequences have each step.
    """
    sizes = batch_sizes.host_copy()
    lengths: np.ndarray = (sizes[:, None] > np.arange(int(sizes[0]))[None]).sum(0)
    return lengths


def invert_permutation(permutation: Tensor | None) -> Tensor | None:
    """Return the permutation that undoes another one.

    Parameters
    ----------
    permutation : Tensor of integers, shape (n,), or None
        None is returned as it is.
    """
    if permutation is None:
        return None
    return tensor(np.argsort(permutation.host_copy()), device=permutation.device)


def mask_of(lengths: np.ndarray, steps: int) -> np.ndarray:
    """Return where, by step and sequence, a sequence goes on.

    Parameters
    ----------
    lengths : ndarray of integers, shape (batch,)
        How long each is.
    steps : int
        The largest of them, or more.
    """
    found: np.ndarray = np.arange(steps)[:, None] < lengths[None]
    return found


def pack_padded_sequence(
    input: Tensor,
    lengths: Tensor | Sequence[int],
    batch_first: bool = False,
    enforce_sorted: bool = True,
) -> PackedSequence:
    """Return padded sequences without their padding.

    Parameters
    ----------
    input : Tensor, shape (steps, batch, ...)
        With `batch_first`, (batch, steps, ...).
    lengths : Tensor or sequence of int
        One for each sequence, at least 1.
    batch_first : bool, default False
    enforce_sorted : bool, default True
        Whether the lengths must fall; otherwise the sequences are sorted by length.

    Raises
    ------
    ShapeError
        If the lengths do not fit.
    RuntimeError
        If a length is below 1, or they do not fall though they must.
    """
    given = lengths.cpu().host_copy() if isinstance(lengths, Tensor) else lengths
    sizes = np.asarray(given, np.int64)
    x = input.transpose(0, 1) if batch_first else input
    if sizes.ndim != 1 or len(sizes) != x.shape[1]:
        raise ShapeError(
            f"pack_padded_sequence: there are {sizes.size} lengths for"
            f" {x.shape[1]} sequences; give one each"
        )
    if sizes.size == 0 or sizes.min() < 1 or sizes.max() > x.shape[0]:
        raise RuntimeError(
            f"pack_padded_sequence: lengths are {sizes.tolist()}; they must be from 1"
            f" to the {x.shape[0]} steps there are"
        )
    order = None
    if not enforce_sorted:
        order = np.argsort(-sizes, kind="stable")
        sizes = sizes[order]
    elif (np.diff(sizes) > 0).any():
        raise RuntimeError(
            f"pack_padded_sequence: lengths are {sizes.tolist()}; they must fall, or"
            " pass enforce_sorted=False"
        )
    mask = mask_of(sizes, int(sizes[0]))
    steps, sequences = np.nonzero(mask)
    columns = sequences if order is None else order[sequences]
    rows = x.reshape(x.shape[0] * x.shape[1], *x.shape[2:])
    places = tensor(steps * x.shape[1] + columns, device=x.device)
    data = ops.index_select(rows, 0, places)
    sorted_indices = None if order is None else tensor(order, device=x.device)
    return PackedSequence(data, tensor(mask.sum(1), device=CPU), sorted_indices)


def padded(data: Tensor, batch_sizes: Tensor, steps: int, value: float) -> Tensor:
    """Return packed data as (steps, batch, ...), in the sorted order.

    Parameters
    ----------
    data : Tensor, shape (total, ...)
        Steps of all sequences, those of one step together.
    batch_sizes : Tensor of integers, shape (steps,)
        How many sequences have each step.
    steps : int
        Steps of the result.
    value : number
        What fills the places behind each.
    """
    lengths = lengths_of(batch_sizes)
    mask = mask_of(lengths, steps)
    # Each row of padding reads the row behind the last one.
    places = np.full(mask.shape, data.shape[0])
    places[mask] = np.arange(data.shape[0])
    row = ops.fill_like(data.detach(), (1, *data.shape[1:]), value, data.dtype)
    flat = ops.index_select(
        ops.cat([data, row]), 0, tensor(places.reshape(-1), device=data.device)
    )
    return flat.reshape(*mask.shape, *data.shape[1:])


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Return packed sequences with padding, in their first order, and their lengths.

    Parameters
    ----------
    sequence : PackedSequence
    batch_first : bool, default False
        Whether the batch comes first in the result.
    padding_value : float, default 0
    total_length : int, optional
        Steps of the result; None means the longest sequence's.

    Returns
    -------
    tuple of Tensor
        (steps, batch, ...) and, on the host, (batch,) of int64.

    Raises
    ------
    ValueError
        If `total_length` is below the longest sequence's.
    """
    longest = sequence.batch_sizes.shape[0]
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ValueError(
            f"pad_packed_sequence: total_length is {steps}; it must be at least"
            f" {longest}, the length of the longest sequence"
        )
    lengths = lengths_of(sequence.batch_sizes)
    x = padded(sequence.data, sequence.batch_sizes, steps, padding_value)
    if sequence.unsorted_indices is not None:
        x = ops.index_select(x, 1, sequence.unsorted_indices)
        lengths = lengths[sequence.unsorted_indices.cpu().host_copy()]
    return (x.transpose(0, 1) if batch_first else x), tensor(lengths, device=CPU)


def pad_sequence(
    sequences: Tensor | Sequence[Tensor],
    batch_first: bool = False,
    padding_value: float = 0.0,
    padding_side: str = "right",
) -> Tensor:
    """Return sequences of different lengths as one tensor, padded.

    Parameters
    ----------
    sequences : sequence of Tensor, shape (length, ...)
    batch_first : bool, default False
    padding_value : float, default 0
    padding_side : str, default "right"
        "right", after the elements, or "left".

    Returns
    -------
    Tensor, shape (longest, batch, ...), or (batch, longest, ...)
    """
    if not isinstance(sequences, Iterable):
        raise RuntimeError(
            f"pad_sequence: a {type(sequences).__name__} was given; it must be a list"
            " of tensors"
        )
    if padding_side not in ("left", "right"):
        raise RuntimeError(
            f"pad_sequence: padding_side is {padding_side!r}; it must be 'left' or"
            " 'right'"
        )
    listed = list(sequences)
    if not listed:
        raise RuntimeError("pad_sequence: there is no sequence; give one or more")
    longest = max(each.shape[0] for each in listed)
    rows = []
    for each in listed:
        missing = longest - each.shape[0]
        if missing:
            shape = (missing, *each.shape[1:])
            fill = ops.fill_like(each.detach(), shape, padding_value, each.dtype)
            each = ops.cat([each, fill] if padding_side == "right" else [fill, each])
        rows.append(each)
    return ops.stack(rows, 0 if batch_first else 1)


def unpad_sequence(
    padded_sequences: Tensor, lengths: Tensor, batch_first: bool = False
) -> list[Tensor]:
    """Return the sequences of a padded tensor, each of its own length.

    Parameters
    ----------
    padded_sequences : Tensor, shape (steps, batch, ...) or (batch, steps, ...)
        Sequences with padding behind them.
    lengths : Tensor of integers, shape (batch,)
        How long each is.
    batch_first : bool, default False
        Which of the shapes it is.
    """
    rows = padded_sequences if batch_first else padded_sequences.transpose(0, 1)
    sizes = lengths.tolist() if isinstance(lengths, Tensor) else list(lengths)
    return [rows[k, : int(size)] for k, size in enumerate(sizes)]


def pack_sequence(
    sequences: Sequence[Tensor], enforce_sorted: bool = True
) -> PackedSequence:
    """Return sequences of different lengths packed; see `pack_padded_sequence`.

    Parameters
    ----------
    sequences : sequence of Tensor, each of shape (length, ...)
        They differ in length alone.
    enforce_sorted : bool, default True
        Whether they must come by length, the longest first; otherwise they are sorted.
    """
    lengths = [each.shape[0] for each in sequences]
    return pack_padded_sequence(
        pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted
    )


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Return packed sequences as a list, each of its own length.

    Parameters
    ----------
    packed_sequences : PackedSequence
        As `pack_sequence` makes it.
    """
    return unpad_sequence(*pad_packed_sequence(packed_sequences))
