"""Configurations of models: `config.json` of Hugging Face's layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from ..base.errors import FileFormatError

T = TypeVar("T", bool, int, float, str)

_MISSING: Any = object()


class ModelConfig:
    """Settings of a model by name, checked as they are read.

    Parameters
    ----------
    settings : mapping of str to object
        What `config.json` holds.
    where : str, default "config"
        Where it is from, for messages.
    """

    def __init__(self, settings: Mapping[str, Any], where: str = "config") -> None:
        self.settings = dict(settings)
        self.where = where

    def get(self, name: str, kind: type[T], default: Any = _MISSING) -> Any:
        """Return a setting.

        Parameters
        ----------
        name : str
        kind : type
            What it must be; a whole number is a float as well.
        default : object
            What it is where it is missing or null; without one it must be there.

        Raises
        ------
        FileFormatError
            If it is missing, or of another kind.
        """
        found = self.settings.get(name)
        if found is None:
            if default is _MISSING:
                raise FileFormatError(f"{self.where}: `{name}` is missing")
            return default
        if kind is float and type(found) is int:
            found = float(found)
        if type(found) is not kind:
            raise FileFormatError(
                f"{self.where}: `{name}` is {found!r}; it must be {kind.__name__}"
            )
        return found

    def size(self, name: str, default: Any = _MISSING) -> int:
        """Return a whole number above 0; errors as of `get`."""
        found = self.get(name, int, default)
        if found is not None and found < 1:
            raise FileFormatError(
                f"{self.where}: `{name}` is {found}; it must be above 0"
            )
        return found  # type: ignore[no-any-return]  # an int, or the default

    def require(self, name: str, *accepted: object) -> None:
        """Check that a setting, where it is given, has an accepted value.

        Raises
        ------
        FileFormatError
            If it has another one.
        """
        found = self.settings.get(name)
        if found is not None and found not in accepted:
            raise FileFormatError(
                f"{self.where}: `{name}` is {found!r}; accepted:"
                f" {', '.join(map(repr, accepted))}"
            )
