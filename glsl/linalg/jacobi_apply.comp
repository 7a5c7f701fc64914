// Rotations of the rows of pairs of blocks, in place
// grid    x tiles of columns, y one workgroup for each pair of a round, z matrices
// in      turns (matrices, pairs, 2 BLOCK, 2 BLOCK) REAL: see linalg/jacobi_rotate.comp;
//         turned (matrices, pairs): 0 for pairs that are as they should be; before
//         (matrices): 0 for those that have converged
// out     x (matrices, rows, width), in place: the transposes of turns times its rows
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
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict
    buffer Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Flags { int at[]; };

layout(push_constant, std430) uniform Push {
    Results x;
    Flags before;
    Reals turns;
    Flags turned;
    uint rows;
    uint width;
    uint round_;
    uint players;
} args;

const uint WORKGROUP = 256;
const uint EACH = 4;
// Columns of a workgroup, which has 16 elements for each invocation
const uint TILE = WORKGROUP * EACH * EACH / SIDE;
const uint ACROSS = TILE / EACH;
const uint DOWN = SIDE / EACH;
#ifdef DOUBLE
const uint DEPTH = 16;
#else
const uint DEPTH = 32;
#endif

shared REAL turn[DEPTH][SIDE];
shared REAL tile[DEPTH][TILE];

void main() {
    uint matrix = gl_WorkGroupID.z, pair = matrix * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    Flags before = args.before, turned = args.turned;
    if (before.at[matrix] == 0) return;
    if (turned.at[pair] == 0) return;
    uint thread = gl_LocalInvocationIndex, across = thread % ACROSS, down = thread / ACROSS;
    uvec2 blocks = pair_of(args.round_, gl_WorkGroupID.y, args.players);
    uint left = gl_WorkGroupID.x * TILE, rows = args.rows, width = args.width;
    uint first = matrix * rows, start = pair * SIDE * SIDE;
    Results x = args.x;
    Reals turns = args.turns;
    REAL sums[EACH][EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r)
        [[unroll]] for (uint c = 0; c < EACH; ++c) sums[r][c] = 0.0;
    for (uint above = 0; above < SIDE; above += DEPTH) {
        barrier();
        [[unroll]] for (uint i = thread; i < DEPTH * SIDE; i += WORKGROUP)
            turn[i / SIDE][i % SIDE] = turns.at[start + above * SIDE + i];
        [[unroll]] for (uint i = thread; i < DEPTH * TILE; i += WORKGROUP) {
            uint row = row_of(blocks, above + i / TILE), column = left + i % TILE;
            REAL value = 0.0;
            if (row < rows && column < width) value = x.at[(first + row) * width + column];
            tile[i / TILE][i % TILE] = value;
        }
        barrier();
        for (uint k = 0; k < DEPTH; ++k) {
            REAL a[EACH], b[EACH];
            [[unroll]] for (uint r = 0; r < EACH; ++r) a[r] = turn[k][down + r * DOWN];
            [[unroll]] for (uint c = 0; c < EACH; ++c) b[c] = tile[k][across + c * ACROSS];
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                [[unroll]] for (uint c = 0; c < EACH; ++c)
                    sums[r][c] = fma(a[r], b[c], sums[r][c]);
        }
    }
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        uint row = row_of(blocks, down + r * DOWN);
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint column = left + across + c * ACROSS;
            if (row < rows && column < width)
                x.at[(first + row) * width + column] = sums[r][c];
        }
    }
}
