// Rows of LU factors exchanged as a panel's were, and U of the columns beside it
// grid    x one workgroup for 32 columns but those of the panel, z matrices
// in      moved, pivots (matrices, n): see linalg/lu_panel.comp; begun: columns before
// out     factors (matrices, n, n) REAL, in place: of the columns behind the panel the
//         rows beside its diagonal block are multiplied by the inverse of its L
// consts  none
// macros  DOUBLE: see linalg/real.glsl; COLUMNS: of the panel
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 3.4.7
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef COLUMNS
#define COLUMNS 32
#endif

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Factors { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Factors factors;
    Orders moved;
    Orders pivots;
    uint n;
    uint begun;
} args;

const uint EDGE = 32;
// Rows that the panel moved, at most: its own, and those that they were exchanged for.
const uint MOVED = 2 * COLUMNS;
const uint NONE = 0xffffffffu;
const uint HELD = MOVED / (256 / EDGE);

shared REAL corner[COLUMNS][COLUMNS + 1];
shared REAL beside[COLUMNS][EDGE];

void main() {
    uint n = args.n, begun = args.begun, columns = min(COLUMNS, n - begun);
    uint lane = gl_LocalInvocationIndex % EDGE, low = gl_LocalInvocationIndex / EDGE;
    uint column = gl_WorkGroupID.x * EDGE + lane;
    bool behind = column >= begun;
    if (behind) column += columns;
    uint line = gl_WorkGroupID.z * n + begun, begin = line * n;
    Factors factors = args.factors;
    REAL held[HELD];
    uint row[HELD];
    [[unroll]] for (uint h = 0; h < HELD; ++h) {
        uint number = low + h * (256 / EDGE), own = number % COLUMNS;
        bool has = own < columns && column < n;
        row[h] = own;
        if (has && number >= COLUMNS) {
            row[h] = args.pivots.at[line + own] - begun;
            has = row[h] >= columns;  // else it is one of the panel's own
        }
        if (!has) row[h] = NONE;
        held[h] = 0.0;
        if (has)
            held[h] = factors.at[begin + args.moved.at[line + row[h]] * n + column];
    }
    barrier();
    [[unroll]] for (uint h = 0; h < HELD; ++h) {
        uint number = low + h * (256 / EDGE);
        bool has = row[h] != NONE;
        if (number < COLUMNS) beside[number][lane] = held[h];
        if (has && (!behind || number >= COLUMNS))
            factors.at[begin + row[h] * n + column] = held[h];
    }
    for (uint i = gl_LocalInvocationIndex; i < COLUMNS * COLUMNS; i += 256) {
        uint r = i / COLUMNS, c = i % COLUMNS;
        bool has = r < columns && c < columns;
        corner[r][c] = has ? factors.at[begin + r * n + begun + c] : 0.0;
    }
    barrier();
    for (uint k = 0; k + 1 < COLUMNS; ++k) {
        REAL value = beside[k][lane];
        for (uint r = k + 1 + low; r < COLUMNS; r += 256 / EDGE)
            beside[r][lane] = fma(-corner[r][k], value, beside[r][lane]);
        barrier();
    }
    if (!behind || column >= n) return;
    for (uint r = low; r < columns; r += 256 / EDGE)
        factors.at[begin + r * n + column] = beside[r][lane];
}
