"""Records of an archive that `torch.save` has written."""

from __future__ import annotations

import os
import struct
import zipfile
from typing import BinaryIO

import numpy as np

from ..base.dtype import DType, decode
from ..tensor.tensor import Tensor

HEADER = struct.Struct("<26xHH")
"""Of a record's header in a zip file: the lengths of its name and its extra field."""


class PyTorchFileReader:
    """Reads the records of an archive, as `data.pkl` and `data/0`.

    Parameters
    ----------
    name_or_buffer : path or binary file

    Raises
    ------
    RuntimeError
        If there is no such file, or it is no archive.

    Examples
    --------
    >>> import io, zipfile
    >>> content = io.BytesIO()
    >>> with zipfile.ZipFile(content, "w") as archive:
    ...     archive.writestr("archive/version", "3")
    >>> fw.PyTorchFileReader(content).get_record("version")
    b'3'
    """

    def __init__(self, name_or_buffer: str | os.PathLike[str] | BinaryIO) -> None:
        try:
            self._file = zipfile.ZipFile(name_or_buffer)
        except (OSError, zipfile.BadZipFile) as error:
            raise RuntimeError(
                f"PyTorchFileReader: {name_or_buffer!r} cannot be read: {error};"
                " it must be an archive of torch.save"
            ) from None
        names = self._file.namelist()
        self._folder = names[0].partition("/")[0] if names else ""

    def _record(self, name: str) -> zipfile.ZipInfo:
        try:
            return self._file.getinfo(f"{self._folder}/{name}")
        except KeyError:
            raise RuntimeError(
                f"PyTorchFileReader: there is no record {name!r}; there are"
                f" {', '.join(self.get_all_records())}"
            ) from None

    def get_all_records(self) -> list[str]:
        """Return the names of the records, without the archive's folder."""
        return [name.partition("/")[2] for name in self._file.namelist()]

    def has_record(self, name: str) -> bool:
        """Return whether there is a record of a name.

        Parameters
        ----------
        name : str
        """
        return name in self.get_all_records()

    def get_record(self, name: str) -> bytes:
        """Return the content of a record.

        Parameters
        ----------
        name : str

        Raises
        ------
        RuntimeError
            If there is none of this name.
        """
        return self._file.read(self._record(name))

    def get_record_size(self, name: str) -> int:
        """Return the size of a record in bytes.

        Parameters
        ----------
        name : str
        """
        return self._record(name).file_size

    def get_record_header_offset(self, name: str) -> int:
        """Return where the header of a record begins, in bytes.

        Parameters
        ----------
        name : str
        """
        return self._record(name).header_offset

    def get_record_offset(self, name: str) -> int:
        """Return where the content of a record begins, in bytes.

        Parameters
        ----------
        name : str
        """
        start = self.get_record_header_offset(name)
        file = self._file.fp
        assert file is not None  # it is open as long as this object
        before = file.tell()
        file.seek(start)
        lengths = HEADER.unpack(file.read(HEADER.size))
        file.seek(before)
        content: int = start + HEADER.size + sum(lengths)
        return content

    def get_storage_from_record(self, name: str, numel: int, dtype: DType) -> Tensor:
        """Return the elements of a record.

        Parameters
        ----------
        name : str
        numel : int
        dtype : DType

        Returns
        -------
        Tensor, shape (numel,)
            On the host.

        Raises
        ------
        RuntimeError
            If the record has fewer elements.
        """
        content = self.get_record(name)
        if numel < 0 or numel * dtype.itemsize > len(content):
            raise RuntimeError(
                f"PyTorchFileReader: {numel} elements of {dtype.name} are read of"
                f" {name!r}, which has {len(content)} bytes"
            )
        stored = np.frombuffer(content, dtype.storage, numel)
        return Tensor.from_data(decode(stored, dtype), dtype)

    def serialization_id(self) -> str:
        """Return the number that `torch.save` gave the content, or nothing."""
        name = ".data/serialization_id"
        return self.get_record(name).decode() if self.has_record(name) else ""
