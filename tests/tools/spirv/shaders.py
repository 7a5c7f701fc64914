"""Shaders that the tests inspect."""

import functools

from vkbackend.shader.compiler import compile_glsl

HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    In { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Out { float at[]; };
layout(push_constant, std430) uniform Push { In x; Out y; uint n; uint m; } push;
uint i = gl_GlobalInvocationID.x;
uint lane = gl_LocalInvocationIndex;
"""


@functools.cache
def compiled(body: str, head: str = HEAD) -> bytes:
    """Return the module of a shader."""
    return compile_glsl(head + body, name="test")


def main_of(body: str) -> bytes:
    """Return the module of a shader whose `main` has these lines."""
    return compiled(f"void main() {{\n{body}\n}}\n")


COOPERATIVE = """#version 460
#pragma use_vulkan_memory_model
#extension GL_EXT_buffer_reference : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_bfloat16 : require
layout(local_size_x = 32) in;
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    In { bfloat16_t at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Out { float at[]; };
layout(push_constant) uniform Push { In a; In b; Out y; } push;
shared uvec4 tile[16 * 8];
void main() {
    coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> a;
    coopmat<bfloat16_t, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> b;
    coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator> sum
        = coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>(0.0);
    tile[gl_LocalInvocationIndex] = uvec4(0);
    barrier();
    coopMatLoad(a, tile, 0, 8, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(b, push.b.at, 0, 64, gl_CooperativeMatrixLayoutRowMajor);
    sum = coopMatMulAdd(a, b, sum);
    coopMatStore(sum, push.y.at, 0, 64, gl_CooperativeMatrixLayoutRowMajor);
}
"""

SMALL = (
    "push.y.at[i] = push.x.at[i] * 2.0;",
    "float s = 0.0; for (uint k = 0; k < 8; ++k) s += push.x.at[i + k];"
    " push.y.at[i] = s;",
    "if (i < push.n) push.y.at[i] = exp(push.x.at[i / push.m]);",
    "uint k = i; while (k > push.n) k /= 2; push.y.at[k] = 1.0;",
    "float a[4]; for (uint k = 0; k < 4; ++k) a[k] = push.x.at[k];"
    " push.y.at[i] = a[i % 4];",
    "switch (push.n) { case 1: push.y.at[i] = 1.0; break; case 7: push.y.at[i] = 2.0;"
    " break; default: push.y.at[0] = 3.0; }",
)
SHARED = """
layout(constant_id = 3) const uint ROWS = 32;
const uint CELLS = ROWS * 2;
shared float tile[CELLS];
uint place(uint row) { return row * ROWS + lane % ROWS; }
void main() {
    tile[lane] = push.x.at[i];
    barrier();
    push.y.at[i] = tile[place(lane / ROWS) % CELLS];
}
"""


def small() -> list[bytes]:
    """Return small modules that have a little of everything."""
    return [*map(main_of, SMALL), compiled(SHARED)]
