// Product of a panel's L and the U beside it, taken from the rest of LU factors in place
// grid    x, y tiles of 64 x 64 of what is behind the panel and below it, z matrices
// in      begun: columns before the panel
// out     factors (matrices, n, n) REAL, in place
// consts  none
// macros  DOUBLE: see linalg/real.glsl; COLUMNS: of the panel
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4.7
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef COLUMNS
#define COLUMNS 32
#endif

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Factors { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Factors factors;
    uint n;
    uint begun;
} args;

const uint TILE = 64;
const uint EACH = 4;
const uint SIDE = TILE / EACH;

// What is read by neighbouring invocations lies side by side.
shared REAL lower[COLUMNS][TILE + 1];
shared REAL upper[COLUMNS][TILE];

void main() {
    uint n = args.n, first = args.begun + COLUMNS, thread = gl_LocalInvocationIndex;
    uint begin = gl_WorkGroupID.z * n * n;
    uint top = first + gl_WorkGroupID.y * TILE, left = first + gl_WorkGroupID.x * TILE;
    Factors factors = args.factors;
    for (uint i = thread; i < TILE * COLUMNS; i += 256) {
        uint row = top + i / COLUMNS, k = i % COLUMNS;
        lower[k][i / COLUMNS] =
            row < n ? factors.at[begin + row * n + args.begun + k] : 0.0;
    }
    for (uint i = thread; i < TILE * COLUMNS; i += 256) {
        uint k = i / TILE, column = left + i % TILE;
        upper[k][i % TILE] =
            column < n ? factors.at[begin + (args.begun + k) * n + column] : 0.0;
    }
    uint across = thread % SIDE, down = thread / SIDE;
    REAL rest[EACH][EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down + r * SIDE, column = left + across + c * SIDE;
            bool has = row < n && column < n;
            rest[r][c] = has ? factors.at[begin + row * n + column] : 0.0;
        }
    }
    barrier();
    for (uint k = 0; k < COLUMNS; ++k) {
        REAL a[EACH], b[EACH];
        [[unroll]] for (uint r = 0; r < EACH; ++r) a[r] = -lower[k][down + r * SIDE];
        [[unroll]] for (uint c = 0; c < EACH; ++c) b[c] = upper[k][across + c * SIDE];
        [[unroll]] for (uint r = 0; r < EACH; ++r)
            [[unroll]] for (uint c = 0; c < EACH; ++c)
                rest[r][c] = fma(a[r], b[c], rest[r][c]);
    }
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down + r * SIDE, column = left + across + c * SIDE;
            if (row < n && column < n)
                factors.at[begin + row * n + column] = rest[r][c];
        }
    }
}
