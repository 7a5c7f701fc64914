// Adaptive max pooling: maximum of each part of a plane, and its flat position
// grid    one invocation per element of out_, linear
// in      x (planes, in_height, in_width), sizes up to 65536
// out     out_ (planes, out_height, out_width); indices, same, int32
// consts  none
// source  PyTorch's rules: the first of equals, but the last NaN
// lint    scalar-load: a window begins at any element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "pool/adaptive_bounds.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    IntOut indices;
    uint planes;
    uint in_height;
    uint in_width;
    uint out_height;
    uint out_width;
} push;

void main() {
    In x = push.x;
    uvec2 size = uvec2(push.in_height, push.in_width);
    uvec2 parts = uvec2(push.out_height, push.out_width);
    uint out_plane = parts.x * parts.y;
    uint element = linear_invocation();
    if (element >= push.planes * out_plane) return;
    uint plane = element / out_plane;
    uint p = element - plane * out_plane;
    uvec2 part = uvec2(p / parts.y, p % parts.y);
    uvec2 first = part_start(part, size, parts);
    uvec2 end = part_end(part, size, parts);

    uint base = plane * size.x * size.y;
    uint position = first.x * size.y + first.y;
    ACC greatest = load(x, base + position);
    for (uint row = first.x; row < end.x; ++row)
        for (uint column = first.y; column < end.y; ++column) {
            uint candidate = row * size.y + column;
            ACC value = load(x, base + candidate);
            bool better = value > greatest || value != value;
            greatest = better ? value : greatest;
            position = better ? candidate : position;
        }
    store(push.out_, element, greatest);
    push.indices.at[element] = int(position);
}
