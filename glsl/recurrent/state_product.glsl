// Products of states with weights for a tile of one recurrent step
//
// A workgroup multiplies ROWS states with the weights of UNITS units, which have PARTS
// rows of weights each, apart by `units`. Its SLICES divide K among themselves, for a
// step is too small a product to fill a device in any other way. An invocation has 4
// states and 4 weights of a slice.
// lint    bank-conflict: vectors of neighbours lie side by side, and take turns anyway
// lint    scalar-load: without VECTORS rows begin at any element
// Source: the products it replaces: on an NVIDIA H200 (580.159.04, 2026-11-30) tiles of
// 32 x 32 without slices took 8.6 us for 64 states of 256 units.

layout(constant_id = 3) const uint ROWS = 4;
layout(constant_id = 4) const uint UNITS = 4;
layout(constant_id = 5) const uint SLICES = 64;
// Elements of K at a time, a multiple of 4 * SLICES; vec4 of shared memory
layout(constant_id = 6) const uint DEPTH = 256;
layout(constant_id = 7) const uint STAGED = 520;

#ifdef VECTORS
#include "lib/vec4_io.glsl"
#define Rows QuadsIn
// By way of two words, for SwiftShader crashes on the direct one.
#define ROWS_OF(x) QuadsIn(uvec2(x))
#else
#define Rows In
#define ROWS_OF(x) x
#endif

const uint COLUMNS = UNITS * PARTS;
const uint LANES = (ROWS / 4u) * (COLUMNS / 4u);
const uint QUADS = DEPTH / 4u;
// Odd, so that neighbouring rows are in other banks
const uint PITCH = QUADS | 1u;

// States and weights; then sums of the slices
shared vec4 staged[STAGED];

// Elements k to k + 3 of a row of a matrix of `depth` columns, 0 beyond them and unless
// `is_row`
vec4 quad_of(Rows elements, uint begin, uint k, uint depth, bool is_row) {
#ifdef VECTORS
    bool within = is_row && k < depth;
    return mix(vec4(0.0), load_quad(elements, within ? (begin + k) / 4u : 0u), bvec4(within));
#else
    vec4 quad;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        bool within = is_row && k + i < depth;
        quad[i] = mix(0.0, load(elements, within ? begin + k + i : 0u), within);
    }
    return quad;
#endif
}

uint first_row(uint batch) { return gl_WorkGroupID.y * ROWS; }
uint first_unit(uint units) { return gl_WorkGroupID.x * UNITS; }

// Leave the sums of all slices in shared memory; every invocation must call it.
void sum_products(Rows states, uint state_pitch, Rows weight, uint batch, uint units,
                  uint depth) {
    uint local = gl_LocalInvocationIndex, lane = local % LANES, slice = local / LANES;
    uint row_lane = lane / (COLUMNS / 4u), column_lane = lane % (COLUMNS / 4u);
    vec4 total[4];
    [[unroll]] for (uint i = 0; i < 4; ++i) total[i] = vec4(0.0);
    for (uint begin = 0; begin < depth; begin += DEPTH) {
        if (begin > 0u) barrier();
        for (uint at = local; at < ROWS * QUADS; at += gl_WorkGroupSize.x) {
            uint row = at / QUADS, quad = at % QUADS, sequence = first_row(batch) + row;
            staged[row * PITCH + quad] = quad_of(
                states, sequence * state_pitch, begin + 4u * quad, depth, sequence < batch);
        }
        for (uint at = local; at < COLUMNS * QUADS; at += gl_WorkGroupSize.x) {
            uint column = at / QUADS, quad = at % QUADS;
            uint unit = first_unit(units) + column % UNITS;
            uint row = column / UNITS * units + unit;
            // The four of an invocation are apart, those of neighbours side by side.
            uint place = ROWS + column % 4u * (COLUMNS / 4u) + column / 4u;
            staged[place * PITCH + quad] =
                quad_of(weight, row * depth, begin + 4u * quad, depth, unit < units);
        }
        barrier();
        for (uint quad = slice; quad < QUADS; quad += SLICES) {
            vec4 weights[4];
            [[unroll]] for (uint j = 0; j < 4; ++j)
                weights[j] = staged[(ROWS + j * (COLUMNS / 4u) + column_lane) * PITCH + quad];
            [[unroll]] for (uint i = 0; i < 4; ++i) {
                vec4 state = staged[(row_lane + i * (ROWS / 4u)) * PITCH + quad];
                [[unroll]] for (uint j = 0; j < 4; ++j) {
                    float sum = total[i][j];
                    [[unroll]] for (uint k = 0; k < 4; ++k)
                        sum = fma(state[k], weights[j][k], sum);
                    total[i][j] = sum;
                }
            }
        }
    }
    barrier();
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        uint row = row_lane + i * (ROWS / 4u);
        staged[(slice * ROWS + row) * (COLUMNS / 4u) + column_lane] = total[i];
    }
    barrier();
}

// The sum of a row and a unit of the tile
float product_sum(uint row, uint unit, uint part) {
    uint column = part * UNITS + unit;
    float sum = 0.0;
    for (uint slice = 0; slice < SLICES; ++slice)
        sum += staged[(slice * ROWS + row) * (COLUMNS / 4u) + column / 4u][column % 4u];
    return sum;
}
