import json
import subprocess
import sys
from typing import Any

import pytest

from tests.work import COUNT
from vkbackend import ShaderError
from vkbackend.tools.spirv.report import analyse, report

from . import modules
from .generated import fused, some_fused
from .listing import Listing, known, listing, needs_spirv_dis
from .shaders import SHARED, compiled, main_of
from .variants import Shaders, each_library, some_of_library

SIZES = {"uint": 4, "int": 4, "float": 4, "address": 8}
MOST_LINES = 2_400_000
"""Lines of Python that inspecting any shader may run: the largest takes 1,800,000."""


def check(words: bytes, name: str) -> None:
    """Compare a report with what spirv-dis says."""
    found = report(name, words)
    theirs = listing(words)
    assert [row["name"] for row in found["capabilities"]] == theirs.capabilities()
    assert found["operations"] == dict(sorted(theirs.operations().items()))
    classes = theirs.classes()
    assert found["classes"] == dict(sorted(classes.items()))
    assert found["instructions"] == sum(classes.values())
    check_push(found["push"], theirs)
    check_buffers(found["buffers"], theirs)
    defaults = {row["id"]: str(row["default"]) for row in found["constants"]}
    assert defaults == theirs.constants()
    loops = sum(1 for line in theirs.lines if line.startswith("OpLoopMerge"))
    assert found["structure"]["loops"] == loops


def check_push(found: Any, theirs: Listing) -> None:
    struct = theirs.push()
    if struct is None:
        assert found is None
        return
    members = theirs.members(struct)
    by_name = {row["name"].partition("[")[0]: row for row in reversed(found["fields"])}
    assert [(name, by_name[name]["offset"]) for name, _, _ in members] == [
        (name, offset) for name, offset, _ in members
    ]
    last = max(found["fields"], key=lambda row: row["offset"])
    assert found["size"] == last["offset"] + last["size"]


def check_buffers(found: Any, theirs: Listing) -> None:
    structs = theirs.buffers()
    assert [f"%{row['id']}" for row in found] == structs
    for row, struct in zip(found, structs, strict=True):
        assert [
            (member["name"], member["offset"], tuple(sorted(member["qualifiers"])))
            for member in row["members"]
        ] == theirs.members(struct)
    stated = {number for row in found for number in row["alignments"]}
    assert stated == theirs.alignments()


@needs_spirv_dis
@some_of_library
def test_library_agrees_with_spirv_dis(shaders: Shaders) -> None:
    for target in filter(lambda row: known(row.words), shaders()):
        check(target.words, target.name)


@needs_spirv_dis
@some_fused
def test_fused_kernels_agree_with_spirv_dis(count: int) -> None:
    for number, words in enumerate(fused(count)):
        check(words, f"fused {number}")


def test_costs_of_a_loop() -> None:
    words = main_of(
        "float s = 0.0; for (uint k = 0; k < 8; ++k) s = fma(push.x.at[k], 2.0, s);"
        "push.y.at[i] = s;"
    )
    cost = report("test", words)["invocation"]
    (loop,) = cost["loops"]
    assert (loop["rounds"], loop["own"]["flops"]) == (8, 2)
    assert loop["own"]["read"]["device"] == 4
    assert cost["complete"]
    assert cost["total"]["flops"] == 16
    assert cost["total"]["read"]["device"] == 32
    assert cost["total"]["written"]["device"] == 4


def test_shared_memory_follows_the_constants() -> None:
    words = compiled(SHARED)
    assert report("test", words)["shared"]["size"] == 64 * 4
    assert report("test", words, {"ROWS": 100})["shared"]["size"] == 200 * 4


def test_json_holds_everything() -> None:
    found = report("test", compiled(SHARED))
    assert json.loads(json.dumps(found)) == found


def test_unknown_constant() -> None:
    with pytest.raises(ShaderError, match="unknown: ROW; the shader has ROWS"):
        analyse(compiled(SHARED), {"ROW": 3})


def test_no_entry_function() -> None:
    words = modules.assemble(*modules.SHADER)
    with pytest.raises(ShaderError, match=r"word \d+: the entry point %1 is no func"):
        analyse(words)


@each_library
def test_the_largest_shader_is_inspected_at_little_cost(
    shaders: Shaders, tmp_path: Any
) -> None:
    largest = max((target.words for target in shaders()), key=len)
    path = tmp_path / "largest.spv"
    path.write_bytes(largest)
    program = (
        f"import sys\n{COUNT}"
        "sys.settrace(count)\n"
        "from vkbackend.tools.spirv.cli import main\n"
        "main([sys.argv[1]])\n"
        "sys.settrace(None)\n"
        "print(lines, file=sys.stderr)\n"
    )
    done = subprocess.run(
        (sys.executable, "-P", "-c", program, str(path)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert int(done.stderr) < MOST_LINES
