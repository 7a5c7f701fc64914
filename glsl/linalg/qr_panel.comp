// QR factors of a panel of each matrix, by reflections, in place
// grid    one workgroup for each matrix, linear
// in      begun: the columns before the panel, which are factorised
// out     factors (matrices, m, n) REAL, m from n on: in the panel R, and below its diagonal
//         the vectors of reflections, whose first elements are 1; taus (matrices, n): the
//         panel's factors of reflections, I - tau v v^T
// consts  LOCAL_X: a power of two, 32 to 256
// macros  DOUBLE: see linalg/real.glsl; COLUMNS; ROWS: rows of an invocation, which has
//         them in registers
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 5.1.7, with the
//         signs of LAPACK
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"
#include "linalg/roots.glsl"

#ifndef COLUMNS
#define COLUMNS 16
#endif
#ifndef ROWS
#define ROWS 1
#endif

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Factors { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Factors factors;
    Results taus;
    uint matrices;
    uint m;
    uint n;
    uint begun;
} args;

const uint MOST = 256;
const uint LANES = 16;

// Rows between memory and the invocations that have them, as neighbours load and store
// elements of one row; and products of the panel's first column with all: of invocations
shared REAL staged[(COLUMNS + 1) * MOST];
const uint PITCH = COLUMNS + 1;
const uint SUMS = MOST + LANES;
// The same of every 16th of these, and of all
shared REAL parts[COLUMNS][LANES + 1];
shared REAL totals[COLUMNS];
// The row of the diagonal: every other one, so that those who still read one do not wait
shared REAL tops[2][COLUMNS];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    uint m = args.m, n = args.n, begun = args.begun, rows = m - begun;
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint columns = min(COLUMNS, n - begun), begin = (matrix * m + begun) * n + begun;
    Factors factors = args.factors;
    Results taus = args.taus;
    REAL own[ROWS][COLUMNS];
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
        [[unroll]] for (uint j = 0; j < COLUMNS; ++j) {
            uint i = local + j * size, row = h * size + i / COLUMNS, column = i % COLUMNS;
            own[h][j] = 0.0;
            if (row < rows && column < columns)
                own[h][j] = factors.at[begin + row * n + column];
        }
    }
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
        if (h > 0) barrier();
        [[unroll]] for (uint j = 0; j < COLUMNS; ++j) {
            uint i = local + j * size;
            staged[i / COLUMNS * PITCH + i % COLUMNS] = own[h][j];
        }
        barrier();
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            own[h][column] = staged[local * PITCH + column];
    }
    barrier();
    // Column k is always the first in registers, which are rotated by one. What was
    // rotated behind the panel's last column are the vectors. The code is not unrolled, as
    // instructions that run once are waited for.
    [[dont_unroll]] for (uint k = 0; k < COLUMNS; ++k) {
        uint now = k % 2;
        REAL sums[COLUMNS];
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column) sums[column] = 0.0;
        [[unroll]] for (uint h = 0; h < ROWS; ++h) {
            // Rows of the diagonal are among the first of each invocation.
            REAL first = own[h][0];
            if (h == 0 && local <= k) first = 0.0;
            [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
                sums[column] = fma(first, own[h][column], sums[column]);
            if (h == 0 && local == k) {
                [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
                    tops[now][column] = own[h][column];
            }
        }
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            staged[column * SUMS + local] = sums[column];
        barrier();
        for (uint i = local; i < COLUMNS * LANES; i += size) {
            REAL sum = 0.0;
            for (uint other = i % LANES; other < size; other += LANES)
                sum += staged[i / LANES * SUMS + other];
            parts[i / LANES][i % LANES] = sum;
        }
        barrier();
        if (local < COLUMNS) {
            REAL sum = 0.0;
            [[unroll]] for (uint i = 0; i < LANES; ++i) sum += parts[local][i];
            totals[local] = sum;
        }
        barrier();
        REAL top = tops[now][0], below = totals[0];
        REAL whole, inverse;
        roots(fma(top, top, below), whole, inverse);
        // A column that is 0 below the diagonal stays as it is.
        bool turns = below != 0.0 && k < columns;
        REAL corner = top < 0.0 ? whole : -whole, tau = 0.0, scale = 0.0;
        if (!turns) corner = top;
        if (turns) {
            tau = (corner - top) * (top < 0.0 ? inverse : -inverse);
            scale = reciprocal(top - corner);
        }
        uint live = COLUMNS - k;
        if (local == 0 && k < columns) taus.at[matrix * n + begun + k] = tau;
        REAL dots[COLUMNS];
        [[unroll]] for (uint column = 1; column < COLUMNS; ++column) {
            REAL dot_ = fma(totals[column], scale, tops[now][column]) * -tau;
            dots[column] = turns && column < live ? dot_ : REAL(0.0);
        }
        [[unroll]] for (uint h = 0; h < ROWS; ++h) {
            REAL first = own[h][0], factor = first * scale, last = factor;
            if (h == 0 && local == k) factor = 1.0;
            if (h == 0 && local < k) factor = 0.0;
            if (h == 0 && local == k) last = corner;
            if (h == 0 && local < k) last = first;
            [[unroll]] for (uint column = 1; column < COLUMNS; ++column)
                own[h][column - 1] = fma(factor, dots[column], own[h][column]);
            own[h][COLUMNS - 1] = last;
        }
    }
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
        barrier();
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            staged[local * PITCH + column] = own[h][column];
        barrier();
        [[unroll]] for (uint j = 0; j < COLUMNS; ++j) {
            uint i = local + j * size, row = h * size + i / COLUMNS, column = i % COLUMNS;
            if (row < rows && column < columns)
                factors.at[begin + row * n + column] =
                    staged[i / COLUMNS * PITCH + column];
        }
    }
}
