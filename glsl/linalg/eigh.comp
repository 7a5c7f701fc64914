// Eigenvectors and eigenvalues of small symmetric matrices, in shared memory
// grid    linear, one workgroup for each matrix
// in      a (matrices, N, N) REAL, of which one triangle is read
// out     out_ (matrices, N + 1, N): eigenvectors, as columns, and below them the
//         eigenvalues, ascending
// consts  N; UPPER: the triangle that is read; LOCAL_X: at least N
// macros  DOUBLE: see linalg/real.glsl
// lint    divergent-barrier: all invocations read whether one has turned
// source  Golub and Van Loan, "Matrix Computations", 4th edition, sections 8.5.2 and 8.5.6:
//         rotations of pairs of rows and columns, those of a round at once
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

layout(constant_id = 3) const uint N = 1;
layout(constant_id = 4) const uint UPPER = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Results out_;
    uint matrices;
} args;

// Players of a round robin: each meets each of the others once in PLAYERS - 1 rounds.
const uint PLAYERS = N + N % 2;
const uint PAIRS = PLAYERS / 2;
const uint MOST_SWEEPS = 30;
#ifdef DOUBLE
const REAL LEAST = 1.0e-17;
#else
const REAL LEAST = 1.0e-9;
#endif

shared REAL rows[N][N + 1];
shared REAL vectors[N][N + 1];
shared REAL cosines[PAIRS];
shared REAL sines[PAIRS];
shared REAL sums[N];
shared bool has_turned;

// Who meets in a round, the smaller number first
uvec2 pair_of(uint round_, uint number) {
    uint others = PLAYERS - 1;
    uint one = (round_ + number) % max(others, 1u);
    uint two = number == 0 ? others : (round_ + others - number) % max(others, 1u);
    return uvec2(min(one, two), max(one, two));
}

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint begin = matrix * N * N;
    for (uint i = local; i < N * N; i += size) {
        uint row = i / N, column = i % N;
        bool turned = UPPER != 0 ? row > column : row < column;
        rows[row][column] = args.a.at[begin + (turned ? column * N + row : i)];
        vectors[row][column] = row == column ? 1.0 : 0.0;
    }
    barrier();
    if (local < N) {
        REAL sum = 0.0;
        for (uint column = 0; column < N; ++column)
            sum += rows[local][column] * rows[local][column];
        sums[local] = sum;
    }
    barrier();
    REAL whole = 0.0;
    for (uint row = 0; row < N; ++row) whole += sums[row];
    // Smaller elements change no eigenvalue by more than rounding does.
    REAL least = LEAST * sqrt(whole);
    for (uint sweep = 0; sweep < MOST_SWEEPS; ++sweep) {
        barrier();
        if (local == 0) has_turned = false;
        for (uint round_ = 0; round_ + 1 < PLAYERS; ++round_) {
            barrier();
            if (local < PAIRS) {
                uvec2 pair = pair_of(round_, local);
                REAL cosine = 1.0, sine = 0.0;
                if (pair.y < N) {
                    REAL beside = rows[pair.x][pair.y];
                    if (abs(beside) > least) {
                        REAL slope = (rows[pair.y][pair.y] - rows[pair.x][pair.x]) /
                            (REAL(2.0) * beside);
                        REAL tangent =
                            REAL(1.0) / (abs(slope) + sqrt(slope * slope + REAL(1.0)));
                        if (slope < 0.0) tangent = -tangent;
                        cosine = inversesqrt(tangent * tangent + REAL(1.0));
                        // It is as exact as a root and a quotient.
                        cosine *= REAL(1.5) -
                            REAL(0.5) * (tangent * tangent + REAL(1.0)) * cosine * cosine;
                        sine = tangent * cosine;
                        has_turned = true;
                    }
                }
                cosines[local] = cosine;
                sines[local] = sine;
            }
            barrier();
            for (uint i = local; i < PAIRS * N; i += size) {
                uvec2 pair = pair_of(round_, i / N);
                uint row = i % N;
                if (pair.y >= N) continue;
                REAL cosine = cosines[i / N], sine = sines[i / N];
                REAL one = rows[row][pair.x], two = rows[row][pair.y];
                rows[row][pair.x] = cosine * one - sine * two;
                rows[row][pair.y] = sine * one + cosine * two;
                one = vectors[row][pair.x];
                two = vectors[row][pair.y];
                vectors[row][pair.x] = cosine * one - sine * two;
                vectors[row][pair.y] = sine * one + cosine * two;
            }
            barrier();
            for (uint i = local; i < PAIRS * N; i += size) {
                uvec2 pair = pair_of(round_, i / N);
                uint column = i % N;
                if (pair.y >= N) continue;
                REAL cosine = cosines[i / N], sine = sines[i / N];
                REAL one = rows[pair.x][column], two = rows[pair.y][column];
                rows[pair.x][column] = cosine * one - sine * two;
                rows[pair.y][column] = sine * one + cosine * two;
            }
        }
        barrier();
        if (!has_turned) break;
    }
    barrier();
    uint place = local;
    REAL value = 0.0;
    if (local < N) {
        value = rows[local][local];
        place = 0;
        bool is_number = true;
        for (uint other = 0; other < N; ++other) {
            REAL beside = rows[other][other];
            if (beside < value || (beside == value && other < local)) ++place;
            if (beside != beside) is_number = false;
        }
        // What is not a number has no order.
        if (!is_number) place = local;
        begin = matrix * (N + 1) * N;
        for (uint row = 0; row < N; ++row)
            args.out_.at[begin + row * N + place] = vectors[row][local];
        args.out_.at[begin + N * N + place] = value;
    }
}
