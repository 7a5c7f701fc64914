// Exponentials of small matrices, or their gradients, in shared memory
// grid    linear, one workgroup for each matrix
// in      a (matrices, SIZE, SIZE) REAL; grad (matrices, SIZE, SIZE), read if GRADIENT
// out     out_ (matrices, SIZE, SIZE): e to the power of A; or the gradient by A, the upper
//         right block of e to the power of (A^T grad; 0 A^T), whose order is N; most: row
//         sums of sizes that need no halving
// consts  N: SIZE, or twice that if GRADIENT; DEGREE: of the Taylor sum; LOCAL_X: a ninth of
//         the elements at least
// macros  DOUBLE: see linalg/real.glsl
// lint    divergent-barrier: all invocations read the same sums
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 9.3: scaling and
//         squaring. Mathias, "A chain rule for matrix functions and applications", SIAM
//         Journal on Matrix Analysis and Applications 17, 1996
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint DEGREE = 12;
layout(constant_id = 5) const uint GRADIENT = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Reals grad;
    Results out_;
    uint matrices;
    float most;
} args;

const uint WORKGROUP = gl_WorkGroupSize.x;
const uint SIZE = GRADIENT != 0 ? N / 2 : N;
// Elements of an invocation
const uint EACH = 9;

shared REAL x[N][N + 1];
shared REAL power[N][N + 1];
shared REAL sums[N];
shared REAL grad_sums[N];

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    Reals a = args.a, grad = args.grad;
    Results out_ = args.out_;
    uint local = gl_LocalInvocationIndex, begin = matrix * SIZE * SIZE;
    for (uint i = local; i < N * N; i += WORKGROUP) {
        uint row = i / N, column = i % N, down = row % SIZE, right = column % SIZE;
        REAL value = 0.0;
        if (GRADIENT == 0) value = a.at[begin + i];
        // Of the transpose
        if (GRADIENT != 0 && row / SIZE == column / SIZE)
            value = a.at[begin + right * SIZE + down];
        if (row < column / SIZE * SIZE) value = grad.at[begin + down * SIZE + right];
        x[row][column] = value;
        power[row][column] = row == column ? 1.0 : 0.0;
    }
    barrier();
    if (local < N) {
        REAL sum = 0.0, beside = 0.0;
        for (uint column = 0; column < SIZE; ++column) {
            sum += abs(x[local][column]);
            if (GRADIENT != 0) beside += abs(x[local][SIZE + column]);
        }
        sums[local] = sum;
        grad_sums[local] = beside;
    }
    barrier();
    REAL largest = 0.0, largest_grad = 0.0;
    bool is_number = true;
    for (uint row = 0; row < SIZE; ++row) {
        REAL sum = sums[row], beside = grad_sums[row];
        largest = max(largest, sum);
        largest_grad = max(largest_grad, beside);
        if (isnan(sum) || isinf(sum) || isnan(beside) || isinf(beside)) is_number = false;
    }
    // A gradient is linear, so that of what is scaled is scaled.
    REAL scale = GRADIENT != 0 && largest_grad > 0.0 ? largest_grad : REAL(1.0);
    if (GRADIENT != 0) largest += REAL(1.0);
    uint halvings = 0;
    if (!is_number) largest = 0.0;
    for (; largest > args.most; ++halvings) largest *= REAL(0.5);
    barrier();
    for (uint i = local; i < N * N; i += WORKGROUP) {
        uint row = i / N, column = i % N;
        REAL value = x[row][column];
        // Their product could be too small.
        for (uint h = 0; h < halvings; ++h) value *= REAL(0.5);
        x[row][column] = row < column / SIZE * SIZE ? value / scale : value;
    }
    for (uint step_ = 0; step_ < DEGREE + halvings; ++step_) {
        bool is_square = step_ >= DEGREE;
        REAL divisor = is_square ? REAL(1.0) : REAL(DEGREE - step_);
        REAL held[EACH];
        barrier();
        [[unroll]] for (uint e = 0; e < EACH; ++e) {
            uint i = local + e * WORKGROUP, row = i / N, column = i % N;
            REAL sum = 0.0;
            if (i < N * N && is_square) {
                for (uint k = 0; k < N; ++k)
                    sum = fma(power[row][k], power[k][column], sum);
            }
            if (i < N * N && !is_square) {
                for (uint k = 0; k < N; ++k) sum = fma(x[row][k], power[k][column], sum);
                sum /= divisor;
                if (row == column) sum += REAL(1.0);
            }
            held[e] = sum;
        }
        barrier();
        [[unroll]] for (uint e = 0; e < EACH; ++e) {
            uint i = local + e * WORKGROUP;
            if (i < N * N) power[i / N][i % N] = held[e];
        }
    }
    barrier();
    for (uint i = local; i < SIZE * SIZE; i += WORKGROUP) {
        uint row = i / SIZE, column = i % SIZE;
        if (GRADIENT != 0) column += SIZE;
        REAL value = power[row][column];
        if (GRADIENT != 0) value *= scale;
        if (!is_number) value = NOT_A_NUMBER;
        out_.at[begin + i] = value;
    }
}
