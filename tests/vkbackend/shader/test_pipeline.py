"""Pipelines: constants and arguments by name, limits, content as the key."""

import struct

import numpy as np
import pytest

from tests.vkbackend.kernels import AFFINE, HEAD, ROWS, affine, words
from vkbackend import ArgumentError, Device, ShaderError
from vkbackend.shader.interface import PUSH_SIZE

CONSTANTS = (
    HEAD
    + """
layout(constant_id = 3) const uint COUNT = 7;
layout(constant_id = 4) const float SCALE = 0.5;
layout(constant_id = 5) const bool NEGATE = false;
layout(constant_id = 6) const int SHIFT = -3;
layout(push_constant) uniform Push { Words y; };
void main() {
    float value = SCALE * float(COUNT) + float(SHIFT);
    y.at[0] = floatBitsToUint(NEGATE ? -value : value);
}
"""
)


@pytest.mark.core
@pytest.mark.parametrize(
    ("constants", "expected"),
    [
        ({}, 0.5),
        ({"COUNT": 16}, 5.0),
        ({"COUNT": 16, "SCALE": 2.0, "NEGATE": True}, -29.0),
        ({"SHIFT": 4}, 7.5),
    ],
)
def test_constants(
    device: Device, constants: dict[str, float], expected: float
) -> None:
    pipeline = device.pipeline("constants", source=CONSTANTS, constants=constants)
    y = device.allocate(4)
    batch = device.batch()
    batch.dispatch(pipeline, (1, 1, 1), {"y": y}, [], [y])
    batch.submit()
    assert words(device, y).view(np.float32)[0] == expected


@pytest.mark.device
@pytest.mark.parametrize(
    ("constants", "message"),
    [
        (
            {"BLOCK": 1},
            "unknown constants: BLOCK; the shader has LOCAL_X, COUNT, SCALE",
        ),
        ({"COUNT": -1}, "constant COUNT: -1 does not fit"),
        ({"COUNT": 2**32}, "constant COUNT: 4294967296 does not fit"),
        ({"COUNT": 1.5}, "constant COUNT: 1.5 does not fit"),
        ({"LOCAL_X": 0}, r"the workgroup does not fit: \(0, 1, 1\)"),
        ({"LOCAL_X": 1 << 20}, r"does not fit: \(1048576, 1, 1\)"),
    ],
)
def test_bad_constants(
    device: Device, constants: dict[str, float], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        device.pipeline("constants", source=CONSTANTS, constants=constants)


@pytest.mark.device
def test_names_say_the_constants(device: Device) -> None:
    pipeline = device.pipeline("scale", source=CONSTANTS, constants={"COUNT": 3})
    assert pipeline.name == "scale COUNT=3"
    assert repr(pipeline) == "<Pipeline scale COUNT=3>"


@pytest.mark.device
def test_same_content_is_built_once(device: Device) -> None:
    first = affine(device)
    before = device.counters.snapshot()
    assert affine(device) is first
    assert device.counters == before
    other = device.pipeline("affine", source=AFFINE, constants={"LOCAL_X": 32})
    assert other is not first
    counted = device.counters - before
    assert (counted.shader_compiles, counted.pipeline_builds) == (0, 1)


@pytest.mark.core
def test_packer(device: Device) -> None:
    pipeline = affine(device)
    expected = struct.pack("<QQIII", 1 << 40, 2, 3, 4, 5)
    ordered = pipeline.packer(("x", "y", "count", "a", "b"))
    assert ordered(1 << 40, 2, 3, 4, 5) == expected
    shuffled = pipeline.packer(("b", "a", "count", "y", "x"))
    assert shuffled(5, 4, 3, 2, 1 << 40) == expected
    assert pipeline.pack(count=3, b=5, a=4, y=2, x=1 << 40) == expected


@pytest.mark.device
def test_packer_takes_buffers(device: Device) -> None:
    x = device.allocate(4)
    packed = affine(device).pack(x=x, y=x, count=0, a=0, b=0)
    assert packed[:16] == struct.pack("<QQ", x.address, x.address)


@pytest.mark.device
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("x", "y"), "missing count, a, b; the kernel takes x, y, count, a, b"),
        (("x", "y", "count", "a", "b", "c"), "unknown c"),
        (("x", "y", "count", "a", "b", "b"), "twice b"),
        ((), "missing x, y, count, a, b"),
    ],
)
def test_packer_names(device: Device, names: tuple[str, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        affine(device).packer(names)


@pytest.mark.device
def test_packer_values(device: Device) -> None:
    pack = affine(device).packer(("b", "a", "count", "y", "x"))
    rows = ((5, 4, 3, 2), (5, 4, 3, 2, 1, 0), (5, 4, 3, 2, None), (-1, 4, 3, 2, 1))
    for values in rows:
        with pytest.raises(ArgumentError, match="arguments cannot be packed"):
            pack(*values)


@pytest.mark.core
def test_floats_beyond_their_field_are_infinite(device: Device) -> None:
    source = HEAD + (
        "layout(push_constant, std430) uniform Push {\n"
        "    Words x;\n    float a;\n    float b;\n} args;\n"
        "void main() { args.x.at[0] = uint(args.a + args.b); }\n"
    )
    pack = device.pipeline("beyond", source=source).packer(("a", "x", "b"))
    inf = float("inf")
    assert pack(1e300, 7, -3.5e38) == struct.pack("<Qff", 7, inf, -inf)
    with pytest.raises(ArgumentError, match="arguments cannot be packed"):
        pack(1e300, -1, 0.0)
    with pytest.raises(ArgumentError, match="arguments cannot be packed"):
        pack(10**400, 7, 0.0)


@pytest.mark.core
def test_gaps_between_arguments(device: Device) -> None:
    source = (
        HEAD
        + """
layout(push_constant) uniform Push {
    uint count; Words y; vec3 v; float w; uint tail[3];
};
void main() { y.at[0] = count + uint(v.x + 10 * v.y + 100 * v.z) + uint(w) + tail[2]; }
"""
    )
    pipeline = device.pipeline("gaps", source=source)
    y = device.allocate(4)
    arguments = {
        "count": 1000,
        "y": y,
        "v[0]": 1.0,
        "v[1]": 2.0,
        "v[2]": 3.0,
        "w": 5000.0,
    }
    arguments |= {"tail[0]": 9, "tail[1]": 9, "tail[2]": 10_000}
    batch = device.batch()
    batch.dispatch(pipeline, (1, 1, 1), arguments, [], [y])
    batch.submit()
    assert words(device, y)[0] == 16_321


@pytest.mark.device
def test_no_arguments(device: Device) -> None:
    source = "#version 460\nlayout(local_size_x = 8) in;\nvoid main() {}\n"
    pipeline = device.pipeline("nothing", source=source)
    assert pipeline.arguments.size == 0
    assert pipeline.pack() == b""
    batch = device.batch()
    batch.dispatch(pipeline, (1, 1, 1), {})
    batch.submit().wait()


@pytest.mark.device
def test_large_push_block_is_refused(device: Device) -> None:
    source = (
        HEAD
        + """
layout(push_constant) uniform Push { Words y; uint terms[40]; };
void main() { y.at[0] = terms[39]; }
"""
    )
    with pytest.raises(
        ShaderError, match=rf"too large: 168 bytes; at most {PUSH_SIZE} .* named `args`"
    ):
        device.pipeline("large", source=source)


@pytest.mark.device
def test_lacking_features_are_refused(
    device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = (
        HEAD.replace(
            "#version 460",
            "#version 460\n#extension GL_EXT_shader_explicit_arithmetic_types_int64 :"
            " require",
        )
        + """
layout(push_constant) uniform Push { Words y; };
void main() { uint64_t big = uint64_t(y.at[0]) * 5ul; y.at[1] = uint(big >> 32); }
"""
    )
    supported = device.info.supported - {"shader_int64"}
    monkeypatch.setitem(device.info.__dict__, "supported", supported)
    with pytest.raises(ShaderError, match=r"needs what .* lacks: shader_int64"):
        device.pipeline("wide", source=source)


@pytest.mark.device
def test_broken_source_names_the_line(device: Device) -> None:
    with pytest.raises(ShaderError, match="broken:3"):
        device.pipeline("broken", source="#version 460\nvoid main() {\n  x = 1;\n}\n")
    with pytest.raises(ShaderError, match="no file"):
        device.pipeline("there/is/no/such")


@pytest.mark.device
def test_rows(device: Device) -> None:
    pipeline = device.pipeline("rows", source=ROWS, constants={"LOCAL_X": 64})
    packed = pipeline.table_packer(2)(7, 1 << 40, 2, 3, 4, 5, 6)
    # The rows hold addresses, so they begin at a multiple of eight.
    assert packed == struct.pack("<IxxxxQIIQII", 7, 1 << 40, 2, 3, 4, 5, 6)
    assert [pipeline.takes(size) for size in (4, 8, 16, 24, 40, 41)] == [
        *(False, False, False),
        *(True, True, False),
    ]
    with pytest.raises(ArgumentError, match="2 rows of arguments cannot be"):
        pipeline.table_packer(2)(7, 1 << 40, 2, 3)
    with pytest.raises(ArgumentError, match="the kernel takes no rows"):
        affine(device).table_packer(2)
