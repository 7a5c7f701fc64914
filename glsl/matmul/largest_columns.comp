// Largest magnitudes of the columns of GEMM operands, of slices of their lines
// grid    linear in SLICES of blocks of 128 columns; z: batch
// in      x: lines of contiguous float32
// out     largest (batch, SLICES, padded_columns): the bits of the largest finite magnitude
//         of each column in a slice, 0 past the columns
// consts  SLICES
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/float16_scale.glsl"

layout(constant_id = 3) const uint SLICES = 1;
const uint ACROSS = 32, EACH = 4;
const uint DOWN = gl_WorkGroupSize.x / ACROSS;

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

shared uint found[DOWN * ACROSS * EACH];

void main() {
    uint number = linear_workgroup();
    uint slice = number % SLICES, first = number / SLICES * (ACROSS * EACH);
    uint lane = gl_LocalInvocationIndex % ACROSS, down = gl_LocalInvocationIndex / ACROSS;
    uint depth = (push.lines + SLICES - 1) / SLICES;
    uint end = min((slice + 1) * depth, push.lines);
    uint from = gl_WorkGroupID.z * push.batch_stride;
    uint most[EACH];
    [[unroll]] for (uint i = 0; i < EACH; ++i) most[i] = 0;
    for (uint line = slice * depth + down; line < end; line += DOWN)
        [[unroll]] for (uint i = 0; i < EACH; ++i) {
            uint column = min(first + i * ACROSS + lane, push.columns - 1);
            float value = load(push.x, from + line * push.line_stride + column);
            most[i] = max(most[i], finite_magnitude(value));
        }
    [[unroll]] for (uint i = 0; i < EACH; ++i)
        found[(down * EACH + i) * ACROSS + lane] = most[i];
    barrier();
    if (gl_LocalInvocationIndex >= ACROSS * EACH) return;
    uint column = first + gl_LocalInvocationIndex;
    if (column >= push.padded_columns) return;
    uint own = 0;
    for (uint i = 0; i < DOWN; ++i)
        own = max(own, found[i * EACH * ACROSS + gl_LocalInvocationIndex]);
    uint to = gl_WorkGroupID.z * SLICES + slice;
    push.largest.at[to * push.padded_columns + column] = column < push.columns ? own : 0;
}
