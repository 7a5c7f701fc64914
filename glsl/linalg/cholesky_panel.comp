// 32 columns of Cholesky factors: L of A = L L^T, of what is left of A
// grid    x one workgroup for TILE rows below the diagonal block, of which each factorises
//         that again, z matrices
// in      a (matrices, n, n) REAL: what is left of A, of which the lower triangle is read;
//         begun: the columns before these
// out     out_ (matrices, n, n): of these columns the rows from `begun` on, and 0 right of
//         the diagonal block; NaN from the column on where A is not positive-definite;
//         info (matrices): the order of the first minor that is not positive, or 0
// consts  LOCAL_X: EDGE + TILE
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
#ifdef DOUBLE
const uint TILE = 32;
#else
const uint TILE = 64;
#endif
const uint ROWS = EDGE + TILE;

// Rows of the block, and of those below it; an invocation has one of them.
shared REAL rows[ROWS][EDGE + 1];
// A column of the block from its diagonal on: every other one, so that those who still
// read one do not wait for those who write the next.
shared REAL beside[2][EDGE];

// The matrix' row that is number `number` in shared memory
uint row_of(uint number) {
    uint below = number + gl_WorkGroupID.x * TILE;
    return args.begun + (number < EDGE ? number : below);
}

void main() {
    Reals a = args.a;
    Results out_ = args.out_;
    uint n = args.n, begun = args.begun, thread = gl_LocalInvocationIndex;
    uint begin = gl_WorkGroupID.z * n * n;
    for (uint i = thread; i < ROWS * EDGE; i += ROWS) {
        uint number = i / EDGE, lane = i % EDGE, row = row_of(number);
        bool of_block = number < EDGE;
        // Beyond the matrix it is the identity.
        REAL value = number == lane ? 1.0 : 0.0;
        bool is_read = row < n && begun + lane < n && (!of_block || lane <= number);
        if (is_read) value = a.at[begin + row * n + begun + lane];
        rows[number][lane] = value;
    }
    barrier();
    REAL held[EDGE];
    [[unroll]] for (uint lane = 0; lane < EDGE; ++lane) held[lane] = rows[thread][lane];
    uint bad = 0;
    // Column k is always the first in registers, which are rotated by one.
    [[dont_unroll]] for (uint k = 0; k < EDGE; ++k) {
        uint now = k % 2;
        if (thread >= k && thread < EDGE) beside[now][thread - k] = held[0];
        barrier();
        REAL top = beside[now][0], factor = held[0] / top, root = sqrt(top);
        // Neither a root nor a quotient of what is not positive is a number everywhere.
        bool is_positive = top > 0.0;
        if (!is_positive) factor = root = NOT_A_NUMBER;
        if (!is_positive && bad == 0) bad = begun + k + 1;
        REAL value = thread == k ? root : held[0] / root;
        rows[thread][k] = thread < k ? 0.0 : value;
        // Of those behind the block's last column nothing is used.
        [[unroll]] for (uint lane = 1; lane < EDGE; ++lane)
            held[lane - 1] = fma(-factor, beside[now][lane], held[lane]);
    }
    barrier();
    for (uint i = thread; i < ROWS * EDGE; i += ROWS) {
        uint number = i / EDGE, lane = i % EDGE, row = row_of(number);
        bool is_stored = row < n && begun + lane < n;
        if (is_stored && (number >= EDGE || gl_WorkGroupID.x == 0))
            out_.at[begin + row * n + begun + lane] = rows[number][lane];
    }
    uint behind = begun + EDGE + gl_WorkGroupID.x * TILE;
    for (uint i = thread; i < EDGE * TILE; i += ROWS) {
        uint row = begun + i / TILE, right = behind + i % TILE;
        if (right < n) out_.at[begin + row * n + right] = 0.0;
    }
    if (thread != 0 || gl_WorkGroupID.x != 0) return;
    uint matrix = gl_WorkGroupID.z;
    if (begun == 0 || args.info.at[matrix] == 0) args.info.at[matrix] = int(bad);
}
