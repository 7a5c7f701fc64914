// A step of solving triangular systems: STEP rows of X of A X = B, taken from those behind
// grid    x one workgroup for 32 columns of X, y one for TILE of the rows behind the step's,
//         of which each solves for these again, z matrices
// in      a (matrices, n, n) REAL; b (matrices, n, columns), order (matrices, n): see
//         SOURCE; first: the step's first row, in the order of the substitution
// out     rest (matrices, n, columns): what of B is left, in place; out_ (matrices, n,
//         columns): X, of the step's rows
// consts  UPPER: the triangle that is solved; UNIT: its diagonal is 1; TRANSPOSED: it is
//         that of A's transpose; SOURCE: what is left is read from `rest`, 1 from `b`, 2
//         from the rows of `b` that `order` has, 3 from those of the identity; TARGET: 1
//         to store rows where `order` has them
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
layout(constant_id = 5) const uint TRANSPOSED = 0;
layout(constant_id = 6) const uint SOURCE = 0;
layout(constant_id = 7) const uint TARGET = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly buffer
    Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Reals b;
    Orders order;
    Results rest;
    Results out_;
    uint n;
    uint columns;
    uint first;
} args;

const uint EDGE = 32;
const uint WORKGROUP = 256;
// Blocks of a step's rows, which are solved one after the other
#ifdef DOUBLE
#define REAL4 dvec4
const uint BLOCKS = 1;
const uint TILE = 32;
#else
#define REAL4 vec4
const uint BLOCKS = 2;
const uint TILE = 64;
#endif
const uint STEP = BLOCKS * EDGE;
// Rows between those of an invocation
const uint APART = WORKGROUP / EDGE;
const uint HELD = EDGE / APART;
const uint BEHIND = TILE / APART;
const uint LOADS = TILE * EDGE / WORKGROUP;
// Vectors of a block: see linalg/substitution.glsl
const uint BLOCK = EDGE * (EDGE / 4 + 1);

// Blocks of the diagonal, and what is below the first; then what is below the step.
shared REAL4 blocks[(2 * BLOCKS - 1) * BLOCK];
shared REAL known[STEP][EDGE];

// The row of the matrix that is number `row` of the substitution
uint place_of(uint row) { return UPPER != 0 ? args.n - 1u - row : row; }

REAL element(Reals a, uint row, uint column) {
    uint down = place_of(row), right = place_of(column);
    uint at = TRANSPOSED != 0 ? right * args.n + down : down * args.n + right;
    return a.at[gl_WorkGroupID.z * args.n * args.n + at];
}

// What is left of a row
REAL left_of(Results rest, Reals b, Orders order, uint row, uint column) {
    uint n = args.n, columns = args.columns;
    if (row >= n || column >= columns) return 0.0;
    uint start = gl_WorkGroupID.z * n * columns, place = place_of(row);
    if (SOURCE == 0) return rest.at[start + place * columns + column];
    if (SOURCE != 1) place = uint(order.at[gl_WorkGroupID.z * n + place]);
    if (SOURCE == 3) return place == column ? 1.0 : 0.0;
    return b.at[start + place * columns + column];
}

#include "linalg/substitution.glsl"

void main() {
    uint n = args.n, columns = args.columns, first = args.first;
    uint thread = gl_LocalInvocationIndex, lane = thread % EDGE, low = thread / EDGE;
    uint column = gl_WorkGroupID.x * EDGE + lane;
    uint start = gl_WorkGroupID.z * n * columns;
    uint behind = first + STEP + gl_WorkGroupID.y * TILE;
    Reals a = args.a, b = args.b;
    Orders order = args.order;
    Results rest = args.rest, out_ = args.out_;
    read_diagonal(a, first, 0);
    if (BLOCKS > 1) {
        read_diagonal(a, first + EDGE, BLOCK);
        [[unroll]] for (uint i = 0; i < COPIED; ++i) {
            uvec2 cell = cell_of(thread + i * WORKGROUP, EDGE);
            uint row = first + EDGE + cell.x, right = first + cell.y;
            store(2 * BLOCK, cell, row < n ? element(a, row, right) : REAL(0.0));
        }
    }
    // Loads that are on their way while the step's rows are solved
    REAL beside[BLOCKS][LOADS], later[BEHIND];
    [[unroll]] for (uint row = 0; row < STEP; row += APART)
        known[row + low][lane] = left_of(rest, b, order, first + row + low, column);
    [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            uvec2 cell = cell_of(thread + i * WORKGROUP, TILE);
            uint row = behind + cell.x, right = first + block * EDGE + cell.y;
            beside[block][i] = row < n ? element(a, row, right) : REAL(0.0);
        }
    }
    [[unroll]] for (uint h = 0; h < BEHIND; ++h)
        later[h] = left_of(rest, b, order, behind + low + h * APART, column);
    barrier();
    if (thread < EDGE) substitute(0, 0, lane);
    barrier();
    if (BLOCKS > 1) {
        REAL held[HELD];
        [[unroll]] for (uint h = 0; h < HELD; ++h)
            held[h] = known[EDGE + low + h * APART][lane];
        for (uint q = 0; q < QUADS; ++q) {
            REAL values[4];
            [[unroll]] for (uint r = 0; r < 4; ++r) values[r] = known[4 * q + r][lane];
            [[unroll]] for (uint h = 0; h < HELD; ++h) {
                REAL4 four = blocks[2 * BLOCK + (low + h * APART) * PITCH + q];
                [[unroll]] for (uint r = 0; r < 4; ++r)
                    held[h] = fma(-four[r], values[r], held[h]);
            }
        }
        [[unroll]] for (uint h = 0; h < HELD; ++h)
            known[EDGE + low + h * APART][lane] = held[h];
        barrier();
        if (thread < EDGE) substitute(BLOCK, EDGE, lane);
        barrier();
    }
    if (gl_WorkGroupID.y == 0 && column < columns) {
        [[unroll]] for (uint row = 0; row < STEP; row += APART) {
            if (first + row + low >= n) continue;
            uint place = place_of(first + row + low);
            if (TARGET != 0) place = uint(order.at[gl_WorkGroupID.z * n + place]);
            out_.at[start + place * columns + column] = known[row + low][lane];
        }
    }
    if (behind >= n) return;
    [[unroll]] for (uint block = 0; block < BLOCKS; ++block) {
        if (block > 0) barrier();
        [[unroll]] for (uint i = 0; i < LOADS; ++i) {
            uvec2 cell = cell_of(thread + i * WORKGROUP, TILE);
            store(0, cell, beside[block][i]);
        }
        barrier();
        for (uint q = 0; q < QUADS; ++q) {
            REAL values[4];
            [[unroll]] for (uint r = 0; r < 4; ++r)
                values[r] = known[block * EDGE + 4 * q + r][lane];
            [[unroll]] for (uint h = 0; h < BEHIND; ++h) {
                REAL4 four = blocks[(low + h * APART) * PITCH + q];
                [[unroll]] for (uint r = 0; r < 4; ++r)
                    later[h] = fma(-four[r], values[r], later[h]);
            }
        }
    }
    [[unroll]] for (uint h = 0; h < BEHIND; ++h) {
        uint row = behind + low + h * APART;
        if (row < n && column < columns)
            rest.at[start + place_of(row) * columns + column] = later[h];
    }
}
