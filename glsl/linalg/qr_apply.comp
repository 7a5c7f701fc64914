// A product of reflections applied to columns: shares of the vectors taken from them
// grid    x one workgroup for 64 columns from `first` to `last`, y for 64 rows from `begun`
//         on, z matrices
// in      factors (matrices, m, n) REAL: see linalg/reflections.glsl; shares (matrices,
//         VECTORS, width): see linalg/qr_solve.comp
// out     target (matrices, m, n), in place
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
    Reals shares;
    uint m;
    uint n;
    uint begun;
    uint first;
    uint last;
    uint width;
} args;

#include "linalg/reflections.glsl"

const uint WORKGROUP = 256;
const uint SIDE = 16;
const uint TILE = 64;
const uint EACH = TILE / SIDE;
// Columns in front, of products of the vectors with each other
const uint OWN = 64;
const uint DEPTH = min(VECTORS, 16);

shared REAL vectors[DEPTH][TILE + 1];
shared REAL taken[DEPTH][TILE];

void main() {
    uint thread = gl_LocalInvocationIndex, across = thread % SIDE, down = thread / SIDE;
    uint top = args.begun + gl_WorkGroupID.y * TILE, offset = gl_WorkGroupID.x * TILE;
    uint left = args.first + offset, width = args.width;
    Reals factors = args.factors, shares = args.shares;
    Results target = args.target;
    REAL rest[EACH][EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r)
        [[unroll]] for (uint c = 0; c < EACH; ++c)
            rest[r][c] =
                element_at(target, top + down + r * SIDE, left + across + c * SIDE);
    for (uint k = 0; k < VECTORS; k += DEPTH) {
        barrier();
        for (uint i = thread; i < DEPTH * TILE; i += WORKGROUP) {
            uint row = i / DEPTH;
            vectors[i % DEPTH][row] =
                vector_at(factors, target, top + row, k + i % DEPTH);
        }
        uint start = (gl_WorkGroupID.z * VECTORS + k) * width + OWN + offset;
        for (uint i = thread; i < DEPTH * TILE; i += WORKGROUP)
            taken[i / TILE][i % TILE] = shares.at[start + i / TILE * width + i % TILE];
        barrier();
        for (uint each = 0; each < DEPTH; ++each) {
            REAL a[EACH], b[EACH];
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                a[r] = -vectors[each][down + r * SIDE];
            [[unroll]] for (uint c = 0; c < EACH; ++c)
                b[c] = taken[each][across + c * SIDE];
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                [[unroll]] for (uint c = 0; c < EACH; ++c)
                    rest[r][c] = fma(a[r], b[c], rest[r][c]);
        }
    }
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down + r * SIDE, column = left + across + c * SIDE;
            if (row < args.m && column < args.last)
                target.at[(gl_WorkGroupID.z * args.m + row) * args.n + column] = rest[r][c];
        }
    }
}
