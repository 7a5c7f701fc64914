// Products of states with weights for a tile of one recurrent step, on tensor cores
//
// As recurrent/state_product.glsl, of 16-bit floats. ROWS and UNITS are multiples of 16;
// so is K, and so many units there are. Subgroups divide K among themselves and load
// fragments straight from memory, DEEP of K at a time, as many loads as are in flight:
// weights are read once, and what is staged would wait. The last tiles overlap those
// before them. With PADDED there are fewer than ROWS = 16 states, which pass through
// shared memory of the subgroup, others being 0.

#include "matmul/coopmat_types.glsl"
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_control_flow_attributes : require

layout(constant_id = 3) const uint ROWS = 16;
layout(constant_id = 4) const uint UNITS = 16;
layout(constant_id = 5) const uint DEEP = 4;
layout(constant_id = 6) const uint SUBGROUP = 32;
layout(constant_id = 7) const uint PADDED = 0;

const uint EDGE = 16, EDGE_K = 16;
const uint COLUMNS = UNITS * PARTS;
const uint SUBGROUPS = gl_WorkGroupSize.x / SUBGROUP;
const uint FRAGMENTS_M = ROWS / EDGE, FRAGMENTS_N = COLUMNS / EDGE;
// vec4 of a row of sums, and one that puts neighbouring rows into other banks
const uint QUADS = COLUMNS / 4, PITCH = QUADS + 1;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { uvec4 at[]; };
#define Rows Vectors
#define ROWS_OF(x) Vectors(uvec2(x))

// Vectors of EDGE states; a subgroup's part of shared memory, which has DEEP times as
// many, then its sums for EDGE rows
const uint FRAGMENT = EDGE * EDGE_K / 8;
const uint STAGED = PADDED * DEEP * FRAGMENT;
const uint SHARE = STAGED > EDGE * PITCH ? STAGED : EDGE * PITCH;
shared uvec4 tiles[SUBGROUPS * SHARE];
shared vec4 totals[ROWS * QUADS];

#ifdef EMULATED
#include "recurrent/coopmat_emulation.glsl"
#else
#include "matmul/coopmat_fragments.glsl"
#endif

uint first_row(uint batch) {
    return PADDED != 0 ? 0 : min(gl_WorkGroupID.y * ROWS, batch - ROWS);
}
uint first_unit(uint units) { return min(gl_WorkGroupID.x * UNITS, units - UNITS); }

// Leave the sums of EDGE rows in shared memory; every invocation must call it.
void join_sums(C_FRAGMENT sums[FRAGMENTS_N], uint row) {
    barrier();
    [[unroll]] for (uint n = 0; n < FRAGMENTS_N; ++n)
        coopMatStore(
            sums[n], tiles, subgroup * SHARE + n * (EDGE / 4), PITCH, BY_ROWS);
    barrier();
    for (uint at = gl_LocalInvocationIndex; at < EDGE * QUADS; at += gl_WorkGroupSize.x) {
        uint place = at / QUADS * PITCH + at % QUADS;
        vec4 sum = uintBitsToFloat(tiles[place]);
        [[unroll]] for (uint i = 1; i < SUBGROUPS; ++i)
            sum += uintBitsToFloat(tiles[i * SHARE + place]);
        totals[row * QUADS + at] = sum;
    }
}

// Put fragment number i of EDGE states, of which there are `batch`, into shared memory.
void put_states(Rows states, uint i, uint k, uint line, uint batch) {
    for (uint at = lane; at < FRAGMENT; at += SUBGROUP) {
        uint row = at / (EDGE_K / 8u), place = row * line + k + at % (EDGE_K / 8u);
        uvec4 vector = states.at[row < batch ? place : 0u];
        tiles[subgroup * SHARE + i * FRAGMENT + at] = row < batch ? vector : uvec4(0u);
    }
}

// Leave the sums of all subgroups in shared memory; every invocation must call it.
void sum_products(Rows states, uint state_pitch, Rows weight, uint batch, uint units,
                  uint depth) {
    uint row = first_row(batch), unit = first_unit(units);
    uint count = depth / EDGE_K, state_line = state_pitch / 8u, line = depth / 8u;
    C_FRAGMENT sums[FRAGMENTS_M][FRAGMENTS_N];
    [[unroll]] for (uint m = 0; m < FRAGMENTS_M; ++m)
        [[unroll]] for (uint n = 0; n < FRAGMENTS_N; ++n) sums[m][n] = NO_SUMS;
    // As often in all subgroups, for barriers of emulated ones.
    for (uint begin = 0; begin < count; begin += SUBGROUPS * DEEP) {
        uint first = begin + subgroup;
        A_FRAGMENT left[DEEP][FRAGMENTS_M];
        B_FRAGMENT right[DEEP][FRAGMENTS_N];
        [[unroll]] for (uint i = 0; i < DEEP; ++i) {
            uint k = min(first + i * SUBGROUPS, count - 1u) * (EDGE_K / 8u);
            if (PADDED != 0) put_states(states, i, k, state_line, batch);
            else
                [[unroll]] for (uint m = 0; m < FRAGMENTS_M; ++m) {
                    uint at = (row + m * EDGE) * state_line + k;
                    coopMatLoad(left[i][m], states.at, at, state_line, BY_ROWS);
                }
            [[unroll]] for (uint n = 0; n < FRAGMENTS_N; ++n) {
                uint column = n * EDGE / UNITS * units + unit + n * EDGE % UNITS;
                uint at = column * line + k;
                coopMatLoad(right[i][n], weight.at, at, line, BY_COLUMNS);
            }
        }
        if (PADDED != 0) {
            STRIP_BARRIER();
            [[unroll]] for (uint i = 0; i < DEEP; ++i) {
                uint at = subgroup * SHARE + i * FRAGMENT;
                coopMatLoad(left[i][0], tiles, at, EDGE_K / 8u, BY_ROWS);
            }
        }
        [[unroll]] for (uint i = 0; i < DEEP; ++i)
            if (first + i * SUBGROUPS < count)
                [[unroll]] for (uint m = 0; m < FRAGMENTS_M; ++m)
                    [[unroll]] for (uint n = 0; n < FRAGMENTS_N; ++n)
                        sums[m][n] = coopMatMulAdd(left[i][m], right[i][n], sums[m][n]);
        if (PADDED != 0) STRIP_BARRIER();
    }
    [[unroll]] for (uint m = 0; m < FRAGMENTS_M; ++m) join_sums(sums[m], m * EDGE);
    barrier();
}

// The sum of a row and a unit of the tile
float product_sum(uint row, uint unit, uint part) {
    uint column = part * UNITS + unit;
    return totals[row * QUADS + column / 4u][column % 4u];
}
