"""Random numbers: Philox4x32-10, counter-based, the same stream on host and device.

A draw is named by four words: the 64-bit key (the seed) and the 64-bit number of the
call. Element `i` of a call takes word `i % 4` of the block with counter
(i // 4, call), so draws depend neither on the device nor on how work is scheduled.
Source: Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import secrets
import threading

import numpy as np

Stream = tuple[int, int, int, int]
"""Key (low, high) and call number (low, high), each a 32-bit word."""

_WORD = 0xFFFFFFFF
_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_WEYL = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


class Generator:
    """A seeded sequence of streams.

    Parameters
    ----------
    seed : int or None
        64 bits; None takes one from the operating system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self.manual_seed(secrets.randbits(64) if seed is None else seed)

    def manual_seed(self, seed: int) -> None:
        """Start again from `seed`."""
        self.seed = seed & (1 << 64) - 1
        self.calls = 0

    def stream(self) -> Stream:
        """Return the next call's stream."""
        with self._lock:
            call = self.calls
            self.calls += 1
        return self.seed & _WORD, self.seed >> 32, call & _WORD, call >> 32


default_generator = Generator()


def manual_seed(seed: int) -> None:
    """Seed the default generator, so that what follows can be repeated."""
    default_generator.manual_seed(seed)


def philox(counters: np.ndarray, key: tuple[int, int]) -> np.ndarray:
    """Return Philox4x32-10 blocks.

    Parameters
    ----------
    counters : numpy.ndarray, shape (n, 4), uint32
        One counter per block.
    key : tuple of int
        Two 32-bit words.

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


def uniform(count: int, stream: Stream) -> np.ndarray:
    """Return `count` float32 draws from [0, 1), multiples of 2^-24."""
    blocks = -(-count // 4)
    counters = np.zeros((blocks, 4), np.uint32)
    counters[:, 0] = np.arange(blocks, dtype=np.uint32)
    counters[:, 1], counters[:, 2] = stream[2], stream[3]
    words = philox(counters, stream[:2]).reshape(-1)[:count]
    return (words >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
