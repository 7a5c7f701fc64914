"""Record files (`.rrec`): samples of any nesting in one file, read by index.

A file has a header of 64 bytes, the records, and an index: for each record its offset
and its length as two 64-bit numbers. The header has the magic `RREC`, the version, the
number of records and the offset of the index. All numbers are little-endian.

In version 2 the header goes on with CRC-32 of the index and of what precedes in the
header. A record begins at a multiple of 8 with the length of its content, its CRC-32,
and CRC-32 of these two; so whole records are found in a file that was cut, too. Version
1 is that of RUMUS: its records are two tensors, an input and a target, of float32 or
float16, and have no checksums.
"""

from __future__ import annotations

import contextlib
import mmap
import operator
import os
import stat
import struct
import warnings
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from vkbackend.atomic_file import saving

from ..base.errors import FileFormatError
from .dataset import Dataset
from .record_codec import SampleReader, encode_pair, encode_sample

MAGIC = b"RREC"
VERSIONS = (1, 2)

_HEADER_SIZE = 64
_HEADER = struct.Struct("<4sIQQ")
_HEADER_CHECKS = struct.Struct("<II")
"""CRC-32 of the index, and of the header before it and with it."""

_FRAME = struct.Struct("<QI")
_FRAME_CHECK = struct.Struct("<I")
_FRAME_SIZE = _FRAME.size + _FRAME_CHECK.size
_ALIGNMENT = 8
_ENTRY_SIZE = 16

_Places = tuple[list[int], list[int]]
"""Where records begin, and their lengths."""

_MALFORMED = (ArithmeticError, LookupError, TypeError, ValueError, struct.error)
"""What the reading of bytes raises that are no sample."""


class RecordWriter:
    """Writes samples to a record file, which is complete or not there.

    The file is written beside and takes its place in `finish`, on the disk; one that
    was there before stays until then. As a block it is finished at the end, or after an
    error discarded.

    Parameters
    ----------
    path : str or path-like
    version : {2, 1}, default 2
        Of the format. Version 1, that of RUMUS, holds two tensors of float32 or float16
        for each sample, and has no checksums.

    Raises
    ------
    ValueError
        If `version` is unknown, or `path` is no regular file.
    OSError
        If the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/train.rrec"
    >>> with data.RecordWriter(path) as writer:
    ...     for label in range(3):
    ...         writer.append({"image": fw.full((2,), float(label)), "label": label})
    >>> dataset = data.RecordDataset(path)
    >>> len(dataset), dataset[2]
    (3, {'image': tensor([2., 2.]), 'label': 2})
    """

    def __init__(self, path: str | os.PathLike[str], version: int = 2) -> None:
        if version not in VERSIONS:
            raise ValueError(f"RecordWriter: version is {version!r}; it must be 1 or 2")
        self.path = os.fsdecode(path)
        self._version = version
        self._index: list[tuple[int, int]] = []
        self._scope = saving(self.path)
        self._file: BinaryIO | None = self._scope.__enter__()
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self.discard()
            raise ValueError(
                f"RecordWriter: {self.path} is a pipe or device; it must be a file"
            )
        self._file.write(bytes(_HEADER_SIZE))
        self._end = _HEADER_SIZE

    def __len__(self) -> int:
        """Return the number of samples so far."""
        return len(self._index)

    def append(self, *sample: Any) -> None:
        """Add a sample.

        Parameters
        ----------
        *sample : object
            Tensors, which are detached and read from their devices, NumPy arrays,
            numbers, strings, bytes, None, and lists, tuples and dicts of these. Several
            are a tuple.

        Raises
        ------
        TypeError
            If a part is of another kind; nothing has been added then.
        ValueError
            If it is nested too deeply, or the writer is finished.
        OSError
            If it cannot be written; the whole file is discarded then.
        """
        file = self._open_file("append")
        value = sample[0] if len(sample) == 1 else sample
        if self._version == 1:
            parts = [encode_pair(value)]
        else:
            content = encode_sample(value)
            frame = _FRAME.pack(len(content), zlib.crc32(content))
            check = _FRAME_CHECK.pack(zlib.crc32(frame))
            padding = bytes(-len(content) % _ALIGNMENT)
            parts = [bytearray(frame + check), content, bytearray(padding)]
        try:
            for part in parts:
                file.write(part)
        except BaseException:
            # What is half written must not be followed by more.
            self.discard()
            raise
        start = self._end + (0 if self._version == 1 else _FRAME_SIZE)
        length = len(parts[0] if self._version == 1 else parts[1])
        self._index.append((start, length))
        self._end += sum(map(len, parts))

    def finish(self) -> None:
        """Write the index and let the file take its place; waits for the disk.

        Raises
        ------
        ValueError
            If the writer is finished.
        OSError
            If it cannot be written; all is as it was before then.
        """
        file = self._open_file("finish")
        try:
            index = np.array(self._index, "<u8").tobytes()
            file.write(index)
            header = _HEADER.pack(MAGIC, self._version, len(self._index), self._end)
            if self._version > 1:
                header += _FRAME_CHECK.pack(zlib.crc32(index))
                header += _FRAME_CHECK.pack(zlib.crc32(header))
            file.seek(0)
            file.write(header)
        except BaseException:
            self.discard()
            raise
        self._file = None
        self._scope.__exit__(None, None, None)

    def discard(self) -> None:
        """Forget what was written; what was there before stays."""
        if self._file is not None:
            self._file = None
            why = _DiscardedError()
            with contextlib.suppress(_DiscardedError):
                if not self._scope.__exit__(_DiscardedError, why, None):
                    raise why

    def _open_file(self, name: str) -> BinaryIO:
        if self._file is None:
            raise ValueError(
                f"RecordWriter.{name}: {self.path} is finished or discarded; open"
                " another writer"
            )
        return self._file

    def __enter__(self) -> RecordWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.discard()
        elif self._file is not None:
            self.finish()

    def __del__(self) -> None:
        if getattr(self, "_file", None) is not None:
            self.discard()
            warnings.warn(
                f"RecordWriter: {self.path} was not finished, and is discarded; call"
                " finish, or use the writer as a block",
                ResourceWarning,
                stacklevel=2,
            )


class _DiscardedError(Exception):
    """End of a file that is not to take its place."""


class RecordDataset(Dataset[Any]):
    """Samples of a record file, read by index from memory that the file is mapped to.

    Threads may read at once: each sample is copied, so that its arrays can be changed,
    and compared with its checksum.

    Parameters
    ----------
    path : str or path-like
    recover : bool, default False
        Whether a file that was cut off is read as far as its records are whole. Those
        before the first damaged one are found without the index; of version 2 only.

    Attributes
    ----------
    path : str
    version : int

    Raises
    ------
    FileNotFoundError
        If there is no such file.
    FileFormatError
        If it is cut off, damaged or of another format; for a damaged sample when that
        is read.
    IndexError
        For an index out of range, when a sample is read.

    Notes
    -----
    Tensors are on the host; a `DataLoader` with `device` uploads batches ahead. A copy
    by `pickle` opens the file again.
    """

    def __init__(self, path: str | os.PathLike[str], recover: bool = False) -> None:
        self.path = os.fsdecode(path)
        self._recover = recover
        with open(self.path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < _HEADER_SIZE:
                raise self._damage(f"it has {size} bytes, less than its header")
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        try:
            self._starts, self._lengths = self._found()
        except BaseException:
            self._map.close()
            raise

    def _damage(self, what: str) -> FileFormatError:
        return FileFormatError(
            f"RecordDataset: {self.path}: {what}; it is cut off, damaged, or no file of"
            " RecordWriter"
        )

    def _found(self) -> _Places:
        """Return where records are."""
        header = self._map[:_HEADER_SIZE]
        magic, self.version, count, at = _HEADER.unpack_from(header)
        if self._recover and (magic == MAGIC or not any(header)):
            # The header is written last.
            self.version = self.version or 2
            try:
                return self._indexed(header, count, at)
            except FileFormatError:
                if self.version != 2:
                    raise
                found = list(self._scanned())
                return [start for start, _ in found], [size for _, size in found]
        if magic != MAGIC:
            raise self._damage(f"it begins with {magic!r}, not {MAGIC!r}")
        return self._indexed(header, count, at)

    def _indexed(self, header: bytes, count: int, at: int) -> _Places:
        if self.version not in VERSIONS:
            raise self._damage(f"it is of version {self.version}, not 1 or 2")
        checks = _HEADER_CHECKS.unpack_from(header, _HEADER.size)
        if self.version == 2:
            known = zlib.crc32(header[: _HEADER.size + 4])
            if known != checks[1] or any(header[_HEADER.size + 8 :]):
                raise self._damage("its header does not fit its checksum")
        if not _HEADER_SIZE <= at or at + _ENTRY_SIZE * count > len(self._map):
            raise self._damage(
                f"{count} records are to be indexed at byte {at}, of {len(self._map)}"
            )
        index = self._map[at : at + _ENTRY_SIZE * count]
        if self.version == 2 and zlib.crc32(index) != checks[0]:
            raise self._damage("its index does not fit its checksum")
        entries = np.frombuffer(index, "<u8").reshape(count, 2)
        starts, lengths = entries.T.tolist()
        for number, (start, length) in enumerate(zip(starts, lengths)):
            if start < _HEADER_SIZE or start + length > at:
                raise self._damage(f"record {number} is to be outside of the records")
        return starts, lengths

    def _scanned(self) -> Iterator[tuple[int, int]]:
        """Yield where whole records are, from the first on."""
        at, end = _HEADER_SIZE, len(self._map)
        while at + _FRAME_SIZE <= end:
            frame = self._map[at : at + _FRAME.size]
            check = self._map[at + _FRAME.size : at + _FRAME_SIZE]
            length, content_check = _FRAME.unpack(frame)
            start = at + _FRAME_SIZE
            if _FRAME_CHECK.unpack(check)[0] != zlib.crc32(frame):
                return
            if start + length > end:
                return
            if zlib.crc32(self._map[start : start + length]) != content_check:
                return
            yield start, length
            at = start + length + -length % _ALIGNMENT

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, index: int) -> Any:
        place = operator.index(index)
        place = place + len(self) if place < 0 else place
        if not 0 <= place < len(self):
            raise IndexError(
                f"RecordDataset: index is {index}; it must be from {-len(self)} to"
                f" {len(self) - 1}"
            )
        start, length = self._starts[place], self._lengths[place]
        if self._map.size() < start + length:
            # Reading mapped memory beyond the end of its file would end the process.
            raise self._damage(f"record {place} is beyond the end, as it was cut since")
        content = bytearray(self._map[start : start + length])
        if self.version == 2:
            _, check = _FRAME.unpack_from(self._map, start - _FRAME_SIZE)
            if zlib.crc32(content) != check:
                raise self._damage(f"record {place} does not fit its checksum")
        reader = SampleReader(content)
        try:
            return reader.whole() if self.version == 2 else reader.pair()
        except _MALFORMED as why:
            raise self._damage(
                f"record {place} is no sample: {type(why).__name__}: {why}"
            ) from why

    def close(self) -> None:
        """Give the mapped memory back; samples that were read stay."""
        self._map.close()

    def __reduce__(self) -> tuple[Any, ...]:
        return RecordDataset, (self.path, self._recover)
