// Solutions of small systems, in shared memory: X of A X = B, by LU with partial pivoting
// grid    x, y linear, one workgroup for each matrix, z one for WIDTH columns of X
// in      a (matrices, N, N) REAL; b (matrices, N, columns), not read if IDENTITY
// out     out_ (matrices, N, columns); info (matrices): the place, from 1 on, of the first
//         pivot that is 0, or 0
// consts  N; WIDTH; IDENTITY: B is the identity; LOCAL_X: a multiple of 32
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 3.4.1
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint WIDTH = 1;
layout(constant_id = 5) const uint IDENTITY = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly buffer
    Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly buffer
    Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Infos { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Reals b;
    Results out_;
    Infos info;
    uint matrices;
    uint columns;
} args;

const uint EDGE = 32;
// A, and B beside it
const uint WHOLE = N + WIDTH;

shared REAL rows[N][WHOLE + 1 - WHOLE % 2];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    Reals a = args.a, b = args.b;
    Results out_ = args.out_;
    uint size = gl_WorkGroupSize.x, columns = args.columns;
    uint lane = gl_LocalInvocationIndex % EDGE, low = gl_LocalInvocationIndex / EDGE;
    uint apart = size / EDGE, left = gl_WorkGroupID.z * WIDTH;
    uint begin = matrix * N * N, start = matrix * N * columns;
    for (uint i = gl_LocalInvocationIndex; i < N * N; i += size)
        rows[i / N][i % N] = a.at[begin + i];
    for (uint i = gl_LocalInvocationIndex; i < N * WIDTH; i += size) {
        uint row = i / WIDTH, column = left + i % WIDTH;
        REAL value = row == column ? 1.0 : 0.0;
        if (IDENTITY == 0)
            value = column < columns ? b.at[start + row * columns + column] : 0.0;
        rows[row][N + i % WIDTH] = value;
    }
    uint singular = 0;
    for (uint k = 0; k < N; ++k) {
        barrier();
        // Of equal ones the first; NaN is none
        uint pivot = k;
        REAL largest = -1.0;
        for (uint row = k; row < N; ++row) {
            REAL beside = abs(rows[row][k]);
            if (beside > largest) {
                largest = beside;
                pivot = row;
            }
        }
        barrier();
        if (pivot != k) {
            for (uint i = k + gl_LocalInvocationIndex; i < WHOLE; i += size) {
                REAL value = rows[k][i];
                rows[k][i] = rows[pivot][i];
                rows[pivot][i] = value;
            }
        }
        barrier();
        REAL divisor = rows[k][k];
        if (divisor == 0.0 && singular == 0) singular = k + 1;
        for (uint row = k + 1 + low; row < N; row += apart) {
            REAL factor = rows[row][k];
            if (divisor != 0.0) factor /= divisor;
            for (uint i = k + 1 + lane; i < WHOLE; i += EDGE)
                rows[row][i] = fma(-factor, rows[k][i], rows[row][i]);
        }
    }
    for (uint back = 0; back < N; ++back) {
        uint k = N - 1 - back;
        barrier();
        REAL divisor = rows[k][k];
        for (uint i = N + lane; i < WHOLE; i += EDGE) {
            REAL value = rows[k][i] / divisor;
            if (low == 0 && left + i - N < columns)
                out_.at[start + k * columns + left + i - N] = value;
            for (uint row = low; row < k; row += apart)
                rows[row][i] = fma(-rows[row][k], value, rows[row][i]);
        }
    }
    if (gl_LocalInvocationIndex == 0 && gl_WorkGroupID.z == 0)
        args.info.at[matrix] = int(singular);
}
