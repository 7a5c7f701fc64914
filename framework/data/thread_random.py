"""Random numbers of `random` and `numpy.random` by thread, while there are workers.

The functions of these modules draw from one generator each, which all threads share:
what a worker draws would depend on how threads take turns, and seeding it there would
disturb all others. While there are workers, these functions are replaced by others,
which draw from a worker's own generator in its thread, and in the rest of the process
from the shared one, as ever.
"""

from __future__ import annotations

import functools
import random
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from vkbackend import fork_safety

_own = threading.local()
_WORD = 0xFFFFFFFF


class ThreadRandom:
    """Generators of one worker; its thread draws from them between two calls.

    Parameters
    ----------
    seed : int
        The worker's.
    number : int
        Of the worker; the rest of `seed` is the same in all of a loader.

    Notes
    -----
    Seeds are PyTorch's: `random` gets that of the worker, `numpy.random` four words of
    a hash of the loader's seed and the worker's number.
    """

    def __init__(self, seed: int, number: int) -> None:
        self._random = random.Random(seed)
        base = seed - number
        entropy = [number, base & _WORD, base >> 32, 0]
        words = np.random.SeedSequence(entropy).generate_state(4)
        self._numpy = np.random.RandomState(words)
        _MODULES.acquire()
        self._held = True

    def use_in_thread(self) -> None:
        """Let this thread draw from the generators, until it ends."""
        _own.random, _own.numpy = self._random, self._numpy

    def release(self) -> None:
        """Give the modules their functions back, unless other workers need them."""
        held, self._held = self._held, False
        if held:
            _MODULES.release()


class _Replaced:
    """Functions of a module that draw from the thread's generator.

    Parameters
    ----------
    module : module
    shared : object
        What the module's functions are methods of.
    slot : str
        Where a thread keeps its own.
    others : dict of str to str
        Functions that are none of its methods, and the methods that do what they do.
    """

    def __init__(
        self, module: Any, shared: Any, slot: str, others: dict[str, str]
    ) -> None:
        self._module = module
        methods = {
            name: function.__name__
            for name, function in vars(module).items()
            if getattr(function, "__self__", None) is shared
        } | others
        self._kept = {name: getattr(module, name) for name in methods}
        self._made = {
            name: _by_thread(self._kept[name], method, slot)
            for name, method in methods.items()
        }

    def install(self) -> None:
        """Replace the functions."""
        for name, made in self._made.items():
            # One that somebody else has replaced stays.
            if getattr(self._module, name) == self._kept[name]:
                setattr(self._module, name, made)

    def remove(self) -> None:
        """Restore the functions."""
        for name, kept in self._kept.items():
            if getattr(self._module, name) is self._made[name]:
                setattr(self._module, name, kept)


def _by_thread(
    shared: Callable[..., Any], method: str, slot: str
) -> Callable[..., Any]:
    """Return a function that calls a method of the thread's own generator, if any."""

    @functools.wraps(shared)
    def call(*args: Any, **kwargs: Any) -> Any:
        own = getattr(_own, slot, None)
        function = shared if own is None else getattr(own, method)
        return function(*args, **kwargs)

    return call


class _Modules:
    """The replaced functions of both modules, counted by who needs them."""

    def __init__(self) -> None:
        self._users = 0
        self._replaced: list[_Replaced] = []
        self._lock = threading.Lock()
        fork_safety.renew(self, "_lock", threading.Lock)

    def acquire(self) -> None:
        """Replace the functions, if that is not done yet."""
        with self._lock:
            if not self._users:
                self._replaced = [
                    _Replaced(random, vars(random)["_inst"], "random", {}),
                    _Replaced(
                        np.random,
                        vars(np.random.mtrand)["_rand"],
                        "numpy",
                        {"seed": "seed", "ranf": "random_sample"}
                        | {"sample": "random_sample"},
                    ),
                ]
                for each in self._replaced:
                    each.install()
            self._users += 1

    def release(self) -> None:
        """Restore the functions, if nobody needs them any longer."""
        with self._lock:
            self._users -= 1
            if not self._users:
                for each in self._replaced:
                    each.remove()


_MODULES = _Modules()
