// Max pooling of volumes: maximum of each window, with its position in the volume
// grid    one invocation per element of out_, linear
// in      x (volumes, in_depth, in_height, in_width)
// out     out_ (volumes, out_depth, out_height, out_width); indices, same, int32
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_* (at most half a kernel), DILATION_*, and
//         those of depth, *_D
// source  PyTorch's rules: the first of equals, but the last NaN; padding never wins
// lint    scalar-load: windows begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/window.glsl"

layout(constant_id = 3) const uint KERNEL_D = 3;
layout(constant_id = 4) const uint STRIDE_D = 1;
layout(constant_id = 5) const uint PADDING_D = 0;
layout(constant_id = 6) const uint DILATION_D = 1;

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    IntOut indices;
    uint count;
    uint in_depth;
    uint in_height;
    uint in_width;
    uint out_depth;
    uint out_height;
    uint out_width;
    uvec2 divide_width;
    uvec2 divide_height;
    uvec2 divide_depth;
} push;

void main() {
    In x = push.x;
    Out out_ = push.out_;
    IntOut indices = push.indices;
    ivec2 size = ivec2(push.in_height, push.in_width);
    int depth = int(push.in_depth), plane = size.x * size.y;
    uint element = linear_invocation();
    if (element >= push.count) return;
    uint line = divide(element, push.divide_width.x, push.divide_width.y);
    uint layer = divide(line, push.divide_height.x, push.divide_height.y);
    uint volume = divide(layer, push.divide_depth.x, push.divide_depth.y);
    uint row = line - layer * push.out_height, column = element - line * push.out_width;
    ivec2 corner = ivec2(row, column) * STRIDE - PADDING;
    int front = int((layer - volume * push.out_depth) * STRIDE_D) - int(PADDING_D);
    uint base = volume * uint(depth * plane);

    ACC greatest = ACC(-1.0 / 0.0);
    int position = -1;
    for (uint z = 0; z < KERNEL_D; ++z) {
        int level = front + int(z * DILATION_D);
        bool within = level >= 0 && level < depth;
        for (uint tap = 0; tap < TAPS; ++tap) {
            ivec2 at = corner + tap_offset(tap);
            int candidate = level * plane + at.x * size.y + at.y;
            bool inside = within && all(lessThan(uvec2(at), uvec2(size)));
            ACC value = load(x, base + uint(inside ? candidate : 0));
            bool better = position < 0 || value > greatest || value != value;
            greatest = inside && better ? value : greatest;
            position = inside && better ? candidate : position;
        }
    }
    store(out_, element, greatest);
    indices.at[element] = position;
}
