// The three factors of P L U = A, of LU factors in one matrix and the order of their rows
// grid    one invocation per element of (matrices, n, n), linear
// in      factors (matrices, n, n) REAL; order (matrices, n): the row of A that has become
//         each row; numel; n, and what divides by it and by its square
// out     p, l, u (matrices, n, n)
// consts  none
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4.4
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals factors;
    Orders order;
    Results p;
    Results l;
    Results u;
    uint numel;
    uint n;
    uint magic;
    uint shift;
} args;

void main() {
    uint i = linear_invocation(), n = args.n;
    if (i >= args.numel) return;
    uint line = divide(i, args.magic, args.shift), column = i - line * n;
    uint matrix = divide(line, args.magic, args.shift), row = line - matrix * n;
    REAL value = args.factors.at[i], low = 0.0, high = 0.0, moved = 0.0;
    if (row > column) low = value;
    if (row == column) low = 1.0;
    if (row <= column) high = value;
    if (args.order.at[matrix * n + column] == int(row)) moved = 1.0;
    args.p.at[i] = moved;
    args.l.at[i] = low;
    args.u.at[i] = high;
}
