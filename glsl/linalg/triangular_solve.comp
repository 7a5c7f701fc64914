// Solution of triangular systems: X of A X = B, blocks of 32 rows after each other
// grid    x one workgroup for 32 columns of X, z matrices
// in      a (matrices, n, n) REAL; b (matrices, n, columns) REAL
// out     out_ (matrices, n, columns)
// consts  UPPER: the triangle of A; UNIT: its diagonal is 1
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 3.1.3: forward
//         substitution by blocks
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint UPPER = 0;
layout(constant_id = 4) const uint UNIT = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly buffer
    Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict coherent buffer
    Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Reals b;
    Results out_;
    uint n;
    uint columns;
} args;

const uint EDGE = 32;
// Rows of a block that an invocation holds, and the distance between them
const uint HELD = 4;
const uint APART = EDGE / HELD;

shared REAL block[EDGE][EDGE + 1];
shared REAL known[EDGE][EDGE];

// The row of the matrix that is number `row` of the substitution
uint place_of(uint row) {
    return UPPER != 0 ? args.n - 1u - row : row;
}

// Copies 32 x 32 elements of the triangle; beyond the matrix those of the identity
void read_block(Reals a, uint begin, uint first_row, uint first_column) {
    uint n = args.n;
    for (uint i = gl_LocalInvocationIndex; i < EDGE * EDGE; i += gl_WorkGroupSize.x) {
        uint row = first_row + i / EDGE, column = first_column + i % EDGE;
        REAL value = row == column ? 1.0 : 0.0;
        bool is_read = row < n && (UNIT != 0 ? column < row : column <= row);
        if (is_read) value = a.at[begin + place_of(row) * n + place_of(column)];
        block[i / EDGE][i % EDGE] = value;
    }
}

void main() {
    Reals a = args.a, b = args.b;
    Results out_ = args.out_;
    uint n = args.n, columns = args.columns;
    uint begin = gl_WorkGroupID.z * n * n, start = gl_WorkGroupID.z * n * columns;
    uint lane = gl_LocalInvocationIndex % EDGE, low = gl_LocalInvocationIndex / EDGE;
    uint column = gl_WorkGroupID.x * EDGE + lane;
    for (uint first = 0; first < n; first += EDGE) {
        REAL held[HELD];
        [[unroll]] for (uint h = 0; h < HELD; ++h) {
            uint row = first + low + h * APART;
            bool inside = row < n && column < columns;
            held[h] = inside ? b.at[start + place_of(row) * columns + column] : 0.0;
        }
        for (uint done = 0; done < first; done += EDGE) {
            barrier();
            read_block(a, begin, first, done);
            for (uint h = 0; h < HELD; ++h) {
                uint row = done + low + h * APART;
                known[low + h * APART][lane] =
                    column < columns ? out_.at[start + place_of(row) * columns + column]
                                     : 0.0;
            }
            barrier();
            for (uint k = 0; k < EDGE; ++k) {
                REAL value = known[k][lane];
                [[unroll]] for (uint h = 0; h < HELD; ++h)
                    held[h] = fma(-block[low + h * APART][k], value, held[h]);
            }
        }
        barrier();
        read_block(a, begin, first, first);
        barrier();
        for (uint k = 0; k < EDGE; ++k) {
            [[unroll]] for (uint h = 0; h < HELD; ++h) {
                if (low + h * APART == k) {
                    if (UNIT == 0) held[h] /= block[k][k];
                    known[k][lane] = held[h];
                }
            }
            barrier();
            REAL value = known[k][lane];
            [[unroll]] for (uint h = 0; h < HELD; ++h) {
                uint row = low + h * APART;
                if (row > k) held[h] = fma(-block[row][k], value, held[h]);
            }
        }
        [[unroll]] for (uint h = 0; h < HELD; ++h) {
            uint row = first + low + h * APART;
            if (row < n && column < columns)
                out_.at[start + place_of(row) * columns + column] = held[h];
        }
        memoryBarrierBuffer();
    }
}
