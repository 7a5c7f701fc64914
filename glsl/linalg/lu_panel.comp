// LU factors of a panel of each matrix, in place, with partial pivoting
// grid    one workgroup for each matrix, linear
// in      begun: the columns before the panel, which are factorised
// out     factors (matrices, n, n) REAL: in the panel, from row `begun` on, L below the
//         diagonal, where it is 1, and U; order (matrices, n): the row of the matrix that
//         has become each row; moved (matrices, n): the row, counted from `begun` on,
//         that has in this step; pivots (matrices, n): the row that each is exchanged
//         for; sign (matrices, 1): -1 where rows were exchanged an odd number of times;
//         info (matrices): the place, from 1 on, of the first pivot that is 0, or 0
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

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Factors { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Factors factors;
    Orders order;
    Orders moved;
    Orders pivots;
    Factors sign_;
    Orders info;
    uint matrices;
    uint n;
    uint begun;
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
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    uint n = args.n, begun = args.begun, rows = n - begun;
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint columns = min(COLUMNS, rows), finders = min(FINDERS, size);
    uint begin = (matrix * n + begun) * n + begun, line = matrix * n + begun;
    // Rows stay where they are; what changes is their place.
    REAL own[ROWS][COLUMNS];
    uint place[ROWS];
    int before[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint row = local + r * size;
        place[r] = row < rows ? row : NONE;
        before[r] = begun == 0 || row >= rows ? int(row) : args.order.at[line + row];
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            own[r][column] = row < rows && column < columns
                ? args.factors.at[begin + row * n + column]
                : 0.0;
    }
    REAL sign_ = 1.0;
    uint zero = 0;
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
        uint pivot = best.place == NONE || k >= columns ? k : best.place;
        if (pivot != k) sign_ = -sign_;
        if (local == 0 && k < columns)
            args.pivots.at[line + k] = int(begun + pivot);
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
        if (divisor == 0.0 && k < columns && zero == 0) zero = begun + k + 1;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            if (place[r] <= k || place[r] == NONE || k >= columns) continue;
            // A column of zeros stays one, as in LAPACK.
            REAL factor = divisor == 0.0 ? own[r][k] : own[r][k] / divisor;
            own[r][k] = factor;
            [[unroll]] for (uint column = k + 1; column < COLUMNS; ++column)
                own[r][column] = fma(-factor, top[column], own[r][column]);
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (place[r] == NONE) continue;
        args.order.at[line + place[r]] = before[r];
        args.moved.at[line + place[r]] = int(local + r * size);
        uint start = begin + place[r] * n;
        [[unroll]] for (uint column = 0; column < COLUMNS; ++column)
            if (column < columns) args.factors.at[start + column] = own[r][column];
    }
    if (local != 0) return;
    if (begun != 0) sign_ *= args.sign_.at[matrix];
    args.sign_.at[matrix] = sign_;
    if (begun == 0 || args.info.at[matrix] == 0) args.info.at[matrix] = int(zero);
}
