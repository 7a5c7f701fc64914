"""Compiler discovery: finds a GLSL compiler.

No package called `glslang` is on PyPI, so several hosts of it are looked for, best
first: the switch `VKBACKEND_GLSLANG`, the shared library inside the `slangpy` wheel
(found by path, never imported), `libshaderc`, and executables on PATH. Shared libraries
take about a millisecond for a kernel, executables about 75.
"""

import ctypes
import functools
import importlib.util
import re
import sys
from pathlib import Path
from typing import Protocol

from vkbackend import config
from vkbackend.errors import NoCompilerError

from .glslang import ExecutableCompiler, Shaderc, SlangGlslang

REMEDY = "install one with: pip install 'vkbackend[glslang]'"

_LIBRARY_SUFFIX = re.compile(r"\.(so|dll|dylib)(\.\d+)*$")
_SHADERC_NAMES = {
    "win32": ("shaderc_shared.dll",),
    "darwin": ("libshaderc_shared.dylib", "libshaderc_shared.1.dylib"),
}
_SHADERC_NAMES_ELSEWHERE = ("libshaderc_shared.so.1", "libshaderc.so.1")
_EXECUTABLES = ("glslangValidator", "glslang", "glslc")


class Compiler(Protocol):
    """Compiler of GLSL compute shaders to SPIR-V.

    Attributes
    ----------
    name : str
        The product: `glslang`, `libshaderc`, `glslc`.
    version : str
        Its version; empty if it does not tell.
    path : str
        The library or executable.
    """

    @property
    def name(self) -> str:
        """The product."""

    @property
    def version(self) -> str:
        """Its version; empty if it does not tell."""

    @property
    def path(self) -> str:
        """The library or executable."""

    def compile(self, source: str, spirv: tuple[int, int]) -> tuple[bytes, str]:
        """Compile one compute shader; safe to call from several threads.

        Parameters
        ----------
        source : str
            Complete GLSL, without includes.
        spirv : tuple of int
            SPIR-V version to emit, (1, 5) or (1, 6).

        Returns
        -------
        tuple of bytes and str
            The module, empty when there were errors, and what the compiler said.
        """


def describe(found: Compiler) -> str:
    """Return name, version and path in one phrase for messages."""
    product = f"{found.name} {found.version}".rstrip()
    return f"{product} at {found.path}"


def compiler() -> Compiler:
    """Return the GLSL compiler to use, found once per value of `VKBACKEND_GLSLANG`.

    Returns
    -------
    Compiler
        The first that works, in the order of the module's docstring.

    Raises
    ------
    NoCompilerError
        If there is none, or the switch names something that does not work.
    """
    return _find(config.GLSLANG.read())


@functools.cache
def _find(chosen: str) -> Compiler:
    if chosen:
        return _open_chosen(chosen)
    from shutil import which  # imported slowly, and needed with the first kernel

    failures = []
    for path in (*_slangpy_libraries(), *_shaderc_libraries()):
        try:
            return open_library(path)
        except OSError as error:
            failures.append(str(error))
    for name in _EXECUTABLES:
        executable = which(name)
        if executable is not None:
            return ExecutableCompiler(executable)
    tried = "".join(f"; {failure}" for failure in failures)
    raise NoCompilerError(
        "GLSL compiler: none found: no slangpy package, no libshaderc, no"
        f" {' or '.join(_EXECUTABLES)} on PATH{tried}; {REMEDY}"
    )


def _open_chosen(chosen: str) -> Compiler:
    """Open the library or executable that the user names."""
    if _LIBRARY_SUFFIX.search(chosen):
        try:
            return open_library(chosen)
        except (OSError, UnicodeError) as error:
            raise NoCompilerError(
                f"{config.GLSLANG.name}: {chosen!r} cannot be loaded: {error};"
                " it must be a shared glslang library or an executable"
            ) from error
    from shutil import which

    path = which(chosen)
    if path is None:
        raise NoCompilerError(
            f"{config.GLSLANG.name}: {chosen!r} is no executable;"
            " it must be a shared glslang library or an executable"
        )
    return ExecutableCompiler(path)


def open_library(path: str) -> Compiler:
    """Return the compiler in a shared library.

    Parameters
    ----------
    path : str
        A library with slang's glslang entry, or libshaderc.

    Returns
    -------
    Compiler
        By what the library exports.

    Raises
    ------
    OSError
        If it cannot be loaded or exports no interface known here.
    """
    library = ctypes.CDLL(path)
    if hasattr(library, "glslang_compile_1_2"):
        return SlangGlslang(library, path)
    if hasattr(library, "shaderc_compile_into_spv"):
        return Shaderc(library, path)
    raise OSError(
        f"{path}: exports neither glslang_compile_1_2 nor shaderc_compile_into_spv"
    )


def _slangpy_libraries() -> list[str]:
    """Return the shared glslang inside the slangpy package, which is not imported."""
    spec = importlib.util.find_spec("slangpy")
    folders = () if spec is None else spec.submodule_search_locations or ()
    return [
        str(path)
        for folder in folders
        for path in sorted(Path(folder).glob("*slang-glslang*"))
        if _LIBRARY_SUFFIX.search(path.name)
    ]


def _shaderc_libraries() -> tuple[str, ...]:
    """Return the names under which this platform's loader may know libshaderc."""
    return _SHADERC_NAMES.get(sys.platform, _SHADERC_NAMES_ELSEWHERE)
