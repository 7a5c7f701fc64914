"""Philox4x32-10 random numbers: counter-based, the same stream on host and device.

A stream is named by four words: the 64-bit key (the seed) and the 64-bit number of the
call. Element `i` of a call takes word `i % 4` of the block with counter
(i // 4, call), so draws depend neither on the device nor on how work is scheduled.
Bits, integers and uniform draws are the same to the last bit everywhere; normal and
exponential draws up to rounding, because devices round divisions and square roots
differently.
Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import operator
import os
import threading
from typing import Any

import numpy as np

from vkbackend import fork_safety

from . import trace_hooks
from .device import CPU, Device, find_device
from .scoped_setting import ScopedSetting, SettingScope

Stream = tuple[int, int, int, int]
"""Key (low, high) and call number (low, high), each a 32-bit word."""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


def _entropy() -> int:
    """Return a random number of 64 bits of the operating system's."""
    return int.from_bytes(os.urandom(8), "little")


class Generator:
    """Generator: a seeded sequence of random streams.

    Parameters
    ----------
    seed : int, device or None
        64 bits; None takes one from the operating system. A device, as PyTorch's, is
        `device`.
    device : Device, str or None, default the host
        What `device` tells: the draws of a generator are the same on every device.

    Examples
    --------
    >>> generator = Generator(7)
    >>> state = generator.get_state()
    >>> first = generator.stream()
    >>> generator.set_state(state)
    >>> generator.stream() == first
    True
    """

    def __init__(
        self,
        seed: int | str | Device | None = None,
        device: Device | str | None = None,
    ) -> None:
        self._lock = threading.Lock()
        fork_safety.renew(self, "_lock", threading.Lock)
        self._read = False
        if isinstance(seed, str | Device):
            seed, device = None, seed
        self.device = CPU if device is None else find_device(device)
        self.manual_seed(_entropy() if seed is None else seed)

    def manual_seed(self, seed: int) -> Generator:
        """Restart from `seed`, an int of which 64 bits count, and return self."""
        try:
            number = operator.index(seed)
        except TypeError:
            raise TypeError(
                f"manual_seed: seed is {seed!r}; it must be an int"
            ) from None
        self.set_state((number & (1 << 64) - 1, 0))
        return self

    def __repr__(self) -> str:
        return f"Generator(seed={self.key}, device={str(self.device)!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.get_state(), str(self.device))

    def seed(self) -> int:
        """Restart from a seed of the operating system, and return it."""
        seed = _entropy() >> 1
        self.manual_seed(seed)
        return seed

    def clone_state(self) -> Generator:
        """Return another generator in the same state."""
        return _restored(self.get_state(), str(self.device))

    def get_offset(self) -> int:
        """Return the number of calls so far."""
        return self.get_state()[1]

    def set_offset(self, offset: int) -> None:
        """Set the number of calls so far."""
        self.set_state((self.get_state()[0], offset))

    def initial_seed(self) -> int:
        """Return the seed."""
        trace = trace_hooks.listener()
        if trace is not None:
            self._read = True
            trace.called(self)
        return self.key

    def _fingerprint(self) -> list[object]:
        """Return the guard of a trace that has used the seed."""
        return [self.key]

    def get_state(self) -> tuple[int, int]:
        """Return the seed and the number of calls so far."""
        trace_hooks.once("the state of a generator is read, which each draw changes")
        with self._lock:
            return self.key, self.calls

    def set_state(self, state: tuple[int, int]) -> None:
        """Restore a state that `get_state` returned."""
        trace_hooks.refuse(
            "a generator is seeded inside, which happens once; seed outside"
        )
        with self._lock:
            self.key, self.calls = state
        if self._read:
            trace_hooks.structure_changed()

    def stream(self) -> Stream:
        """Return the next call's stream."""
        record = _records.top.value
        return self.draw() if record is None else record.stream(self)

    def draw(self) -> Stream:
        """Return the next call's stream, whatever is recorded or replayed."""
        call = self.reserve(1)
        words = self.key & _WORD, self.key >> 32, call & _WORD, call >> 32
        trace = trace_hooks.listener()
        return words if trace is None else trace.on_draw(self, words)

    def reserve(self, count: int) -> int:
        """Reserve the streams of `count` calls and return the number of the first."""
        with self._lock:
            call = self.calls
            self.calls += count
        return call

    def give_back(self, state: tuple[int, int], count: int) -> None:
        """Rewind to a state if just `count` streams were reserved since."""
        with self._lock:
            if (self.key, self.calls) == (state[0], state[1] + count):
                self.calls = state[1]


def _restored(state: tuple[int, int], device: str) -> Generator:
    """Return a generator in a state."""
    generator = Generator(0, device)
    generator.set_state(state)
    return generator


class StreamRecord:
    """Record of the streams that a function drew, to draw the same ones again.

    Attributes
    ----------
    streams : list of Stream
        In the order of the draws, of all generators.
    """

    def __init__(self) -> None:
        self.streams: list[Stream] = []


class _Recording:
    """Draws that are added to a record."""

    def __init__(self, record: StreamRecord, outer: _Recording | _Replaying | None):
        self.record, self.outer = record, outer

    def stream(self, generator: Generator) -> Stream:
        drawn = generator.draw() if self.outer is None else self.outer.stream(generator)
        self.record.streams.append(drawn)
        return drawn


class _Replaying:
    """Draws that are taken from a record, and after its end from the generators."""

    def __init__(self, record: StreamRecord) -> None:
        self.left = iter([*record.streams])

    def stream(self, generator: Generator) -> Stream:
        found = next(self.left, None)
        return generator.draw() if found is None else found


class _StreamScope(SettingScope):
    def __init__(self, record: StreamRecord, replayed: bool) -> None:
        super().__init__(_records, record)
        self._replayed = replayed

    def value(self, outer: Any) -> _Recording | _Replaying:
        """Return what hands out the streams inside."""
        if self._replayed:
            return _Replaying(self._value)
        return _Recording(self._value, outer)


_records = ScopedSetting(None)


def recording_streams(record: StreamRecord) -> SettingScope:
    """Return a block whose draws are recorded."""
    return _StreamScope(record, False)


def replaying_streams(record: StreamRecord) -> SettingScope:
    """Return a block whose draws are those of a record; generators stay as they are."""
    return _StreamScope(record, True)


class DefaultGenerator(Generator):
    """The default generator: one for all threads but those that have their own."""

    def __init__(self) -> None:
        self._own = threading.local()
        super().__init__()

    def use_in_thread(self, generator: Generator) -> None:
        """Let this thread draw from a generator of its own, until the thread ends."""
        self._own.generator = generator

    @property
    def key(self) -> int:
        """The seed."""
        own: Generator | None = getattr(self._own, "generator", None)
        return self._key if own is None else own.key

    @key.setter
    def key(self, key: int) -> None:
        own = getattr(self._own, "generator", None)
        if own is None:
            self._key = key
        else:
            own.key = key

    @property
    def calls(self) -> int:
        """The number of calls so far."""
        own: Generator | None = getattr(self._own, "generator", None)
        return self._calls if own is None else own.calls

    @calls.setter
    def calls(self, calls: int) -> None:
        own = getattr(self._own, "generator", None)
        if own is None:
            self._calls = calls
        else:
            own.calls = calls


default_generator = DefaultGenerator()


def manual_seed(seed: int) -> Generator:
    """Seed the default generator for reproducible results; return it.

    Parameters
    ----------
    seed : int
        Taken modulo 2^64.
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Restart the default generator from a seed of the operating system; return it."""
    return default_generator.seed()


def initial_seed() -> int:
    """Return the seed of the default generator."""
    return default_generator.initial_seed()


def get_rng_state() -> tuple[int, int]:
    """Return the state of the default generator."""
    return default_generator.get_state()


def set_rng_state(new_state: tuple[int, int]) -> None:
    """Set the state of the default generator.

    Parameters
    ----------
    new_state : tuple of int
        As `get_rng_state` returns it.
    """
    default_generator.set_state(new_state)


def wrapped(value: int, bits: int) -> int:
    """Return the signed integer of `bits` bits that is `value` modulo 2^bits."""
    return (value + (1 << bits - 1)) % (1 << bits) - (1 << bits - 1)


def philox(
    counters: np.ndarray, key: tuple[int | np.ndarray, int | np.ndarray]
) -> np.ndarray:
    """Return Philox4x32-10 blocks.

    Parameters
    ----------
    counters : numpy.ndarray, shape (n, 4), uint32
        One counter per block.
    key : tuple of int or numpy.ndarray, shape (n,), uint32
        Two 32-bit words, for all blocks or for each.

    Returns
    -------
    numpy.ndarray, shape (n, 4), uint32
    """
    c0, c1, c2, c3 = (counters[:, k].astype(np.uint64) for k in range(4))
    k0, k1 = np.uint32(key[0]), np.uint32(key[1])
    with np.errstate(over="ignore"):
        for _ in range(10):
            p0, p1 = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
            c0, c1, c2, c3 = (
                (p1 >> np.uint64(32)) ^ c1 ^ np.uint64(k0),
                p1 & np.uint64(_WORD),
                (p0 >> np.uint64(32)) ^ c3 ^ np.uint64(k1),
                p0 & np.uint64(_WORD),
            )
            k0, k1 = k0 + _WEYL[0], k1 + _WEYL[1]
    return np.stack([c0, c1, c2, c3], axis=1).astype(np.uint32)


def bits(count: int, stream: Stream) -> np.ndarray:
    """Return `count` draws of 32 bits, as uint32."""
    blocks = -(-count // 4)
    counters = np.zeros((blocks, 4), np.uint32)
    counters[:, 0] = np.arange(blocks, dtype=np.uint32)
    counters[:, 1], counters[:, 2] = stream[2], stream[3]
    return philox(counters, stream[:2]).reshape(-1)[:count]


def uniform(count: int, stream: Stream) -> np.ndarray:
    """Return `count` float32 draws from [0, 1), multiples of 2^-24."""
    words = bits(count, stream)
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def exponential(count: int, stream: Stream) -> np.ndarray:
    """Return `count` float32 draws from the exponential distribution of mean 1."""
    draws: np.ndarray = -np.log1p(-uniform(count, stream))
    return draws


def normal(count: int, stream: Stream) -> np.ndarray:
    """Return `count` float32 standard normal draws; none is beyond 5.77.

    Source: Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    """
    draws = uniform(-(-count // 2) * 2, stream).astype(np.float64)
    radius = np.sqrt(-2.0 * np.log1p(-draws[0::2]))
    angle = 2.0 * np.pi * draws[1::2]
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    kept: np.ndarray = pairs.reshape(-1)[:count]
    return kept.astype(np.float32)


def integers(count: int, stream: Stream, span: int) -> np.ndarray:
    """Return `count` draws from [0, span), for a span up to 2^32, as int64.

    Source: Lemire, "Fast Random Integer Generation in an Interval", 2019, without the
    rejection: probabilities are off by less than span / 2^32.
    """
    products = bits(count, stream).astype(np.uint64) * np.uint64(span)
    upper: np.ndarray = products >> np.uint64(32)
    return upper.astype(np.int64)
