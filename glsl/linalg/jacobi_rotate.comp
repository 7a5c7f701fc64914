// Rotations that make the rows of pairs of blocks orthogonal, by eigenvectors of their products
// grid    x one workgroup for each pair of a round, z matrices
// in      grams (matrices, pairs, parts, 2 BLOCK, 2 BLOCK) REAL, to be added up; before
//         (matrices): 0 for those that have converged, which are left out; tolerance: the
//         cosine of rows up to which they count as orthogonal, in roundings
// out     turns (matrices, pairs, 2 BLOCK, 2 BLOCK): eigenvectors, as columns, where `turned`
//         (matrices, pairs) is 1: where two rows are not orthogonal; now (matrices): 1 then
// consts  INNER: sweeps over a pair, at most; LOCAL_X: BLOCK * BLOCK
// macros  DOUBLE: see linalg/real.glsl; BLOCK: rows of a block, 16 or 32
// lint    divergent-barrier: all invocations read whether one has turned
// source  Golub and Van Loan, "Matrix Computations", 4th edition, sections 8.5.2 and 8.6.3;
//         de Rijk, "A one-sided Jacobi algorithm for computing the singular value
//         decomposition on a vector computer", SIAM Journal on Scientific and Statistical
//         Computing 10, 1989: the longer row of a pair becomes the first
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef BLOCK
#define BLOCK 16
#endif
#include "linalg/jacobi.glsl"

layout(constant_id = 3) const uint INNER = 2;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Flags { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Marks { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals grams;
    Flags before;
    Results turns;
    Marks turned;
    Marks now;
    uint parts;
    float tolerance;
} args;

const uint WORKGROUP = BLOCK * BLOCK;
#ifdef DOUBLE
const REAL EPS = 2.220446049250313e-16LF;
#else
const REAL EPS = 1.1920929e-7;
#endif

// Products of the rows, by rows of the lower triangle
shared REAL gram[SIDE * (SIDE + 1) / 2];
shared REAL turn[SIDE][SIDE + 1];
shared REAL cosines[BLOCK];
shared REAL sines[BLOCK];
shared bool has_turned;

uint place(uint row, uint column) {
    uint low = max(row, column);
    return low * (low + 1) / 2 + min(row, column);
}

// Whether rows of these squared lengths and this product are to be made orthogonal
bool are_apart(REAL one, REAL two, REAL both, REAL tolerance) {
    return abs(both) > tolerance * sqrt(one) * sqrt(two) && min(one, two) > EPS * EPS;
}

void main() {
    uint matrix = gl_WorkGroupID.z, thread = gl_LocalInvocationIndex;
    Flags before = args.before;
    if (before.at[matrix] == 0) return;
    Reals grams = args.grams;
    Results turns = args.turns;
    uint pair = matrix * gl_NumWorkGroups.x + gl_WorkGroupID.x, parts = args.parts;
    uint start = pair * parts * SIDE * SIDE;
    for (uint i = thread; i < SIDE * SIDE; i += WORKGROUP) {
        uint row = i / SIDE, column = i % SIDE;
        turn[row][column] = row == column ? 1.0 : 0.0;
        if (row < column) continue;
        REAL sum = 0.0;
        for (uint part = 0; part < parts; ++part)
            sum += grams.at[start + part * SIDE * SIDE + i];
        gram[place(row, column)] = sum;
    }
    if (thread == 0) has_turned = false;
    barrier();
    REAL tolerance = EPS * REAL(args.tolerance);
    for (uint i = thread; i < SIDE * SIDE; i += WORKGROUP) {
        uint row = i / SIDE, column = i % SIDE;
        if (row <= column) continue;
        REAL first = gram[place(row, row)], second = gram[place(column, column)];
        if (are_apart(first, second, gram[place(row, column)], tolerance))
            has_turned = true;
    }
    barrier();
    bool turns_any = has_turned;
    if (thread == 0) {
        args.turned.at[pair] = turns_any ? 1 : 0;
        if (turns_any) args.now.at[matrix] = 1;
    }
    if (!turns_any) return;
    uint one = thread / BLOCK, two = thread % BLOCK;
    for (uint inner = 0; inner < INNER; ++inner) {
        barrier();
        if (thread == 0) has_turned = false;
        for (uint round_ = 0; round_ + 1 < SIDE; ++round_) {
            barrier();
            if (thread < BLOCK) {
                uvec2 own = pair_of(round_, thread, SIDE);
                REAL first = gram[place(own.x, own.x)], second = gram[place(own.y, own.y)];
                REAL both = gram[place(own.x, own.y)], cosine = 1.0, sine = 0.0;
                if (are_apart(first, second, both, tolerance)) {
                    REAL slope = (second - first) / (REAL(2.0) * both);
                    REAL tangent =
                        REAL(1.0) / (abs(slope) + sqrt(slope * slope + REAL(1.0)));
                    if (slope < 0.0) tangent = -tangent;
                    cosine = inversesqrt(tangent * tangent + REAL(1.0));
                    sine = tangent * cosine;
                    if (second > first) {
                        REAL kept = cosine;
                        cosine = -sine;
                        sine = kept;
                    }
                    has_turned = true;
                }
                cosines[thread] = cosine;
                sines[thread] = sine;
            }
            barrier();
            uvec2 p = pair_of(round_, one, SIDE), q = pair_of(round_, two, SIDE);
            REAL c = cosines[two], s = sines[two], above = cosines[one], below = sines[one];
            if (one >= two) {
                uint xx = place(p.x, q.x), xy = place(p.x, q.y);
                uint yx = place(p.y, q.x), yy = place(p.y, q.y);
                REAL left = c * gram[xx] - s * gram[xy], right = s * gram[xx] + c * gram[xy];
                REAL lower_left = c * gram[yx] - s * gram[yy];
                REAL lower_right = s * gram[yx] + c * gram[yy];
                gram[xx] = above * left - below * lower_left;
                gram[yx] = below * left + above * lower_left;
                gram[yy] = below * right + above * lower_right;
                if (one != two) gram[xy] = above * right - below * lower_right;
            }
            [[unroll]] for (uint half_ = 0; half_ < 2; ++half_) {
                uint row = one + half_ * BLOCK;
                REAL x = turn[row][q.x], y = turn[row][q.y];
                turn[row][q.x] = c * x - s * y;
                turn[row][q.y] = s * x + c * y;
            }
        }
        barrier();
        if (!has_turned) break;
    }
    // Rounding makes all rotations a little too long, or too short: a step of Newton's method
    // for the nearest orthogonal matrix.
    barrier();
    REAL rest[2][2];
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            rest[r][c] = r == c && one == two ? 1.0 : 0.0;
    for (uint k = 0; k < SIDE; ++k) {
        REAL a = turn[k][one], b = turn[k][one + BLOCK];
        REAL x = turn[k][two], y = turn[k][two + BLOCK];
        rest[0][0] = fma(-a, x, rest[0][0]);
        rest[0][1] = fma(-a, y, rest[0][1]);
        rest[1][0] = fma(-b, x, rest[1][0]);
        rest[1][1] = fma(-b, y, rest[1][1]);
    }
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            if (one + r * BLOCK >= two + c * BLOCK)
                gram[place(one + r * BLOCK, two + c * BLOCK)] = REAL(0.5) * rest[r][c];
    barrier();
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            rest[r][c] = 0.0;
    for (uint k = 0; k < SIDE; ++k) {
        REAL a = turn[one][k], b = turn[one + BLOCK][k];
        REAL x = gram[place(k, two)], y = gram[place(k, two + BLOCK)];
        rest[0][0] = fma(a, x, rest[0][0]);
        rest[0][1] = fma(a, y, rest[0][1]);
        rest[1][0] = fma(b, x, rest[1][0]);
        rest[1][1] = fma(b, y, rest[1][1]);
    }
    start = pair * SIDE * SIDE;
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c) {
            uint row = one + r * BLOCK, column = two + c * BLOCK;
            turns.at[start + row * SIDE + column] = turn[row][column] + rest[r][c];
        }
}
