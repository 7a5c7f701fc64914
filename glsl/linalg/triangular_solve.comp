// Solution of triangular systems: X of A X = B, blocks of 32 rows after each other
// grid    x one workgroup for 32 columns of X, z matrices
// in      a (matrices, n, n) REAL; b (matrices, n, columns) REAL
// out     out_ (matrices, n, columns)
// consts  UPPER: the triangle of A; UNIT: its diagonal is 1; LOCAL_X: 256
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
const uint WORKGROUP = 256;
// Rows of a block that an invocation holds, and the distance between them
const uint HELD = 4;
const uint APART = EDGE / HELD;
const uint TRANSPOSED = 0;
#ifdef DOUBLE
#define REAL4 dvec4
#else
#define REAL4 vec4
#endif

// A block of the matrix: see linalg/substitution.glsl
shared REAL4 blocks[EDGE * (EDGE / 4 + 1)];
shared REAL known[EDGE][EDGE];

// The row of the matrix that is number `row` of the substitution
uint place_of(uint row) {
    return UPPER != 0 ? args.n - 1u - row : row;
}

REAL element(Reals a, uint row, uint column) {
    uint n = args.n;
    return a.at[(gl_WorkGroupID.z * n + place_of(row)) * n + place_of(column)];
}

#include "linalg/substitution.glsl"

void main() {
    Reals a = args.a, b = args.b;
    Results out_ = args.out_;
    uint n = args.n, columns = args.columns, start = gl_WorkGroupID.z * n * columns;
    uint thread = gl_LocalInvocationIndex, lane = thread % EDGE, low = thread / EDGE;
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
            [[unroll]] for (uint i = 0; i < COPIED; ++i) {
                uvec2 cell = cell_of(thread + i * WORKGROUP, EDGE);
                uint row = first + cell.x;
                store(0, cell, row < n ? element(a, row, done + cell.y) : REAL(0.0));
            }
            [[unroll]] for (uint h = 0; h < HELD; ++h) {
                uint row = done + low + h * APART;
                known[low + h * APART][lane] =
                    column < columns ? out_.at[start + place_of(row) * columns + column]
                                     : 0.0;
            }
            barrier();
            for (uint q = 0; q < QUADS; ++q) {
                REAL values[4];
                [[unroll]] for (uint r = 0; r < 4; ++r) values[r] = known[4 * q + r][lane];
                [[unroll]] for (uint h = 0; h < HELD; ++h) {
                    REAL4 four = blocks[(low + h * APART) * PITCH + q];
                    [[unroll]] for (uint r = 0; r < 4; ++r)
                        held[h] = fma(-four[r], values[r], held[h]);
                }
            }
        }
        barrier();
        read_diagonal(a, first, 0);
        [[unroll]] for (uint h = 0; h < HELD; ++h) known[low + h * APART][lane] = held[h];
        barrier();
        if (thread < EDGE) substitute(0, 0, lane);
        barrier();
        [[unroll]] for (uint h = 0; h < HELD; ++h) {
            uint row = first + low + h * APART;
            if (row < n && column < columns)
                out_.at[start + place_of(row) * columns + column] =
                    known[low + h * APART][lane];
        }
        memoryBarrierBuffer();
    }
}
