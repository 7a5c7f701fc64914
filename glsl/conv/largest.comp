// Largest magnitudes of groups of elements of a contiguous tensor, of slices of each group
// grid    linear in SLICES of groups; z: batch
// in      x: a group's elements are runs of `run`, `run_stride` apart; with WIDE_LOADS all
//         these numbers count vectors of four, which are read at a time
// out     largest (batch, groups, SLICES): the bits of the largest finite magnitude
// consts  SLICES; RUNS: a group has several runs
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/float16_scale.glsl"

layout(constant_id = 3) const uint SLICES = 1;
layout(constant_id = 4) const uint RUNS = 0;
const uint AT_ONCE = 4;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Largest { uint at[]; };

#ifdef WIDE_LOADS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Fours { vec4 at[]; };
#endif

layout(push_constant, std430) uniform Push {
    In x;
    Largest largest;
    uint groups;
    uint elements;  // of a group
    uint run;
    uint run_stride;
    uint group_stride;
    uint batch_stride;
    uint run_magic;
    uint run_shift;
} push;

shared uint found[gl_WorkGroupSize.x];

uint magnitude_at(uint index) {
#ifdef WIDE_LOADS
    vec4 values = Fours(uvec2(push.x)).at[index];
    return max(max(finite_magnitude(values.x), finite_magnitude(values.y)),
        max(finite_magnitude(values.z), finite_magnitude(values.w)));
#else
    return finite_magnitude(load(push.x, index));
#endif
}

void main() {
    uint number = linear_workgroup(), own = gl_LocalInvocationIndex;
    uint group = number / SLICES, slice = number % SLICES;
    if (group >= push.groups) return;
    uint length_ = (push.elements - 1) / SLICES + 1;
    uint end = min((slice + 1) * length_, push.elements);
    uint from = gl_WorkGroupID.z * push.batch_stride + group * push.group_stride;
    uint most = 0;
    for (uint first = slice * length_ + own; first < end;
         first += AT_ONCE * gl_WorkGroupSize.x)
        [[unroll]] for (uint i = 0; i < AT_ONCE; ++i) {
            // Past the end the last element is read again.
            uint at = min(first + i * gl_WorkGroupSize.x, end - 1);
            uint run = RUNS != 0 ? divide(at, push.run_magic, push.run_shift) : 0;
            uint within = at - run * push.run;
            most = max(most, magnitude_at(from + run * push.run_stride + within));
        }
    found[own] = most;
    for (uint half_size = gl_WorkGroupSize.x / 2; half_size > 0; half_size /= 2) {
        barrier();
        if (own < half_size) {
            most = max(most, found[own + half_size]);
            found[own] = most;
        }
    }
    if (own == 0)
        push.largest.at[(gl_WorkGroupID.z * push.groups + group) * SLICES + slice] = most;
}
