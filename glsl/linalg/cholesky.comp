// Cholesky factors of small matrices, in shared memory: L of A = L L^T
// grid    linear, one workgroup for each matrix
// in      a (matrices, N, N) REAL, of which the lower triangle is read
// out     out_ (matrices, N, N), 0 above the diagonal; NaN where A is not
//         positive-definite; info (matrices): the order of the first minor that is not
//         positive, or 0
// consts  N
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 4.2.2: outer
//         products
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

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

shared REAL rows[N][N + 1];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    Reals a = args.a;
    Results out_ = args.out_;
    uint begin = matrix * N * N, size = gl_WorkGroupSize.x;
    for (uint i = gl_LocalInvocationIndex; i < N * N; i += size)
        rows[i / N][i % N] = i % N <= i / N ? a.at[begin + i] : 0.0;
    uint bad = 0;
    for (uint k = 0; k < N; ++k) {
        barrier();
        REAL top = rows[k][k];
        bool is_positive = top > 0.0;
        if (!is_positive && bad == 0) bad = k + 1;
        // Neither a root nor a quotient of what is not positive is a number everywhere.
        REAL root = is_positive ? sqrt(top) : NOT_A_NUMBER;
        barrier();
        for (uint row = k + gl_LocalInvocationIndex; row < N; row += size)
            rows[row][k] = row == k ? root : rows[row][k] / root;
        barrier();
        uint rest = N - 1u - k;
        for (uint i = gl_LocalInvocationIndex; i < rest * rest; i += size) {
            uint row = k + 1u + i / rest, column = k + 1u + i % rest;
            if (column <= row)
                rows[row][column] = fma(-rows[row][k], rows[column][k], rows[row][column]);
        }
    }
    barrier();
    for (uint i = gl_LocalInvocationIndex; i < N * N; i += size)
        out_.at[begin + i] = rows[i / N][i % N];
    if (gl_LocalInvocationIndex == 0) args.info.at[matrix] = int(bad);
}
