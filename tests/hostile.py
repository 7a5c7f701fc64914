"""Hostile shaders: they require what no device has, and must be refused cleanly.

    python -m tests.hostile

gives each to a device in a process of its own; the gate gives all of them to one.
"""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import vkbackend

VERSION = "#version 460\n"
HEAD = """#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types : require
layout(local_size_x = 8) in;
layout(buffer_reference, std430) buffer Words { uint at[]; };
layout(push_constant) uniform Push { Words y; uint n; };
"""
SMALL_HEAD = "layout(local_size_x = 8) in;\n"
MAIN = "void main() { y.at[gl_LocalInvocationID.x] = n; }\n"
SIZES = (1 << 14, 1 << 20, 100_000_000, 1 << 29, 1 << 30, (1 << 31) - 1)


def _resources() -> Iterator[tuple[str, str]]:
    """Yield declarations of descriptors with a use of each, by what they are."""
    layouts = ("binding = 0", "set = 0, binding = 1", "set = 3, binding = 7")
    for place in layouts:
        yield (
            f"buffer {place}",
            (
                f"layout({place}, std430) buffer B {{ float a[]; }};\n"
                "void main() { a[gl_GlobalInvocationID.x] = 1.0; }\n"
            ),
        )
        yield (
            f"uniform block {place}",
            (
                f"layout({place}) uniform B {{ vec4 a; }} named;\n"
                "void main() { if (named.a.x > 0) atomicAdd(total, 1); }\n"
            ),
        )
    yield (
        "array of buffers",
        (
            "layout(binding = 0) buffer B { uint a; } many[4];\n"
            "void main() { many[gl_LocalInvocationID.x & 3].a = 1; }\n"
        ),
    )
    yield (
        "named buffer",
        (
            "layout(binding = 2) buffer B { uint a; } named;\n"
            "void main() { named.a = 1; }\n"
        ),
    )
    for kind, load in (
        ("sampler2D", "texture(it, vec2(0))"),
        ("sampler3D", "texture(it, vec3(0))"),
        ("samplerCube", "texture(it, vec3(0))"),
        ("sampler2DArray", "texture(it, vec3(0))"),
        ("isampler2D", "vec4(texture(it, vec2(0)))"),
        ("sampler2DShadow", "vec4(texture(it, vec3(0)))"),
        ("samplerBuffer", "texelFetch(it, 0)"),
        ("textureBuffer", "texelFetch(it, 0)"),
    ):
        yield (
            kind,
            (
                f"layout(binding = 0) uniform {kind} it;\n"
                f"void main() {{ if ({load}.x > 0) atomicAdd(total, 1); }}\n"
            ),
        )
    for kind, at in (("image2D", "ivec2(0)"), ("imageBuffer", "0"), ("image1D", "0")):
        yield (
            kind,
            (
                f"layout(binding = 0, rgba32f) uniform {kind} it;\n"
                f"void main() {{ imageStore(it, {at}, vec4(1)); }}\n"
            ),
        )
    yield (
        "separate sampler",
        (
            "layout(binding = 0) uniform texture2D it;\n"
            "layout(binding = 1) uniform sampler how;\n"
            "void main() {\n"
            "if (texture(sampler2D(it, how), vec2(0)).x > 0) atomicAdd(total, 1);\n}\n"
        ),
    )
    yield (
        "sampler array",
        (
            "layout(binding = 0) uniform sampler2D it[8];\n"
            "void main() { if (texture(it[3], vec2(0)).x > 0) atomicAdd(total, 1); }\n"
        ),
    )


def _sources() -> Iterator[tuple[str, str]]:
    for name, body in _resources():
        yield name, VERSION + SMALL_HEAD + "shared uint total;\n" + body
    yield (
        "acceleration structure",
        (
            "#version 460\n#extension GL_EXT_ray_query : require\n"
            + SMALL_HEAD
            + "layout(binding = 0) uniform accelerationStructureEXT it;\n"
            "void main() { rayQueryEXT q; rayQueryInitializeEXT(\n"
            "q, it, 0, 0, vec3(0), 0.0, vec3(1), 1.0); }\n"
        ),
    )
    yield (
        "input",
        VERSION
        + SMALL_HEAD
        + (
            "layout(location = 0) in vec4 it;\n"
            "void main() { if (it.x > 0) barrier(); }\n"
        ),
    )
    yield (
        "output",
        VERSION
        + SMALL_HEAD
        + ("layout(location = 0) out vec4 it;\nvoid main() { it = vec4(1); }\n"),
    )
    for size in SIZES:
        for kind in ("uint", "vec4", "uint8_t", "double"):
            yield (
                f"shared {kind}[{size}]",
                VERSION
                + HEAD
                + (
                    f"shared {kind} it[{size}];\nvoid main() {{\n"
                    f"it[gl_LocalInvocationID.x * n] = {kind}(n);\n"
                    "barrier(); y.at[0] = uint(it[n].x);\n}\n".replace(
                        ".x" if kind != "vec4" else "\0", ""
                    ).replace("gl_LocalInvocationID *", "gl_LocalInvocationID.x *")
                ),
            )
    yield (
        "shared struct",
        VERSION
        + HEAD
        + (
            "struct S { uint a[3]; float b[5000]; };\nshared S it[4];\n"
            "void main() { it[n].a[0] = n; barrier(); y.at[0] = it[0].a[0]; }\n"
        ),
    )
    yield (
        "many small shared arrays",
        VERSION
        + HEAD
        + (
            "".join(f"shared uint it{i}[4096];\n" for i in range(16))
            + "void main() {\n"
            + "".join(f"it{i}[n] = n;\n" for i in range(16))
            + "barrier(); y.at[0] = it0[0] + it15[0];\n}\n"
        ),
    )
    for length in ("N", "N * N", "(N + 1) * 2 - 1", "N << 8", "N > 2 ? N * 999 : N"):
        yield (
            f"shared uint[{length}]",
            VERSION
            + HEAD
            + (
                "layout(constant_id = 0) const uint N = 40000;\n"
                f"shared uint it[{length}];\n"
                "void main() { it[n] = n; barrier(); y.at[0] = it[0]; }\n"
            ),
        )
    for size in (20_000, 10_000_000, (1 << 31) - 1):
        yield (
            f"local uint[{size}]",
            VERSION
            + HEAD
            + (f"void main() {{ uint it[{size}]; it[n] = n; y.at[0] = it[n * 3]; }}\n"),
        )
        yield (
            f"private uint[{size}]",
            VERSION
            + HEAD
            + (
                f"uint it[{size}];\nvoid main() {{ it[n] = n; y.at[0] = it[n * 3]; }}\n"
            ),
        )
    for x, y, z in ((1 << 20, 1, 1), (1, 1 << 16, 1), (1, 1, 4096), (1024, 1024, 64)):
        yield (
            f"workgroup {x} {y} {z}",
            VERSION
            + (
                f"layout(local_size_x = {x}) in; layout(local_size_y = {y}) in;\n"
                f"layout(local_size_z = {z}) in;\n"
                "void main() {}\n"
            ),
        )
    yield (
        "push of 132 bytes",
        VERSION
        + SMALL_HEAD
        + (
            "layout(push_constant) uniform Push { uint at[33]; } push;\n"
            "shared uint total;\nvoid main() { total = push.at[32]; }\n"
        ),
    )
    yield (
        "push of 256 MiB",
        VERSION
        + SMALL_HEAD
        + (
            "layout(push_constant) uniform Push { uint at[1 << 26]; } push;\n"
            "shared uint total;\nvoid main() { total = push.at[32]; }\n"
        ),
    )
    for extension, use in (
        ("GL_ARB_shader_clock", "y.at[0] = clock2x32ARB().x;"),
        ("GL_EXT_shader_realtime_clock", "y.at[0] = clockRealtime2x32EXT().x;"),
        ("GL_ARB_shader_ballot", "y.at[0] = uint(ballotARB(true));"),
        ("GL_ARB_shader_group_vote", "y.at[0] = uint(anyInvocationARB(true));"),
        ("GL_NV_shader_sm_builtins", "y.at[0] = gl_SMIDNV;"),
        ("GL_NV_shader_subgroup_partitioned",
         "y.at[0] = subgroupPartitionNV(n).x;"),
        ("GL_EXT_demote_to_helper_invocation", "demote;"),
        ("GL_EXT_shader_atomic_float2",
         "atomicMin(s, 1.0); y.at[0] = uint(s);"),
    ):  # fmt: skip
        yield (
            extension,
            VERSION
            + f"#extension {extension} : require\n"
            + HEAD
            + (f"shared float s;\nvoid main() {{ {use} }}\n"),
        )
    yield (
        "recursion",
        VERSION
        + HEAD
        + (
            "uint f(uint i) { return i == 0 ? 1 : f(i - 1); }\n"
            "void main() { y.at[0] = f(n); }\n"
        ),
    )
    yield "no main", VERSION + HEAD
    yield "lone surrogate", VERSION + "// \ud800\n" + HEAD + MAIN
    yield "null byte", VERSION + "// \0\n" + HEAD + MAIN
    yield "host's file", VERSION + '#include "/etc/passwd"\n' + HEAD + MAIN
    yield "file above", VERSION + f'#include "{"../" * 20}etc/passwd"\n' + HEAD + MAIN
    yield "long name", VERSION + f'#include "{"a/" * 5000}"\n' + HEAD + MAIN
    yield "device file", VERSION + '#include "/dev/zero"\n' + HEAD + MAIN
    yield "line of another file", VERSION + "#line 1 77777777777\nerror\n" + HEAD + MAIN


SOURCES = dict(_sources())


def refusal(device: vkbackend.Device, name: str) -> str:
    """Return how a device refuses one of `SOURCES`, or run it and return nothing."""
    try:
        pipeline = device.pipeline(name, source=SOURCES[name])
    except vkbackend.Error as error:
        return f"{type(error).__name__}: {error}"
    memory = device.allocate(1 << 12)
    values = {row.name: 0 for row in pipeline.arguments.fields}
    batch = device.batch()
    batch.dispatch(pipeline, (1, 1, 1), {**values, "y": memory}, [], [memory])
    batch.submit()
    np.frombuffer(device.read(memory), np.uint32)
    return ""


def main() -> int:
    """Give each shader to a device in a process of its own; print how it ends."""
    if len(sys.argv) > 1:
        print(refusal(vkbackend.open_device(), sys.argv[1]))
        return 0
    died = 0
    for name in SOURCES:
        done = subprocess.run(
            [sys.executable, "-m", "tests.hostile", name],
            cwd=Path(__file__).parents[1],
            capture_output=True,
            text=True,
            check=False,
        )
        died += done.returncode != 0
        said = (done.stdout if done.returncode == 0 else done.stderr)[:160].strip()
        print(f"{done.returncode:4} {name}: {said!r}")
    print(f"{len(SOURCES)} shaders, {died} processes died")
    return died


if __name__ == "__main__":
    sys.exit(main())
