"""GLSL preprocessor: expands each `#include` once and maps lines to their files.

The rules are those of the C preprocessor with `#pragma once` in every file. An include
inside `#if` is expanded under a guard macro, because only the compiler knows whether
that branch is taken.

A shader may come from elsewhere, so what it names is read only inside the folders of
includes, links resolved, and within bounds.
"""

import os.path
import posixpath
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from vkbackend.errors import ShaderError

_VERSION = re.compile(r"\s*#\s*version\b\s*(\d*)")
_INCLUDE = re.compile(r"\s*#\s*include\b\s*(.*)")
_QUOTED_NAME = re.compile(r'"([^"]+)"\s*(?://.*)?$')
_IF = re.compile(r"\s*#\s*if")
_ENDIF = re.compile(r"\s*#\s*endif\b")

_OLDEST = 310
"""Of the versions of GLSL the first with compute shaders, that of OpenGL ES."""

MAX_DEPTH = 64
"""Most levels of includes."""

MAX_SIZE = 1 << 24
"""Most characters of a shader with all its includes."""

MAX_INCLUDES = 4096
"""Most includes of a shader, each counted as often as it is expanded: those within
`#if` are expanded each time, so that few files can make any number."""

_SHOWN = 200


@dataclass(frozen=True)
class SourceFile:
    """Source file of a shader.

    Parameters
    ----------
    name : str
        What errors call it.
    path : Path or None
        Where it lies; None for source given as text.
    text : str
        Its content.
    """

    name: str
    path: Path | None
    text: str

    def line(self, number: int) -> str:
        """Return one line, counted from 1; empty if there is none."""
        lines = self.text.splitlines()
        return lines[number - 1] if 0 < number <= len(lines) else ""


@dataclass(frozen=True)
class ShaderSource:
    """Preprocessed shader source, without includes.

    Parameters
    ----------
    text : str
        What to compile.
    files : tuple of SourceFile
        By the number that `#line` gives them; the first is the shader itself.
    """

    text: str
    files: tuple[SourceFile, ...]


def expand(
    source: str, name: str, defines: Mapping[str, str], folders: Sequence[Path]
) -> ShaderSource:
    """Return a shader with its includes expanded and macros defined.

    Parameters
    ----------
    source : str
        GLSL with a `#version` line.
    name : str
        What errors call it.
    defines : mapping of str to str
        Macros, defined after the `#version` line.
    folders : sequence of Path
        Where to look for a file that is not beside the one that includes it.

    Returns
    -------
    ShaderSource
        The text, with a `#line` directive wherever the file or line jumps.

    Raises
    ------
    ShaderError
        If there is no `#version`, or an include is missing, malformed, in a cycle or
        outside `folders`.
    """
    lines = source.splitlines()
    version = next((i for i, line in enumerate(lines) if _VERSION.match(line)), None)
    if version is None:
        raise ShaderError(f"{name}: there is no #version; begin with #version 460")
    found = _VERSION.match(lines[version])
    # Of older ones glslang prints its built-in functions on standard output.
    if found is None or int(found[1][:9] or 0) < _OLDEST:
        raise ShaderError(
            f"{name}:{version + 1}: {lines[version].strip()[:_SHOWN]} has no compute"
            " shaders; begin with #version 460"
        )
    macros = []
    for key, value in defines.items():
        if "\n" in f"{key}{value}":
            raise ShaderError(f"{name}: define {key}: it must be one line: {value!r}")
        macros.append(f"#define {key} {value}")
    expander = _Expander(tuple(folders))
    main = SourceFile(name, None, source)
    expander.add(main, skip=version + 1, conditional=False)
    # The macros count as a file of their own, so that an error in one names it.
    files = (*expander.files, SourceFile(f"{name} (defines)", None, "\n".join(macros)))
    head = (*lines[: version + 1], f"#line 1 {len(files) - 1}", *macros)
    text = "\n".join((*head, *expander.lines, ""))
    if not text.isascii():
        _check_unicode(name, text)
    return ShaderSource(text, files)


def _check_unicode(name: str, text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ShaderError(
            f"{name}: the source holds {text[error.start]!r}, half of a character;"
            " it must be whole characters: read files as UTF-8"
        ) from None


class _Expander:
    """Include expander of one shader; files in the order of their numbers."""

    def __init__(self, folders: tuple[Path, ...]) -> None:
        self.folders = folders
        self.roots = tuple(Path(os.path.realpath(folder)) for folder in folders)
        self.files: list[SourceFile] = []
        self.lines: list[str] = []
        self.open: list[SourceFile] = []
        self.guards: dict[Path, str] = {}
        self.complete: set[Path] = set()
        self.size = 0
        self.count = 0

    def add(self, file: SourceFile, *, skip: int, conditional: bool) -> None:
        """Append the lines of a file after `skip`, and of all that it includes."""
        number = len(self.files)
        self.size += len(file.text)
        if len(self.open) > MAX_DEPTH or self.size > MAX_SIZE:
            raise ShaderError(
                f"{file.name}: the shader is too large: {self.size} characters with"
                f" {len(self.open)} levels of includes; at most {MAX_SIZE} and"
                f" {MAX_DEPTH} are accepted"
            )
        self.files.append(file)
        self.open.append(file)
        self.lines.append(f"#line {skip + 1} {number}")
        depth = int(conditional)
        for at, line in enumerate(file.text.splitlines()[skip:], skip + 1):
            directive = _INCLUDE.match(line) if "#" in line else None
            if directive is not None:
                self.include(directive[1], at, depth > 0)
                self.lines.append(f"#line {at + 1} {number}")
                continue
            if "#" in line:
                depth += bool(_IF.match(line)) - bool(_ENDIF.match(line))
            self.lines.append(line)
        self.open.pop()

    def include(self, operand: str, at: int, conditional: bool) -> None:
        """Append the lines that replace one include directive."""
        where = f"{self.open[-1].name}:{at}"
        quoted = _QUOTED_NAME.match(operand)
        if quoted is None:
            raise ShaderError(
                f"{where}: an include cannot be read: {operand};"
                ' it must be #include "file"'
            )
        path, name = self.find(quoted[1], where)
        if any(path == file.path for file in self.open):
            names = " -> ".join([*(file.name for file in self.open), name])
            raise ShaderError(
                f"{where}: includes form a cycle: {names}; remove one of them"
            )
        if path in self.complete:
            return
        if not conditional:
            self.complete.add(path)
        guard = self.guards.setdefault(path, f"INCLUDED_{len(self.guards)}")
        self.lines += [f"#ifndef {guard}", f"#define {guard}"]
        self.count += 1
        if self.count > MAX_INCLUDES:
            raise ShaderError(
                f"{where}: the shader is too large: it has {self.count} includes; at"
                f" most {MAX_INCLUDES} are accepted"
            )
        text = self.read(path, where)
        self.add(SourceFile(name, path, text), skip=0, conditional=conditional)
        self.lines.append("#endif")

    def read(self, path: Path, where: str) -> str:
        """Return the content of a file; of one that is too large more than allowed."""
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(MAX_SIZE + 1)
        except OSError as error:
            raise ShaderError(
                f"{where}: {path} cannot be read: {error.strerror}; it must be a file"
                " that this user may read"
            ) from None

    def find(self, target: str, where: str) -> tuple[Path, str]:
        """Return the path of an included file, and what errors call it."""
        includer = self.open[-1]
        places = [(folder, folder.name) for folder in self.folders]
        if includer.path is not None:
            places.insert(0, (includer.path.parent, posixpath.dirname(includer.name)))
        outside = False
        for folder, shown in places:
            path = self.inside(folder, target)
            outside |= path is None
            if path is not None and is_file(path):
                name = posixpath.normpath(posixpath.join(shown, target))
                return path, name
        looked = ", ".join(str(folder) for folder, _ in places)
        target = target if len(target) <= _SHOWN else f"{target[:_SHOWN]}..."
        if outside:
            raise ShaderError(
                f'{where}: include "{target}" leads out of the folders of includes:'
                f" {looked}; it must lie in one of them"
            )
        raise ShaderError(
            f'{where}: include "{target}" is not found: looked in {looked};'
            " the name must be relative to one of them"
        )

    def inside(self, folder: Path, target: str) -> Path | None:
        """Return where a name leads from a folder, links resolved; None if outside."""
        try:
            path = Path(os.path.realpath(folder / target))
        except (OSError, ValueError):
            return None
        return path if any(path.is_relative_to(root) for root in self.roots) else None


def is_file(path: Path) -> bool:
    """Return whether there is such a file, whatever the name."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False  # no file system has such a name
