"""Cases of `tests.large_sizes`: what they compute with, how results are compared."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import vkbackend.framework as fw
from vkbackend.framework import Tensor
from vkbackend.framework.base.dtype import DTYPES

PERIOD = 251
"""Prime: an index that wraps at a power of two meets another value."""

ROW = 1024 * PERIOD
"""Elements that are computed, and then repeated."""

Places = np.ndarray[Any, Any]
Wanted = Callable[[Places], Any]


class WrongResultError(Exception):
    """A result that is not what its closed form says."""


class Work:
    """What a case is run with.

    Parameters
    ----------
    device : framework device
    dtype : str
    count : int
        Elements of its largest tensors.

    Attributes
    ----------
    compared : int
        Values that were compared.
    """

    def __init__(self, device: Any, dtype: str, count: int) -> None:
        self.device, self.dtype, self.count = device, dtype, count
        self.compared = 0

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return DTYPES[self.dtype].itemsize

    def rows(self, columns: int) -> int:
        """Return how many rows of so many columns there are."""
        return max(1, self.count // columns)

    def pattern(self, *shape: int, dtype: str | None = None) -> Tensor:
        """Return a tensor whose element at a flat position p is p % 251, or less.

        Parameters
        ----------
        *shape : int
            `count` elements in one dimension, if there is none.
        dtype : str or None
            The case's, if there is none. int8 takes p % 127.
        """
        dtype = dtype or self.dtype
        shape = shape or (self.count,)
        count = math.prod(shape)
        row = fw.arange(ROW, dtype="int32", device=self.device) % PERIOD
        row = row.to(dtype)
        whole = count // ROW
        made = row.expand(whole, ROW).reshape(-1)
        if whole * ROW != count:
            made = fw.cat([made, row[: count - whole * ROW]])
        made = made.reshape(*shape)
        fw.eval(made)
        return made

    def full(self, value: float, *shape: int, dtype: str | None = None) -> Tensor:
        """Return a tensor of one value."""
        made = fw.full(shape, value, dtype=dtype or self.dtype, device=self.device)
        fw.eval(made)
        return made

    def marked(self, places: Iterable[int], value: float = 1) -> Tensor:
        """Return zeros with a value at some places of a flat tensor."""
        made = fw.zeros(self.count, dtype=self.dtype, device=self.device)
        for place in places:
            made[place] = value
        return made

    def borders(
        self, count: int | None = None, itemsize: int | None = None
    ) -> list[int]:
        """Return places at ends, and around powers of two in bytes and elements.

        Each is one of a pair, and pairs do not overlap.
        """
        count, size = count or self.count, itemsize or self.itemsize
        wanted = {0, count - 2, count // 3, count // 2}
        wanted |= {(1 << power) // size - 1 for power in range(28, 35)}
        wanted |= {(1 << power) - 1 for power in range(26, 32)}
        draws = np.random.default_rng(count).integers(0, max(1, count - 1), 8)
        found: list[int] = []
        for place in sorted(wanted | {int(each) for each in draws}):
            if 0 <= place < count - 1 and (not found or place > found[-1] + 1):
                found.append(place)
        return found

    def check(
        self,
        name: str,
        tensor: Tensor,
        wanted: Wanted,
        rtol: float = 0,
        places: Sequence[int] | None = None,
    ) -> None:
        """Compare a tensor at its borders with a function of the flat position.

        Raises
        ------
        WrongResultError
            With the first place that differs.
        """
        flat = tensor.detach().reshape(-1)
        size = DTYPES[str(flat.dtype).rpartition(".")[2]].itemsize
        places = self.borders(flat.shape[0], size) if places is None else places
        for place in places:
            at = np.arange(place, min(place + 2, flat.shape[0]), dtype=np.int64)
            part = flat[place : int(at[-1]) + 1]
            found = np.asarray(
                part.to("float32").numpy()
                if part.dtype in (fw.bfloat16, fw.float16)
                else part.numpy()
            )
            self.same(f"{name} at {place}", found, wanted(at), rtol)

    def same(self, name: str, found: Any, wanted: Any, rtol: float = 0) -> None:
        """Compare values.

        Raises
        ------
        WrongResultError
            If one differs by more than a share `rtol`.
        """
        mine = np.asarray(found, np.float64).reshape(-1)
        theirs = np.broadcast_to(np.asarray(wanted, np.float64).reshape(-1), mine.shape)
        self.compared += mine.size
        if not (np.abs(mine - theirs) <= rtol * np.abs(theirs)).all():
            raise WrongResultError(
                f"{name}: {mine.tolist()} in place of {theirs.tolist()}"
            )


class LargeCase(NamedTuple):
    """A case.

    Attributes
    ----------
    name : str
    run : callable
        Takes a `Work`, and numbers where the case has some.
    dtypes : tuple of str
    tensors : float
        Tensors of the case's size that are in memory at once.
    others : float
        Bytes for each element beside.
    widest : int
        Bytes of an element of the widest tensor of that many elements; 0 if that is
        the case's own dtype.
    numbers : tuple of int
        What `run` takes beside.
    """

    name: str
    run: Callable[..., None]
    dtypes: tuple[str, ...]
    tensors: float
    others: float
    widest: int
    numbers: tuple[int, ...]


CASES: list[LargeCase] = []


def case(
    *dtypes: str,
    tensors: float = 2,
    others: float = 0,
    widest: int = 0,
    each: Sequence[tuple[int, ...]] = ((),),
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add a case by the name of its function, for each row of numbers."""

    def add(run: Callable[..., None]) -> Callable[..., None]:
        for numbers in each:
            name = " ".join([run.__name__.strip("_"), *map(str, numbers)])
            CASES.append(LargeCase(name, run, dtypes, tensors, others, widest, numbers))
        return run

    return add


def mod(at: Places) -> Any:
    """Return what `Work.pattern` has at flat positions."""
    return at % PERIOD
