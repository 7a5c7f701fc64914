"""Self-test kernels in GLSL, written to be read and not to be fast."""

HEAD = """#version 460
#extension GL_EXT_buffer_reference : require
"""
PLAIN = (
    HEAD
    + """
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(buffer_reference, std430) buffer Words { uint at[]; };
"""
)

# What float32 and 32-bit integers are used for, in one line each.
ARITHMETIC = (
    PLAIN
    + """
layout(push_constant) uniform Push { Floats x; Floats y; Words z; uint count; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i >= count) return;
    float v = x.at[i];
    y.at[i] = sqrt(v * v + 1.0) / (2.0 + abs(v)) + exp(-abs(v)) * max(v, 0.5);
    z.at[i] = (i * 2654435761u) ^ (i / 7u) ^ (i << 3);
}
"""
)

INCREMENT = (
    PLAIN
    + """
layout(push_constant) uniform Push { Words x; uint count; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) x.at[i] += 1;
}
"""
)

# Sum, greatest, and a histogram of 64 bins.
ATOMICS = (
    PLAIN
    + """
layout(push_constant) uniform Push { Words total; Words greatest; Words bins; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    atomicAdd(total.at[0], i & 15);
    atomicMax(greatest.at[0], i ^ 21);
    atomicAdd(bins.at[i % 61 & 63], 1);
}
"""
)

FLOAT_ATOMICS = (
    HEAD
    + """#extension GL_EXT_shader_atomic_float : require
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Floats { float at[]; };
layout(push_constant) uniform Push { Floats total; };
void main() { atomicAdd(total.at[0], 1.0); }
"""
)

# OPERATION makes a value from `value`; who did it together is written down beside it.
SUBGROUP = (
    HEAD
    + """#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_arithmetic : enable
#extension GL_KHR_shader_subgroup_shuffle : enable
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Words { uint at[]; };
layout(push_constant) uniform Push { Words group; Words lane; Words y; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    uint value = i * 3 + 1;
    group.at[i] = gl_WorkGroupID.x * gl_NumSubgroups + gl_SubgroupID;
    lane.at[i] = gl_SubgroupInvocationID;
    y.at[i] = OPERATION;
}
"""
)

# T is stored, C is what is computed in.
WIDTH = (
    HEAD
    + """#extension GL_EXT_shader_8bit_storage : enable
#extension GL_EXT_shader_16bit_storage : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : enable
#extension GL_EXT_bfloat16 : enable
layout(local_size_x = 64) in;
layout(buffer_reference, std430) buffer Values { T at[]; };
layout(push_constant) uniform Push { Values x; Values y; uint count; };
void main() {
    uint i = gl_GlobalInvocationID.x;
    if (i < count) y.at[i] = T(C(x.at[i]) * C(3) + C(1));
}
"""
)

# out = a @ b + c by one subgroup.
MATRIX = (
    HEAD
    + """#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : enable
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : enable
#extension GL_EXT_bfloat16 : enable
layout(local_size_x_id = 0) in;
layout(buffer_reference, std430) buffer A { A_TYPE at[]; };
layout(buffer_reference, std430) buffer B { B_TYPE at[]; };
layout(buffer_reference, std430) buffer C { C_TYPE at[]; };
layout(push_constant) uniform Push { A a; B b; C c; C y; };
void main() {
    coopmat<A_TYPE, gl_ScopeSubgroup, M, K, gl_MatrixUseA> left;
    coopmat<B_TYPE, gl_ScopeSubgroup, K, N, gl_MatrixUseB> right;
    coopmat<C_TYPE, gl_ScopeSubgroup, M, N, gl_MatrixUseAccumulator> sum;
    coopMatLoad(left, a.at, 0, K, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(right, b.at, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    coopMatLoad(sum, c.at, 0, N, gl_CooperativeMatrixLayoutRowMajor);
    sum = coopMatMulAdd(left, right, sum);
    coopMatStore(sum, y.at, 0, N, gl_CooperativeMatrixLayoutRowMajor);
}
"""
)
