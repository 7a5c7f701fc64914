// Max pooling gradient by x, in gather form: each input sums the windows that chose it
// grid    one invocation per element of out_, linear; with QUADS per four neighbours of a
//         line, which read the windows that they share once
// in      grad and indices (planes, out_height, out_width), the second int32
// out     out_ (planes, in_height, in_width); with QUADS lines are whole quads
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
// source  no atomics, so the same sum every time
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/window.glsl"

#ifdef QUADS
#include "lib/vec4_io.glsl"
const uint TOGETHER = 4;
#define SUMS ACC4
#define CHOSEN(chosen, p) equal(ivec4(chosen), ivec4(p) + ivec4(0, 1, 2, 3))
#else
const uint TOGETHER = 1;
#define SUMS ACC
#define CHOSEN(chosen, p) (chosen == p)
#endif

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

// How many windows can cover one input along each dimension, and neighbours of a line.
const uint COVER_H = (KERNEL_H - 1) * DILATION_H / STRIDE_H + 1;
const uint COVER_W = (KERNEL_W - 1) * DILATION_W / STRIDE_W + 1;
const uint SPAN_W = COVER_W + (TOGETHER + STRIDE_W - 2) / STRIDE_W;

void main() {
    In grad = push.grad;
    IntIn indices = push.indices;
    Out out_ = push.out_;
    ivec2 out_size = ivec2(push.out_height, push.out_width);
    uint in_plane = push.in_height * push.in_width;
    uint out_plane = push.out_height * push.out_width;
    uint element = linear_invocation() * TOGETHER;
    bool exists = element < push.planes * in_plane;
    uint plane = exists ? element / in_plane : 0;
    uint p = element - plane * in_plane;
    uint row = p / push.in_width;
    uint last_column = p - row * push.in_width + TOGETHER - 1;
    ivec2 last = (ivec2(row, last_column) + PADDING) / STRIDE;

    SUMS sums = SUMS(0);
    for (uint window = 0; window < COVER_H * SPAN_W; ++window) {
        ivec2 at = last - ivec2(window / SPAN_W, window % SPAN_W);
        bool inside = all(lessThan(uvec2(at), uvec2(out_size)));
        uint from = plane * out_plane + (inside ? uint(at.x * out_size.y + at.y) : 0);
        int chosen = inside ? indices.at[from] : -1;
        sums += mix(SUMS(0), SUMS(load(grad, from)), CHOSEN(chosen, int(p)));
    }
#ifdef QUADS
    if (exists) store_quad(QuadsOut(uvec2(out_)), element / 4, sums);
#else
    if (exists) store(out_, element, sums);
#endif
}
