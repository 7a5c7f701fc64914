// A step of Cholesky factors L of A = L L^T: 32 columns, and what the 32 before them leave
// grid    y = 0: x one workgroup for TILE rows below the diagonal block, of which each
//         factorises that again; y > 0: x, y - 1 tiles of TILE x TILE of what is behind these
//         columns; z matrices
// in      a (matrices, n, n) REAL: what is left before the step before, if FROM_A, of which
//         the lower triangle is read; begun: the columns before these
// out     out_ (matrices, n, n): of these columns the rows from `begun` on, and 0 right of
//         the diagonal block; NaN from the column on where A is not positive-definite;
//         rest (matrices, n, n): what the columns before these leave, in place; its lower
//         triangle behind these columns; info (matrices): the order of the first minor that
//         is not positive, or 0
// consts  FROM_A; LOCAL_X: 256
// macros  DOUBLE: see linalg/real.glsl
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 4.2.6: outer
//         products by blocks
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"
#include "linalg/roots.glsl"

layout(constant_id = 3) const uint FROM_A = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict buffer
    Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Infos {
    int at[];
};

layout(push_constant, std430) uniform Push {
    Reals a;
    Results out_;
    Results rest;
    Infos info;
    uint n;
    uint begun;
} args;

#ifdef DOUBLE
#define REAL4 dvec4
const uint TILE = 32;
#else
#define REAL4 vec4
const uint TILE = 64;
#endif
const uint EDGE = 32;
const uint WORKGROUP = 256;
const uint ROWS = EDGE + TILE;
// Vectors of a row, and one between rows, by which those of neighbours do not collide
const uint QUADS = EDGE / 4;
const uint PITCH = QUADS + 1;
const uint LOADS = ROWS * EDGE / WORKGROUP;
// Invocations that share a row of the panel, and columns of each
const uint SHARES = WORKGROUP / ROWS;
const uint PART = EDGE / SHARES;
// Columns whose block of the diagonal all invocations factorise, between two barriers
const uint MICRO = 4;
const uint WIDE = MICRO / 4;
// Rows and columns of a tile by invocation
const uint SIDE = 16;
const uint EACH = TILE / SIDE;

// Rows of the panel; or what a tile is the product of, by columns
shared REAL4 tile[max(ROWS * PITCH, 2 * EDGE * (TILE / 4 + 1))];
// A block of the diagonal, and columns of the rows of the diagonal block
shared REAL4 corner[MICRO * WIDE];
shared REAL4 beside[EDGE * WIDE];

uint begin_of_matrix() { return gl_WorkGroupID.z * args.n * args.n; }

// What is left of an element
REAL left_of(Reals a, Results rest, uint at) {
    REAL value;
    if (FROM_A != 0) value = a.at[at];
    if (FROM_A == 0) value = rest.at[at];
    return value;
}

// The matrix' row that is number `number` of the panel
uint row_of(uint number) {
    uint below = number + gl_WorkGroupID.x * TILE;
    return args.begun + (number < EDGE ? number : below);
}

void factorise() {
    Reals a = args.a;
    Results out_ = args.out_, rest = args.rest;
    uint n = args.n, begun = args.begun, thread = gl_LocalInvocationIndex;
    uint begin = begin_of_matrix(), lane = thread % EDGE, low = thread / EDGE;
    const uint APART = WORKGROUP / EDGE;
    REAL given[LOADS], before[LOADS];
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uint number = low + i * APART, row = row_of(number);
        // Beyond the matrix it is the identity.
        given[i] = number == lane ? 1.0 : 0.0;
        before[i] = 0.0;
        bool is_read = row < n && begun + lane < n && (number >= EDGE || lane <= number);
        if (is_read) given[i] = left_of(a, rest, begin + row * n + begun + lane);
        if (row < n && begun > 0)
            before[i] = out_.at[begin + row * n + begun - EDGE + lane];
    }
    [[unroll]] for (uint i = 0; i < LOADS; ++i)
        tile[(low + i * APART) * PITCH + lane / 4][lane % 4] = given[i];
    barrier();
    // Those without a row help to load, to multiply and to store. Of float32, whose sums
    // are short, they do what the last one does: with branches, of a constant too, the
    // sweep's case took 1.1 ms in place of 0.13 (NVIDIA H200, driver 580.159.04,
    // 2026-11-30).
#ifdef DOUBLE
#define IF_HAS_ROW if (thread < ROWS)
#else
#define IF_HAS_ROW
#endif
    uint own = min(thread, ROWS - 1);
    REAL held[EDGE];
    [[unroll]] for (uint q = 0; q < QUADS; ++q) {
        REAL4 four = tile[own * PITCH + q];
        [[unroll]] for (uint r = 0; r < 4; ++r) held[4 * q + r] = four[r];
    }
    if (begun > 0) {
        barrier();
        [[unroll]] for (uint i = 0; i < LOADS; ++i)
            tile[(low + i * APART) * PITCH + lane / 4][lane % 4] = before[i];
        barrier();
        // Several invocations share the product of a row.
        uint mine = min(thread, SHARES * ROWS - 1), row = mine % ROWS;
        uint part = mine / ROWS * PART;
        REAL sums[PART];
        [[unroll]] for (uint j = 0; j < PART; ++j) sums[j] = 0.0;
        [[dont_unroll]] for (uint q = 0; q < QUADS; ++q) {
            REAL4 four = tile[row * PITCH + q];
            [[unroll]] for (uint j = 0; j < PART; ++j) {
                REAL4 other = tile[(part + j) * PITCH + q];
                [[unroll]] for (uint r = 0; r < 4; ++r)
                    sums[j] = fma(four[r], other[r], sums[j]);
            }
        }
        barrier();
        if (thread < SHARES * ROWS)
            [[unroll]] for (uint q = 0; q < PART / 4; ++q) {
                uint c = 4 * q;
                REAL4 four = REAL4(sums[c], sums[c + 1], sums[c + 2], sums[c + 3]);
                tile[row * PITCH + part / 4 + q] = four;
            }
        barrier();
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            REAL4 four = tile[own * PITCH + q];
            [[unroll]] for (uint r = 0; r < 4; ++r) held[4 * q + r] -= four[r];
        }
    }
    uint bad = 0;
    [[unroll]] for (uint k = 0; k < EDGE; k += MICRO) {
        if (thread >= k && thread < k + MICRO)
            [[unroll]] for (uint w = 0; w < WIDE; ++w) {
                uint c = k + 4 * w;
                REAL4 four = REAL4(held[c], held[c + 1], held[c + 2], held[c + 3]);
                corner[(thread - k) * WIDE + w] = four;
            }
        barrier();
        IF_HAS_ROW {
            REAL l[MICRO][MICRO], inverse[MICRO];
            [[unroll]] for (uint r = 0; r < MICRO; ++r)
                [[unroll]] for (uint c = 0; c <= r; ++c)
                    l[r][c] = corner[r * WIDE + c / 4][c % 4];
            [[unroll]] for (uint q = 0; q < MICRO; ++q) {
                REAL top = l[q][q], root, inverse_root;
                roots(top, root, inverse_root);
                // A root of what is not positive is no number everywhere.
                if (!(top > 0.0)) {
                    root = inverse_root = NOT_A_NUMBER;
                    if (bad == 0) bad = begun + k + q + 1;
                }
                l[q][q] = root;
                inverse[q] = inverse_root;
                [[unroll]] for (uint r = q + 1; r < MICRO; ++r) l[r][q] *= inverse[q];
                [[unroll]] for (uint r = q + 1; r < MICRO; ++r)
                    [[unroll]] for (uint c = q + 1; c <= r; ++c)
                        l[r][c] = fma(-l[r][q], l[c][q], l[r][c]);
            }
            [[unroll]] for (uint q = 0; q < MICRO; ++q) {
                REAL value = held[k + q] * inverse[q];
                [[unroll]] for (uint c = q + 1; c < MICRO; ++c)
                    held[k + c] = fma(-value, l[c][q], held[k + c]);
                held[k + q] = thread == k + q ? l[q][q] : value;
            }
        }
        if (k + MICRO == EDGE) break;
        if (thread >= k + MICRO && thread < EDGE)
            [[unroll]] for (uint w = 0; w < WIDE; ++w) {
                uint c = k + 4 * w;
                REAL4 four = REAL4(held[c], held[c + 1], held[c + 2], held[c + 3]);
                beside[thread * WIDE + w] = four;
            }
        barrier();
        IF_HAS_ROW
            [[unroll]] for (uint j = k + MICRO; j < EDGE; ++j)
                [[unroll]] for (uint w = 0; w < WIDE; ++w) {
                    REAL4 other = beside[j * WIDE + w];
                    [[unroll]] for (uint r = 0; r < 4; ++r)
                        held[j] = fma(-held[k + 4 * w + r], other[r], held[j]);
                }
    }
    if (thread < ROWS)
        [[unroll]] for (uint q = 0; q < QUADS; ++q) {
            uint c = 4 * q;
            REAL4 four = REAL4(held[c], held[c + 1], held[c + 2], held[c + 3]);
            tile[thread * PITCH + q] = four;
        }
    barrier();
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uint number = low + i * APART, row = row_of(number);
        REAL value = tile[number * PITCH + lane / 4][lane % 4];
        if (number < lane) value = 0.0;
        bool is_stored = row < n && begun + lane < n;
        if (is_stored && (number >= EDGE || gl_WorkGroupID.x == 0))
            out_.at[begin + row * n + begun + lane] = value;
    }
    uint behind = begun + EDGE + gl_WorkGroupID.x * TILE;
    [[unroll]] for (uint i = thread; i < EDGE * TILE; i += WORKGROUP) {
        uint row = begun + i / TILE, right = behind + i % TILE;
        if (right < n) out_.at[begin + row * n + right] = 0.0;
    }
    if (thread != 0 || gl_WorkGroupID.x != 0) return;
    uint matrix = gl_WorkGroupID.z;
    if (begun == 0 || args.info.at[matrix] == 0) args.info.at[matrix] = int(bad);
}

// Takes the product of the columns before these from a tile.
void take() {
    uint down_tile = gl_WorkGroupID.y - 1;
    if (gl_WorkGroupID.x > down_tile) return;
    Reals a = args.a;
    Results out_ = args.out_, rest = args.rest;
    uint n = args.n, begun = args.begun, thread = gl_LocalInvocationIndex;
    uint begin = begin_of_matrix(), first = begun + EDGE;
    uint top = first + down_tile * TILE, side = first + gl_WorkGroupID.x * TILE;
    const uint TALL = TILE / 4 + 1, OTHER = EDGE * TALL;
    // Neighbours load 8 columns of 4 rows, which are stored in different banks.
    uint lane = thread % EDGE, low = lane / 8 + thread / EDGE * 4;
    [[unroll]] for (uint i = 0; i < TILE * EDGE / WORKGROUP; ++i) {
        uint k = lane % 8 + i % 4 * 8, number = low + i / 4 * EDGE;
        uint row = top + number, column = side + number, at = begun - EDGE + k;
        REAL one = 0.0, other = 0.0;
        if (row < n) one = out_.at[begin + row * n + at];
        if (column < n) other = out_.at[begin + column * n + at];
        tile[k * TALL + number / 4][number % 4] = one;
        tile[OTHER + k * TALL + number / 4][number % 4] = other;
    }
    uint across = thread % SIDE, down = thread / SIDE;
    REAL sums[EACH][EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down * EACH + r, column = side + across + c * SIDE;
            sums[r][c] = 0.0;
            if (row < n && column <= row)
                sums[r][c] = left_of(a, rest, begin + row * n + column);
        }
    }
    barrier();
    for (uint k = 0; k < EDGE; ++k) {
        REAL one[EACH], other[EACH];
        [[unroll]] for (uint r = 0; r < EACH; ++r) {
            uint number = down * EACH + r;
            one[r] = -tile[k * TALL + number / 4][number % 4];
        }
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint number = across + c * SIDE;
            other[c] = tile[OTHER + k * TALL + number / 4][number % 4];
        }
        [[unroll]] for (uint r = 0; r < EACH; ++r)
            [[unroll]] for (uint c = 0; c < EACH; ++c)
                sums[r][c] = fma(one[r], other[c], sums[r][c]);
    }
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint row = top + down * EACH + r, column = side + across + c * SIDE;
            if (row < n && column <= row) rest.at[begin + row * n + column] = sums[r][c];
        }
    }
}

void main() {
    if (gl_WorkGroupID.y == 0) factorise();
    else take();
}
