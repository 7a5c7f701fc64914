// Nearest-neighbour resampling of three dimensions: out[o, i, j, k] is
// x[o, f(i), f(j), f(k)], f(i) = min(floor((i + shift) * step), size - 1)
// grid    linear, ITEMS elements of out_ for each invocation
// in      x (outer, size); per dimension, outermost first: size, out_size, step; magic
//         and shift_by, which divide by the sizes of out_
// out     out_ (outer, out_size)
// consts  BACK: out_ (outer, size) is the gradient by x (outer, out_size), in gather
//         form: an element's results are neighbours; ITEMS
// source  definition, in float32 as PyTorch has it
// lint    scalar-load: neighbours read the same element, or neighbouring ones
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint BACK = 0;
layout(constant_id = 4) const uint ITEMS = 1;

const uint DIMS = 3;

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint count;
    uint size[DIMS];
    uint out_size[DIMS];
    uint magic[DIMS];
    uint shift_by[DIMS];
    float step[DIMS];
    float shift;
} push;

uint source(uint result, uint dim) {
    float at = floor((float(result) + push.shift) * push.step[dim]);
    return uint(min(at, float(push.size[dim] - 1)));
}

// The first result whose source is `element` or behind it: a guess, put right.
uint first_result(uint element, uint dim) {
    if (element >= push.size[dim]) return push.out_size[dim];
    float guess = ceil(float(element) / push.step[dim] - push.shift);
    uint result = uint(clamp(guess, 0.0, float(push.out_size[dim])));
    while (result > 0 && source(result - 1, dim) >= element) --result;
    while (result < push.out_size[dim] && source(result, dim) < element) ++result;
    return result;
}

ACC gathered(uint number) {
    uvec3 at;
    uint rest = number;
    [[unroll]] for (uint back = 0; back < DIMS; ++back) {
        uint dim = DIMS - 1 - back;
        uint next = divide(rest, push.magic[dim], push.shift_by[dim]);
        at[dim] = rest - next * (BACK != 0 ? push.size[dim] : push.out_size[dim]);
        rest = next;
    }
    if (BACK == 0) {
        uint line = (rest * push.size[0] + source(at.x, 0)) * push.size[1] + source(at.y, 1);
        return load(push.x, line * push.size[2] + source(at.z, 2));
    }
    uvec3 first, end;
    [[unroll]] for (uint dim = 0; dim < DIMS; ++dim) {
        first[dim] = first_result(at[dim], dim);
        end[dim] = first_result(at[dim] + 1, dim);
    }
    ACC sum = ACC(0);
    for (uint i = first.x; i < end.x; ++i)
        for (uint j = first.y; j < end.y; ++j) {
            uint line = (rest * push.out_size[0] + i) * push.out_size[1] + j;
            for (uint k = first.z; k < end.z; ++k)
                sum += load(push.x, line * push.out_size[2] + k);
        }
    return sum;
}

void main() {
    uint first = linear_workgroup() * gl_WorkGroupSize.x * ITEMS + gl_LocalInvocationIndex;
    ACC results[ITEMS];
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        results[i] = gathered(min(first + i * gl_WorkGroupSize.x, push.count - 1));
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint number = first + i * gl_WorkGroupSize.x;
        if (number < push.count) store(push.out_, number, results[i]);
    }
}
