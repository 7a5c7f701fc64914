// Fragments: 16 x 16 cooperative matrices of a subgroup of 32 invocations
//
// Operands are DTYPE, float16 or bfloat16; accumulators are float. The includer
// includes lib/dtype.glsl first, and has `shared uvec4 tiles[]`, of which fragments are
// loaded.
//
//   FACTOR_A, FACTOR_B, SUMS    types
//   LOAD_A, LOAD_B, LOAD_B_TURNED(fragment, at, pitch)
//                         from the vector `at` on, in lines `pitch` vectors apart; a line
//                         is a row, but of LOAD_B_TURNED a column
//   MULTIPLY(a, b, sums)  sums += a * b
//   ROUND(value)          a float as an element of FACTOR_A: the nearest float16, or
//                         truncated to bfloat16, which is unbiased for numbers that
//                         were multiplied by 2^LIFT; rounding takes many instructions
//   UNROLL                before loops over fragments
//   lane, subgroup        the invocation in its subgroup, which is in its workgroup
//   row_of(i), column_of(i)
//                         row and column of element i < 8 of FACTOR_A and SUMS
//
// This fragment layout was observed on an NVIDIA H200 (driver 580.159.04, 2026-11-21);
// no standard defines it, and hosts test it before they rely on it. EMULATED computes
// the same through shared memory, for tests on devices without tensor cores: then
// either all invocations of a workgroup multiply or none does.

#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#extension GL_KHR_shader_subgroup_vote : require

const uint EDGE = 16;
const uint LANES = 32;
const uint ELEMENTS = 8;  // elements of a fragment per invocation

uint row_of(uint i) { return gl_LocalInvocationIndex % LANES / 4 + 8 * (i >> 2); }
uint column_of(uint i) {
    return 2 * (gl_LocalInvocationIndex % 4) + (i & 1) + 8 * (i >> 1 & 1);
}

#if DTYPE == DTYPE_FLOAT16
const float LIFT = 0.0;
#define NEAR(value) (value)
#else
// Truncation loses half a unit on average: 2^-8 / 1.44 of numbers of any size.
const float LIFT = 0.0039;
#define NEAR(value) uintBitsToFloat(floatBitsToUint(value) & 0xffff0000u)
#endif

#ifdef EMULATED

#define UNROLL [[dont_unroll]]
#define FACTOR_A float[ELEMENTS]
#define FACTOR_B float[ELEMENTS]
#define SUMS float[ELEMENTS]
#define NO_SUMS float[ELEMENTS](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#define ROUND(value) DECODE(ENCODE(NEAR(value)))

uint lane = gl_LocalInvocationIndex % LANES;
uint subgroup = gl_LocalInvocationIndex / LANES;

shared uvec4 tiles[TILES];
shared float factors[gl_WorkGroupSize.x / LANES * 2 * EDGE * EDGE];

float element_of_tiles(uint at, uint line, uint pitch, uint place) {
    uint word = tiles[at + line * pitch + place / 8][place / 2 % 4];
    return DECODE(place % 2 == 0 ? word & 0xffffu : word >> 16);
}

void load_emulated(out float fragment[ELEMENTS], uint at, uint pitch, bool turned) {
    [[dont_unroll]] for (uint i = 0; i < ELEMENTS; ++i) {
        uint line = turned ? column_of(i) : row_of(i);
        uint place = turned ? row_of(i) : column_of(i);
        fragment[i] = element_of_tiles(at, line, pitch, place);
    }
}

void multiply_emulated(float a[ELEMENTS], float b[ELEMENTS], inout float sums[ELEMENTS]) {
    uint base = subgroup * 2 * EDGE * EDGE;
    barrier();
    [[dont_unroll]] for (uint i = 0; i < ELEMENTS; ++i) {
        uint place = base + row_of(i) * EDGE + column_of(i);
        factors[place] = a[i];
        factors[place + EDGE * EDGE] = b[i];
    }
    barrier();
    [[dont_unroll]] for (uint i = 0; i < ELEMENTS; ++i)
        [[dont_unroll]] for (uint k = 0; k < EDGE; ++k)
            sums[i] += factors[base + row_of(i) * EDGE + k]
                * factors[base + EDGE * EDGE + k * EDGE + column_of(i)];
}

#define LOAD_A(fragment, at, pitch) load_emulated(fragment, at, pitch, false)
#define LOAD_B(fragment, at, pitch) load_emulated(fragment, at, pitch, false)
#define LOAD_B_TURNED(fragment, at, pitch) load_emulated(fragment, at, pitch, true)
#define MULTIPLY(a, b, sums) multiply_emulated(a, b, sums)

#else

#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#if DTYPE == DTYPE_FLOAT16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define FACTOR float16_t
#else
#extension GL_EXT_bfloat16 : require
#define FACTOR bfloat16_t
#endif

#define UNROLL [[unroll]]
#define FACTOR_A coopmat<FACTOR, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseA>
#define FACTOR_B coopmat<FACTOR, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseB>
#define SUMS coopmat<float, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseAccumulator>
#define NO_SUMS SUMS(0.0)
#define ROUND(value) FACTOR(NEAR(value))

uint lane = gl_SubgroupInvocationID;
uint subgroup = gl_SubgroupID;

shared uvec4 tiles[TILES];

#define LOAD_A(fragment, at, pitch)                                                      \
    coopMatLoad(fragment, tiles, at, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_B(fragment, at, pitch)                                                      \
    coopMatLoad(fragment, tiles, at, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_B_TURNED(fragment, at, pitch)                                               \
    coopMatLoad(fragment, tiles, at, pitch, gl_CooperativeMatrixLayoutColumnMajor)
#define MULTIPLY(a, b, sums) sums = coopMatMulAdd(a, b, sums)

#endif
