"""Callees of a traced call: the functions whose reads are guarded.

A profile function observes every call in the thread. The library's own functions report
to the trace themselves and are left out, and so are reporting functions with all their
callees: logs, warnings, progress bars; and callbacks of the garbage collector, which
may run at any moment. C functions that read the outside world, such as clocks and
files, are reasons why a trace cannot be cached.
"""

from __future__ import annotations

import functools
import gc
import io
import os
import random
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.util import resolve_name
from io import IOBase
from types import CodeType, FrameType, MethodType, ModuleType
from typing import Any

import vkbackend

from ..base.trace_hooks import listener
from .bytecode_names import dynamic_attributes

OURS, REPORTS, USERS, STANDARD = range(4)
"""Owner of a source file; `REPORTS` are logs and progress bars.

Installed packages count as the user's; `STANDARD` is what the library calls.
"""

_LIBRARY = tuple(
    os.path.dirname(str(file)) + os.sep
    for file in (os.path.dirname(__file__), vkbackend.__file__)
)
_INSTALLED = tuple({os.path.dirname(str(each.__file__)) + os.sep for each in (os, io)})

_OPEN_TO_USERS = (
    *("graph/compute_graph.py", "graph/run.py"),
    *("data/", "examples/", "optim/lr_scheduler"),
)
"""Modules of the library with user state that they do not report to a trace."""

_REPORTING = frozenset(
    "ast codeop inspect linecache logging tokenize traceback typing"
    " typing_extensions warnings importlib tqdm rich"
    " loguru wandb structlog colorama tensorboard tensorboardX mlflow coverage pytest"
    " _pytest pdb bdb cProfile profile pydevd".split()
)
"""Modules and packages whose results do not depend on guarded state.

But for their arguments, and the functions that are named next.
"""

_ANSWERING = frozenset(
    "isEnabledFor getEffectiveLevel hasHandlers getLogger import_module"
    " getline getlines".split()
)
"""Their functions whose results do depend on state."""

_INSPECTING = frozenset({"inspect", "typing", "typing_extensions"})
"""Modules that read attributes of any name of their arguments."""

_NAME = re.compile(r"\.(\w+)")
"""An attribute in a format string."""

_CLOCKS = frozenset(
    "clock_gettime clock_gettime_ns ctime asctime get_clock_info gmtime localtime"
    " monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns"
    " strftime thread_time thread_time_ns time time_ns".split()
)
_SYSTEM = frozenset(
    "access fstat getcwd getcwdb getloadavg getlogin getpriority listdir lseek lstat"
    " nice open pipe pread preadv read readlink readv scandir sched_getaffinity"
    " sched_getparam sched_getscheduler stat statvfs times umask waitpid".split()
)
_SIGNALS = frozenset("getitimer getsignal pthread_sigmask sigpending".split())
_NOW = frozenset({"now", "today", "utcnow"})
_READING = frozenset(
    "getbuffer getvalue peek read read1 readable readall readinto readinto1 readline"
    " readlines tell __next__".split()
)
_LOCKING = {"acquire": 1, "release": -1, "locked": 0}
_INTERPRETER = frozenset(
    "_current_frames _getframe getallocatedblocks getprofile getrecursionlimit"
    " getrefcount getswitchinterval gettrace get_asyncgen_hooks get_count get_objects"
    " get_referents get_referrers get_stats get_threshold isenabled"
    " get_traced_memory get_int_max_str_digits exc_info exception".split()
)
_COUNTED = frozenset("getweakrefcount getweakrefs".split())
_LOCALE = frozenset("localeconv nl_langinfo setlocale strcoll strxfrm".split())
_STACK = frozenset(
    "currentframe extract_stack format_stack print_stack stack trace walk_stack".split()
)
"""Functions of `inspect` and `traceback` that read the call stack."""
_SETTINGS = frozenset("field_size_limit get_dialect list_dialects stack_size".split())
"""Settings of `csv` and of threads."""
_THREAD = frozenset(
    "getcontext get_ident get_native_id _get_extobj_dict _extobj_contextvar".split()
)
_RUNNING = frozenset(
    "get_ident get_native_id _getframe getprofile getrecursionlimit gettrace"
    " exc_info exception".split()
)
"""Interpreter state that the standard library reads to lock and to name callers."""

_CHANCE = "chance"
_KNOWN = frozenset({"numpy", "vkbackend", "__main__", *sys.stdlib_module_names})
"""Packages whose functions in C are pure, but for those named here."""

_HEAP, _IMMUTABLE = 1 << 9, 1 << 8
"""Type flags: heap type, immutable type."""

_OF_ALL = frozenset(
    "__dir__ __getstate__ __reduce__ __reduce_ex__ __repr__ __str__".split()
)
"""Methods whose result depends on all attributes of an object."""

_OUTSIDE = {
    "_socket": "a socket",
    "_sqlite3": "a database",
    "_posixsubprocess": "another process",
    "_multiprocessing": "another process",
    "select": "a file",
    "resource": "the system",
    "_uuid": "the system",
    "_queue": "a queue",
}


_own_codes: dict[int, CodeType] = {}
"""Code of the library's own functions by `id`: to hash code takes long."""


class CalleeTracker:
    """Tracker of the functions that run while it is entered.

    Attributes
    ----------
    codes : dict of code to dict
        Code that ran, of users and of packages, with its globals.
    context_vars : list of ContextVar
        Context variables that were read.
    mutated : set of int
        Objects, by `id`, of which a method in C was called.
    dynamic_attributes : set of int
        Objects, by `id`, of which attributes with computed names were read.
    dynamic_lookup : bool
        Whether attributes with computed names were read of unknown objects.
    named : set of str
        Attributes in format strings.
    imported : set of str
        Modules that were imported by name.
    checked : bool
        Whether instances of abstract classes were checked.
    reason : str
        Why the trace cannot be cached; empty if it can.
    """

    def __init__(self) -> None:
        self.codes: dict[CodeType, dict[str, Any]] = {}
        self.context_vars: list[ContextVar[Any]] = []
        self.mutated: set[int] = set()
        self.dynamic_attributes: set[int] = set()
        self.dynamic_lookup = self.checked = False
        self.named: set[str] = set()
        self.imported: set[str] = set()
        self.reason = ""
        self._locked = 0
        self._reporting: FrameType | None = None
        self._collecting: frozenset[CodeType] = frozenset()
        self._before: Any = None

    def __enter__(self) -> CalleeTracker:
        codes = map(_code_of, gc.callbacks)
        self._collecting = frozenset(code for code in codes if code is not None)
        for code in self._collecting:
            _own_codes.pop(id(code), None)
        self._before = sys.getprofile()
        disable = getattr(self._before, "disable", None)
        if disable is not None:
            disable()
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        enable = getattr(self._before, "enable", None)
        sys.setprofile(None if enable is not None else self._before)
        if enable is not None:
            enable()
        self._before = self._reporting = None
        if self._locked:
            self.reason = "it leaves a lock otherwise, which a replay would not"

    @property
    def reporting(self) -> bool:
        """Whether a log or a progress bar is running."""
        return self._reporting is not None

    def _on_event(self, frame: FrameType, event: str, given: Any) -> None:
        if self._reporting is not None:
            if event == "return" and frame is self._reporting:
                self._reporting = None
            return
        code = frame.f_code
        if id(code) in _own_codes:
            return
        if event == "call":
            if code in self.codes:
                self._note_dynamic_attributes(frame, code)
                if code.co_name == "import_module":
                    self._on_import(frame)
                return
            if code.co_name == "__del__" or code in self._collecting:
                self._reporting = frame
                return
            kind = source_kind(code.co_filename)
            if kind == OURS:
                _own_codes[id(code)] = code
                return
            if kind == STANDARD and code.co_filename == "<string>":
                kind = _exec_source_kind(frame.f_globals)
            if kind == REPORTS and listener() is not None:
                self._note_dynamic_attributes(frame, code)
                if code.co_name == "import_module":
                    self._on_import(frame)
                if code.co_name in _STACK and self._is_user_call(frame, kind):
                    self.reason = _refusal("the interpreter", code.co_name)
            if kind == REPORTS and code.co_name not in _ANSWERING:
                self._reporting = frame
            elif listener() is not None and self._is_user_call(frame, kind):
                self.codes[code] = frame.f_globals
                self._note_dynamic_attributes(frame, code)
                self._on_standard_call(frame.f_globals.get("__name__"), code.co_name)
        elif event == "c_call" and code in self.codes and listener() is not None:
            self._on_c_call(given, source_kind(code.co_filename))

    def _on_import(self, frame: FrameType) -> None:
        name = str(frame.f_locals.get("name"))
        package = frame.f_locals.get("package")
        if name.startswith(".") and isinstance(package, str):
            name = resolve_name(name, package)
        self.imported.add(name)

    def _on_standard_call(self, module: object, name: str) -> None:
        """Record a standard library function that reads memory."""
        if module == "ctypes" and name in ("string_at", "wstring_at"):
            self.reason = _refusal("memory", name)

    def _is_user_call(self, frame: FrameType, kind: int) -> bool:
        """Whether a function is called by the user's code, not by the library's."""
        caller = frame.f_back
        return kind == USERS or (caller is not None and caller.f_code in self.codes)

    def _note_dynamic_attributes(self, frame: FrameType, code: CodeType) -> None:
        names = dynamic_attributes(code)
        if frame.f_globals.get("__name__") in _INSPECTING:
            names = frozenset(code.co_varnames[: code.co_argcount])
        if names:
            given = frame.f_locals
            for each in (given[name] for name in names if name in given):
                method = type(each) is MethodType
                self.dynamic_attributes.add(id(each.__func__ if method else each))

    def _on_c_call(self, called: Any, kind: int) -> None:
        """Record what a function in C may read or mutate."""
        owner, name = called.__self__, called.__name__
        what = ""
        if owner is None or isinstance(owner, ModuleType):
            self.checked = self.checked or name.startswith("_abc_")
            what = _module_refusal(called.__module__ or "", name)
            if name in _RUNNING and kind == STANDARD:
                what = ""
        elif isinstance(owner, ContextVar):
            self.context_vars.append(owner)
        elif isinstance(owner, random.Random):
            what = _CHANCE
        elif isinstance(owner, type):
            what = _class_refusal(owner, name)
        elif isinstance(owner, IOBase):
            what = "a file" if name in _READING else ""
        elif type(owner).__module__ == "_thread" and name in _LOCKING:
            # Locks of the standard library are its own.
            self._locked += _LOCKING[name] if kind == USERS else 0
            what = "" if name in ("acquire", "release") else "a lock"
        elif type(owner).__name__ == "_lru_cache_wrapper":
            what = "a cache" if name == "cache_info" else ""
        elif type(owner).__module__ in _OUTSIDE:
            what = _OUTSIDE[type(owner).__module__]
        elif isinstance(owner, str):
            if name.startswith("format"):
                self.named.update(_NAME.findall(owner))
        else:
            self.mutated.add(id(owner))
            if name in _OF_ALL:
                self.dynamic_attributes.add(id(owner))
        self.dynamic_lookup = self.dynamic_lookup or name == "dumps"
        if what is _CHANCE:
            self.reason = "it draws numbers on the host, which a replay would not"
        elif what:
            self.reason = _refusal(what, name)


def _refusal(what: str, name: str) -> str:
    return f"it asks {what} by `{name}`, which a replay would not"


def _code_of(called: Any) -> CodeType | None:
    """Return the code that a call of an object runs, if it is Python's."""
    function = getattr(called, "__func__", called)
    if not hasattr(function, "__code__"):
        function = getattr(type(called).__call__, "__func__", type(called).__call__)
    found = getattr(function, "__code__", None)
    return found if isinstance(found, CodeType) else None


def _module_refusal(module: str, name: str) -> str:
    """Return the outside state that a function in C reads; empty if none."""
    if module == "time":
        return "the clock" if name in _CLOCKS else ""
    if module in ("posix", "nt"):
        if name == "urandom":
            return _CHANCE
        return "the system" if name in _SYSTEM else ""
    if module in ("sys", "gc", "_tracemalloc"):
        return "the interpreter" if name in _INTERPRETER else ""
    if module in ("io", "_io", "builtins") and name in ("open", "open_code", "input"):
        return "the user" if name == "input" else "a file"
    if module in _OUTSIDE:
        return _OUTSIDE[module]
    if module in ("_signal", "signal"):
        return "the system" if name in _SIGNALS else ""
    if module == "_weakref" and name in _COUNTED:
        return "the interpreter"
    if module in ("_csv", "_thread") and name in _SETTINGS:
        return "the interpreter"
    if module.startswith("numpy") and name == "fromfile":
        return "a file"
    if module == "_locale" and name in _LOCALE:
        return "the system"
    if name in _THREAD:
        return "the thread"
    top = module.partition(".")[0]
    return "" if not top or top in _KNOWN else f"`{top}`"


def _class_refusal(owner: type, name: str) -> str:
    """Return the outside state that a class's method in C reads; empty if none."""
    top = str(owner.__module__).partition(".")[0]
    if top == "datetime":
        return "the clock" if name in _NOW else ""
    if name == "__subclasses__":
        return "the interpreter"
    if name in ("from_address", "in_dll"):
        return "memory"
    native = owner.__flags__ & _IMMUTABLE or not owner.__flags__ & _HEAP
    return f"`{top}`" if native and top not in _KNOWN else ""


def _exec_source_kind(space: Mapping[str, Any]) -> int:
    """Return the source kind of functions that `exec` has made."""
    name = str(space.get("__name__", ""))
    top = name.partition(".")[0]
    of_class = name.startswith("namedtuple_")
    known = top in _KNOWN and top != "__main__"
    return STANDARD if of_class or known else USERS


@functools.lru_cache(4096)
def source_kind(file: str) -> int:
    """Return the source kind of a file's functions."""
    for folder in _LIBRARY:
        if file.startswith(folder):
            place = file[len(folder) :].replace(os.sep, "/")
            return USERS if place.startswith(_OPEN_TO_USERS) else OURS
    if file.startswith("<frozen "):
        top = file.removeprefix("<frozen ").rstrip(">").partition(".")[0]
        return REPORTS if top in _REPORTING else STANDARD
    if file.startswith("<"):
        # Interactive input; `<string>` may be anybody's.
        return STANDARD if file == "<string>" else USERS
    folder = next((each for each in _INSTALLED if file.startswith(each)), "")
    packages = "-packages" + os.sep
    if packages in file:
        folder = file[: file.rindex(packages)] + packages
    if not folder:
        return USERS
    top = file[len(folder) :].partition(os.sep)[0].removesuffix(".py")
    if top in _REPORTING:
        return REPORTS
    return USERS if packages in file and top != "numpy" else STANDARD
