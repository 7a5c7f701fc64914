// Rotations of the rows of pairs of blocks, in place
// grid    x tiles of columns, y one workgroup for each pair of a round, z matrices
// in      turns (matrices, pairs, 2 BLOCK, 2 BLOCK) REAL: see linalg/jacobi_rotate.comp;
//         turned (matrices, pairs): 0 for pairs that are as they should be; before
//         (matrices): 0 for those that have converged; if ROTATES grams and tolerance, as
//         there, of which each workgroup makes the rotations itself
// out     x (matrices, rows, width), in place: the transposes of turns times its rows; if
//         ROTATES now (matrices): 1 where two rows are not orthogonal
// consts  LOCAL_X: 256; INNER: see linalg/jacobi_rotate.comp
// macros  DOUBLE: see linalg/real.glsl; BLOCK: rows of a block, 16 or 32; ROTATES:
//         for float32 and blocks of 16
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

#ifdef ROTATES
layout(constant_id = 3) const uint INNER = 2;
#endif

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict
    buffer Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Flags { int at[]; };

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Marks { int at[]; };

layout(push_constant, std430) uniform Push {
    Results x;
    Flags before;
#ifdef ROTATES
    Reals grams;
    Marks now;
    uint parts;
    float tolerance;
#else
    Reals turns;
    Flags turned;
#endif
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

shared REAL tile[DEPTH][TILE];
#ifdef ROTATES
#include "linalg/jacobi_rotation.glsl"
#else
#ifdef DOUBLE
#define REAL4 dvec4
#else
#define REAL4 vec4
#endif
shared REAL4 turn[DEPTH][DOWN];
#endif

// Rows of a pair from number `above` on, in columns from `left` on
void load(Results x, uvec2 blocks, uint above, uint left) {
    uint rows = args.rows, width = args.width, first = gl_WorkGroupID.z * rows;
    [[unroll]] for (uint i = gl_LocalInvocationIndex; i < DEPTH * TILE; i += WORKGROUP) {
        uint row = row_of(blocks, above + i / TILE), column = left + i % TILE;
        REAL value = 0.0;
        if (row < rows && column < width) value = x.at[(first + row) * width + column];
        tile[i / TILE][i % TILE] = value;
    }
}

void main() {
    uint matrix = gl_WorkGroupID.z, pair = matrix * gl_NumWorkGroups.y + gl_WorkGroupID.y;
    uint thread = gl_LocalInvocationIndex, across = thread % ACROSS, down = thread / ACROSS;
    uvec2 blocks = pair_of(args.round_, gl_WorkGroupID.y, args.players);
    uint left = gl_WorkGroupID.x * TILE, rows = args.rows, width = args.width;
    Results x = args.x;
    Flags before = args.before;
    if (before.at[matrix] == 0) return;
#ifdef ROTATES
    Reals grams = args.grams;
    uint parts = args.parts;
    REAL tolerance = EPS * REAL(args.tolerance);
    if (!are_to_turn(grams, pair * parts * SIDE * SIDE, parts, tolerance)) return;
    if (thread == 0 && gl_WorkGroupID.x == 0) args.now.at[matrix] = 1;
    // It is there when the rotations are.
    load(x, blocks, 0, left);
    uint begin = rotate_rows(tolerance), one = thread / BLOCK, two = thread % BLOCK;
    REAL own[2][2] = orthogonal(begin, one, two);
    barrier();
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            turn[begin + (one + r * BLOCK) * PITCH + two + c * BLOCK] = own[r][c];
    barrier();
#else
    Reals turns = args.turns;
    Flags turned = args.turned;
    if (turned.at[pair] == 0) return;
#endif
    REAL sums[EACH][EACH];
    [[unroll]] for (uint r = 0; r < EACH; ++r)
        [[unroll]] for (uint c = 0; c < EACH; ++c) sums[r][c] = 0.0;
    for (uint above = 0; above < SIDE; above += DEPTH) {
#ifndef ROTATES
        barrier();
        uint start = (pair * SIDE + above) * SIDE;
        [[unroll]] for (uint i = thread; i < DEPTH * SIDE; i += WORKGROUP)
            turn[i / SIDE][i % SIDE / EACH][i % EACH] = turns.at[start + i];
        load(x, blocks, above, left);
        barrier();
#endif
        for (uint k = 0; k < DEPTH; ++k) {
            REAL b[EACH];
#ifdef ROTATES
            REAL a[EACH];
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                a[r] = turn[begin + k * PITCH + down * EACH + r];
#else
            REAL4 a = turn[k][down];
#endif
            [[unroll]] for (uint c = 0; c < EACH; ++c) b[c] = tile[k][across + c * ACROSS];
            [[unroll]] for (uint r = 0; r < EACH; ++r)
                [[unroll]] for (uint c = 0; c < EACH; ++c)
                    sums[r][c] = fma(a[r], b[c], sums[r][c]);
        }
    }
    uint first = matrix * rows;
    [[unroll]] for (uint r = 0; r < EACH; ++r) {
        uint row = row_of(blocks, down * EACH + r);
        [[unroll]] for (uint c = 0; c < EACH; ++c) {
            uint column = left + across + c * ACROSS;
            if (row < rows && column < width)
                x.at[(first + row) * width + column] = sums[r][c];
        }
    }
}
