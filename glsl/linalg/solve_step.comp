// A step of solving triangular systems: 32 rows of X of A X = B, taken from those behind
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
#ifdef DOUBLE
const uint TILE = 32;
#else
const uint TILE = 64;
#endif
// Rows between those of an invocation
const uint APART = WORKGROUP / EDGE;
const uint HELD = EDGE / APART;
const uint BEHIND = TILE / APART;
const uint LOADS = TILE * EDGE / WORKGROUP;

// The diagonal block, and then what is below it
shared REAL tile[TILE][EDGE + 1];
shared REAL known[EDGE][EDGE];

// The row of the matrix that is number `row` of the substitution
uint place_of(uint row) { return UPPER != 0 ? args.n - 1u - row : row; }

// An element of a tile of so many rows, which neighbours read side by side
uvec2 cell_of(uint number, uint rows) {
    uvec2 along = uvec2(number / EDGE, number % EDGE);
    return TRANSPOSED != 0 ? uvec2(number % rows, number / rows) : along;
}

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

void main() {
    uint n = args.n, columns = args.columns, first = args.first;
    uint thread = gl_LocalInvocationIndex, lane = thread % EDGE, low = thread / EDGE;
    uint column = gl_WorkGroupID.x * EDGE + lane;
    uint start = gl_WorkGroupID.z * n * columns;
    uint behind = first + EDGE + gl_WorkGroupID.y * TILE;
    Reals a = args.a, b = args.b;
    Orders order = args.order;
    Results rest = args.rest, out_ = args.out_;
    for (uint i = thread; i < EDGE * EDGE; i += WORKGROUP) {
        uvec2 cell = cell_of(i, EDGE);
        uint row = first + cell.x, right = first + cell.y;
        REAL value = row == right ? 1.0 : 0.0;
        bool is_read = row < n && (UNIT != 0 ? right < row : right <= row);
        if (is_read) value = element(a, row, right);
        tile[cell.x][cell.y] = value;
    }
    // Loads that are on their way while the step's rows are solved
    REAL beside[LOADS], held[HELD], later[BEHIND];
    [[unroll]] for (uint h = 0; h < HELD; ++h)
        held[h] = left_of(rest, b, order, first + low + h * APART, column);
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uvec2 cell = cell_of(thread + i * WORKGROUP, TILE);
        uint row = behind + cell.x;
        beside[i] = row < n ? element(a, row, first + cell.y) : REAL(0.0);
    }
    [[unroll]] for (uint h = 0; h < BEHIND; ++h)
        later[h] = left_of(rest, b, order, behind + low + h * APART, column);
    barrier();
    for (uint k = 0; k < EDGE; ++k) {
        [[unroll]] for (uint h = 0; h < HELD; ++h) {
            if (low + h * APART == k) {
                if (UNIT == 0) held[h] /= tile[k][k];
                known[k][lane] = held[h];
            }
        }
        barrier();
        REAL value = known[k][lane];
        [[unroll]] for (uint h = 0; h < HELD; ++h) {
            uint row = low + h * APART;
            if (row > k) held[h] = fma(-tile[row][k], value, held[h]);
        }
    }
    if (gl_WorkGroupID.y == 0 && column < columns) {
        [[unroll]] for (uint h = 0; h < HELD; ++h) {
            uint row = first + low + h * APART;
            if (row >= n) continue;
            uint place = place_of(row);
            if (TARGET != 0) place = uint(order.at[gl_WorkGroupID.z * n + place]);
            out_.at[start + place * columns + column] = held[h];
        }
    }
    if (behind >= n) return;
    barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uvec2 cell = cell_of(thread + i * WORKGROUP, TILE);
        tile[cell.x][cell.y] = beside[i];
    }
    barrier();
    for (uint k = 0; k < EDGE; ++k) {
        REAL value = known[k][lane];
        [[unroll]] for (uint h = 0; h < BEHIND; ++h)
            later[h] = fma(-tile[low + h * APART][k], value, later[h]);
    }
    [[unroll]] for (uint h = 0; h < BEHIND; ++h) {
        uint row = behind + low + h * APART;
        if (row < n && column < columns)
            rest.at[start + place_of(row) * columns + column] = later[h];
    }
}
