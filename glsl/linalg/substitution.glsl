// Substitution in blocks of 32 rows, a column of X in the registers of one invocation
//
// The includer defines EDGE, 32, the most rows and columns of a block; UNIT; the function
// `element` of the substitution's order; `cell_of`, which numbers the elements of a block
// as neighbours read them; and in shared memory `blocks` and `known`, whose rows are those
// of X of so many columns.

// Between columns of a block, which are read by vectors
const uint PITCH = EDGE + 4;

// Copies a block of the diagonal: of each column what is below the diagonal, the next row
// first, and in the end the diagonal.
void read_diagonal(Reals a, uint first, uint start) {
    for (uint i = gl_LocalInvocationIndex; i < EDGE * EDGE; i += WORKGROUP) {
        uvec2 cell = cell_of(i, EDGE);
        uint row = first + cell.x, column = first + cell.y;
        if (cell.x < cell.y) continue;
        bool is_diagonal = cell.x == cell.y;
        // Beyond the matrix it is the identity.
        REAL value = is_diagonal ? 1.0 : 0.0;
        if (row < args.n && !(is_diagonal && UNIT != 0)) value = element(a, row, column);
        uint place = is_diagonal ? EDGE - 1 : cell.x - cell.y - 1;
        blocks[start + cell.y * PITCH + place] = value;
    }
}

// Solves for the rows of one column that are known from `first` on, by one invocation.
void substitute(uint start, uint first, uint lane) {
    REAL held[EDGE];
    [[unroll]] for (uint row = 0; row < EDGE; ++row) held[row] = known[first + row][lane];
    // Row k is always the first in registers, which are rotated by one. Of what comes
    // behind the last row nothing is used.
    [[dont_unroll]] for (uint k = 0; k < EDGE; ++k) {
        REAL value = held[0];
        if (UNIT == 0) value /= blocks[start + k * PITCH + EDGE - 1];
        known[first + k][lane] = value;
        [[unroll]] for (uint row = 1; row < EDGE; ++row)
            held[row - 1] = fma(-blocks[start + k * PITCH + row - 1], value, held[row]);
    }
}
