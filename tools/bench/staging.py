"""Rates of uploads and reads by staging chunks and threads, beside NumPy's copy.

`python -m vkbackend.tools.bench.staging` prints a row for each number of threads and
size of a chunk, and which of them are best; `Staging` of `vkbackend/driver/target.py`
has what is used. Where device memory is mapped and cached no chunk is used.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from collections.abc import Callable, Sequence

import numpy as np

import vkbackend
from vkbackend.command.memcpy_threads import thread_count

_MEBIBYTE = 1 << 20
THREADS, CHUNKS = (1, 4, 8), (4, 8, 16)

Rates = dict[str, float]


def rate_of(run: Callable[[], object], size: int, rounds: int) -> float:
    """Return the bytes a second of a copy; the median of rounds, after one.

    Parameters
    ----------
    run : callable
        It has copied once it returns.
    size : int
        Bytes that it copies.
    rounds : int
    """
    times = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        run()
        times.append(time.perf_counter() - start)
    return size / statistics.median(times[1:])


def rates(device: vkbackend.Device, size: int, rounds: int) -> Rates:
    """Return the rates of transfers as the device makes them now, which are checked.

    Parameters
    ----------
    device : vkbackend.Device
    size : int
        Bytes.
    rounds : int
    """
    data = np.random.default_rng(0).integers(0, 256, size, np.uint8)
    out, buffer = np.zeros_like(data), device.allocate(size)

    def upload() -> None:
        device.upload(data, buffer)
        device.synchronize()

    def both() -> None:
        device.upload(data, buffer)
        device.read(other, out=out)
        device.synchronize()

    def upload_pinned() -> None:
        device.upload(pinned, buffer)
        device.synchronize()

    other = device.allocate(size)
    pinned = np.frombuffer(device.transfer.pinned(size), np.uint8)
    pinned[:] = data
    found = {
        "upload": rate_of(upload, size, rounds),
        "upload pinned": rate_of(upload_pinned, size, rounds),
        "read": rate_of(lambda: device.read(buffer), size, rounds),
        "read into": rate_of(lambda: device.read(buffer, out=out), size, rounds),
    }
    if not np.array_equal(out, data):
        raise AssertionError(f"staging: {size} bytes come back changed")
    found["both"] = rate_of(both, 2 * size, rounds)
    return found


def host_rates(size: int, rounds: int) -> Rates:
    """Return the rates of NumPy's copy on the host: to fresh memory, and into some."""
    data = np.ones(size, np.uint8)
    out = np.zeros_like(data)
    return {
        "upload": rate_of(lambda: np.copyto(out, data), size, rounds),
        "upload pinned": rate_of(lambda: np.copyto(out, data), size, rounds),
        "read": rate_of(data.copy, size, rounds),
        "read into": rate_of(lambda: np.copyto(out, data), size, rounds),
        "both": rate_of(lambda: np.copyto(out, data), size, rounds),
    }


def _row(name: str, found: Rates) -> str:
    return f"| {name} | " + " | ".join(f"{each / 1e9:.1f}" for each in found.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Print a row for each number of threads and size of a chunk.

    Parameters
    ----------
    arguments : sequence of str, optional
        By default those of the command line.
    """
    parser = argparse.ArgumentParser(description="Time uploads and reads by staging.")
    parser.add_argument("--size", type=int, default=64, help="MiB that are copied")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--threads", type=int, nargs="+", default=THREADS)
    parser.add_argument("--chunks", type=int, nargs="+", default=CHUNKS, help="MiB")
    parser.add_argument("--idle-cores", type=int, help="that do not copy, not half")
    parser.add_argument(
        "--staged", action="store_true", help="upload by staging memory alone"
    )
    given = parser.parse_args(arguments)
    size = given.size * _MEBIBYTE
    device = vkbackend.open_device()
    most = thread_count(max(given.threads), given.idle_cores)
    print(f"{device.name}, {given.size} MiB, at most {most} threads for these cores")
    host = host_rates(size, given.rounds)
    print("GB/s (10^9 bytes)\n| threads, chunk | " + " | ".join(host) + " |")
    print("| --- " + "| ---: " * len(host) + "|")
    print(_row("NumPy's copy", host) + " |")
    was, best = device.transfer.staging, dict.fromkeys(host, (0.0, ""))
    try:
        for threads in given.threads:
            for chunk in given.chunks:
                staging = dataclasses.replace(
                    was,
                    threads=threads,
                    idle_cores=given.idle_cores,
                    chunk_size=chunk * _MEBIBYTE,
                    most_mapped=0 if given.staged else was.most_mapped,
                )
                device.transfer.restage(staging)
                found = rates(device, size, given.rounds)
                name = f"{threads}, {chunk} MiB"
                print(_row(name, found) + " |", flush=True)
                best = {key: max(best[key], (found[key], name)) for key in best}
    finally:
        device.transfer.restage(was)
    for key, (rate, name) in best.items():
        print(f"best {key}: {name}, {rate / 1e9:.1f} GB/s")


if __name__ == "__main__":
    main()
