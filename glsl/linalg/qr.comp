// QR factors of small matrices, in shared memory
// grid    linear, one workgroup for each matrix
// in      a (matrices, M, N) REAL, M from N on
// out     out_ (matrices, M + N, N): Q, whose columns are orthonormal, and below it R
// consts  M, N; LOCAL_X: at least M
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 5.2.1, with
//         the signs of LAPACK
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint M = 1;
layout(constant_id = 4) const uint N = 1;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Results out_;
    uint matrices;
} args;

// Of each column R, and below the diagonal the vector of its reflection, which begins
// with 1.
shared REAL rows[M][N + 1];
shared REAL q[M][N + 1];
shared REAL sizes[M];
shared REAL factors[N];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint begin = matrix * M * N;
    for (uint i = local; i < M * N; i += size) {
        rows[i / N][i % N] = args.a.at[begin + i];
        q[i / N][i % N] = i / N == i % N ? 1.0 : 0.0;
    }
    for (uint k = 0; k < N; ++k) {
        barrier();
        // Squares of what is divided by the largest do not overflow.
        REAL largest = 0.0;
        bool is_number = true;
        for (uint row = k; row < M; ++row) {
            largest = max(largest, abs(rows[row][k]));
            if (isnan(rows[row][k]) || isinf(rows[row][k])) is_number = false;
        }
        if (local < M) {
            REAL part = local > k && largest > 0.0 ? rows[local][k] / largest : 0.0;
            sizes[local] = part * part;
        }
        barrier();
        REAL below = 0.0, top = rows[k][k];
        for (uint row = k + 1; row < M; ++row) below += sizes[row];
        REAL first = largest > 0.0 ? top / largest : 0.0;
        REAL whole = largest * sqrt(first * first + below);
        REAL corner = top < 0.0 ? whole : -whole;
        if (!is_number) corner = NOT_A_NUMBER;
        // A column that is 0 below the diagonal stays as it is.
        bool turns = below > 0.0 || !is_number;
        REAL factor = turns ? (corner - top) / corner : 0.0;
        barrier();
        if (local == 0) {
            factors[k] = factor;
            if (turns) rows[k][k] = corner;
        }
        if (local > k && local < M && turns) rows[local][k] /= top - corner;
        barrier();
        uint column = k + 1 + local;
        if (column < N) {
            REAL sum = rows[k][column];
            for (uint row = k + 1; row < M; ++row) sum += rows[row][k] * rows[row][column];
            sum *= factor;
            rows[k][column] -= sum;
            for (uint row = k + 1; row < M; ++row)
                rows[row][column] -= rows[row][k] * sum;
        }
    }
    barrier();
    // A column of Q is one invocation's.
    if (local < N) {
        for (uint back = 0; back < N; ++back) {
            uint k = N - 1 - back;
            REAL sum = q[k][local];
            for (uint row = k + 1; row < M; ++row) sum += rows[row][k] * q[row][local];
            sum *= factors[k];
            q[k][local] -= sum;
            for (uint row = k + 1; row < M; ++row) q[row][local] -= rows[row][k] * sum;
        }
    }
    barrier();
    begin = matrix * (M + N) * N;
    for (uint i = local; i < M * N; i += size) args.out_.at[begin + i] = q[i / N][i % N];
    for (uint i = local; i < N * N; i += size)
        args.out_.at[begin + M * N + i] =
            i % N >= i / N ? rows[i / N][i % N] : REAL(0.0);
}
