"""Tuning cache: benchmark results of a device and driver, kept on disk.

A verdict answers a question, which is any text, with a choice, which is a name. The
file is JSON, so that a person can read it. One that is damaged, or that was written for
another device, driver or version, counts as empty, and a folder that cannot be written
costs the next process its measurements only.
"""

from __future__ import annotations

import functools
import json
import threading
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vkbackend.disk_cache import cache_file

from . import config, disk_cache, fork_safety

if TYPE_CHECKING:
    from vkbackend.driver.device_info import DeviceInfo


class Verdict(NamedTuple):
    """The answer to a question.

    Attributes
    ----------
    choice : str
        What is best.
    seconds : mapping of str to float
        What each candidate took, as far as it was measured.
    default : str
        What is chosen without a verdict, as a person may want to know it.
    """

    choice: str
    seconds: Mapping[str, float] = {}
    default: str = ""


def verdict_file(info: DeviceInfo) -> Path:
    """Return where the verdicts for a device and its driver version are kept."""
    name = cache_file(info).with_suffix(".json").name
    return config.cache_folder() / "tuning" / name


class Verdicts:
    """The verdicts for one device and driver, in memory and in their file.

    Safe with several threads and processes: each process adds its verdicts to those
    that it finds in the file, so that none is lost unless two write at one moment.

    Parameters
    ----------
    info : DeviceInfo
    version : str
        What the meaning of questions and choices depends on, besides the device.

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
        """Return the verdict on a question, or None if there is none."""
        return self._rows.get(tuning_key)

    def rows(self) -> dict[str, Verdict]:
        """Return every verdict by its question."""
        return dict(self._rows)

    def keep(self, tuning_key: str, verdict: Verdict) -> None:
        """Add a verdict, or replace the one on the same question."""
        with self._lock:
            self._rows = {**self._read(), **self._rows, tuning_key: verdict}
            self._write()

    def forget(self) -> None:
        """Drop every verdict, and remove the file."""
        with self._lock:
            self._rows = {}
            disk_cache.remove(self.file)

    def _read(self) -> dict[str, Verdict]:
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
