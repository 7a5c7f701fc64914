// LU factors of panels of matrices, with partial pivoting
// grid    one workgroup for each panel, linear
// in      a (panels, m, COLUMNS) REAL, m from COLUMNS on
// out     factors (panels, m, COLUMNS): L below the diagonal, where it is 1, and U; order
//         (panels, m): the row of the panel that has become each row; pivots (panels,
//         COLUMNS): the row, of those as they are then, that each is exchanged for; sign
//         (panels, 1): -1 where rows were exchanged an odd number of times, else 1
// consts  LOCAL_X: a power of two
// macros  DOUBLE: see linalg/real.glsl; COLUMNS; ROWS: rows of an invocation, which has
//         them in registers
// lint    scalar-load: a row begins at any element
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 3.4.1
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef COLUMNS
#define COLUMNS 32
#endif
#ifndef ROWS
#define ROWS 1
#endif

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly buffer
    Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly buffer
    Factors { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals a;
    Factors factors;
    Orders order;
    Orders pivots;
    Factors sign_;
    uint panels;
    uint rows;
} args;

const uint MOST = 1024;
// Invocations that find the largest of a part each.
const uint FINDERS = 32;
const uint NONE = 0xffffffffu;

shared REAL sizes[MOST];
shared uint places[MOST];
shared REAL best_sizes[FINDERS];
shared uint best_places[FINDERS];
shared REAL top[COLUMNS];

struct Largest {
    REAL size;
    uint place;
};

// Of equal ones the first; NaN is none
Largest larger(Largest old, REAL size, uint place) {
    bool wins = size > old.size || size == old.size && place < old.place;
    return wins ? Largest(size, place) : old;
}

void main() {
    uint panel = linear_workgroup();
    if (panel >= args.panels) return;
    uint rows = args.rows, local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint begin = panel * rows * COLUMNS, finders = min(FINDERS, size);
    // Rows stay where they are; what changes is their place.
    REAL own[ROWS][COLUMNS];
    uint place[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint row = local + r * size;
        place[r] = row < rows ? row : NONE;
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            own[r][column] =
                row < rows ? args.a.at[begin + row * COLUMNS + column] : 0.0;
    }
    REAL sign_ = 1.0;
    [[unroll]] for (uint k = 0; k < COLUMNS; ++k) {
        Largest best = Largest(-1.0, NONE);
        [[unroll]] for (uint r = 0; r < ROWS; ++r)
            if (place[r] >= k && place[r] != NONE)
                best = larger(best, abs(own[r][k]), place[r]);
        sizes[local] = best.size;
        places[local] = best.place;
        barrier();
        if (local < finders) {
            best = Largest(-1.0, NONE);
            for (uint i = local; i < size; i += finders)
                best = larger(best, sizes[i], places[i]);
            best_sizes[local] = best.size;
            best_places[local] = best.place;
        }
        barrier();
        best = Largest(-1.0, NONE);
        for (uint i = 0; i < finders; ++i)
            best = larger(best, best_sizes[i], best_places[i]);
        uint pivot = best.place == NONE ? k : best.place;
        if (pivot != k) sign_ = -sign_;
        if (local == 0) args.pivots.at[panel * COLUMNS + k] = int(pivot);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint was = place[r];
            if (was == k) place[r] = pivot;
            if (was == pivot) {
                place[r] = k;
                [[unroll]] for (uint column = k; column < COLUMNS; ++column)
                    top[column] = own[r][column];
            }
        }
        barrier();
        REAL divisor = top[k];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            if (place[r] <= k || place[r] == NONE) continue;
            // A column of zeros stays one, as in LAPACK.
            REAL factor = divisor == 0.0 ? own[r][k] : own[r][k] / divisor;
            own[r][k] = factor;
            [[unroll]] for (uint column = k + 1; column < COLUMNS; ++column)
                own[r][column] = fma(-factor, top[column], own[r][column]);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (place[r] == NONE) continue;
        args.order.at[panel * rows + place[r]] = int(local + r * size);
        uint start = begin + place[r] * COLUMNS;
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            args.factors.at[start + column] = own[r][column];
    }
    if (local == 0) args.sign_.at[panel] = sign_;
}
