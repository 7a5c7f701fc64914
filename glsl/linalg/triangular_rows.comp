// Solution of small triangular systems: X of A X = B, a column of X in registers
// grid    one invocation for each column of each X, linear
// in      a (matrices, n, n) REAL; b (matrices, n, columns) REAL
// out     out_ (matrices, n, columns)
// consts  UPPER: the triangle of A; UNIT: its diagonal is 1
// macros  DOUBLE: see linalg/real.glsl; ROWS: n at most
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 3.1.3: forward
//         substitution by columns
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef ROWS
#define ROWS 16
#endif

layout(constant_id = 3) const uint UPPER = 0;
layout(constant_id = 4) const uint UNIT = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly buffer
    Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly buffer
    Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Reals b;
    Results out_;
    uint numel;
    uint n;
    uint columns;
    uint magic;
    uint shift;
} args;

// The row of the matrix that is number `row` of the substitution
uint place_of(uint row) {
    return UPPER != 0 ? args.n - 1u - row : row;
}

void main() {
    uint each = linear_invocation();
    if (each >= args.numel) return;
    Reals a = args.a, b = args.b;
    Results out_ = args.out_;
    uint n = args.n, columns = args.columns;
    uint matrix = divide(each, args.magic, args.shift);
    uint begin = matrix * n * n, start = matrix * n * columns + each - matrix * columns;
    REAL held[ROWS];
    [[unroll]] for (uint row = 0; row < ROWS; ++row) {
        held[row] = 0.0;
        if (row < n) held[row] = b.at[start + place_of(row) * columns];
    }
    // Row k is always the first in registers, which are rotated by one.
    [[dont_unroll]] for (uint k = 0; k < n; ++k) {
        REAL value = held[0];
        if (UNIT == 0) value /= a.at[begin + place_of(k) * (n + 1)];
        out_.at[start + place_of(k) * columns] = value;
        [[unroll]] for (uint row = 1; row < ROWS; ++row) {
            REAL factor = 0.0;
            if (k + row < n) factor = a.at[begin + place_of(k + row) * n + place_of(k)];
            held[row - 1] = fma(-factor, value, held[row]);
        }
    }
}
