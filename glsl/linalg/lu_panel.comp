// LU factors of a panel of each matrix, in place, with partial pivoting
// grid    one workgroup for each matrix, linear
// in      begun: the columns before the panel, which are factorised
// out     factors (matrices, n, n) REAL: in the panel, from row `begun` on, L below the
//         diagonal, where it is 1, and U; order (matrices, n): the row of the matrix that
//         has become each row; moved (matrices, n): the row, counted from `begun` on,
//         that has in this step; pivots (matrices, n): the row that each is exchanged
//         for, from 1 on; sign (matrices, 1): -1 where rows were exchanged an odd number of times;
//         info (matrices): the place, from 1 on, of the first pivot that is 0, or 0
// consts  LOCAL_X: a power of two
// macros  DOUBLE: see linalg/real.glsl; COLUMNS: a multiple of 4; ROWS: rows of an
//         invocation, which has them in registers; VECTORS: rows begin at 16 bytes; WHOLE:
//         the panel is the matrix, and is read from `a`; SUBGROUPS: full subgroups of the
//         workgroup, which find pivots by shuffles
// lint    scalar-load: a row begins at any element
// source  Golub and Van Loan, "Matrix Computations", 4th edition, algorithm 3.4.1
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/index.glsl"
#include "linalg/real.glsl"
#include "linalg/roots.glsl"

#ifndef COLUMNS
#define COLUMNS 16
#endif
#ifndef ROWS
#define ROWS 1
#endif

// What of a row is loaded and stored at once
#ifndef VECTORS
#define PIECE REAL
#define PIECE_SIZE REAL_SIZE
#define WIDE 1
#define PIECE_OF(row, at) row[at]
#define PART_OF(piece, i) piece
#elif defined(DOUBLE)
#define PIECE dvec2
#define PIECE_SIZE 16
#define WIDE 2
#define PIECE_OF(row, at) PIECE(row[at], row[at + 1])
#define PART_OF(piece, i) piece[i]
#else
#define PIECE vec4
#define PIECE_SIZE 16
#define WIDE 4
#define PIECE_OF(row, at) PIECE(row[at], row[at + 1], row[at + 2], row[at + 3])
#define PART_OF(piece, i) piece[i]
#endif

layout(buffer_reference, std430, buffer_reference_align = PIECE_SIZE) restrict buffer
    Factors { PIECE at[]; };
layout(buffer_reference, std430, buffer_reference_align = PIECE_SIZE) restrict readonly
    buffer Pieces { PIECE at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Signs { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Orders { int at[]; };

layout(push_constant, std430) uniform Push {
    Factors factors;
    Orders order;
    Orders moved;
    Orders pivots;
    Signs sign_;
    Orders info;
#ifdef WHOLE
    Pieces a;
#endif
    uint matrices;
    uint n;
    uint begun;
} args;

const uint NONE = 0xffffffffu;

struct Largest {
    REAL size;
    uint place;
};

// Of equal ones the first; NaN is none
Largest larger(Largest old, Largest other) {
    bool wins =
        other.size > old.size || other.size == old.size && other.place < old.place;
    return wins ? other : old;
}

#ifdef SUBGROUPS
// Of each subgroup the largest, and its row: in every other step others, so that those
// who still read them do not wait for those who write the next
shared REAL sizes[2][SUBGROUPS];
shared uint places[2][SUBGROUPS];
shared PIECE tops[2][SUBGROUPS][COLUMNS / WIDE];

Largest over_subgroup(Largest own) {
    for (uint mask = 1; mask < gl_SubgroupSize; mask *= 2) {
        REAL size = subgroupShuffleXor(own.size, mask);
        uint place = subgroupShuffleXor(own.place, mask);
        own = larger(own, Largest(size, place));
    }
    return own;
}

// The largest of all, whose place is followed by the number of its subgroup
Largest over_subgroups(uint now) {
    Largest best = Largest(-1.0, NONE);
    for (uint i = gl_SubgroupInvocationID; i < SUBGROUPS; i += gl_SubgroupSize)
        best = larger(best, Largest(sizes[now][i], places[now][i]));
    return over_subgroup(best);
}
#else
const uint MOST = 1024;
// Invocations that find the largest of a part each
const uint FINDERS = 32;

shared REAL sizes[MOST];
shared uint places[MOST];
shared REAL best_sizes[FINDERS];
shared uint best_places[FINDERS];
shared PIECE tops[1][1][COLUMNS / WIDE];

Largest over_workgroup(Largest own) {
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint finders = min(FINDERS, size);
    sizes[local] = own.size;
    places[local] = own.place;
    barrier();
    if (local < finders) {
        own = Largest(-1.0, NONE);
        for (uint i = local; i < size; i += finders)
            own = larger(own, Largest(sizes[i], places[i]));
        best_sizes[local] = own.size;
        best_places[local] = own.place;
    }
    barrier();
    own = Largest(-1.0, NONE);
    for (uint i = 0; i < finders; ++i)
        own = larger(own, Largest(best_sizes[i], best_places[i]));
    return own;
}
#endif

void main() {
    uint matrix = linear_workgroup();
    if (matrix >= args.matrices) return;
    uint n = args.n, begun = args.begun, rows = n - begun;
    uint local = gl_LocalInvocationIndex, size = gl_WorkGroupSize.x;
    uint columns = min(COLUMNS, rows);
    uint begin = (matrix * n + begun) * n + begun, line = matrix * n + begun;
    // Rows stay where they are; what changes is their place.
    Factors factors = args.factors;
#ifdef WHOLE
    Pieces given = args.a;
#else
    Factors given = factors;
#endif
    Orders order = args.order, moved = args.moved, pivots = args.pivots;
    REAL own[ROWS][COLUMNS];
    uint place[ROWS];
    int before[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        uint row = local + r * size, start = begin + row * n;
        place[r] = row < rows ? row : NONE;
        before[r] = begun == 0 || row >= rows ? int(row) : order.at[line + row];
        [[unroll]] for (uint column = 0; column < COLUMNS; column += WIDE) {
            bool has = row < rows && column < columns;
            PIECE piece = has ? given.at[(start + column) / WIDE] : PIECE(0.0);
            [[unroll]] for (uint i = 0; i < WIDE; ++i)
                own[r][column + i] = PART_OF(piece, i);
        }
    }
    REAL sign_ = 1.0;
    uint zero = 0;
    // Column k is always the first in registers, which are rotated by one: code that is
    // not unrolled, as instructions that run once are waited for.
    [[dont_unroll]] for (uint k = 0; k < columns; ++k) {
        Largest best = Largest(-1.0, NONE);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            // Where there is nothing but NaN the row of the diagonal stays there.
            if (place[r] == k) best = larger(best, Largest(-0.5, k));
            if (place[r] >= k && place[r] != NONE)
                best = larger(best, Largest(abs(own[r][0]), place[r]));
        }
#ifdef SUBGROUPS
        uint now = k % 2, subgroup = gl_SubgroupID;
        best = over_subgroup(best);
        if (subgroupElect()) {
            bool has = best.place != NONE;
            sizes[now][subgroup] = best.size;
            places[now][subgroup] = has ? best.place * SUBGROUPS + subgroup : NONE;
        }
#else
        const uint now = 0, subgroup = 0;
        best = over_workgroup(best);
#endif
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            if (place[r] == NONE || place[r] != best.place) continue;
            [[unroll]] for (uint column = 0; column < COLUMNS; column += WIDE)
                tops[now][subgroup][column / WIDE] = PIECE_OF(own[r], column);
        }
        barrier();
        uint pivot = best.place;
#ifdef SUBGROUPS
        if (SUBGROUPS > 1) {
            uint found = over_subgroups(now).place;
            pivot = found / SUBGROUPS;
            subgroup = found % SUBGROUPS;
        }
#endif
        if (pivot != k) sign_ = -sign_;
        if (local == 0) pivots.at[line + k] = int(begun + pivot + 1);
        REAL top[COLUMNS];
        [[unroll]] for (uint column = 0; column < COLUMNS; column += WIDE) {
            PIECE piece = tops[now][subgroup][column / WIDE];
            [[unroll]] for (uint i = 0; i < WIDE; ++i) top[column + i] = PART_OF(piece, i);
        }
        REAL divisor = top[0], inverse = reciprocal(divisor);
        if (divisor == 0.0 && zero == 0) zero = begun + k + 1;
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            uint was = place[r];
            if (was == k) place[r] = pivot;
            if (was == pivot) place[r] = k;
            bool changes = place[r] > k && place[r] != NONE;
            // A column of zeros stays one, as in LAPACK.
            REAL factor = own[r][0];
            if (changes && divisor != 0.0) factor = quotient(factor, divisor, inverse);
            // What is behind the panel's last column was rotated there.
            uint live = changes ? COLUMNS - k : 0;
            [[unroll]] for (uint column = 1; column < COLUMNS; ++column) {
                REAL value = own[r][column], changed = fma(-factor, top[column], value);
                own[r][column - 1] = column < live ? changed : value;
            }
            own[r][COLUMNS - 1] = factor;
        }
    }
    // After fewer steps than columns the first one lies behind what is none.
    uint behind = COLUMNS - columns;
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (place[r] == NONE) continue;
        order.at[line + place[r]] = before[r];
        moved.at[line + place[r]] = int(local + r * size);
        uint start = begin + place[r] * n;
        [[unroll]] for (uint column = 0; column < COLUMNS; column += WIDE) {
            if (column < behind) continue;
            factors.at[(start + column - behind) / WIDE] = PIECE_OF(own[r], column);
        }
    }
    if (local != 0) return;
    if (begun != 0) sign_ *= args.sign_.at[matrix];
    args.sign_.at[matrix] = sign_;
    if (begun == 0 || args.info.at[matrix] == 0) args.info.at[matrix] = int(zero);
}
