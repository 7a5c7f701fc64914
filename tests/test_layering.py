"""Imports point down: the folders have an order, lowest first."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tree import FOLDERS, MODULES, folder_of

# A new folder, or a module beside the folders, needs its place here; those of one line
# may import each other. The file of the folder itself, with its public names, is
# `__init__`. A folder within a folder counts as a part of it unless it has a place.
ORDER = {
    "vkbackend": """
        errors config counters atomic_file blas_threads lapack collector fork_safety
        triangles
        disk_cache
        tuning_cache
        vk
        driver
        memory
        shader
        command
        device
        cuda
        open_devices
        arrays
        __init__
    """,
    "vkbackend.framework": """
        base
        ir
        autotune
        codegen/ir
        codegen/glsl
        codegen
        scheduler
        eager
        autograd
        dispatch
        kernels
        ops
        tensor
        nested sparse
        autograd/functional
        debug graph
        jit
        communication
        distributions
        nn
        func
        io data
        models
        lora
        optim
        utils
        streams futures
        amp backends cpu cuda distributed fft linalg mps profiler random runtime special
        version xpu aten
        interception
        accelerator addresses compiler hub library multiprocessing overrides
        testing
        fx
        torchscript types
        __init__
        examples
    """,
    "vkbackend.glsl": "__init__",
    "vkbackend.tools": """
        __init__
        build_backend exit_status run_script
        drivers bindings spirv doctor ulp op_table
        used_names
        from_pytorch
        fusion_report autotune bench models launch
        check
    """,
}
# What the framework may know of the device layer.
PUBLIC = (
    *("vkbackend", "vkbackend.config", "vkbackend.errors"),
    "vkbackend.fork_safety",
    "vkbackend.cuda",
    "vkbackend.atomic_file",
    "vkbackend.blas_threads",
    "vkbackend.lapack",
    "vkbackend.triangles",
    "vkbackend.collector",
)
# What may hold an import; an expression never does.
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
# Oracles and examples' needs: no module of the library imports them.
FOREIGN = ("tests", "torch", "sklearn", "matplotlib")
# But a picture needs what draws it.
EXTRAS = {"vkbackend.framework.optim.training.history": "matplotlib.figure"}


def place_of(module: str) -> str:
    """Return the entry of `ORDER` that a module belongs to: the innermost folder's."""
    folder = folder_of(module)
    parts = module.removeprefix(folder).strip(".").split(".")
    names = ["/".join(parts[:count]) for count in range(len(parts), 0, -1)]
    places = ORDER[folder].split()
    found = next((name for name in names if name in places), None)
    if found is None and names == [""]:
        found = "__init__"
    if found is None:
        pytest.fail(f"{module} has no place in the order; add it in {__file__}")
    return found


def rank(module: str) -> tuple[int, int]:
    """Return a module's top folder, and the line of its place in `ORDER`."""
    folder, place = folder_of(module), place_of(module)
    lines = ORDER[folder].splitlines()
    line = next(number for number, text in enumerate(lines) if place in text.split())
    return list(ORDER).index(folder), line


@functools.cache
def imports(module: str, path: Path) -> tuple[str, ...]:
    """Return what a module imports when it runs, by absolute name."""
    return tuple(_imports(module, path))


def _imports(module: str, path: Path) -> Iterator[str]:
    is_package = path.name == "__init__.py"
    pending: list[ast.AST] = [ast.parse(path.read_text(encoding="utf-8"))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            pending.extend(node.orelse)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: is_package - node.level or None]
            base = ".".join((above if node.level else []) + (node.module or "").split())
            inner = (f"{base}.{alias.name}" for alias in node.names)
            yield from (name if name in MODULES else base for name in inner)
        else:
            parts = ast.iter_child_nodes(node)
            pending.extend(part for part in parts if isinstance(part, STATEMENTS))


def complaint(module: str, imported: str) -> str | None:
    """Return what is wrong with an import, if anything."""
    above = f"{module} imports {imported}: {imported} "
    in_framework = folder_of(module) == "vkbackend.framework"
    if imported in MODULES:
        if rank(imported) > rank(module):
            return above + f"is above {module}"
        if in_framework and folder_of(imported) == "vkbackend":
            return None if imported in PUBLIC else above + "is private to vkbackend"
    elif imported == "ctypes" and in_framework:
        return above + "is for the device layer"
    elif imported.partition(".")[0] in FOREIGN and ".examples" not in module:
        if imported == EXTRAS.get(module):
            return None
        return above + "is no dependency"
    return None


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    found = (complaint(module, name) for name in imports(module, MODULES[module]))
    assert [text for text in found if text] == []


def cycles(folder: str) -> list[list[str]]:
    """Return groups of a folder's modules that import each other."""
    inside = [name for name in MODULES if folder_of(name) == folder]
    graph = {name: set(imports(name, MODULES[name])) & set(inside) for name in inside}
    while leaves := [name for name, found in graph.items() if not found & graph.keys()]:
        for name in leaves:
            del graph[name]
    return sorted([name, *sorted(graph[name] & graph.keys())] for name in graph)


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_modules_import_each_other(folder: str) -> None:
    assert cycles(folder) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_place_in_the_order_is_taken(folder: str) -> None:
    places = {f"{folder}.{name}".replace("/", ".") for name in ORDER[folder].split()}
    missing = {place.removesuffix(".__init__") for place in places} - MODULES.keys()
    assert missing == set()
