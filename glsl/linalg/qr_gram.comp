// Products of reflections' vectors with each other, and with columns, of parts of the rows
// grid    x one workgroup for the vectors, and one for 64 columns from `first` to `last`, y
//         parts of `rows` rows from `begun` on, z matrices
// in      factors, target (matrices, m, n) REAL: see linalg/reflections.glsl
// out     products (matrices, parts, VECTORS, width): sums of a part's rows; width is 64
//         for each workgroup
// consts  FORWARD: the vectors are in `target`; LOCAL_X: 256
// macros  DOUBLE: see linalg/real.glsl; VECTORS: how many there are, 4 to 64
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 5.2.3
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef VECTORS
#define VECTORS 16
#endif

layout(constant_id = 3) const uint FORWARD = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals factors;
    Results target;
    Results products;
    uint m;
    uint n;
    uint begun;
    uint first;
    uint last;
    uint rows;
} args;

#include "linalg/reflections.glsl"

const uint WORKGROUP = 256;
const uint SIDE = 16;
const uint TILE = 64;
const uint EACH = TILE / SIDE;
const uint HELD = (VECTORS + SIDE - 1) / SIDE;
#ifdef DOUBLE
const uint DEPTH = 16;
#else
const uint DEPTH = 32;
#endif

const uint WIDE = HELD * SIDE;
const uint OF_VECTORS = DEPTH * WIDE / WORKGROUP;
const uint OF_TILE = DEPTH * TILE / WORKGROUP;

shared REAL vectors[DEPTH][WIDE];
shared REAL tile[DEPTH][TILE];

REAL wide_vector(Reals factors, Results target, uint row, uint end, uint k) {
    if (row >= end || k >= VECTORS) return 0.0;
    return vector_at(factors, target, row, k);
}

void main() {
    uint thread = gl_LocalInvocationIndex, across = thread % SIDE, down = thread / SIDE;
    uint begin = args.begun + gl_WorkGroupID.y * args.rows;
    uint end = min(args.m, begin + args.rows);
    bool is_own = gl_WorkGroupID.x == 0;
    uint left = args.first + gl_WorkGroupID.x * TILE - TILE;
    // Columns of the identity have nothing below the rows of the vectors' first elements.
    uint behind = args.begun + VECTORS;
    bool is_identity = FORWARD == 0 && min(left + TILE, args.last) <= behind;
    if (!is_own && is_identity) end = min(end, behind);
    Reals factors = args.factors;
    Results target = args.target, products = args.products;
    REAL sums[HELD][EACH];
    [[unroll]] for (uint h = 0; h < HELD; ++h)
        [[unroll]] for (uint c = 0; c < EACH; ++c) sums[h][c] = 0.0;
    // What is loaded while the rows before are multiplied
    REAL next_vectors[OF_VECTORS], next_tile[OF_TILE];
    for (uint above = begin; above < end + DEPTH; above += DEPTH) {
        // In the first turn there is nothing yet to be multiplied, in the last one
        // nothing to be loaded.
        barrier();
        if (above > begin) {
            [[unroll]] for (uint j = 0; j < OF_VECTORS; ++j) {
                uint i = thread + j * WORKGROUP;
                vectors[i / WIDE][i % WIDE] = next_vectors[j];
            }
            [[unroll]] for (uint j = 0; j < OF_TILE; ++j) {
                uint i = thread + j * WORKGROUP;
                tile[i / TILE][i % TILE] = next_tile[j];
            }
        }
        barrier();
        [[unroll]] for (uint j = 0; j < OF_VECTORS; ++j) {
            uint i = thread + j * WORKGROUP, row = above + i / WIDE;
            next_vectors[j] = wide_vector(factors, target, row, end, i % WIDE);
        }
        [[unroll]] for (uint j = 0; j < OF_TILE; ++j) {
            uint i = thread + j * WORKGROUP, row = above + i / TILE, k = i % TILE;
            REAL value = 0.0;
            if (is_own) value = wide_vector(factors, target, row, end, k);
            if (!is_own && row < end) value = element_at(target, row, left + k);
            next_tile[j] = value;
        }
        if (above == begin) continue;
        for (uint row = 0; row < DEPTH; ++row) {
            REAL a[HELD], b[EACH];
            [[unroll]] for (uint h = 0; h < HELD; ++h) a[h] = vectors[row][down + h * SIDE];
            [[unroll]] for (uint c = 0; c < EACH; ++c) b[c] = tile[row][across + c * SIDE];
            [[unroll]] for (uint h = 0; h < HELD; ++h)
                [[unroll]] for (uint c = 0; c < EACH; ++c)
                    sums[h][c] = fma(a[h], b[c], sums[h][c]);
        }
    }
    uint part = gl_WorkGroupID.z * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    uint width = gl_NumWorkGroups.x * TILE;
    [[unroll]] for (uint h = 0; h < HELD; ++h) {
        uint k = down + h * SIDE;
        if (k >= VECTORS) continue;
        uint start = (part * VECTORS + k) * width + gl_WorkGroupID.x * TILE + across;
        [[unroll]] for (uint c = 0; c < EACH; ++c)
            products.at[start + c * SIDE] = sums[h][c];
    }
}
