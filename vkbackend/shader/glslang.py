"""Three ways to run glslang: slang's shared library, libshaderc, an executable.

Each has the members of `vkbackend.shader.find_compiler.Compiler`, which finds one of
them. What only some calls need is imported by them: kernels come from the cache as a
rule.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import os
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vkbackend import fork_safety
from vkbackend.errors import NoCompilerError

if TYPE_CHECKING:
    import subprocess


def _embedded_version(path: str) -> str:
    """Return the glslang version in a library's strings; no function tells it."""
    with (
        open(path, "rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        found = re.search(rb"glslang Khronos\. (\d+\.\d+\.\d+)", content)
        return "" if found is None else found[1].decode()


class _SpirvVersion(ctypes.Structure):
    _fields_ = (
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
    )


_Output = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


class _Request(ctypes.Structure):
    """Slang's `glslang_CompileRequest_1_2`."""

    _fields_ = (
        ("sizeInBytes", ctypes.c_size_t),
        ("sourcePath", ctypes.c_char_p),
        ("inputBegin", ctypes.c_void_p),
        ("inputEnd", ctypes.c_void_p),
        ("diagnosticFunc", _Output),
        ("diagnosticUserData", ctypes.c_void_p),
        ("outputFunc", _Output),
        ("outputUserData", ctypes.c_void_p),
        ("slangStage", ctypes.c_int),
        ("action", ctypes.c_uint),
        ("optimizationLevel", ctypes.c_uint),
        ("debugInfoType", ctypes.c_uint),
        ("spirvTargetName", ctypes.c_char_p),
        ("spirvVersion", _SpirvVersion),
        ("entryPointName", ctypes.c_char_p),
    )


_stderr_lock = threading.Lock()
fork_safety.renew(sys.modules[__name__], "_stderr_lock", threading.Lock)

# Calls under way into a library, which has locks of its own, and whether this process
# was forked beside one; where the process's stderr is while a call borrows it.
_calls: set[object] = set()
_forked_within = False
_stderr: list[int] = []


@contextlib.contextmanager
def _calling(path: str) -> Iterator[None]:
    """Call into a library within the block; refused where it may never return."""
    if _forked_within:
        raise NoCompilerError(
            f"GLSL compiler: {path!r} cannot be used in a child that was forked while"
            f" another thread was in it: process {os.getpid()}; start it with"
            f" multiprocessing's `spawn`"
        )
    call = object()
    try:
        _calls.add(call)
        yield
    finally:
        _calls.discard(call)


def _forget_parent() -> None:
    global _forked_within
    _forked_within = _forked_within or bool(_calls)
    _give_back_stderr()


def _give_back_stderr() -> None:
    """Let the process have its stderr; may be repeated if interrupted."""
    while _stderr:
        os.dup2(_stderr[-1], 2)
        os.close(_stderr.pop())


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_parent)


class SlangGlslang:
    """The shared glslang that slang and slangpy bring, through its C entry.

    Parameters
    ----------
    library : ctypes.CDLL
        The loaded library.
    path : str
        Where it lies.
    """

    name = "glslang"
    _STAGE_COMPUTE = 6
    _COMPILE, _DISASSEMBLE = 0, 1

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self.version = _embedded_version(path)
        self._run = library.glslang_compile_1_2
        self._run.argtypes = (ctypes.POINTER(_Request),)
        self._run.restype = ctypes.c_int
        self._validate = library.glslang_validateSPIRV
        self._validate.argtypes = (ctypes.c_char_p, ctypes.c_int)
        self._validate.restype = ctypes.c_bool

    def compile(
        self, source: str, spirv: tuple[int, int], *, lines: bool = False
    ) -> tuple[bytes, str]:
        """Compile one compute shader; see `Compiler.compile`.

        With `lines` the module tells which source line each instruction is from.
        """
        content = source.encode()
        failed, output, log = self._request(self._COMPILE, content, spirv, lines)
        return b"" if failed else output, log

    def disassemble(self, words: bytes) -> str:
        """Return the text form of a module, empty if it cannot be read."""
        return self._request(self._DISASSEMBLE, words, (1, 5))[1].decode()

    def validate(self, words: bytes) -> str | None:
        """Return why a module is not valid for Vulkan 1.4, or None if it is."""
        import tempfile

        # The library has no other way to tell the reason than the process's stderr.
        with _stderr_lock, tempfile.TemporaryFile() as reasons:
            try:
                _stderr.append(os.dup(2))
                os.dup2(reasons.fileno(), 2)
                with _calling(self.path):
                    valid = self._validate(words, len(words) // 4)
            finally:
                # Twice, in case that an interrupt ends the first.
                try:
                    _give_back_stderr()
                finally:
                    _give_back_stderr()
            reasons.seek(0)
            reason = reasons.read().decode("utf-8", "replace").strip()
        return None if valid else reason or "not valid"

    def _request(
        self, action: int, content: bytes, spirv: tuple[int, int], lines: bool = False
    ) -> tuple[bool, bytes, str]:
        """Return whether it failed, the output, and the diagnostics."""
        output: list[bytes] = []
        log: list[bytes] = []
        memory = ctypes.create_string_buffer(content, len(content) + 1)
        begin = ctypes.addressof(memory)
        request = _Request(
            sizeInBytes=ctypes.sizeof(_Request),
            sourcePath=b"",
            inputBegin=begin,
            inputEnd=begin + len(content),
            diagnosticFunc=_collector(log),
            outputFunc=_collector(output),
            slangStage=self._STAGE_COMPUTE,
            action=action,
            # Not optimized: drivers do that, and passes drop unused constants' names.
            optimizationLevel=0,
            debugInfoType=int(lines),
            spirvVersion=_SpirvVersion(*spirv, 0),
            entryPointName=b"main",
        )
        with _calling(self.path):
            failed = self._run(ctypes.byref(request)) != 0
        return failed, b"".join(output), b"".join(log).decode("utf-8", "replace")


def _collector(parts: list[bytes]) -> object:
    """Return the callback that appends what it is given."""

    def collect(data: int, size: int, _user_data: int | None) -> None:
        parts.append(ctypes.string_at(data, size))

    return _Output(collect)


class Shaderc:
    """The C interface of libshaderc.

    Parameters
    ----------
    library : ctypes.CDLL
        The loaded library.
    path : str
        Its path, or the name that the loader knows it by.
    """

    name = "libshaderc"
    version = ""
    _KIND_COMPUTE = 2
    _STATUS_SUCCESS = 0
    _TARGET_VULKAN = 0

    def __init__(self, library: ctypes.CDLL, path: str) -> None:
        self.path = path
        self._library = library
        pointer, text, size = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t
        number = ctypes.c_int
        for name, result, arguments in (
            ("compiler_initialize", pointer, ()),
            ("compile_options_initialize", pointer, ()),
            ("compile_options_release", None, (pointer,)),
            (
                "compile_options_set_target_env",
                None,
                (pointer, number, ctypes.c_uint32),
            ),
            (
                "compile_into_spv",
                pointer,
                (pointer, text, size, number, text, text, pointer),
            ),
            ("result_get_compilation_status", number, (pointer,)),
            ("result_get_length", size, (pointer,)),
            ("result_get_bytes", pointer, (pointer,)),
            ("result_get_error_message", text, (pointer,)),
            ("result_release", None, (pointer,)),
        ):
            function = getattr(library, f"shaderc_{name}")
            function.restype, function.argtypes = result, arguments
        # One compiler serves all threads (shaderc.h) for the life of the process.
        self._compiler = library.shaderc_compiler_initialize()

    def compile(self, source: str, spirv: tuple[int, int]) -> tuple[bytes, str]:
        """Compile one compute shader; see `Compiler.compile`."""
        with _calling(self.path):
            return self._compile(source.encode(), spirv)

    def _compile(self, content: bytes, spirv: tuple[int, int]) -> tuple[bytes, str]:
        call = self._library
        options = call.shaderc_compile_options_initialize()
        # An environment version is packed as VK_MAKE_API_VERSION packs it.
        vulkan = 1 << 22 | _vulkan_minor(spirv) << 12
        call.shaderc_compile_options_set_target_env(
            options, self._TARGET_VULKAN, vulkan
        )
        result = call.shaderc_compile_into_spv(
            self._compiler,
            content,
            len(content),
            self._KIND_COMPUTE,
            b"0",
            b"main",
            options,
        )
        log = call.shaderc_result_get_error_message(result).decode("utf-8", "replace")
        status = call.shaderc_result_get_compilation_status(result)
        words = b""
        if status == self._STATUS_SUCCESS:
            length = call.shaderc_result_get_length(result)
            words = ctypes.string_at(call.shaderc_result_get_bytes(result), length)
        call.shaderc_result_release(result)
        call.shaderc_compile_options_release(options)
        return words, log


class ExecutableCompiler:
    """A `glslangValidator`, `glslang` or `glslc`, run once per shader.

    Parameters
    ----------
    path : str
        The executable.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._is_glslc = "glslc" in Path(path).name
        self.name = "glslc" if self._is_glslc else "glslang"
        said = self._call("--version", content=b"").stdout.decode("utf-8", "replace")
        found = re.search(r"(?:shaderc v?|Glslang Version: (?:\d+:)?)(\S+)", said)
        self.version = "" if found is None else found[1]

    def compile(self, source: str, spirv: tuple[int, int]) -> tuple[bytes, str]:
        """Compile one compute shader; see `Compiler.compile`."""
        import tempfile

        target = f"vulkan1.{_vulkan_minor(spirv)}"
        with tempfile.TemporaryDirectory(prefix="vkbackend-") as folder:
            output = Path(folder) / "shader.spv"
            output.touch()
            options = ["--stdin", "-S", "comp", "--target-env", target]
            if self._is_glslc:
                options = ["-fshader-stage=compute", f"--target-env={target}", "-"]
            done = self._call(*options, "-o", str(output), content=source.encode())
            log = (done.stdout + done.stderr).decode("utf-8", "replace")
            return output.read_bytes() if done.returncode == 0 else b"", log

    def _call(
        self, *options: str, content: bytes
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the executable on standard input."""
        import subprocess

        try:
            return subprocess.run(
                (self.path, *options), input=content, capture_output=True, check=False
            )
        except OSError as error:
            raise NoCompilerError(
                f"GLSL compiler: {self.path!r} cannot be run: {error};"
                " choose another with VKBACKEND_GLSLANG"
            ) from error


def _vulkan_minor(spirv: tuple[int, int]) -> int:
    """Return the minor Vulkan version whose SPIR-V is the wanted one: 1.2 has 1.5."""
    return spirv[1] - 3
