// Product of 32 columns of Cholesky factors, taken from what is left of a matrix
// grid    x, y tiles of TILE x TILE of what is behind these columns, z matrices
// in      a (matrices, n, n) REAL: what is left if IS_FIRST; l (matrices, n, n): the
//         factors; begun: the columns before these
// out     rest (matrices, n, n): what is left, in place; its lower triangle
// consts  IS_FIRST; LOCAL_X: 256
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 4.2.6
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint IS_FIRST = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Reals l;
    Results rest;
    uint n;
    uint begun;
} args;

const uint COLUMNS = 32;
#ifdef DOUBLE
const uint TILE = 32;
#else
const uint TILE = 64;
#endif
const uint SIDE = 16;
const uint EACH = TILE / SIDE;

// What is read by neighbouring invocations lies side by side.
shared REAL left[COLUMNS][TILE + 1];
shared REAL right[COLUMNS][TILE + 1];

void main() {
    if (gl_WorkGroupID.x > gl_WorkGroupID.y) return;
    Reals a = args.a, l = args.l;
    Results rest = args.rest;
    uint n = args.n, begun = args.begun, thread = gl_LocalInvocationIndex;
    uint begin = gl_WorkGroupID.z * n * n, first = begun + COLUMNS;
    uint top = first + gl_WorkGroupID.y * TILE, side = first + gl_WorkGroupID.x * TILE;
    for (uint i = thread; i < TILE * COLUMNS; i += 256) {
        uint number = i / COLUMNS, k = i % COLUMNS, row = top + number;
        uint column = side + number;
        REAL one = 0.0, other = 0.0;
        if (row < n) one = l.at[begin + row * n + begun + k];
        if (column < n) other = l.at[begin + column * n + begun + k];
        left[k][number] = one;
        right[k][number] = other;
    }
    uint across = thread % SIDE, down = thread / SIDE;
    REAL sums[EACH][EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down + r * SIDE, column = side + across + c * SIDE;
            uint at = begin + row * n + column;
            sums[r][c] = 0.0;
            if (row < n && column <= row) {
                if (IS_FIRST != 0) sums[r][c] = a.at[at];
                if (IS_FIRST == 0) sums[r][c] = rest.at[at];
            }
        }
    }
    barrier();
    for (uint k = 0; k < COLUMNS; ++k) {
        REAL one[EACH], other[EACH];
        [[unroll]] for (uint r = 0; r < EACH; ++r) one[r] = -left[k][down + r * SIDE];
        [[unroll]] for (uint c = 0; c < EACH; ++c) other[c] = right[k][across + c * SIDE];
        [[unroll]] for (uint r = 0; r < EACH; ++r)
            [[unroll]] for (uint c = 0; c < EACH; ++c)
                sums[r][c] = fma(one[r], other[c], sums[r][c]);
    }
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down + r * SIDE, column = side + across + c * SIDE;
            if (row < n && column <= row) rest.at[begin + row * n + column] = sums[r][c];
        }
    }
}
