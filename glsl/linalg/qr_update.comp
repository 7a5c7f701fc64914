// A product of reflections, I - V T V^T or its transpose, times columns of a matrix
// grid    x one workgroup for EDGE columns from `first` on, z matrices
// in      factors (matrices, m, n) REAL, t: see linalg/qr_panel.comp; begun: the columns
//         before those of V
// out     target (matrices, m, n), in place: the rows from `begun` on
// consts  FORWARD: the transpose, and V is in `target`, else the target is the identity
//         where it was not written: in rows and columns of V
// macros  DOUBLE: see linalg/real.glsl; COLUMNS: of V
// lint    scalar-load: T is a kilobyte, in an order of its own
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 5.2.3
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef COLUMNS
#define COLUMNS 16
#endif

layout(constant_id = 3) const uint FORWARD = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals factors;
    Reals t;
    Results target;
    uint m;
    uint n;
    uint begun;
    uint first;
} args;

const uint WORKGROUP = 256;
const uint EDGE = WORKGROUP / COLUMNS;
#ifdef DOUBLE
const uint TILE = 32;
#else
const uint TILE = 64;
#endif

shared REAL vectors[TILE][COLUMNS + 1];
shared REAL tile[TILE][EDGE + 1];
shared REAL products[COLUMNS][EDGE + 1];

void read_vectors(Reals factors, Results target, uint above) {
    uint m = args.m, n = args.n, begun = args.begun, begin = gl_WorkGroupID.z * m * n;
    for (uint i = gl_LocalInvocationIndex; i < TILE * COLUMNS; i += WORKGROUP) {
        uint row = above + i / COLUMNS, column = begun + i % COLUMNS;
        REAL value = row == column ? 1.0 : 0.0;
        bool is_read = row < m && column < n && row > column;
        if (is_read && FORWARD != 0) value = target.at[begin + row * n + column];
        if (is_read && FORWARD == 0) value = factors.at[begin + row * n + column];
        if (column >= n) value = 0.0;
        vectors[i / COLUMNS][i % COLUMNS] = value;
    }
}

void main() {
    uint m = args.m, n = args.n, begun = args.begun, behind = begun + COLUMNS;
    uint thread = gl_LocalInvocationIndex, k = thread / EDGE, lane = thread % EDGE;
    uint begin = gl_WorkGroupID.z * m * n, left = args.first + gl_WorkGroupID.x * EDGE;
    Reals factors = args.factors, t = args.t;
    Results target = args.target;
    REAL sum = 0.0;
    for (uint above = begun; above < m; above += TILE) {
        barrier();
        read_vectors(factors, target, above);
        for (uint i = thread; i < TILE * EDGE; i += WORKGROUP) {
            uint row = above + i / EDGE, column = left + i % EDGE;
            bool is_written = FORWARD != 0 || (row >= behind && column >= behind);
            REAL value = row == column ? 1.0 : 0.0;
            if (is_written) value = 0.0;
            if (is_written && row < m && column < n)
                value = target.at[begin + row * n + column];
            tile[i / EDGE][i % EDGE] = value;
        }
        barrier();
        for (uint row = 0; row < TILE; ++row)
            sum = fma(vectors[row][k], tile[row][lane], sum);
    }
    products[k][lane] = sum;
    barrier();
    uint panels = (n + COLUMNS - 1) / COLUMNS;
    uint start = (gl_WorkGroupID.z * panels + begun / COLUMNS) * COLUMNS * COLUMNS;
    REAL whole = 0.0;
    for (uint other = 0; other < COLUMNS; ++other) {
        uint at = FORWARD != 0 ? other * COLUMNS + k : k * COLUMNS + other;
        whole = fma(t.at[start + at], products[other][lane], whole);
    }
    barrier();
    products[k][lane] = whole;
    for (uint above = begun; above < m; above += TILE) {
        barrier();
        read_vectors(factors, target, above);
        barrier();
        for (uint i = thread; i < TILE * EDGE; i += WORKGROUP) {
            uint row = above + i / EDGE, column = left + i % EDGE;
            if (row >= m || column >= n) continue;
            bool is_written = FORWARD != 0 || (row >= behind && column >= behind);
            REAL value = row == column ? 1.0 : 0.0;
            if (is_written) value = target.at[begin + row * n + column];
            for (uint other = 0; other < COLUMNS; ++other)
                value = fma(
                    -vectors[i / EDGE][other], products[other][i % EDGE], value);
            target.at[begin + row * n + column] = value;
        }
    }
}
