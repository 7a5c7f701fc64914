"""Masks that functions of positions describe, and the blocks that they leave."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

from ...base.dtype import bool_, int32
from ...base.errors import ShapeError
from ...base.validation import as_int
from ...ops import argsort, expand, logical_and, logical_or, pad, scatter_reduce
from ...tensor.factories import DeviceLike, ones, zeros
from ...tensor.sequences import arange
from ...tensor.tensor import Tensor

MaskMod = Callable[..., Any]
"""Function of batch, head, query and key numbers: whether the query sees the key."""

DEFAULT_BLOCK = 128

LISTS = (
    "kv_num_blocks",
    "kv_indices",
    "full_kv_num_blocks",
    "full_kv_indices",
    "q_num_blocks",
    "q_indices",
    "full_q_num_blocks",
    "full_q_indices",
)
"""Lists of blocks that a mask has."""


def positions(
    sizes: tuple[int, int, int, int], device: DeviceLike, dtype: Any = None
) -> list[Tensor]:
    """Return the numbers along four dimensions, each broadcast against the others."""
    found = []
    for dim, size in enumerate(sizes):
        shape = [1] * 4
        shape[dim] = size
        found.append(arange(size, device=device, dtype=dtype).reshape(shape))
    return found


def noop_mask(batch: Tensor, head: Tensor, token_q: Tensor, token_kv: Tensor) -> Tensor:
    """Let every query see every key."""
    return ones((), dtype=bool_, device=batch.device)


def and_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the mask function that is true where all of some are.

    Raises
    ------
    RuntimeError
        If one is no function.
    """
    return _joined("and_masks", mask_mods, logical_and, True)


def or_masks(*mask_mods: MaskMod) -> MaskMod:
    """Return the mask function that is true where one of some is; see `and_masks`."""
    return _joined("or_masks", mask_mods, logical_or, False)


def _joined(
    name: str, mods: tuple[MaskMod, ...], join: Callable[..., Tensor], first: bool
) -> MaskMod:
    for each in mods:
        if not callable(each):
            raise RuntimeError(f"{name}: {each!r} is no function of positions")

    def joined(b: Tensor, h: Tensor, q_idx: Tensor, kv_idx: Tensor) -> Tensor:
        found = (
            ones((), dtype=bool_, device=b.device)
            if first
            else (zeros((), dtype=bool_, device=b.device))
        )
        for each in mods:
            found = join(found, each(b, h, q_idx, kv_idx))
        return found

    return joined


def create_mask(
    mod_fn: Callable[..., Any],
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike = None,
) -> Tensor:
    """Return the mask that a function describes.

    Parameters
    ----------
    mod_fn : callable
        `mask_mod(b, h, q_idx, kv_idx)`, or `score_mod(score, b, h, q_idx, kv_idx)`,
        which masks where it gives -inf. It is called once, with int64 tensors that
        broadcast against each other.
    B, H : int or None
        Batches and heads; None is 1.
    Q_LEN, KV_LEN : int
    device : Device, str or None

    Returns
    -------
    Tensor of bool, shape (B, H, Q_LEN, KV_LEN)
    """
    sizes = _sizes("create_mask", B, H, Q_LEN, KV_LEN)
    where = positions(sizes, device)
    if takes_score(mod_fn):
        scores = mod_fn(zeros(sizes, device=device), *where)
        return expand(scores != -math.inf, sizes)
    return evaluated(mod_fn, where, sizes)


def evaluated(
    mask_mod: MaskMod, where: list[Tensor], sizes: tuple[int, int, int, int]
) -> Tensor:
    """Return a mask function's answers for all positions."""
    found = mask_mod(*where)
    if not isinstance(found, Tensor):
        make = ones if found else zeros
        return make(sizes, dtype=bool_, device=where[0].device)
    return expand(found if found.dtype is bool_ else found != 0, sizes)


def takes_score(mod_fn: Callable[..., Any]) -> bool:
    """Return whether a function takes a score before the positions."""
    listed = inspect.signature(mod_fn).parameters.values()
    needed = [
        each
        for each in listed
        if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)
        and each.default is each.empty
    ]
    return len(needed) == 5


def _sizes(name: str, *given: int | None) -> tuple[int, int, int, int]:
    b, h, q, k = (
        1 if each is None else as_int(f"{name}: a size", each) for each in given
    )
    if min(b, h, q, k) < 1:
        raise ShapeError(f"{name}: sizes are {(b, h, q, k)}; each must be at least 1")
    return b, h, q, k


def _block(size: Any) -> tuple[int, int]:
    rows, columns = (size, size) if isinstance(size, int) else size
    if min(rows, columns) < 1:
        raise ShapeError(f"BlockMask: BLOCK_SIZE is {size}; sizes must be at least 1")
    return rows, columns


def create_block_mask(
    mask_mod: MaskMod,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: DeviceLike = None,
    BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK,
    _compile: bool = False,
    separate_full_blocks: bool = True,
    compute_dq_write_order: bool = False,
    dq_kv_order: bool = True,
) -> BlockMask:
    """Return the mask that a function describes, with its blocks.

    Parameters
    ----------
    mask_mod : callable
        `mask_mod(b, h, q_idx, kv_idx)`; see `create_mask`.
    B, H : int or None
        None is 1, which any number of batches or heads of the inputs may share.
    Q_LEN, KV_LEN : int
    device : Device, str or None
    BLOCK_SIZE : int or (int, int), default 128
        Queries and keys of a block.
    _compile, compute_dq_write_order, dq_kv_order : bool
        Have no effect.
    separate_full_blocks : bool, default True
        Whether blocks without masked places are listed apart.
    """
    mask = create_mask(mask_mod, B, H, Q_LEN, KV_LEN, device)
    rows, columns = _block(BLOCK_SIZE)
    short = -KV_LEN % columns, -Q_LEN % rows
    padded = pad(mask.to(int32), (0, short[0], 0, short[1]))
    b, h, q, k = padded.shape
    blocks = padded.reshape(b, h, q // rows, rows, k // columns, columns)
    counts = blocks.sum((3, 5))
    full = counts == rows * columns
    partial = counts > 0
    if separate_full_blocks:
        partial = logical_and(partial, full.logical_not())
    parts: list[Any] = [*_lists(partial), None, None, *_lists(partial.transpose(2, 3))]
    parts += None, None
    if separate_full_blocks:
        parts[2:4], parts[6:8] = _lists(full), _lists(full.transpose(2, 3))
    lists: dict[str, Any] = dict(zip(LISTS, parts))
    return BlockMask(
        (Q_LEN, KV_LEN), **lists, BLOCK_SIZE=(rows, columns), mask_mod=mask_mod
    )


def _lists(dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many blocks each row has, and all block numbers, those first."""
    marks = dense.to(int32)
    order = argsort(marks, -1, descending=True, stable=True)
    return marks.sum(-1, dtype=int32), order.to(int32)


class BlockMask:
    """Mask by blocks: those seen in part, by a function of positions, and whole ones.

    Parameters
    ----------
    seq_lengths : (int, int)
        Numbers of queries and of keys.
    kv_num_blocks : Tensor of int32, shape (batches, heads, rows of blocks)
        How many blocks each row of blocks sees in part.
    kv_indices : Tensor of int32, shape (batches, heads, rows, columns of blocks)
        Their numbers, before those of the others.
    full_kv_num_blocks, full_kv_indices : Tensor or None
        The same for blocks that are seen whole.
    q_num_blocks, q_indices, full_q_num_blocks, full_q_indices : Tensor or None
        The same by columns of blocks.
    BLOCK_SIZE : (int, int), default (128, 128)
    mask_mod : callable

    Notes
    -----
    `flex_attention` masks scores by it; blocks that are not seen are computed all the
    same, unlike PyTorch's kernels.
    """

    def __init__(
        self,
        seq_lengths: tuple[int, int],
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None,
        full_kv_indices: Tensor | None,
        q_num_blocks: Tensor | None,
        q_indices: Tensor | None,
        full_q_num_blocks: Tensor | None,
        full_q_indices: Tensor | None,
        BLOCK_SIZE: tuple[int, int] = (DEFAULT_BLOCK, DEFAULT_BLOCK),
        mask_mod: MaskMod = noop_mask,
        *,
        dq_write_order: Tensor | None = None,
        dq_write_order_full: Tensor | None = None,
        dq_kv_order: Tensor | None = None,
        dq_kv_order_spt: bool | None = None,
    ) -> None:
        self.seq_lengths = seq_lengths
        self.kv_num_blocks, self.kv_indices = kv_num_blocks, kv_indices
        self.full_kv_num_blocks = full_kv_num_blocks
        self.full_kv_indices = full_kv_indices
        self.q_num_blocks, self.q_indices = q_num_blocks, q_indices
        self.full_q_num_blocks = full_q_num_blocks
        self.full_q_indices = full_q_indices
        self.BLOCK_SIZE = _block(BLOCK_SIZE)
        self.mask_mod = mask_mod

    @classmethod
    def from_kv_blocks(
        cls,
        kv_num_blocks: Tensor,
        kv_indices: Tensor,
        full_kv_num_blocks: Tensor | None = None,
        full_kv_indices: Tensor | None = None,
        BLOCK_SIZE: int | tuple[int, int] = DEFAULT_BLOCK,
        mask_mod: MaskMod | None = None,
        seq_lengths: tuple[int, int] | None = None,
        compute_q_blocks: bool = True,
    ) -> BlockMask:
        """Return a mask of lists of blocks by rows; see the class.

        Raises
        ------
        AssertionError
            If one of the full blocks' tensors is missing.
        """
        if (full_kv_num_blocks is None) != (full_kv_indices is None):
            raise AssertionError(
                "BlockMask: one of full_kv_num_blocks and full_kv_indices is None; both"
                " must be given, or neither"
            )
        block = _block(BLOCK_SIZE)
        if seq_lengths is None:
            rows, columns = kv_indices.shape[-2:]
            seq_lengths = rows * block[0], columns * block[1]
        turned: list[Any] = [None] * 4
        if compute_q_blocks:
            turned[:2] = _lists(_dense(kv_num_blocks, kv_indices).transpose(-2, -1))
            if full_kv_num_blocks is not None and full_kv_indices is not None:
                full = _dense(full_kv_num_blocks, full_kv_indices)
                turned[2:] = _lists(full.transpose(-2, -1))
        given = kv_num_blocks, kv_indices, full_kv_num_blocks, full_kv_indices
        lists: dict[str, Any] = dict(zip(LISTS, (*given, *turned)))
        mod = noop_mask if mask_mod is None else mask_mod
        return cls(seq_lengths, **lists, BLOCK_SIZE=block, mask_mod=mod)

    def as_tuple(self, flatten: bool = True) -> tuple[Any, ...]:
        """Return what the mask is made of, in the constructor's order."""
        lengths = (*self.seq_lengths,) if flatten else (self.seq_lengths,)
        sizes = (*self.BLOCK_SIZE,) if flatten else (self.BLOCK_SIZE,)
        return (*lengths, *self._tensors(), *sizes, self.mask_mod)

    def _tensors(self) -> tuple[Tensor | None, ...]:
        return tuple(getattr(self, name) for name in LISTS)

    @property
    def shape(self) -> tuple[int, ...]:
        """Batches, heads, queries and keys."""
        return (*self.kv_indices.shape[:-2], *self.seq_lengths)

    def numel(self) -> int:
        """Return the number of scores, masked or not."""
        return math.prod(self.shape)

    def sparsity(self) -> float:
        """Return the percentage of scores in blocks that are not seen."""
        seen = self.kv_num_blocks.sum().item()
        if self.full_kv_num_blocks is not None:
            seen += self.full_kv_num_blocks.sum().item()
        return 100 * (1 - float(seen) * math.prod(self.BLOCK_SIZE) / self.numel())

    def to_dense(self) -> Tensor:
        """Return which blocks are seen, int32, shape (..., rows, columns)."""
        partial = _dense(self.kv_num_blocks, self.kv_indices)
        full = self._full()
        return (partial if full is None else logical_or(partial, full)).to(int32)

    def _full(self) -> Tensor | None:
        if self.full_kv_num_blocks is None or self.full_kv_indices is None:
            return None
        return _dense(self.full_kv_num_blocks, self.full_kv_indices)

    def seen(self, where: list[Tensor], sizes: tuple[int, int, int, int]) -> Tensor:
        """Return the mask of all scores of inputs, bool, of shape `sizes`.

        Parameters
        ----------
        where : list of Tensor
            As `positions` gives them.
        sizes : tuple of int
            Batches, heads, queries and keys of the inputs.

        Raises
        ------
        ShapeError
            If the mask has other batches, heads or lengths.
        """
        own = self.shape
        if any(one not in (1, size) for one, size in zip(own[:-2], sizes)) or any(
            one < size for one, size in zip(own[-2:], sizes[-2:])
        ):
            raise ShapeError(
                f"flex_attention: block_mask is of shape {own}, the scores are {sizes};"
                " it must broadcast to them"
            )
        by_position = evaluated(self.mask_mod, where, sizes)
        partial = self._spread(_dense(self.kv_num_blocks, self.kv_indices), sizes)
        found, full = logical_and(by_position, partial), self._full()
        return found if full is None else logical_or(found, self._spread(full, sizes))

    def _spread(self, blocks: Tensor, sizes: tuple[int, int, int, int]) -> Tensor:
        """Return for each score what holds for its block."""
        rows, columns = self.BLOCK_SIZE
        wide = blocks.repeat_interleave(rows, -2).repeat_interleave(columns, -1)
        return wide[..., : sizes[2], : sizes[3]]

    def to(self, device: DeviceLike) -> BlockMask:
        """Return the mask with its tensors on a device."""
        moved: dict[str, Any] = {
            name: None if each is None else each.to(device)
            for name, each in zip(LISTS, self._tensors())
        }
        size = self.BLOCK_SIZE
        return BlockMask(
            self.seq_lengths, **moved, BLOCK_SIZE=size, mask_mod=self.mask_mod
        )

    def __getitem__(self, index: Any) -> BlockMask:
        """Return the mask of some batches, heads and rows of blocks.

        Positions that a mask function is asked for would be other ones: give the result
        a `mask_mod` of its own; until then it lets pass whole blocks.
        """
        parts: list[Any] = [
            None if each is None else each[index] for each in self._tensors()[:4]
        ]
        parts += self.BLOCK_SIZE, noop_mask, self.seq_lengths, False
        return BlockMask.from_kv_blocks(*parts)

    def to_string(self, grid_size: Any = (20, 20), limit: int = 4) -> str:
        """Return a picture of the blocks: `##` seen whole, `::` in part, `  ` not.

        Parameters
        ----------
        grid_size : int or (int, int), default (20, 20)
            Blocks to show at most, down and across; -1 shows all.
        limit : int, default 4
            Batches and heads to show at most.
        """
        down, across = (grid_size,) * 2 if isinstance(grid_size, int) else grid_size
        seen = self.to_dense().flatten(0, -3)
        full = self._full()
        whole = zeros(seen.shape) if full is None else full.to(int32).flatten(0, -3)
        pictures = []
        for marks, wholes in list(zip(seen.tolist(), whole.tolist()))[:limit]:
            rows = [
                "".join("##" if w else "::" if m else "  " for m, w in zip(one, two))
                for one, two in zip(marks, wholes)
            ]
            wide = len(rows[0]) if across < 0 else 2 * across
            pictures.append(
                "\n".join(row[:wide] for row in (rows if down < 0 else rows[:down]))
            )
        return "\n\n".join(pictures)

    def __str__(self) -> str:
        return (
            f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%,"
            f" \n{self.to_string()}\n)"
        )

    def __repr__(self) -> str:
        return f"BlockMask(shape={self.shape}, sparsity={self.sparsity():.2f}%)"


def _dense(counts: Tensor, indices: Tensor) -> Tensor:
    """Return which blocks of each row are among the first of its list; bool."""
    columns = indices.shape[-1]
    listed = arange(columns, device=indices.device, dtype=int32) < counts.unsqueeze(-1)
    empty = zeros(indices.shape, dtype=int32, device=indices.device)
    found = scatter_reduce(
        empty, -1, indices.to("int64"), listed.to(int32), "amax", include_self=True
    )
    return found > 0
