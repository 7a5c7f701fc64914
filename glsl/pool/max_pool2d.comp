// Max pooling: maximum of each window, with its position in the plane; padding is -inf
// grid    one invocation per element of out_, linear
// in      x (planes, in_height, in_width)
// out     out_ (planes, out_height, out_width); indices, same, int32
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_* (at most half a kernel), DILATION_*
// source  PyTorch's rules: the first of equals, but the last NaN
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/window.glsl"

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
    Out out_ = push.out_;
    IntOut indices = push.indices;
    ivec2 size = ivec2(push.in_height, push.in_width);
    uint out_plane = push.out_height * push.out_width;
    uint element = linear_invocation();
    bool exists = element < push.planes * out_plane;
    uint plane = exists ? element / out_plane : 0;
    uint p = element - plane * out_plane;
    uint row = p / push.out_width;
    ivec2 corner = ivec2(row, p - row * push.out_width) * STRIDE - PADDING;

    ACC greatest = ACC(-1.0 / 0.0);
    int position = -1;
    for (uint tap = 0; tap < TAPS; ++tap) {
        ivec2 at = corner + tap_offset(tap);
        int candidate = at.x * size.y + at.y;
        bool inside = all(lessThan(uvec2(at), uvec2(size)));
        ACC value = load(x, plane * uint(size.x * size.y) + (inside ? candidate : 0));
        bool better = position < 0 || value > greatest || value != value;
        greatest = inside && better ? value : greatest;
        position = inside && better ? candidate : position;
    }
    if (exists) {
        store(out_, element, greatest);
        indices.at[element] = position;
    }
}
