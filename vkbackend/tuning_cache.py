"""Tuning cache: benchmark results of a device and driver, kept on disk.

A verdict is the cached result for a tuning key, which is any text: the name of the
quickest candidate. The file is JSON, so that a person can read it. One that is damaged,
or was written for another device, driver or version, counts as empty, and a folder that
cannot be written only costs the next process its benchmarks.
"""

from __future__ import annotations

import functools
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vkbackend.disk_cache import cache_name

from . import config, disk_cache, fork_safety

if TYPE_CHECKING:
    from vkbackend.driver.device_info import DeviceInfo


class Verdict(NamedTuple):
    """Cached result of a benchmark.

    Attributes
    ----------
    choice : str
        Name of the quickest candidate.
    seconds : mapping of str to float
        Time of each candidate that was measured.
    default : str
        The candidate chosen without a verdict, for a person to compare.
    """

    choice: str
    seconds: Mapping[str, float] = {}
    default: str = ""


def verdict_file(info: DeviceInfo) -> Path:
    """Return the file of the verdicts for a device and its driver version."""
    return _file(config.cache_folder(), cache_name(info))


@functools.lru_cache(maxsize=64)
def _file(folder: Path, name: str) -> Path:
    return folder / "tuning" / f"{name}.json"


class Verdicts:
    """Tuning cache of one device and driver, in memory and in its file.

    Safe with several threads and processes: each process merges its verdicts into those
    of the file, so that none is lost unless two write at one moment.

    Parameters
    ----------
    info : DeviceInfo
    version : str
        Version of the tuning keys and candidates.

    Attributes
    ----------
    file : Path
        It may not exist.
    """

    def __init__(self, info: DeviceInfo, version: str) -> None:
        self.file = verdict_file(info)
        self._head = {
            "version": version,
            "device": info.name,
            "driver": f"{info.driver_name} {info.driver_info}",
        }
        self._lock = threading.Lock()
        fork_safety.renew(self, "_lock", threading.Lock)
        self._rows = self._read()

    def __len__(self) -> int:
        """Return the number of verdicts."""
        return len(self._rows)

    def get(self, tuning_key: str) -> Verdict | None:
        """Return the verdict for a tuning key, or None if there is none."""
        return self._rows.get(tuning_key)

    def rows(self) -> dict[str, Verdict]:
        """Return every verdict by its tuning key."""
        return dict(self._rows)

    def keep(self, tuning_key: str, verdict: Verdict) -> None:
        """Add a verdict, or replace the one for the same tuning key."""
        with self._lock:
            self._rows = {**self._read(), **self._rows, tuning_key: verdict}
            self._write()

    def forget(self) -> None:
        """Drop every verdict, and remove the file."""
        with self._lock:
            self._rows = {}
            disk_cache.remove(self.file)

    def _read(self) -> dict[str, Verdict]:
        import json  # few programs tune

        try:
            content = json.loads(disk_cache.read(self.file) or b"")
        except (ValueError, RecursionError):
            return {}
        if not isinstance(content, dict):
            return {}
        head = {name: content.get(name) for name in self._head}
        rows = content.get("verdicts")
        if head != self._head or not isinstance(rows, dict):
            return {}
        found = {name: _verdict(row) for name, row in rows.items()}
        return {name: row for name, row in found.items() if row is not None}

    def _write(self) -> None:
        import json

        rows = {name: row._asdict() for name, row in sorted(self._rows.items())}
        text = json.dumps({**self._head, "verdicts": rows}, indent=1)
        try:
            # Durable: it is measured for minutes, and has no digest.
            disk_cache.write(self.file, text.encode(), durable=True)
        except OSError as error:
            _warn_once(
                f"verdicts: cannot write to {self.file.parent}: {error.strerror};"
                f" kernels are measured again each time; set {config.CACHE.name}"
            )


def _verdict(row: Any) -> Verdict | None:
    """Return a verdict as the file has it, or None if it is none."""
    if not isinstance(row, dict):
        return None
    choice, seconds, default = map(row.get, Verdict._fields)
    if not isinstance(choice, str) or not isinstance(seconds, dict):
        return None
    if not all(isinstance(number, int | float) for number in seconds.values()):
        return None
    return Verdict(choice, seconds, str(default))


@functools.cache
def _warn_once(message: str) -> None:
    """Warn of something that costs time only, once per process."""
    warnings.warn(message, RuntimeWarning, stacklevel=4)
