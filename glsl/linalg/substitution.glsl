// Substitution in blocks of 32 rows, a column of X in the registers of one invocation
//
// The includer defines EDGE, 32, the most rows and columns of a block; WORKGROUP; UNIT; the
// function `element` of the substitution's order; TRANSPOSED, whether neighbours in memory
// are rows of a column; and in shared memory `blocks`, rows of vectors, and `known`, whose
// rows are those of X of so many columns.

// Vectors of a row, and one between rows, by which those of neighbours do not collide
const uint QUADS = EDGE / 4;
const uint PITCH = QUADS + 1;
// Elements of a block that an invocation copies
const uint COPIED = EDGE * EDGE / WORKGROUP;

// A row and a column of a tile of so many rows, which neighbours read side by side: 32
// columns, or 8 rows of 4 columns, which are stored in different banks.
uvec2 cell_of(uint number, uint rows) {
    uint lane = number % EDGE, group = number / EDGE, high = rows / 8;
    uvec2 along = uvec2(group, lane);
    uvec2 down = uvec2(lane % 8 + 8 * (group % high), lane / 8 + 4 * (group / high));
    return TRANSPOSED != 0 ? down : along;
}

void store(uint start, uvec2 cell, REAL value) {
    blocks[start + cell.x * PITCH + cell.y / 4][cell.y % 4] = value;
}

// Copies a block of the diagonal: what is below it, and its reciprocals.
void read_diagonal(Reals a, uint first, uint start) {
    REAL given[COPIED];
    [[unroll]] for (uint i = 0; i < COPIED; ++i) {
        uvec2 cell = cell_of(gl_LocalInvocationIndex + i * WORKGROUP, EDGE);
        uint row = first + cell.x;
        // Beyond the matrix it is the identity.
        given[i] = cell.x == cell.y ? 1.0 : 0.0;
        bool is_read = row < args.n && cell.x >= cell.y + UNIT;
        if (is_read) given[i] = element(a, row, first + cell.y);
    }
    [[unroll]] for (uint i = 0; i < COPIED; ++i) {
        uvec2 cell = cell_of(gl_LocalInvocationIndex + i * WORKGROUP, EDGE);
        bool is_divisor = UNIT == 0 && cell.x == cell.y;
        store(start, cell, is_divisor ? 1.0 / given[i] : given[i]);
    }
}

// Solves for the rows of one column that are known from `first` on, by one invocation.
void substitute(uint start, uint first, uint lane) {
    REAL held[EDGE];
    [[unroll]] for (uint row = 0; row < EDGE; ++row) held[row] = known[first + row][lane];
    [[unroll]] for (uint k = 0; k < EDGE; k += 4) {
        [[unroll]] for (uint r = 0; r < 4; ++r) {
            REAL4 four = blocks[start + (k + r) * PITCH + k / 4];
            [[unroll]] for (uint c = 0; c < r; ++c)
                held[k + r] = fma(-four[c], held[k + c], held[k + r]);
            if (UNIT == 0) held[k + r] *= four[r];
        }
        [[unroll]] for (uint row = k + 4; row < EDGE; ++row) {
            REAL4 four = blocks[start + row * PITCH + k / 4];
            [[unroll]] for (uint c = 0; c < 4; ++c)
                held[row] = fma(-four[c], held[k + c], held[row]);
        }
    }
    [[unroll]] for (uint row = 0; row < EDGE; ++row) known[first + row][lane] = held[row];
}
