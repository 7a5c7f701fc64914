// Products of states with weights that stay on the multiprocessor for all steps
//
// A workgroup multiplies ROWS states with all rows of the weights, its columns. Each 8
// invocations have EACH columns and divide K among themselves, QUADS vec4 each; so many
// lie side by side in memory, and add up by shuffles. Of its QUADS * EACH vec4 of weights
// an invocation holds HELD in registers, the others are in shared memory.
//
//   hold_weights(weight, columns, depth), clear_states()
//                         before all steps
//   set_state(row, k, value), multiply(), product_sum(row, column)
//                         of one step, with a barrier after each; all invocations call
//                         `multiply`
// macros  SHUFFLES: subgroups are full and have 8 invocations or more; VECTORS: rows of
//         weights begin and end with vec4
// lint    scalar-load: without VECTORS rows begin at any element

#include "lib/vec4_io.glsl"
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif

layout(constant_id = 3) const uint ROWS = 1;
layout(constant_id = 4) const uint EACH = 1;
layout(constant_id = 5) const uint QUADS = 1;
layout(constant_id = 6) const uint HELD = 1;
// Rows that are multiplied at a time, of which ROWS is a multiple
layout(constant_id = 7) const uint TOGETHER = 1;
// States and units of an invocation: ROWS * units divided by the workgroup
layout(constant_id = 8) const uint ITEMS = 1;

#ifdef VECTORS
#define Rows QuadsIn
// By way of two words, for SwiftShader crashes on the direct one.
#define ROWS_OF(x) QuadsIn(uvec2(x))
#else
#define Rows In
#define ROWS_OF(x) x
#endif
// A number as it will be read again
#define AS_STORED(value) DECODE(ENCODE(value))

const uint SLICES = 8;
const uint ALL = QUADS * EACH;
const uint COLUMNS = gl_WorkGroupSize.x / SLICES * EACH;
const uint STATE_QUADS = QUADS * SLICES;
const uint VALUES = TOGETHER * EACH;

shared vec4 states[ROWS * STATE_QUADS];
shared QUAD others[ALL > HELD ? (ALL - HELD) * gl_WorkGroupSize.x : 1];
QUAD held[HELD];
float totals[VALUES];

#ifdef SHUFFLES
const uint PARTIAL_SUMS = 1;
uint thread = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
#else
const uint PARTIAL_SUMS = SLICES;
uint thread = gl_LocalInvocationIndex;
#endif
uint slice = thread % SLICES, first_column = thread / SLICES * EACH;

shared float sums[PARTIAL_SUMS * ROWS * COLUMNS];

// Elements k to k + 3 of a row of `depth` columns, 0 beyond them and unless `is_row`
QUAD quad_of(Rows weight, uint row, uint k, uint depth, bool is_row) {
#ifdef VECTORS
    bool within = is_row && k < depth;
    QUAD quad = weight.at[within ? (row * depth + k) / 4u : 0u];
    return within ? quad : QUAD(0);
#else
    uvec4 bits;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        bool within = is_row && k + i < depth;
        uint at = within ? row * depth + k + i : 0u;
#if BYTES == 4
        bits[i] = within ? floatBitsToUint(weight.at[at]) : 0u;
#else
        bits[i] = within ? uint(weight.at[at]) : 0u;
#endif
    }
#if BYTES == 4
    return uintBitsToFloat(bits);
#else
    return bits.xz | bits.yw << 16;
#endif
#endif
}

void hold_weights(Rows weight, uint columns, uint depth) {
    [[unroll]] for (uint i = 0; i < ALL; ++i) {
        uint column = first_column + i % EACH, k = 4u * (i / EACH * SLICES + slice);
        QUAD quad = quad_of(weight, column, k, depth, column < columns);
        if (i < HELD) held[min(i, HELD - 1u)] = quad;
        else others[(i - HELD) * gl_WorkGroupSize.x + thread] = quad;
    }
}

void clear_states() {
    for (uint at = thread; at < ROWS * STATE_QUADS; at += gl_WorkGroupSize.x)
        states[at] = vec4(0.0);
}

void set_state(uint row, uint k, float value) {
    states[row * STATE_QUADS + k / 4u][k % 4u] = value;
}

// Half of COUNT sums go to the invocation that `slice ^ MASK` is, and half come from
// there; an odd number goes both ways. `first` counts what is left, `keeps` is whether
// no other invocation has the same.
#define FOLD(COUNT, MASK)                                                               \
    {                                                                                   \
        bool upper = (slice & MASK) != 0u;                                              \
        if (COUNT % 2u == 0u) {                                                         \
            [[unroll]] for (uint i = 0; i < COUNT / 2u; ++i) {                          \
                float low = totals[i], high = totals[i + COUNT / 2u];                   \
                float other = subgroupShuffleXor(upper ? low : high, MASK);             \
                totals[i] = (upper ? high : low) + other;                               \
            }                                                                           \
            first += upper ? COUNT / 2u : 0u;                                           \
        } else {                                                                        \
            [[unroll]] for (uint i = 0; i < COUNT; ++i)                                 \
                totals[i] += subgroupShuffleXor(totals[i], MASK);                       \
            keeps = keeps && !upper;                                                    \
        }                                                                               \
    }

// Leave the sums of rows `row` to `row + TOGETHER - 1` in shared memory.
void keep_sums(uint row) {
#ifdef SHUFFLES
    const uint HALF = VALUES % 2u == 0u ? VALUES / 2u : VALUES;
    const uint QUARTER = HALF % 2u == 0u ? HALF / 2u : HALF;
    const uint EIGHTH = QUARTER % 2u == 0u ? QUARTER / 2u : QUARTER;
    uint first = 0;
    bool keeps = true;
    FOLD(VALUES, 4u)
    FOLD(HALF, 2u)
    FOLD(QUARTER, 1u)
    if (!keeps) return;
    [[unroll]] for (uint i = 0; i < EIGHTH; ++i) {
        uint value = first + i;
        sums[(row + value / EACH) * COLUMNS + first_column + value % EACH] = totals[i];
    }
#else
    [[unroll]] for (uint i = 0; i < VALUES; ++i) {
        uint line = slice * ROWS + row + i / EACH;
        sums[line * COLUMNS + first_column + i % EACH] = totals[i];
    }
#endif
}

void multiply() {
    [[dont_unroll]] for (uint row = 0; row < ROWS; row += TOGETHER) {
        [[unroll]] for (uint i = 0; i < VALUES; ++i) totals[i] = 0.0;
        [[unroll]] for (uint quad = 0; quad < QUADS; ++quad) {
            vec4 state[TOGETHER];
            [[unroll]] for (uint i = 0; i < TOGETHER; ++i)
                state[i] = states[(row + i) * STATE_QUADS + quad * SLICES + slice];
            [[unroll]] for (uint j = 0; j < EACH; ++j) {
                uint at = quad * EACH + j;
                QUAD bits = held[min(at, HELD - 1u)];
                if (at >= HELD) bits = others[(at - HELD) * gl_WorkGroupSize.x + thread];
                vec4 weight = decode_quad(bits);
                [[unroll]] for (uint i = 0; i < TOGETHER; ++i) {
                    float sum = totals[i * EACH + j];
                    [[unroll]] for (uint k = 0; k < 4; ++k)
                        sum = fma(state[i][k], weight[k], sum);
                    totals[i * EACH + j] = sum;
                }
            }
        }
        keep_sums(row);
    }
}

float product_sum(uint row, uint column) {
    float sum = sums[row * COLUMNS + column];
    [[unroll]] for (uint i = 1; i < PARTIAL_SUMS; ++i)
        sum += sums[(i * ROWS + row) * COLUMNS + column];
    return sum;
}
