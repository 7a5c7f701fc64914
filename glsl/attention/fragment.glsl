// Fragments: 16 x 16 cooperative matrices of a subgroup of 32 invocations
//
// Operands are DTYPE, float16 or bfloat16; of float32 two parts of bfloat16, whose
// products are three. Accumulators are float. The includer includes lib/dtype.glsl
// first, and has `shared uvec4 tiles[]`, of which fragments are loaded, their low parts
// LOW_AT vectors behind the high ones.
//
//   PARTS                 2 of float32, otherwise 1
//   FACTOR_A, FACTOR_B, SUMS    types
//   LOAD_A, LOAD_B, LOAD_B_TURNED(fragment, at, pitch)
//                         from the vector `at` on, in lines `pitch` vectors apart; a line
//                         is a row, but of LOAD_B_TURNED a column
//   COPY_A(fragment, from)
//   MULTIPLY(a, b, sums)  sums += a * b
//   SET(fragment, i, value)
//                         set element i of a FACTOR_A to a float: to the nearest
//                         float16; truncated to bfloat16, which is unbiased for numbers
//                         that were multiplied by 2^LIFT, for rounding takes many
//                         instructions; or in two parts
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

#if DTYPE == DTYPE_FLOAT32
#define PARTS 2
#else
#define PARTS 1
#endif

#if DTYPE == DTYPE_FLOAT16
const float LIFT = 0.0;
#define NEAR(value) (value)
#elif PARTS == 2
const float LIFT = 0.0;
// The nearest bfloat16; what is left of a number is truncated, as likely up as down. What
// is no number stays so in the rest.
float high_part(float value) {
    return uintBitsToFloat((floatBitsToUint(value) + 0x8000u) & 0xffff0000u);
}
float low_part(float value, float high) {
    return uintBitsToFloat(floatBitsToUint(value - high) & 0xffff0000u);
}
#else
// Truncation loses half a unit on average: 2^-8 / 1.44 of numbers of any size.
const float LIFT = 0.0039;
#define NEAR(value) uintBitsToFloat(floatBitsToUint(value) & 0xffff0000u)
#endif

#ifdef EMULATED

#define UNROLL [[dont_unroll]]
#define SUMS float[ELEMENTS]
#define NO_SUMS float[ELEMENTS](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#if PARTS == 2
#include "lib/bfloat16.glsl"
#define FACTOR_A float[2][ELEMENTS]
#define FACTOR_B float[2][ELEMENTS]
#define DECODE_FACTOR(bits) from_bfloat16(bits)
#define ELEMENT(value) (value)
#else
#define FACTOR_A float[ELEMENTS]
#define FACTOR_B float[ELEMENTS]
#define DECODE_FACTOR(bits) DECODE(bits)
#define ELEMENT(value) DECODE(ENCODE(NEAR(value)))
#endif

uint lane = gl_LocalInvocationIndex % LANES;
uint subgroup = gl_LocalInvocationIndex / LANES;

shared uvec4 tiles[TILES];
shared float factors[gl_WorkGroupSize.x / LANES * 2 * EDGE * EDGE];

float element_of_tiles(uint at, uint line, uint pitch, uint place) {
    uint word = tiles[at + line * pitch + place / 8][place / 2 % 4];
    return DECODE_FACTOR(place % 2 == 0 ? word & 0xffffu : word >> 16);
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

#define LOAD_A_PART(fragment, at, pitch) load_emulated(fragment, at, pitch, false)
#define LOAD_B_PART(fragment, at, pitch) load_emulated(fragment, at, pitch, false)
#define LOAD_B_PART_TURNED(fragment, at, pitch) load_emulated(fragment, at, pitch, true)
#define MULTIPLY_PARTS(a, b, sums) multiply_emulated(a, b, sums)

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
#define MATRIX(use) coopmat<FACTOR, gl_ScopeSubgroup, EDGE, EDGE, use>
#define SUMS coopmat<float, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseAccumulator>
#define NO_SUMS SUMS(0.0)
#if PARTS == 2
#define FACTOR_A MATRIX(gl_MatrixUseA)[2]
#define FACTOR_B MATRIX(gl_MatrixUseB)[2]
#define ELEMENT(value) FACTOR(value)
#else
#define FACTOR_A MATRIX(gl_MatrixUseA)
#define FACTOR_B MATRIX(gl_MatrixUseB)
#define ELEMENT(value) FACTOR(NEAR(value))
#endif

uint lane = gl_SubgroupInvocationID;
uint subgroup = gl_SubgroupID;

shared uvec4 tiles[TILES];

#define LOAD_A_PART(fragment, at, pitch)                                                 \
    coopMatLoad(fragment, tiles, at, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_B_PART(fragment, at, pitch)                                                 \
    coopMatLoad(fragment, tiles, at, pitch, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_B_PART_TURNED(fragment, at, pitch)                                          \
    coopMatLoad(fragment, tiles, at, pitch, gl_CooperativeMatrixLayoutColumnMajor)
#define MULTIPLY_PARTS(a, b, sums) sums = coopMatMulAdd(a, b, sums)

#endif

#if PARTS == 2
#define LOAD_PARTS(LOAD, fragment, at, pitch)                                            \
    {                                                                                    \
        LOAD(fragment[0], at, pitch);                                                    \
        LOAD(fragment[1], (at) + LOW_AT, pitch);                                         \
    }
#define COPY_A(fragment, from)                                                           \
    {                                                                                    \
        fragment[0] = from[0];                                                           \
        fragment[1] = from[1];                                                           \
    }
// The smallest products first.
#define MULTIPLY(a, b, sums)                                                             \
    {                                                                                    \
        MULTIPLY_PARTS(a[1], b[0], sums);                                                \
        MULTIPLY_PARTS(a[0], b[1], sums);                                                \
        MULTIPLY_PARTS(a[0], b[0], sums);                                                \
    }
#define SET(fragment, i, value)                                                          \
    {                                                                                    \
        float value_ = value, high_ = high_part(value_);                                 \
        fragment[0][i] = ELEMENT(high_);                                                 \
        fragment[1][i] = ELEMENT(low_part(value_, high_));                               \
    }
#else
#define LOAD_PARTS(LOAD, fragment, at, pitch) LOAD(fragment, at, pitch)
#define COPY_A(fragment, from) fragment = from
#define MULTIPLY(a, b, sums) MULTIPLY_PARTS(a, b, sums)
#define SET(fragment, i, value) fragment[i] = ELEMENT(value)
#endif

#define LOAD_A(fragment, at, pitch) LOAD_PARTS(LOAD_A_PART, fragment, at, pitch)
#define LOAD_B(fragment, at, pitch) LOAD_PARTS(LOAD_B_PART, fragment, at, pitch)
#define LOAD_B_TURNED(fragment, at, pitch)                                               \
    LOAD_PARTS(LOAD_B_PART_TURNED, fragment, at, pitch)
