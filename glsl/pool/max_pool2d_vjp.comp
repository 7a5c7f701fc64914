// Max pooling gradient by x, in gather form: each input sums the windows that chose it
// grid    one invocation per element of out_, linear
// in      grad and indices (planes, out_height, out_width), the second int32
// out     out_ (planes, in_height, in_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
// source  no atomics, so the same sum every time
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/window.glsl"

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

// How many windows can cover one input along each dimension.
const uint COVER_H = (KERNEL_H - 1) * DILATION_H / STRIDE_H + 1;
const uint COVER_W = (KERNEL_W - 1) * DILATION_W / STRIDE_W + 1;

void main() {
    In grad = push.grad;
    IntIn indices = push.indices;
    Out out_ = push.out_;
    ivec2 out_size = ivec2(push.out_height, push.out_width);
    uint in_plane = push.in_height * push.in_width;
    uint out_plane = push.out_height * push.out_width;
    uint element = linear_invocation();
    bool exists = element < push.planes * in_plane;
    uint plane = exists ? element / in_plane : 0;
    uint p = element - plane * in_plane;
    uint row = p / push.in_width;
    ivec2 last = (ivec2(row, p - row * push.in_width) + PADDING) / STRIDE;

    ACC sum = ACC(0);
    for (uint window = 0; window < COVER_H * COVER_W; ++window) {
        ivec2 at = last - ivec2(window / COVER_W, window % COVER_W);
        bool inside = all(lessThan(uvec2(at), uvec2(out_size)));
        uint from = plane * out_plane + (inside ? uint(at.x * out_size.y + at.y) : 0);
        int chosen = indices.at[from];
        ACC value = load(grad, from);
        sum += inside && chosen == int(p) ? value : ACC(0);
    }
    if (exists) store(out_, element, sum);
}
