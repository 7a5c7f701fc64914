"""What shaders ask for and drivers must not see."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import hostile
from tests.tools.spirv.mutation import mutate
from tests.vkbackend.kernels import AFFINE, HEAD
from tests.vkbackend.shader.test_reflection import ENTRY, UINT, assemble, text
from vkbackend import ArgumentError, Device, Error, ShaderError
from vkbackend.driver import features
from vkbackend.shader import compiler
from vkbackend.shader.interface import MAX_PRIVATE_BYTES, validate_module
from vkbackend.shader.spirv_reader import Opcode

pytestmark = pytest.mark.device

HARMLESS = {"null byte", "shared uint8_t[16384]"}
"""Of the hostile shaders, those that many devices can run."""

ALL_IN_ONE_PROCESS = """
import faulthandler, json, vkbackend
from tests import hostile
faulthandler.enable()
device = vkbackend.open_device()
for name in hostile.SOURCES:
    print(json.dumps([name, hostile.refusal(device, name)]), flush=True)
device.close()
"""


def test_hostile_shaders_are_refused_and_end_nothing() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", ALL_IN_ONE_PROCESS],
        cwd=Path(hostile.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    said = dict(json.loads(line) for line in done.stdout.splitlines())
    assert done.returncode == 0, (list(said)[-1:], done.stderr[-2000:])
    assert len(said) == len(hostile.SOURCES) >= 60
    assert {name for name, refusal in said.items() if not refusal} <= HARMLESS
    assert not any("root:" in refusal for refusal in said.values())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "buffer binding = 0",
            r"`B` is a storage buffer in a descriptor \(set 0, bind",
        ),
        ("named buffer", r"`named` is a storage buffer in a descriptor .*binding 2\)"),
        ("array of buffers", "`many` is a storage buffer in a descriptor"),
        (
            "uniform block set = 3, binding = 7",
            r"`named` is a uniform buffer .*\(set 3,",
        ),
        ("sampler2D", "`it` is a sampled image in a descriptor"),
        ("sampler array", "`it` is a sampled image in a descriptor"),
        ("separate sampler", "`(it|how)` is a sample.* in a descriptor"),
        ("samplerBuffer", "`it` is a texel buffer in a descriptor"),
        ("image2D", "`it` is a storage image in a descriptor"),
        ("imageBuffer", "`it` is a texel buffer in a descriptor"),
        ("acceleration structure", "`it` is an acceleration structure in a descriptor"),
        ("GL_NV_shader_sm_builtins", "`gl_SMIDNV` is an input variable, built-in 5377"),
    ],
)
def test_a_descriptor_is_refused_by_name(
    device: Device, name: str, message: str
) -> None:
    with pytest.raises(ShaderError, match=f"^{name}: {message}"):
        device.pipeline(name, source=hostile.SOURCES[name])


def shared(device: Device, words: int, size: str = "uint") -> str:
    """Return a kernel with an array of shared memory of so many bytes times four."""
    return HEAD + (
        "layout(push_constant) uniform Push { Words y; };\n"
        f"layout(constant_id = 1) const uint N = {words};\n"
        f"shared {size} it[N];\n"
        "void main() { it[gl_LocalInvocationIndex] = 7; barrier(); y.at[0] = it[0]; }\n"
    )


def test_shared_memory_up_to_the_limit(device: Device) -> None:
    most = device.info.max_shared_memory // 4
    source = shared(device, most)
    pipeline = device.pipeline("shared", source=source)
    y = device.allocate(4)
    batch = device.batch()
    batch.dispatch(pipeline, (1, 1, 1), {"y": y}, [], [y])
    batch.submit()
    assert np.frombuffer(device.read(y), np.uint32)[0] == 7
    for words in (most + 1, 1 << 29, (1 << 30) + 1, (1 << 32) - 1):
        with pytest.raises(
            ShaderError,
            match=f"shared memory is too large: {4 * words} bytes, of which `it` has",
        ):
            device.pipeline("shared", source=source, constants={"N": words})
    with pytest.raises(ShaderError, match=r"the length of an array, .*, is 0; it must"):
        device.pipeline("shared", source=source, constants={"N": 0})
    # Integers and truth values of NumPy count as well.
    for given in ({"N": np.int64(4)}, {"N": np.True_}):
        device.pipeline("shared", source=source, constants=given)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [64.0, np.float32(4), "4", None])
def test_constants_of_another_kind(device: Device, value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^shared: constant N: .* of type uint$"):
        device.pipeline("shared", source=shared(device, 4), constants={"N": value})


def test_truth_values_of_numpy_are_ones(device: Device) -> None:
    source = HEAD + (
        "layout(push_constant) uniform Push { Words y; };\n"
        "layout(constant_id = 1) const bool WIDE = true;\n"
        "layout(constant_id = 2) const float SCALE = 0.5;\n"
        "shared uint it[WIDE ? 64 : 4];\n"
        "void main() { it[0] = uint(SCALE); barrier(); y.at[0] = it[0]; }\n"
    )
    words = compiler.compile_glsl(source, name="wide")
    given: Any = {"WIDE": np.False_, "SCALE": np.float32(3)}
    values = validate_module("wide", words, given, device.info).values
    assert values == {1: False, 2: 3.0}
    assert [type(each) for each in values.values()] == [bool, float]
    with pytest.raises(ArgumentError, match=r"^wide: constant WIDE: 0\.5 does not"):
        validate_module("wide", words, {"WIDE": 0.5}, device.info)


@pytest.mark.parametrize("value", [64.5, float("nan"), float("inf"), 0, -1, 1 << 40])
def test_workgroups_that_are_none(device: Device, value: float) -> None:
    with pytest.raises(ArgumentError, match="the workgroup does not fit"):
        device.pipeline("affine", source=AFFINE, constants={"LOCAL_X": value})


def test_variables_of_an_invocation(device: Device) -> None:
    count = MAX_PRIVATE_BYTES // 4
    source = HEAD + (
        "layout(push_constant) uniform Push { Words y; };\n"
        "void main() {\n"
        f"uvec2 it[{count}]; it[y.at[0]].x = 1; y.at[1] = it[y.at[2]].x;\n}}\n"
    )
    with pytest.raises(ShaderError, match="an invocation has too many variables"):
        device.pipeline("private", source=source)


def test_capabilities_that_no_feature_enables() -> None:
    shader_, int64, clock = 1, 11, 5055
    lacking = features.missing_features((shader_, int64, clock), {"shader_int64"})
    assert lacking == ["SPIR-V capability 5055"]
    basic, vote, ballot, dot_input = 61, 62, 64, 6018
    assert features.missing_features((basic, vote, ballot), (), 0b0011) == [
        "subgroup_ballot"
    ]
    assert features.missing_features((dot_input,), ()) == ["integer_dot_product"]
    assert features.missing_features((dot_input,), {"integer_dot_product"}) == []


def test_subgroup_operations_are_asked_of_the_device(device: Device) -> None:
    source = HEAD.replace(
        "#version 460",
        "#version 460\n#extension GL_KHR_shader_subgroup_ballot : require",
    ) + (
        "layout(push_constant) uniform Push { Words y; };\n"
        "void main() { y.at[0] = subgroupBallot(true).x; }\n"
    )
    words = compiler.compile_glsl(source, name="ballot")
    without = dataclasses.replace(device.info, subgroup_operations=1)
    with pytest.raises(ShaderError, match="lacks: subgroup_ballot"):
        validate_module("ballot", words, {}, without)
    validate_module(
        "ballot", words, {}, dataclasses.replace(without, subgroup_operations=255)
    )


VOID = (19, 2)
VERTEX = (Opcode.ENTRY_POINT, 0, 3, *text("main"))
POINTER = (Opcode.TYPE_POINTER, 21, 4, 20)
SHARED = (Opcode.VARIABLE, 21, 22, 4)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (assemble(VOID), "execution models none; there must be one"),
        (assemble(VERTEX), "execution models 0; there must be one"),
        (assemble(ENTRY, VERTEX), "execution models 5, 0; there must be one"),
        (assemble(ENTRY, ENTRY), "execution models 5, 5; there must be one"),
        (
            assemble((Opcode.ENTRY_POINT, 5, 1, 0xFFFFFFFF, 0)),
            "the entry point's name is no UTF-8",
        ),
        *(
            (
                assemble(ENTRY, UINT, (Opcode.VARIABLE, 10, 22, storage)),
                f"`%22` (is an? {kind}|has the storage class {storage})",
            )
            for storage, kind in (
                *((0, "resource in"), (1, "input variable"), (2, "uniform buffer")),
                *((3, "output variable"), (12, "storage buffer"), (5, ""), (8, "")),
                *((10, ""), (11, ""), (5349, ""), (5338, ""), (5402, "")),
            )
        ),
        (
            assemble(ENTRY, *[(Opcode.VARIABLE, 21, n, 9) for n in (22, 23)]),
            "there are 2 push_constant blocks",
        ),
        # An array of itself, types in the wrong order, a length that is a float.
        (
            assemble(ENTRY, (Opcode.TYPE_ARRAY, 20, 20, 5), POINTER, SHARED),
            "%20 is part of a type, but is declared after it",
        ),
        (
            assemble(
                ENTRY, (Opcode.TYPE_ARRAY, 20, 20, 5), (Opcode.VARIABLE, 20, 22, 0)
            ),
            "`%22` is a resource in a descriptor",
        ),
        (
            assemble(ENTRY, UINT, (Opcode.TYPE_ARRAY, 20, 10, 5), POINTER, SHARED),
            "the length of an array, %5, cannot be computed",
        ),
        (assemble(ENTRY, UINT, (Opcode.VARIABLE, 10, 22, 4)), "%10 must be a pointer"),
        (assemble(ENTRY, (Opcode.CAPABILITY, 6)), "lacks: SPIR-V capability 6"),
        (
            assemble(ENTRY).replace(b"\0\5\1\0", b"\0\7\1\0"),
            r"the module is SPIR-V 1\.7; at most 1\.6 is accepted",
        ),
    ],
)
def test_modules_made_by_hand(device: Device, words: bytes, message: str) -> None:
    with pytest.raises(ShaderError, match=rf"^made: .*{message}"):
        validate_module("made", words, {}, device.info)


def deep(count: int) -> bytes:
    """Return a module with a struct of two structs of two structs and so on."""
    levels = [(Opcode.TYPE_STRUCT, n, n - 1, n - 1) for n in range(101, 101 + count)]
    pointer = (Opcode.TYPE_POINTER, 50, 4, 100 + count)
    uint = (Opcode.TYPE_INT, 100, 32, 0)
    return assemble(ENTRY, uint, *levels, pointer, (Opcode.VARIABLE, 50, 51, 4))


def long_sum(count: int) -> bytes:
    """Return a module with a shared array as long as the sum of very many ones."""
    one = (Opcode.CONSTANT, 10, 100, 1)
    sums = [
        (Opcode.SPEC_CONSTANT_OP, 10, n, 128, n - 1, 100)
        for n in range(101, 101 + count)
    ]
    array = (Opcode.TYPE_ARRAY, 20, 10, 100 + count)
    return assemble(ENTRY, UINT, one, *sums, array, POINTER, SHARED)


@pytest.mark.parametrize("make", [deep, long_sum])
def test_depth_is_no_matter(device: Device, make: Callable[[int], bytes]) -> None:
    with pytest.raises(ShaderError, match="shared memory is too large"):
        validate_module("made", make(20_000), {}, device.info)


def test_broken_modules_are_refused_cleanly(device: Device) -> None:
    whole = compiler.compile_glsl(shared(device, 64), name="shared")
    said = []
    for seed in range(400):
        try:
            validate_module("broken", mutate(whole, seed), {}, device.info)
        except Error as error:
            said.append(str(error))
    assert len(said) > 40
    assert all(text.startswith("broken: ") for text in said)
