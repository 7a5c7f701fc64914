"""Weights from the network, in a cache; models from a folder with a `hubconf.py`."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from tqdm import tqdm

from .base.public_names import public_names as _public_names
from .io.serialization import load as _load_file

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

_CHUNK = 1 << 17
HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")


class _Folder:
    name: str | None = None


def _get_torch_home() -> str:
    """Return the folder of caches: TORCH_HOME, or `torch` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    home = os.environ.get("TORCH_HOME", os.path.join(cache, "torch"))
    return os.path.expanduser(home)


def get_dir() -> str:
    """Return the folder of what was downloaded, the same as PyTorch's."""
    return _Folder.name or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Set the folder of what is downloaded.

    Parameters
    ----------
    d : str or path
        The folder; it need not exist yet.
    """
    _Folder.name = os.path.expanduser(d)


def download_url_to_file(
    url: str, dst: str, hash_prefix: str | None = None, progress: bool = True
) -> None:
    """Write what an address has into a file, which is there whole or not at all.

    Parameters
    ----------
    url, dst : str
    hash_prefix : str or None
        First digits of the SHA-256 of the content.
    progress : bool, default True
        Whether to show a bar on the error stream.

    Raises
    ------
    RuntimeError
        If the content has another hash.
    """
    request = urllib.request.Request(url, headers={"User-Agent": "vkbackend.hub"})
    folder = os.path.dirname(os.path.abspath(dst))
    digest = hashlib.sha256()
    with urllib.request.urlopen(request) as answer:
        size = answer.headers.get("Content-Length")
        handle, name = tempfile.mkstemp(dir=folder)
        try:
            with os.fdopen(handle, "wb") as file, tqdm(
                total=int(size) if size else None, disable=not progress, unit="B",
                unit_scale=True,
            ) as bar:  # fmt: skip
                while chunk := answer.read(_CHUNK):
                    file.write(chunk)
                    digest.update(chunk)
                    bar.update(len(chunk))
            found = digest.hexdigest()
            if hash_prefix and not found.startswith(hash_prefix):
                raise RuntimeError(
                    f"download_url_to_file: the hash of {url} is {found}; it must begin"
                    f" with {hash_prefix}"
                )
            shutil.move(name, dst)
        finally:
            if os.path.exists(name):
                os.remove(name)


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = False,
) -> Any:
    """Return what a file of the network holds, downloaded once.

    Parameters
    ----------
    url : str
    model_dir : str or None
        Folder of the files; None means `checkpoints` in `get_dir()`.
    map_location
        See `fw.load`.
    progress : bool, default True
    check_hash : bool, default False
        Whether `-<digits>.` in the name is the beginning of the SHA-256.
    file_name : str or None
        Name of the file, instead of the address's own.
    weights_only : bool, default False
        Has no effect: loading runs no code.
    """
    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (file_name or os.path.basename(urlparse(url).path))
    if not path.exists():
        match = HASH_REGEX.search(path.name) if check_hash else None
        download_url_to_file(url, str(path), match and match[1], progress)
    return _load_file(path, map_location=map_location)


def _entry_points(repo_or_dir: str, source: str) -> Any:
    """Run a folder's `hubconf.py` and return its module."""
    if source != "local":
        raise NotImplementedError(
            f"hub: source is {source!r}; only a folder is read: clone the repository"
            " and pass its path with source='local'"
        )
    path = os.path.join(repo_or_dir, "hubconf.py")
    spec = importlib.util.spec_from_file_location("hubconf", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, repo_or_dir)
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(repo_or_dir)
    return module


def load(
    repo_or_dir: str, model: str, *args: Any, source: str = "github", **kwargs: Any
) -> Any:
    """Return what a function of a folder's `hubconf.py` returns.

    Parameters
    ----------
    repo_or_dir : str
    model : str
        Name of the function.
    *args, **kwargs
        Its arguments; those of PyTorch's downloads have no effect.
    source : str
        It must be "local".

    Raises
    ------
    NotImplementedError
        If the source is another one.
    RuntimeError
        If there is no such function.
    """
    for name in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(name, None)
    function = getattr(_entry_points(repo_or_dir, source), model, None)
    if not callable(function):
        raise RuntimeError(f"hub.load: {repo_or_dir} has no function {model}")
    return function(*args, **kwargs)


def list(github: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """Return the names of the functions of a folder's `hubconf.py`; see `load`.

    Parameters
    ----------
    github : str
        The folder.
    source : {"local"}
        Nothing is downloaded; "github", the default, is refused.
    *args, **kwargs : object
        Further parameters of PyTorch's, without effect.
    """
    module = _entry_points(github, source)
    return [
        name for name, each in vars(module).items() if callable(each) and name[0] != "_"
    ]


def help(github: str, model: str, *args: Any, source: str = "github") -> str | None:
    """Return the documentation of a function of a folder's `hubconf.py`.

    Parameters
    ----------
    github : str
        The folder.
    model : str
        Name of the function.
    source : {"local"}
        As for `load`.
    *args : object
        Further parameters of PyTorch's, without effect.
    """
    text: str | None = getattr(_entry_points(github, source), model).__doc__
    return text


def __dir__() -> Any:
    """Return the public names, without what is behind them."""
    return _public_names(globals())
