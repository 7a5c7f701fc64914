// Adaptive max pooling gradient by x, gather form: inputs sum the parts that chose them
// grid    one invocation per element of out_, linear
// in      grad and indices (planes, out_height, out_width), the second int32
// out     out_ (planes, in_height, in_width), sizes up to 65536
// consts  none
// source  no atomics, so the same sum every time
// lint    scalar-load: a window begins at any element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "pool/adaptive_bounds.glsl"

layout(push_constant, std430) uniform Push {
    In grad;
    IntIn indices;
    Out out_;
    uint planes;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
} push;

void main() {
    In grad = push.grad;
    IntIn indices = push.indices;
    uvec2 size = uvec2(push.in_height, push.in_width);
    uvec2 parts = uvec2(push.out_height, push.out_width);
    uint in_plane = size.x * size.y;
    uint element = linear_invocation();
    if (element >= push.planes * in_plane) return;
    uint plane = element / in_plane;
    uint p = element - plane * in_plane;
    uvec2 at = uvec2(p / size.y, p % size.y);
    // The parts that cover an element have the bounds of the transposed division.
    uvec2 first = part_start(at, parts, size);
    uvec2 end = part_end(at, parts, size);

    uint base = plane * parts.x * parts.y;
    ACC sum = ACC(0);
    for (uint row = first.x; row < end.x; ++row)
        for (uint column = first.y; column < end.y; ++column) {
            uint from = base + row * parts.y + column;
            ACC value = load(grad, from);
            sum += indices.at[from] == int(p) ? value : ACC(0);
        }
    store(push.out_, element, sum);
}
