// Largest magnitudes of the columns of GEMM operands, of slices of their lines
// grid    linear in SLICES of blocks of 128 columns; z: batch
// in      x: lines of contiguous float32; with WIDE_LOADS, where they are whole vectors of
//         four, x is read 16 bytes at a time
// out     largest (batch, SLICES, padded_columns): the bits of the largest finite magnitude
//         of each column in a slice, 0 past the columns
// consts  SLICES
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/float16_scale.glsl"

layout(constant_id = 3) const uint SLICES = 1;
const uint COLUMNS = 128, EACH = 4;
const uint ACROSS = COLUMNS / EACH;
const uint DOWN = gl_WorkGroupSize.x / ACROSS;
const uint AT_ONCE = 4;  // lines

#ifdef WIDE_LOADS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Fours { vec4 at[]; };
#endif

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Largest { uint at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    Largest largest;
    uint lines;
    uint columns;
    uint line_stride;
    uint batch_stride;
    uint padded_columns;
} push;

shared uint found[DOWN * COLUMNS];

// The first of an invocation's columns, of which the next is COLUMN_STEP on.
#ifdef WIDE_LOADS
const uint COLUMN_STEP = 1;
uint own_column(uint lane) { return EACH * lane; }
#else
const uint COLUMN_STEP = ACROSS;
uint own_column(uint lane) { return lane; }
#endif

// Elements of a line, from an invocation's first column on; of none past the end, but of
// the last ones again.
vec4 elements(uint from, uint column) {
#ifdef WIDE_LOADS
    return Fours(uvec2(push.x)).at[(from + min(column, push.columns - EACH)) / EACH];
#else
    vec4 values;
    [[unroll]] for (uint i = 0; i < EACH; ++i)
        values[i] = load(push.x, from + min(column + i * ACROSS, push.columns - 1));
    return values;
#endif
}

void main() {
    uint number = linear_workgroup();
    uint slice = number % SLICES, first = number / SLICES * COLUMNS;
    uint lane = gl_LocalInvocationIndex % ACROSS, down = gl_LocalInvocationIndex / ACROSS;
    uint depth = (push.lines + SLICES - 1) / SLICES;
    uint end = min((slice + 1) * depth, push.lines);
    uint from = gl_WorkGroupID.z * push.batch_stride;
    uvec4 most = uvec4(0);
    for (uint at = slice * depth + down; at < end; at += AT_ONCE * DOWN)
        [[unroll]] for (uint k = 0; k < AT_ONCE; ++k) {
            // Past the end the last line is read again.
            uint line = min(at + k * DOWN, end - 1);
            vec4 values =
                elements(from + line * push.line_stride, first + own_column(lane));
            [[unroll]] for (uint i = 0; i < EACH; ++i)
                most[i] = max(most[i], finite_magnitude(values[i]));
        }
    [[unroll]] for (uint i = 0; i < EACH; ++i)
        found[down * COLUMNS + own_column(lane) + i * COLUMN_STEP] = most[i];
    barrier();
    if (gl_LocalInvocationIndex >= COLUMNS) return;
    uint column = first + gl_LocalInvocationIndex;
    if (column >= push.padded_columns) return;
    uint own = 0;
    for (uint i = 0; i < DOWN; ++i)
        own = max(own, found[i * COLUMNS + gl_LocalInvocationIndex]);
    uint to = gl_WorkGroupID.z * SLICES + slice;
    push.largest.at[to * push.padded_columns + column] = column < push.columns ? own : 0;
}
