"""GLSL to SPIR-V: includes, defines, disk cache, errors that point at the source.

Includes are expanded here and not by the compiler, so that every compiler sees the
same text, the cache key is that text, and an error names the file and line it came
from: each file has a number, and `#line` directives carry it through the compiler.
"""

import contextlib
import functools
import importlib
import os
import re
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

from vkbackend import config, disk_cache
from vkbackend.disk_cache import DIGEST_SIZE, digest
from vkbackend.errors import NoCompilerError, ShaderError

from .find_compiler import REMEDY, Compiler, compiler, describe
from .glslang import SlangGlslang
from .preprocessor import ShaderSource, expand, is_file

__all__ = [
    "cached_module",
    "compile_glsl",
    "compiler",
    "disassemble",
    "find_or_compile",
    "glsl_folder",
    "load_kernel_source",
    "validate_spirv",
]

_SPIRV = (1, 5)
"""Vulkan 1.2's SPIR-V: the lowest that has buffer addresses without an extension."""

_SPIRV_COOPERATIVE = (1, 6)
"""What SPV_KHR_cooperative_matrix asks for."""

_COOPERATIVE = re.compile(
    r"^\s*#\s*extension\s+GL_(?:KHR|NV)_cooperative_matrix", re.MULTILINE
)
_UNKNOWN_EXTENSION = re.compile(r"extension not supported: (\w+)")
_MESSAGE = re.compile(
    r"^(?:ERROR: )?(?P<file>\d{1,9}):(?P<line>\d{1,9}): (?:error: )?(?!warning)"
    r"(?P<text>.+)$",
    re.MULTILINE,
)
_GENERAL = re.compile(r"^(?:.*: )?error: (.+)$", re.MULTILINE | re.IGNORECASE)
_QUOTED = re.compile(r"'([^']+)' :")
_FORMAT = 2
"""Of the cache's files: those of another are not found, and go as what is not used."""


def compile_glsl(
    source: str,
    *,
    name: str,
    defines: Mapping[str, str] | None = None,
    include_folders: Sequence[Path] = (),
) -> bytes:
    """Return the SPIR-V of a compute shader, from the disk cache if it is there.

    Parameters
    ----------
    source : str
        GLSL with a `#version` line; `#include "file"` is expanded, each file once.
    name : str
        What errors call the source, as `glsl/matmul/gemm_tiled.comp`.
    defines : mapping of str to str, optional
        Macros, defined after the `#version` line.
    include_folders : sequence of Path, default ()
        Where to look for includes, before the library's own `glsl` folder. A file that
        includes another is looked beside first.

    Returns
    -------
    bytes
        SPIR-V 1.5; 1.6 if the shader uses cooperative matrices.

    Raises
    ------
    ShaderError
        If it does not compile, with file, line, source line and defines.
    NoCompilerError
        If there is no compiler, or it does not know an extension that is required.
    """
    return find_or_compile(source, name, defines or {}, include_folders)[0]


def find_or_compile(
    source: str, name: str, defines: Mapping[str, str], include_folders: Sequence[Path]
) -> tuple[bytes, bool]:
    """Return what `compile_glsl` does, and whether it was compiled just now."""
    folders = (*include_folders, glsl_folder())
    expanded = expand(source, name, defines, folders)
    found = compiler()
    spirv = _SPIRV_COOPERATIVE if _COOPERATIVE.search(expanded.text) else _SPIRV
    entry = _cache_entry(found, spirv, expanded.text)
    words = _read_cache(entry)
    if words is not None:
        return words, False
    words, log = found.compile(expanded.text, spirv)
    if not words:
        raise _error(log, expanded, found, defines)
    _write_cache(entry, words)
    return words, True


def load_kernel_source(name: str) -> tuple[str, Path]:
    """Return the source and path of one of the library's kernels.

    Parameters
    ----------
    name : str
        Path under `glsl` without `.comp`, as `matmul/gemm_tiled`.

    Returns
    -------
    tuple of str and Path
        The GLSL text, and the file.

    Raises
    ------
    ShaderError
        If there is no such kernel.
    """
    path = glsl_folder() / f"{name}.comp"
    if not is_file(path):
        raise ShaderError(
            f"kernel {name!r}: there is no file {path}; the name must be a path under"
            " glsl, without .comp"
        )
    return path.read_text(encoding="utf-8"), path


@functools.cache
def glsl_folder() -> Path:
    """Return the folder of the library's shaders, installed or in a checkout."""
    return Path(importlib.import_module("vkbackend.glsl").__path__[0])


def validate_spirv(words: bytes) -> str | None:
    """Return why a module is not valid for Vulkan, or None if it is.

    Parameters
    ----------
    words : bytes
        The module.

    Returns
    -------
    str or None
        The validator's message.

    Raises
    ------
    NoCompilerError
        If the compiler found cannot validate; slangpy's can.
    """
    return _tools("validate_spirv").validate(words)


def disassemble(words: bytes) -> str:
    """Return the text form of a SPIR-V module.

    Parameters
    ----------
    words : bytes
        The module.

    Returns
    -------
    str
        One instruction a line.

    Raises
    ------
    ShaderError
        If the module cannot be read.
    NoCompilerError
        If the compiler found cannot disassemble; slangpy's can.
    """
    text = _tools("disassemble").disassemble(words)
    if not text:
        raise ShaderError("disassemble: the module is broken; it must be valid SPIR-V")
    return text


def _tools(caller: str) -> SlangGlslang:
    """Return the compiler if it is the one that brings SPIR-V tools."""
    found = compiler()
    if not isinstance(found, SlangGlslang):
        raise NoCompilerError(
            f"{caller}: {describe(found)} cannot do this; {REMEDY} and unset"
            f" {config.GLSLANG.name}"
        )
    return found


def _error(
    log: str, source: ShaderSource, found: Compiler, defines: Mapping[str, str]
) -> ShaderError | NoCompilerError:
    """Return the exception for what a compiler said."""
    unknown = _UNKNOWN_EXTENSION.search(log)
    if unknown is not None:
        remedy = "install vkbackend[glslang]"
        if isinstance(found, SlangGlslang):
            remedy = "correct the name or update slangpy"
        return NoCompilerError(
            f"shader {source.files[0].name} requires {unknown[1]}, which"
            f" {describe(found)} does not know; {remedy}"
        )
    message = _MESSAGE.search(log)
    if message is None or int(message["file"]) >= len(source.files):
        general = _GENERAL.search(log)
        said = log.strip() or "the compiler gave no output and no reason"
        text = f"{source.files[0].name}: {said if general is None else general[1]}"
    else:
        file, line = source.files[int(message["file"])], int(message["line"])
        problem = message["text"].strip()
        text = f"{file.name}:{line}: {problem}{_excerpt(file.line(line), problem)}"
    variant = " ".join(f"{key}={value}" for key, value in defines.items())
    return ShaderError(f"{text}\ndefines: {variant}" if variant else text)


def _excerpt(line: str, problem: str) -> str:
    """Return a source line and a caret under what the problem quotes."""
    line = line.strip()
    if not line:
        return ""
    excerpt = f"\n    {line}"
    quoted = _QUOTED.match(problem)
    if quoted is not None:
        found = re.search(rf"(?<!\w){re.escape(quoted[1])}(?!\w)", line)
        if found is not None:
            # Tabs stay tabs, so that the caret stands where a terminal puts the token.
            excerpt += "\n    " + re.sub(r"[^\t]", " ", line[: found.start()]) + "^"
    return excerpt


def _cache_entry(found: Compiler, spirv: tuple[int, int], text: str) -> Path:
    """Return the file of a cached module, named by everything that decides it."""
    identity: list[object] = [_FORMAT, found.name, found.version, spirv]
    with contextlib.suppress(OSError):
        # Tells builds of one version apart; a library found by name has no file here.
        identity.append(os.stat(found.path).st_size)
    key = digest(f"{identity}\n{text}".encode()).hex()
    return config.cache_folder() / "spirv" / f"{key}.spv"


def _read_cache(entry: Path) -> bytes | None:
    """Return a cached module, or None if there is none or it is damaged."""
    content = disk_cache.read(entry)
    if content is None:
        return None
    words = cached_module(content, entry.name)
    if words is None:
        _warn_once(f"shader cache: {entry} is damaged; the shader is compiled again")
    return words


def cached_module(content: bytes, name: str) -> bytes | None:
    """Return the module in a cache file of some name, or None if it is not that one."""
    words = content[DIGEST_SIZE:]
    return words if _digest(words, name) == content[:DIGEST_SIZE] else None


def _digest(words: bytes, name: str) -> bytes:
    """Return what tells that a module is whole, and is what its file's name says.

    A file may come to another's name, as when a file system is repaired or a backup is
    put together; as a module it would be whole.
    """
    return digest(name.encode() + b"\n" + words)


def _write_cache(entry: Path, words: bytes) -> None:
    """Store a module; a reader sees the old file or the whole new one."""
    folder = entry.parent
    try:
        # Not durable: the digest tells what a power cut left.
        disk_cache.write(entry, _digest(words, entry.name) + words)
    except OSError as error:
        _warn_once(
            f"shader cache: cannot write to {folder}: {error.strerror};"
            f" shaders are compiled each time; set {config.CACHE.name}"
        )


@functools.cache
def _warn_once(message: str) -> None:
    """Warn of something that costs time only, once per process."""
    warnings.warn(message, RuntimeWarning, stacklevel=4)
