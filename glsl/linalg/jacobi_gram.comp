// Products of the rows of pairs of blocks with each other, of parts of their columns
// grid    x one workgroup for each pair of a round, y parts of `span` columns, z matrices
// in      x (matrices, rows, width) REAL, of which the first `length` columns count; before
//         (matrices): 0 for those that have converged, which are left out
// out     grams (matrices, pairs, parts, 2 BLOCK, 2 BLOCK): sums of a part's columns
// consts  LOCAL_X: 256
// macros  DOUBLE: see linalg/real.glsl; BLOCK: rows of a block, 16 or 32
// source  Becka and Vajtersic, "Block-Jacobi SVD algorithms for distributed memory systems",
//         Parallel Algorithms and Applications 13, 1999
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef BLOCK
#define BLOCK 16
#endif
#include "linalg/jacobi.glsl"

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Flags { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals x;
    Flags before;
    Results grams;
    uint rows;
    uint width;
    uint length_;
    uint span;
    uint round_;
    uint players;
} args;

const uint WORKGROUP = 256;
const uint EACH = 4;
const uint ACROSS = SIDE / EACH;
// Invocations that share the columns of a tile
const uint SLICES = WORKGROUP / (ACROSS * ACROSS);
#ifdef DOUBLE
#define REAL4 dvec4
const uint DEPTH = 16;
#else
#define REAL4 vec4
const uint DEPTH = 32;
#endif
const uint LOADS = DEPTH * SIDE / WORKGROUP;
// Columns and rows that neighbours load: they store them in different banks
const uint COLUMNS = 8;
const uint ROWS = 4;

// By columns, vectors of rows; and one more, so that neighbours' columns are apart
shared REAL4 tile[DEPTH][ACROSS + 1];
shared REAL4 others[SLICES > 1 ? SIDE : 1][ACROSS + 1];

// Column and row of an element of a tile
uvec2 element(uint i) {
    uint group = i / (COLUMNS * ROWS), groups = DEPTH / COLUMNS;
    uint column = i % COLUMNS + group % groups * COLUMNS;
    return uvec2(column, i / COLUMNS % ROWS + group / groups * ROWS);
}

void main() {
    uint matrix = gl_WorkGroupID.z;
    Flags before = args.before;
    if (before.at[matrix] == 0) return;
    uint thread = gl_LocalInvocationIndex, slice = thread / (ACROSS * ACROSS);
    uint across = thread % ACROSS, down = thread / ACROSS % ACROSS;
    uvec2 blocks = pair_of(args.round_, gl_WorkGroupID.x, args.players);
    uint begin = gl_WorkGroupID.y * args.span, end = min(args.length_, begin + args.span);
    uint rows = args.rows, width = args.width, first = matrix * rows;
    Reals x = args.x;
    Results grams = args.grams;
    REAL4 sums[EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r) sums[r] = REAL4(0.0);
    // What is loaded while the columns before are multiplied
    REAL next[LOADS];
    for (uint left = begin; left < end + DEPTH; left += DEPTH) {
        // In the first turn there is nothing yet to be multiplied, in the last one
        // nothing to be loaded.
        barrier();
        if (left > begin)
            [[unroll]] for (uint j = 0; j < LOADS; ++j) {
                uvec2 place = element(thread + j * WORKGROUP);
                tile[place.x][place.y / ROWS][place.y % ROWS] = next[j];
            }
        barrier();
        [[unroll]] for (uint j = 0; j < LOADS; ++j) {
            uvec2 place = element(thread + j * WORKGROUP);
            uint column = left + place.x, row = row_of(blocks, place.y);
            next[j] = 0.0;
            if (row < rows && column < end) next[j] = x.at[(first + row) * width + column];
        }
        if (left == begin) continue;
        for (uint k = slice; k < DEPTH; k += SLICES) {
            REAL4 a = tile[k][down], b = tile[k][across];
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                sums[r] = fma(REAL4(a[r]), b, sums[r]);
        }
    }
    for (uint other = 1; other < SLICES; ++other) {
        barrier();
        if (slice == other)
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                others[down * EACH + r][across] = sums[r];
        barrier();
        if (slice == 0)
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                sums[r] += others[down * EACH + r][across];
    }
    uint part = (matrix * gl_NumWorkGroups.x + gl_WorkGroupID.x) * gl_NumWorkGroups.y +
        gl_WorkGroupID.y;
    if (slice == 0)
        [[unroll]] for (uint r = 0; r < EACH; ++r)
            [[unroll]] for (uint c = 0; c < EACH; ++c) {
                uint row = down * EACH + r, column = across * EACH + c;
                grams.at[(part * SIDE + row) * SIDE + column] = sums[r][c];
            }
}
