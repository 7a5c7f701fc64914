// 32 columns of Cholesky factors: L of A = L L^T, of what is left of A
// grid    x one workgroup for TILE rows below the diagonal block, of which each factorises
//         that again, z matrices
// in      a (matrices, n, n) REAL: what is left of A, of which the lower triangle is read;
//         begun: the columns before these
// out     out_ (matrices, n, n): of these columns the rows from `begun` on, and 0 right of
//         the diagonal block; NaN from the column on where A is not positive-definite;
//         info (matrices): the order of the first minor that is not positive, or 0
// consts  LOCAL_X: 256
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 4.2.6: outer
//         products, whose roots are taken in the end
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Infos {
    int at[];
};

layout(push_constant, std430) uniform Push {
    Reals a;
    Results out_;
    Infos info;
    uint n;
    uint begun;
} args;

const uint EDGE = 32;
const uint WORKGROUP = 256;
const uint TILE = 64;
const uint APART = WORKGROUP / EDGE;
const uint OF_BLOCK = EDGE / APART;
const uint HELD = (EDGE + TILE) / APART;

// A column of the block, and of the rows below it: every other one, so that those who
// still read one do not wait for those who write the next.
shared REAL beside[2][EDGE + TILE];
shared REAL roots[EDGE];

void main() {
    Reals a = args.a;
    Results out_ = args.out_;
    uint n = args.n, begun = args.begun;
    uint thread = gl_LocalInvocationIndex, lane = thread % EDGE, low = thread / EDGE;
    uint begin = gl_WorkGroupID.z * n * n, column = begun + lane;
    uint below = begun + EDGE + gl_WorkGroupID.x * TILE;
    REAL held[HELD];
    uint rows[HELD];
    [[unroll]] for (uint h = 0; h < HELD; ++h) {
        bool of_block = h < OF_BLOCK;
        uint number = low + h * APART;
        rows[h] = of_block ? begun + number : below + number - EDGE;
        // Beyond the matrix it is the identity.
        held[h] = of_block && number == lane ? 1.0 : 0.0;
        bool is_read = rows[h] < n && column < n && (!of_block || lane <= number);
        if (is_read) held[h] = a.at[begin + rows[h] * n + column];
    }
    uint bad = 0;
    for (uint k = 0; k < EDGE; ++k) {
        uint now = k % 2;
        if (lane == k) {
            [[unroll]] for (uint h = 0; h < HELD; ++h)
                beside[now][low + h * APART] = held[h];
        }
        barrier();
        REAL top = beside[now][k], factor = beside[now][lane] / top;
        // Neither a root nor a quotient of what is not positive is a number everywhere.
        bool is_positive = top > 0.0;
        if (!is_positive) factor = NOT_A_NUMBER;
        if (!is_positive && bad == 0) bad = begun + k + 1;
        if (thread == 0) roots[k] = top;
        if (lane > k) {
            [[unroll]] for (uint h = 0; h < HELD; ++h)
                held[h] = fma(-beside[now][low + h * APART], factor, held[h]);
        }
    }
    barrier();
    REAL top = roots[lane], root = NOT_A_NUMBER;
    if (top > 0.0) root = sqrt(top);
    [[unroll]] for (uint h = 0; h < HELD; ++h) {
        bool of_block = h < OF_BLOCK;
        uint number = low + h * APART;
        REAL value = held[h] / root;
        if (of_block && lane > number) value = 0.0;
        if (of_block && lane == number) value = root;
        bool is_stored = rows[h] < n && column < n;
        if (is_stored && (!of_block || gl_WorkGroupID.x == 0))
            out_.at[begin + rows[h] * n + column] = value;
    }
    uint behind = begun + EDGE + gl_WorkGroupID.x * TILE;
    for (uint i = thread; i < EDGE * TILE; i += WORKGROUP) {
        uint row = begun + i / TILE, right = behind + i % TILE;
        if (right < n) out_.at[begin + row * n + right] = 0.0;
    }
    if (thread != 0 || gl_WorkGroupID.x != 0) return;
    uint matrix = gl_WorkGroupID.z;
    if (begun == 0 || args.info.at[matrix] == 0) args.info.at[matrix] = int(bad);
}
