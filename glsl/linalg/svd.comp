// Singular values and vectors of small matrices, in shared memory
// grid    linear, one workgroup for each matrix
// in      a (matrices, M, N) REAL, M from N on; if TURNED (matrices, N, M), its transpose
// out     out_ (matrices, M + 1 + N, N): U, below it the singular values, descending, and V;
//         if TURNED V comes first
// consts  M, N; TURNED; LOCAL_X: at least M
// macros  DOUBLE: see linalg/real.glsl
// lint    divergent-barrier: all invocations read the same sizes, and whether one turned
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 8.6.3: rotations
//         of pairs of columns, those of a round at once
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint M = 1;
layout(constant_id = 4) const uint N = 1;
layout(constant_id = 5) const uint TURNED = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Results out_;
    uint matrices;
} args;

const uint WORKGROUP = gl_WorkGroupSize.x;
// Players of a round robin: each meets each of the others once in PLAYERS - 1 rounds.
const uint PLAYERS = N + N % 2;
const uint PAIRS = PLAYERS / 2;
// Invocations of a pair
const uint GROUP = WORKGROUP / PAIRS;
const uint MOST_SWEEPS = 30;
#ifdef DOUBLE
const REAL EPS = 2.220446049250313e-16LF;
#else
const REAL EPS = 1.1920929e-7;
#endif

// Columns, which lie side by side
shared REAL u[N][M + 1 - M % 2];
shared REAL v[N][N + 1 - N % 2];
shared REAL sizes[N];
shared REAL weights[M];
shared REAL parts[N];
shared bool has_turned;

// Who meets in a round, the smaller number first
uvec2 pair_of(uint round_, uint number) {
    uint others = PLAYERS - 1;
    uint one = (round_ + number) % max(others, 1u);
    uint two = number == 0 ? others : (round_ + others - number) % max(others, 1u);
    return uvec2(min(one, two), max(one, two));
}

// A unit vector at right angles to the columns that are not small, or before `column`
void complete(uint column, REAL least) {
    uint local = gl_LocalInvocationIndex;
    if (local < M) {
        REAL sum = 0.0;
        for (uint other = 0; other < N; ++other)
            if (sizes[other] > least || other < column)
                sum = fma(u[other][local], u[other][local], sum);
        weights[local] = sum;
    }
    barrier();
    // Of the axes that which is farthest from their span
    uint axis = 0;
    for (uint row = 1; row < M; ++row)
        if (weights[row] < weights[axis]) axis = row;
    barrier();
    REAL value = local == axis ? 1.0 : 0.0;
    // Twice, as the first time leaves what rounding makes of a short one
    for (uint time = 0; time < 2; ++time) {
        if (local < M) weights[local] = value;
        barrier();
        if (local < N) {
            REAL sum = 0.0;
            if (sizes[local] > least || local < column)
                for (uint row = 0; row < M; ++row)
                    sum = fma(u[local][row], weights[row], sum);
            parts[local] = sum;
        }
        barrier();
        if (local < M) {
            for (uint other = 0; other < N; ++other)
                if (sizes[other] > least || other < column)
                    value = fma(-parts[other], u[other][local], value);
            weights[local] = value;
        }
        barrier();
        REAL whole = 0.0;
        for (uint row = 0; row < M; ++row) whole = fma(weights[row], weights[row], whole);
        value /= sqrt(whole);
        barrier();
    }
    if (local < M) u[column][local] = value;
    barrier();
}

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    Reals a = args.a;
    Results out_ = args.out_;
    uint local = gl_LocalInvocationIndex, begin = matrix * M * N;
    for (uint i = local; i < M * N; i += WORKGROUP) {
        uint row = TURNED != 0 ? i % M : i / N, column = TURNED != 0 ? i / M : i % N;
        u[column][row] = a.at[begin + i];
    }
    for (uint i = local; i < N * N; i += WORKGROUP)
        v[i / N][i % N] = i / N == i % N ? 1.0 : 0.0;
    barrier();
    // Squares of what is divided by the largest do not overflow.
    if (local < M) {
        REAL most = 0.0;
        for (uint column = 0; column < N; ++column) {
            REAL value = abs(u[column][local]);
            if (isnan(value) || isinf(value) || isnan(most)) most = NOT_A_NUMBER;
            if (value > most) most = value;
        }
        weights[local] = most;
    }
    barrier();
    REAL largest = 0.0;
    bool is_number = true;
    for (uint row = 0; row < M; ++row) {
        if (isnan(weights[row])) is_number = false;
        if (weights[row] > largest) largest = weights[row];
    }
    barrier();
    if (largest > 0.0)
        for (uint i = local; i < M * N; i += WORKGROUP) u[i / M][i % M] /= largest;
    barrier();
    if (local < N) {
        REAL sum = 0.0;
        for (uint row = 0; row < M; ++row) sum = fma(u[local][row], u[local][row], sum);
        sizes[local] = sum;
    }
    barrier();
    REAL whole = 0.0;
    for (uint column = 0; column < N; ++column) whole += sizes[column];
    // What is smaller changes no singular value by more than rounding does.
    REAL least = EPS * sqrt(whole), tolerance = EPS * sqrt(REAL(M));
    uint number = local / GROUP, share = local % GROUP;
    for (uint sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
        barrier();
        if (local == 0) has_turned = false;
        for (uint round_ = 0; round_ + 1 < PLAYERS; ++round_) {
            barrier();
            uvec2 pair = pair_of(round_, number);
            REAL cosine = 1.0, sine = 0.0;
            if (number < PAIRS && pair.y < N) {
                REAL one = 0.0, two = 0.0, both = 0.0;
                for (uint row = 0; row < M; ++row) {
                    REAL left = u[pair.x][row], right = u[pair.y][row];
                    one = fma(left, left, one);
                    two = fma(right, right, two);
                    both = fma(left, right, both);
                }
                bool turns = abs(both) > tolerance * sqrt(one) * sqrt(two);
                if (turns && min(one, two) > least * least) {
                    REAL slope = (two - one) / (REAL(2.0) * both);
                    REAL tangent =
                        REAL(1.0) / (abs(slope) + sqrt(slope * slope + REAL(1.0)));
                    if (slope < 0.0) tangent = -tangent;
                    REAL square = tangent * tangent + REAL(1.0);
                    cosine = inversesqrt(square);
                    // It is as exact as a root and a quotient.
                    cosine *= REAL(1.5) - REAL(0.5) * square * cosine * cosine;
                    sine = tangent * cosine;
                    has_turned = true;
                }
            }
            barrier();
            if (sine != 0.0) {
                for (uint row = share; row < M; row += GROUP) {
                    REAL left = u[pair.x][row], right = u[pair.y][row];
                    u[pair.x][row] = cosine * left - sine * right;
                    u[pair.y][row] = sine * left + cosine * right;
                }
                for (uint row = share; row < N; row += GROUP) {
                    REAL left = v[pair.x][row], right = v[pair.y][row];
                    v[pair.x][row] = cosine * left - sine * right;
                    v[pair.y][row] = sine * left + cosine * right;
                }
            }
        }
        barrier();
        if (!has_turned) break;
    }
    barrier();
    if (local < N) {
        REAL sum = 0.0;
        for (uint row = 0; row < M; ++row) sum = fma(u[local][row], u[local][row], sum);
        // Rotations are a little longer or shorter than they should be, for both alike.
        REAL length_ = 0.0;
        for (uint row = 0; row < N; ++row)
            length_ = fma(v[local][row], v[local][row], length_);
        parts[local] = sqrt(length_);
        sizes[local] = sqrt(sum) / parts[local];
    }
    barrier();
    for (uint i = local; i < M * N; i += WORKGROUP)
        if (sizes[i / M] > least) u[i / M][i % M] /= sizes[i / M] * parts[i / M];
    for (uint i = local; i < N * N; i += WORKGROUP) v[i / N][i % N] /= parts[i / N];
    barrier();
    if (is_number)
        for (uint column = 0; column < N; ++column)
            if (!(sizes[column] > least)) complete(column, least);
    uint start = matrix * (M + 1 + N) * N;
    uint first_u = TURNED != 0 ? N + 1 : 0, first_v = TURNED != 0 ? 0 : M + 1;
    uint between = TURNED != 0 ? N : M;
    for (uint i = local; i < (M + 1 + N) * N; i += WORKGROUP) {
        uint row = i / N, column = i % N, place = 0;
        for (uint other = 0; other < N; ++other) {
            bool before = sizes[other] > sizes[column];
            if (before || (sizes[other] == sizes[column] && other < column)) ++place;
        }
        REAL value = sizes[column] * largest;
        if (row < M) value = u[column][row];
        if (row > M) value = v[column][row - M - 1];
        if (!is_number) {
            value = NOT_A_NUMBER;
            place = column;
        }
        uint to = between;
        if (row < M) to = first_u + row;
        if (row > M) to = first_v + row - M - 1;
        out_.at[start + to * N + place] = value;
    }
}
