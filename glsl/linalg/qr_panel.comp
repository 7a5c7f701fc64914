// QR factors of a panel of each matrix, by reflections, in place
// grid    one workgroup for each matrix, linear
// in      begun: the columns before the panel, which are factorised
// out     factors (matrices, m, n) REAL, m from n on: in the panel R, and below its diagonal
//         the vectors of reflections, whose first elements are 1; r (matrices, n, n): the
//         panel's columns of R; taus (matrices, n): the panel's factors of reflections,
//         I - tau v v^T
// consts  LOCAL_X: a power of two, 32 to 256
// macros  DOUBLE: see linalg/real.glsl; COLUMNS; ROWS: rows of an invocation, which has
//         them in registers
// lint    scalar-load: a row begins at any element
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 5.1.7, with the
//         signs of LAPACK
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

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
    Results r;
    Results taus;
    uint matrices;
    uint m;
    uint n;
    uint begun;
} args;

const uint MOST = 256;
const uint LANES = 16;

// Products of the panel's first column with all: of invocations, of every 16th of these,
// and of all
shared REAL sums_of[COLUMNS][MOST + LANES];
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
    Results r_ = args.r, taus = args.taus;
    REAL own[ROWS][COLUMNS];
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
        uint row = local + h * size;
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column) {
            own[h][column] = 0.0;
            if (row < rows && column < columns)
                own[h][column] = factors.at[begin + row * n + column];
        }
    }
    // Column k is always the first in registers, which are rotated by one. What was
    // rotated behind the panel's last column are the vectors. The code is not unrolled, as
    // instructions that run once are waited for.
    [[dont_unroll]] for (uint k = 0; k < COLUMNS; ++k) {
        uint now = k % 2;
        REAL sums[COLUMNS];
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column) sums[column] = 0.0;
        [[unroll]] for (uint h = 0; h < ROWS; ++h) {
            uint row = local + h * size;
            REAL first = row > k ? own[h][0] : REAL(0.0);
            [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
                sums[column] = fma(first, own[h][column], sums[column]);
            if (row == k) {
                [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
                    tops[now][column] = own[h][column];
            }
        }
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            sums_of[column][local] = sums[column];
        barrier();
        for (uint i = local; i < COLUMNS * LANES; i += size) {
            REAL sum = 0.0;
            for (uint other = i % LANES; other < size; other += LANES)
                sum += sums_of[i / LANES][other];
            parts[i / LANES][i % LANES] = sum;
        }
        barrier();
        if (local < COLUMNS) {
            REAL sum = 0.0;
            for (uint i = 0; i < LANES; ++i) sum += parts[local][i];
            totals[local] = sum;
        }
        barrier();
        REAL top = tops[now][0], below = totals[0];
        REAL whole = sqrt(fma(top, top, below));
        // A column that is 0 below the diagonal stays as it is.
        bool turns = below != 0.0 && k < columns;
        REAL corner = top < 0.0 ? whole : -whole, tau = 0.0, scale = 0.0;
        if (!turns) corner = top;
        if (turns) {
            tau = (corner - top) / corner;
            scale = REAL(1.0) / (top - corner);
        }
        uint live = COLUMNS - k;
        if (local == 0 && k < columns) taus.at[matrix * n + begun + k] = tau;
        REAL dots[COLUMNS];
        [[unroll]] for (uint column = 1; column < COLUMNS; ++column) {
            REAL dot_ = fma(totals[column], scale, tops[now][column]) * -tau;
            dots[column] = column < live ? dot_ : REAL(0.0);
        }
        [[unroll]] for (uint h = 0; h < ROWS; ++h) {
            uint row = local + h * size;
            REAL first = own[h][0], factor = first * scale, last = factor;
            if (row == k) factor = 1.0;
            if (row < k) factor = 0.0;
            if (row == k) last = corner;
            if (row < k) last = first;
            bool changes = row >= k && turns;
            [[unroll]] for (uint column = 1; column < COLUMNS; ++column) {
                REAL value = own[h][column], changed = fma(factor, dots[column], value);
                own[h][column - 1] = changes ? changed : value;
            }
            own[h][COLUMNS - 1] = last;
        }
    }
    uint line = matrix * n + begun;
    [[unroll]] for (uint h = 0; h < ROWS; ++h) {
        uint row = local + h * size;
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column) {
            if (row < rows && column < columns) {
                factors.at[begin + row * n + column] = own[h][column];
                REAL value = row <= column ? own[h][column] : REAL(0.0);
                if (begun + row < n) r_.at[(line + row) * n + begun + column] = value;
            }
        }
    }
    uint above = matrix * m * n;
    for (uint i = local; i < begun * COLUMNS; i += size) {
        uint row = i / COLUMNS, column = begun + i % COLUMNS;
        if (column >= n) continue;
        r_.at[(matrix * n + row) * n + column] = factors.at[above + row * n + column];
    }
}
