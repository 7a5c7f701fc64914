// Rotations that make the rows of pairs of blocks orthogonal, by eigenvectors of their products
// grid    x one workgroup for each pair of a round, z matrices
// in      grams (matrices, pairs, parts, 2 BLOCK, 2 BLOCK) REAL, to be added up; before
//         (matrices): 0 for those that have converged, which are left out; tolerance: the
//         cosine of rows up to which they count as orthogonal, in roundings
// out     turns (matrices, pairs, 2 BLOCK, 2 BLOCK): eigenvectors, as columns, where `turned`
//         (matrices, pairs) is 1: where two rows are not orthogonal; now (matrices): 1 then
// consts  INNER: sweeps over a pair, at most; LOCAL_X: BLOCK * BLOCK
// macros  DOUBLE: see linalg/real.glsl; BLOCK: rows of a block, 16 or 32
// lint    divergent-barrier: all invocations read whether one has turned
// source  see linalg/jacobi_rotation.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef BLOCK
#define BLOCK 16
#endif
#include "linalg/jacobi.glsl"

layout(constant_id = 3) const uint INNER = 2;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Flags { int at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Marks { int at[]; };

layout(push_constant, std430) uniform Push {
    Reals grams;
    Flags before;
    Results turns;
    Marks turned;
    Marks now;
    uint parts;
    float tolerance;
} args;

#include "linalg/jacobi_rotation.glsl"

void main() {
    uint matrix = gl_WorkGroupID.z, thread = gl_LocalInvocationIndex;
    Flags before = args.before;
    if (before.at[matrix] == 0) return;
    Reals grams = args.grams;
    Results turns = args.turns;
    uint pair = matrix * gl_NumWorkGroups.x + gl_WorkGroupID.x, parts = args.parts;
    REAL tolerance = EPS * REAL(args.tolerance);
    bool turns_any = are_to_turn(grams, pair * parts * SIDE * SIDE, parts, tolerance);
    if (thread == 0) {
        args.turned.at[pair] = turns_any ? 1 : 0;
        if (turns_any) args.now.at[matrix] = 1;
    }
    if (!turns_any) return;
    uint first = rotate_rows(tolerance), one = thread / BLOCK, two = thread % BLOCK;
    REAL own[2][2] = orthogonal(first, one, two);
    uint start = pair * SIDE * SIDE;
    [[unroll]] for (uint r = 0; r < 2; ++r)
        [[unroll]] for (uint c = 0; c < 2; ++c)
            turns.at[start + (one + r * BLOCK) * SIDE + two + c * BLOCK] = own[r][c];
}
