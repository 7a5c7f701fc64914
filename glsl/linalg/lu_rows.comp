// Rows of LU factors exchanged as a panel's were, and U of the columns beside it
// grid    x one invocation for each column but those of the panel, z matrices
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
#define COLUMNS 16
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

// Rows that the panel moved, at most: its own, and those that they were exchanged for.
const uint MOVED = 2 * COLUMNS;
const uint NONE = 0xffffffffu;

// Rows, and those that have come there
shared uint rows[MOVED];
shared uint sources[MOVED];
// Of each column of the panel's L what is below the diagonal
shared REAL below[COLUMNS][COLUMNS];

void main() {
    uint n = args.n, begun = args.begun, columns = min(COLUMNS, n - begun);
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint column = gl_WorkGroupID.x * size + local;
    bool behind = column >= begun;
    if (behind) column += columns;
    uint line = gl_WorkGroupID.z * n + begun, begin = line * n;
    Factors factors = args.factors;
    Orders moved = args.moved, pivots = args.pivots;
    for (uint i = local; i < MOVED; i += size) {
        uint own = i % COLUMNS, row = own < columns ? own : NONE;
        if (row != NONE && i >= COLUMNS) {
            row = pivots.at[line + own] - 1 - begun;
            if (row < columns) row = NONE;  // it is one of the panel's own
        }
        rows[i] = row;
        sources[i] = row == NONE ? 0 : moved.at[line + row];
    }
    for (uint i = local; i < COLUMNS * COLUMNS; i += size) {
        uint k = i / COLUMNS, row = k + 1 + i % COLUMNS;
        REAL value = 0.0;
        if (row < columns) value = factors.at[begin + row * n + begun + k];
        below[k][i % COLUMNS] = value;
    }
    barrier();
    if (column >= n) return;
    REAL held[MOVED];
    [[unroll]] for (uint i = 0; i < MOVED; ++i) {
        held[i] = 0.0;
        if (rows[i] != NONE) held[i] = factors.at[begin + sources[i] * n + column];
    }
    [[unroll]] for (uint i = 0; i < MOVED; ++i) {
        bool stays = rows[i] != NONE && (!behind || i >= COLUMNS);
        if (stays) factors.at[begin + rows[i] * n + column] = held[i];
    }
    if (!behind) return;
    // Row k is always the first in registers, which are rotated by one.
    [[dont_unroll]] for (uint k = 0; k < columns; ++k) {
        REAL value = held[0];
        factors.at[begin + k * n + column] = value;
        [[unroll]] for (uint row = 1; row < COLUMNS; ++row)
            held[row - 1] = fma(-below[k][row - 1], value, held[row]);
    }
}
