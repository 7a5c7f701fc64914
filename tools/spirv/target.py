"""Inspection targets: files and library kernels, with their variants."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from vkbackend.errors import ShaderError
from vkbackend.shader.compiler import compile_glsl, glsl_folder, load_kernel_source
from vkbackend.shader.find_compiler import compiler
from vkbackend.shader.glslang import SlangGlslang
from vkbackend.shader.preprocessor import ShaderSource, expand

from .module import Constant

_LINE = re.compile(r"\s*#\s*line (\d{1,9}) (\d{1,9})\b")
_SPIRV_1_5, _SPIRV_1_6 = (1, 5), (1, 6)

# What makes a variant, by how the shader says it: `#ifndef DTYPE` with the names that
# it knows, `#ifndef T` with a type of GLSL, or the size of an element in bytes.
_DTYPE_NAME = re.compile(r"^\s*#\s*define DTYPE_(\w+)", re.MULTILINE)
_MOVES = re.compile(r"^\s*#\s*define MOVES_ELEMENTS\b", re.MULTILINE)
_HAS_DTYPE = re.compile(r"^\s*#\s*ifndef DTYPE\b", re.MULTILINE)
_HAS_TYPE = re.compile(r"^\s*#\s*ifndef T\b", re.MULTILINE)
_HAS_SIZE = re.compile(r"constant_id = \d+\) const uint SIZE\b")
_SIZES = {"float64": 8, "float32": 4, "float16": 2, "bfloat16": 2, "bool": 1}
_SIZES |= {f"{sign}int{8 * n}": n for sign in ("", "u") for n in (1, 2, 4, 8)}
_TYPES = {"float32": "float", "int32": "int", "uint32": "uint", "float64": "double"}
_TYPES |= {"int64": "int64_t", "uint64": "uint64_t"}


@dataclass(frozen=True)
class Target:
    """Module to inspect, with its GLSL source if there is any.

    Attributes
    ----------
    name : str
        What to call it.
    words : bytes
        The module, as the library would use it.
    constants : mapping of str to bool, int or float
        Specialization constants by name.
    source : ShaderSource or None
        The GLSL with its includes expanded.
    """

    name: str
    words: bytes
    constants: Mapping[str, Constant] = field(default_factory=dict)
    source: ShaderSource | None = None

    @property
    def texts(self) -> list[str]:
        """The files that it is made from."""
        return [] if self.source is None else [file.text for file in self.source.files]

    def with_lines(self) -> tuple[bytes, list[tuple[str, str]]]:
        """Return the module with line information, and what its lines are.

        The module itself and no lines if there is no GLSL, or if the compiler at hand
        cannot tell lines.
        """
        found = compiler() if self.source is not None else None
        if self.source is None or not isinstance(found, SlangGlslang):
            return self.words, []
        lines, text = numbered(self.source)
        spirv = _SPIRV_1_6 if self.words[5] >= _SPIRV_1_6[1] else _SPIRV_1_5
        words, _ = found.compile(text, spirv, lines=True)
        return (words, lines) if words else (self.words, [])


def numbered(source: ShaderSource) -> tuple[list[tuple[str, str]], str]:
    """Return where each line of a shader comes from, and the text without `#line`.

    Line information in SPIR-V has lines but no files; so the whole text counts as one.
    """
    rows: list[tuple[str, str]] = []
    text: list[str] = []
    file, number = 0, 1
    for line in source.text.splitlines():
        directive = _LINE.match(line)
        if directive is not None:
            number, file = int(directive[1]), int(directive[2])
            # The shader's own directives may name any number.
            file = file if file < len(source.files) else 0
            rows.append(("", ""))
            text.append("")
            continue
        rows.append((f"{source.files[file].name}:{number}", line))
        text.append(line)
        number += 1
    return rows, "\n".join(text)


def find(
    name: str,
    *,
    dtype: str = "",
    defines: Mapping[str, str] | None = None,
    constants: Mapping[str, Constant] | None = None,
) -> Target:
    """Return what a name on the command line means.

    Parameters
    ----------
    name : str
        A file that ends in .spv, another file with GLSL, or a kernel of the library.
    dtype : str, optional
        Dtype of the variant: sets the macro `DTYPE` or `T`, or the constant `SIZE`,
        whichever the shader has.
    defines : mapping of str to str, optional
        Macros.
    constants : mapping of str to bool, int or float, optional
        Specialization constants by name.

    Raises
    ------
    ShaderError
        If there is no such file or kernel, it does not compile, or has no variants.
    """
    path = Path(name)
    constants = dict(constants or {})
    if path.suffix == ".spv":
        if dtype or defines:
            raise ShaderError(
                f"{name}: it is compiled already: --dtype and --define are for GLSL"
            )
        return Target(path.stem, _read(path), constants)
    if path.suffix in (".comp", ".glsl") or path.is_file():
        text = _read(path).decode("utf-8", "replace")
        return _compiled(name, text, [path.parent], dtype, defines or {}, constants)
    text, path = load_kernel_source(name)
    shown = f"glsl/{name}.comp"
    found = _compiled(shown, text, [path.parent], dtype, defines or {}, constants)
    return replace(found, name=" ".join(filter(None, (name, dtype))))


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ShaderError(
            f"{path}: cannot be read: {error.strerror}; it must be a file, or the name"
            " of a kernel of the library"
        ) from error


def _compiled(
    name: str,
    text: str,
    folders: Sequence[Path],
    dtype: str,
    defines: Mapping[str, str],
    constants: dict[str, Constant],
) -> Target:
    macros = dict(defines)
    if dtype:
        source = expand(text, name, {}, (*folders, glsl_folder()))
        _choose(name, source, dtype, macros, constants)
    found = of_source(name, text, macros, folders)
    return replace(found, constants=constants)


def of_source(
    name: str, text: str, defines: Mapping[str, str], folders: Sequence[Path]
) -> Target:
    """Return the target that GLSL compiles to."""
    words = compile_glsl(text, name=name, defines=defines, include_folders=folders)
    source = expand(text, name, defines, (*folders, glsl_folder()))
    return Target(name, words, {}, source)


def _choose(
    name: str,
    source: ShaderSource,
    dtype: str,
    macros: dict[str, str],
    constants: dict[str, Constant],
) -> None:
    """Set what makes the variant of a dtype."""
    known = dtypes(source)
    if dtype not in known:
        raise ShaderError(
            f"{name}: it has no variant for {dtype!r}; there are {', '.join(known)}"
        )
    if _HAS_DTYPE.search(source.text):
        macros.setdefault("DTYPE", f"DTYPE_{dtype.upper()}")
    elif _HAS_TYPE.search(source.text):
        macros.setdefault("T", _TYPES[dtype])
    elif _HAS_SIZE.search(source.text):
        constants.setdefault("SIZE", _SIZES[dtype])


def dtypes(source: ShaderSource) -> list[str]:
    """Return the dtypes that a shader has variants for."""
    if _HAS_DTYPE.search(source.text):
        found = [word.lower() for word in _DTYPE_NAME.findall(source.text)]
        moves = _MOVES.search(source.text) is not None
        return [name for name in found if moves or name != "complex64"]
    if _HAS_TYPE.search(source.text):
        return list(_TYPES)
    return list(_SIZES) if _HAS_SIZE.search(source.text) else ["float32"]
