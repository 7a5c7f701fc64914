"""Imports point down: each module has its place in an order, lowest first."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.tree import FOLDERS, MODULES, folder_of

# A new module needs its place here; those of one line may import each other. The file
# of the folder itself, with its public names, is `__init__`.
ORDER = {
    "vkbackend": """
        errors config counters whole_file forking
        disk_cache
        vk
        suballocator hazards spirv_binary spirv spirv_size float_controls info
        include glslang compiler shader
        features interface instance
        physical
        logical
        command_buffer
        timeline
        memory
        span
        pool
        buffer
        arena host_allocator
        pipeline_cache pipeline
        command profile verdicts
        batch
        transfer prelude replay
        device
        opening
        futures batch_kernels
        kernel_cache batch_queue
        command_batch
        __init__
    """,
    "vkbackend.framework": """
        errors scope
        arguments dtype
        shape tracing
        pending dispatch rng limits addresses
        traced
        device flight tuning
        fusion memory_plan
        epilogue launch
        plan
        execution
        tuner
        schedule report_svg
        report
        core parts precision
        repeat
        autograd
        rewalk
        conversion
        tape
        op
        recurring
        composite
        pointwise
        primitive
        ops
        inplace
        methods
        tensor
        creation random profiling
        graph fused_graph
        capture gradcheck
        nn optim data serialize
        __init__
        examples
    """,
    "vkbackend.glsl": "__init__",
    "vkbackend.tools": """
        __init__
        outcome script
        drivers bindings spirv doctor ulp optable fusion tune bench
        check
    """,
}
# What the framework may know of the device layer.
PUBLIC = (
    *("vkbackend", "vkbackend.config", "vkbackend.errors"),
    "vkbackend.forking",
    "vkbackend.whole_file",
)
# What may hold an import; an expression never does.
STATEMENTS = (ast.stmt, ast.excepthandler, ast.match_case)
# Oracles and examples' needs: no module of the library imports them.
FOREIGN = ("tests", "torch", "sklearn", "matplotlib")


def rank(module: str) -> tuple[int, int]:
    """Return a module's folder and line in `ORDER`."""
    folder = folder_of(module)
    layer = list(ORDER).index(folder)
    name = module.removeprefix(folder).strip(".").partition(".")[0] or "__init__"
    for number, line in enumerate(ORDER[folder].splitlines()):
        if name in line.split():
            return layer, number
    pytest.fail(f"{module} has no place in the order; add it in {__file__}")


def imports(module: str, path: Path) -> Iterator[str]:
    """Yield what a module imports when it runs, by absolute name."""
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
        return above + "is no dependency"
    return None


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    found = (complaint(module, name) for name in imports(module, MODULES[module]))
    assert [text for text in found if text] == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_place_in_the_order_is_taken(folder: str) -> None:
    places = (f"{folder}.{name}" for name in ORDER[folder].split())
    missing = {place.removesuffix(".__init__") for place in places} - MODULES.keys()
    assert missing == set()
