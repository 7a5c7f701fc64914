// The order that exchanges of rows make, one after the other
// grid    linear, one workgroup for each matrix
// in      pivots (matrices, count): the row that each is exchanged for, from 1 on
// out     out_ (matrices, ROWS): the row that has become each row
// consts  ROWS; LOCAL_X: 64
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4.1
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint ROWS = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Pivots { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Pivots pivots;
    Orders out_;
    uint matrices;
    uint count;
} args;

const uint WORKGROUP = 64;

shared int order[ROWS];
shared int next[WORKGROUP];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    Pivots pivots = args.pivots;
    Orders out_ = args.out_;
    uint local = gl_LocalInvocationIndex, count = args.count;
    for (uint row = local; row < ROWS; row += WORKGROUP) order[row] = int(row);
    for (uint first = 0; first < count; first += WORKGROUP) {
        barrier();
        if (first + local < count) next[local] = pivots.at[matrix * count + first + local];
        barrier();
        if (local == 0) {
            for (uint j = first; j < min(first + WORKGROUP, count); ++j) {
                // What is no row is an error of the caller, but nothing is written beyond.
                int at = clamp(next[j - first], 1, int(ROWS)) - 1, beside = order[j];
                order[j] = order[at];
                order[at] = beside;
            }
        }
    }
    barrier();
    for (uint row = local; row < ROWS; row += WORKGROUP)
        out_.at[matrix * ROWS + row] = order[row];
}
