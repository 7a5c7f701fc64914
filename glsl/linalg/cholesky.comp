// Cholesky factors of small matrices, in shared memory: L of A = L L^T
// grid    linear, one workgroup for each matrix
// in      a (matrices, N, N) float32, of which the lower triangle is read
// out     out_ (matrices, N, N), 0 above the diagonal; NaN where A is not
//         positive-definite
// consts  N
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 4.2.2: outer
//         products
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint N = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Floats { float at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Results { float at[]; };

layout(push_constant, std430) uniform Push {
    Floats a;
    Results out_;
    uint matrices;
} args;

shared float rows[N][N + 1];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    Floats a = args.a;
    Results out_ = args.out_;
    uint begin = matrix * N * N, size = gl_WorkGroupSize.x;
    for (uint i = gl_LocalInvocationIndex; i < N * N; i += size)
        rows[i / N][i % N] = i % N <= i / N ? a.at[begin + i] : 0.0;
    for (uint k = 0; k < N; ++k) {
        barrier();
        float top = rows[k][k];
        // Neither a root nor a quotient of what is not positive is a number everywhere.
        float root = top > 0.0 ? sqrt(top) : uintBitsToFloat(0x7fc00000u);
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
}
