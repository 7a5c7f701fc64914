// Cholesky factors of small matrices: L of A = L L^T
// grid    linear, one workgroup for LOCAL_X / ROWS matrices
// in      a (matrices, N, N) REAL, of which the lower triangle is read
// out     out_ (matrices, N, N), 0 above the diagonal; NaN from the column on where A is
//         not positive-definite; info (matrices): the order of the first minor that is not
//         positive, or 0
// consts  N; LOCAL_X: 64
// macros  DOUBLE: see linalg/real.glsl; ROWS: a power of two up to 64, N at most
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 4.2.2: outer
//         products
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"
#include "linalg/roots.glsl"

#ifndef ROWS
#define ROWS 16
#endif

layout(constant_id = 3) const uint N = 1;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly buffer
    Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly buffer
    Results { REAL at[]; };

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Infos { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Results out_;
    Infos info;
    uint matrices;
} args;

const uint WORKGROUP = 64;
const uint GROUP = WORKGROUP / ROWS;

// Rows of the matrices; an invocation has one of them.
shared REAL rows[GROUP * N][N + 1];
// A column of each from its diagonal on: every other one, so that those who still read one
// do not wait for those who write the next.
shared REAL beside[2][GROUP][ROWS];

void main() {
    uint first = linear_workgroup() * GROUP, matrices = args.matrices;
    if (first >= matrices) return;
    uint local = gl_LocalInvocationIndex, group = local / ROWS, row = local % ROWS;
    uint begin = first * N * N, count = min(GROUP, matrices - first) * N * N;
    Reals a = args.a;
    Results out_ = args.out_;
    for (uint i = local; i < GROUP * N * N; i += WORKGROUP) {
        uint down = i / N, right = i % N;
        // Beyond the last matrix there is the identity.
        REAL value = down % N == right ? 1.0 : 0.0;
        if (i < count) value = right <= down % N ? a.at[begin + i] : REAL(0.0);
        rows[down][right] = value;
    }
    barrier();
    uint own = group * N + min(row, N - 1);
    REAL held[ROWS];
    [[unroll]] for (uint lane = 0; lane < ROWS; ++lane)
        held[lane] = row < N && lane < N ? rows[own][min(lane, N - 1)] : REAL(0.0);
    uint bad = 0;
    // Column k is always the first in registers, which are rotated by one.
    [[dont_unroll]] for (uint k = 0; k < N; ++k) {
        uint now = k % 2;
        if (row >= k) beside[now][group][row - k] = held[0];
        barrier();
        REAL top = beside[now][group][0], root, inverse;
        roots(top, root, inverse);
        // A root of what is not positive is no number everywhere.
        bool is_positive = top > 0.0;
        if (!is_positive) root = inverse = NOT_A_NUMBER;
        if (!is_positive && bad == 0) bad = k + 1;
        REAL value = held[0] * inverse, factor = value * inverse;
        if (row == k) value = root;
        if (row < N) rows[own][k] = row < k ? 0.0 : value;
        // Of those behind the last column nothing is used.
        [[unroll]] for (uint lane = 1; lane < ROWS; ++lane)
            held[lane - 1] = fma(-factor, beside[now][group][lane], held[lane]);
    }
    barrier();
    for (uint i = local; i < count; i += WORKGROUP) out_.at[begin + i] = rows[i / N][i % N];
    if (row == 0 && first + group < matrices) args.info.at[first + group] = int(bad);
}
