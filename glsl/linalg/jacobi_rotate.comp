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
const uint EACH = SIDE * SIDE / WORKGROUP;
#ifdef DOUBLE
#define REAL2 dvec2
const REAL EPS = 2.220446049250313e-16LF;
const REAL SMALL = 1.0e-10LF;
#else
#define REAL2 vec2
const REAL EPS = 1.1920929e-7;
const REAL SMALL = 1.0e-10;
#endif
const REAL UP = 1099511627776.0;

// Invocations of few rows make all rotations that they need, from products that others
// leave as they are: new ones are stored beside them.
const bool OWN = BLOCK < 32;
const uint TRIANGLE = SIDE * (SIDE + 1) / 2;

// Products of the rows, by rows of the lower triangle
shared REAL gram[OWN ? 2 * TRIANGLE : TRIANGLE];
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

// Cosine and sine of the rotation of rows of these squared lengths and this product, after
// which the first is the longer one; 1 and 0 where they are orthogonal
REAL2 rotation(REAL one, REAL two, REAL both, REAL tolerance) {
    // Squares of what is as small as this would not be numbers.
    REAL up = max(one, two) < SMALL ? UP : REAL(1.0);
    one *= up;
    two *= up;
    both *= up;
    bool turns = both * both > tolerance * tolerance * one * two;
    if (!turns || min(one, two) <= EPS * EPS * up) return REAL2(1.0, 0.0);
    if (both * both > EPS * one * two) has_turned = true;
    REAL apart = two - one, twice = both + both;
#ifdef DOUBLE
    // The angle need not be exact, as long as the rotation is one.
    float least = float(min(abs(apart), abs(twice))), most = float(max(abs(apart), abs(twice)));
    float ratio = least / most, whole = most * sqrt(ratio * ratio + 1.0);
    REAL tangent = REAL(float(twice) / (float(abs(apart)) + whole));
    REAL square = tangent * tangent + REAL(1.0);
    REAL cosine = REAL(inversesqrt(float(square)));
    cosine *= REAL(1.5) - REAL(0.5) * square * cosine * cosine;
    cosine *= REAL(1.5) - REAL(0.5) * square * cosine * cosine;
#else
    REAL tangent = twice / (abs(apart) + sqrt(apart * apart + twice * twice));
    REAL cosine = inversesqrt(tangent * tangent + REAL(1.0));
#endif
    if (apart < 0.0) tangent = -tangent;
    REAL sine = tangent * cosine;
    return two > one ? REAL2(-sine, cosine) : REAL2(cosine, sine);
}

// The rotation of a pair of rows by products of the rows that begin at `begin`
REAL2 rotation_of(uint begin, uvec2 rows, REAL tolerance) {
    REAL one = gram[begin + place(rows.x, rows.x)], two = gram[begin + place(rows.y, rows.y)];
    return rotation(one, two, gram[begin + place(rows.x, rows.y)], tolerance);
}

void main() {
    uint matrix = gl_WorkGroupID.z, thread = gl_LocalInvocationIndex;
    Flags before = args.before;
    if (before.at[matrix] == 0) return;
    Reals grams = args.grams;
    Results turns = args.turns;
    uint pair = matrix * gl_NumWorkGroups.x + gl_WorkGroupID.x, parts = args.parts;
    uint start = pair * parts * SIDE * SIDE;
    REAL sums[EACH];
    [[unroll]] for (uint j = 0; j < EACH; ++j) sums[j] = 0.0;
    for (uint part = 0; part < parts; ++part)
        [[unroll]] for (uint j = 0; j < EACH; ++j)
            sums[j] += grams.at[start + part * SIDE * SIDE + thread + j * WORKGROUP];
    [[unroll]] for (uint j = 0; j < EACH; ++j) {
        uint i = thread + j * WORKGROUP, row = i / SIDE, column = i % SIDE;
        turn[row][column] = row == column ? 1.0 : 0.0;
        if (row >= column) gram[place(row, column)] = sums[j];
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
    uint one = thread / BLOCK, two = thread % BLOCK, from = 0;
    for (uint inner = 0; inner < INNER; ++inner) {
        barrier();
        if (thread == 0) has_turned = false;
        for (uint round_ = 0; round_ + 1 < SIDE; ++round_) {
            barrier();
            uvec2 p = pair_of(round_, one, SIDE), q = pair_of(round_, two, SIDE);
            REAL2 across, down;
            if (OWN) {
                across = rotation_of(from, q, tolerance);
                down = rotation_of(from, p, tolerance);
            } else {
                if (one == 0) {
                    across = rotation_of(from, q, tolerance);
                    cosines[two] = across.x;
                    sines[two] = across.y;
                }
                barrier();
                across = REAL2(cosines[two], sines[two]);
                down = REAL2(cosines[one], sines[one]);
            }
            REAL c = across.x, s = across.y;
            uint to = OWN ? TRIANGLE - from : from;
            if (one >= two) {
                uint xx = place(p.x, q.x), xy = place(p.x, q.y);
                uint yx = place(p.y, q.x), yy = place(p.y, q.y);
                REAL above = gram[from + xx], right = gram[from + xy];
                REAL below = gram[from + yx], last = gram[from + yy];
                REAL left = c * above - s * right, beside = s * above + c * right;
                REAL lower_left = c * below - s * last, lower_right = s * below + c * last;
                gram[to + xx] = down.x * left - down.y * lower_left;
                gram[to + yx] = down.y * left + down.x * lower_left;
                gram[to + yy] = down.y * beside + down.x * lower_right;
                if (one != two) gram[to + xy] = down.x * beside - down.y * lower_right;
            }
            from = to;
            [[unroll]] for (uint half_ = 0; half_ < 2; ++half_) {
                uint row = one + half_ * BLOCK;
                REAL x = turn[row][q.x], y = turn[row][q.y];
                turn[row][q.x] = c * x - s * y;
                turn[row][q.y] = s * x + c * y;
            }
        }
        barrier();
        // Where rows were nearly orthogonal, what is left is the square of that.
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
