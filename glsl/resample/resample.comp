// Resampling along one dimension: out[o, i, n] is the sum over t < count of
// weight[i, t] * x[o, first[i] + t, n]
// grid    one invocation per element of out_, linear
// in      x (outer, size, inner); taps (out_size, width) of ACC: rows of first, count
//         and weights; inner_magic, inner_shift and the like: see `divide`
// out     out_ (outer, out_size, inner)
// consts  none
// source  definition; pooling by averages and interpolation are such sums, and so are
//         their gradients
// lint    scalar-load: weights and elements of a line begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    AccIn taps;
    Out out_;
    uint count;
    uint size;
    uint inner;
    uint inner_magic;
    uint inner_shift;
    uint out_size;
    uint out_magic;
    uint out_shift;
    uint width;
} push;

void main() {
    In x = push.x;
    AccIn taps = push.taps;
    uint inner = push.inner;
    uint element = linear_invocation();
    if (element >= push.count) return;
    uint line = divide(element, push.inner_magic, push.inner_shift);
    uint outer = divide(line, push.out_magic, push.out_shift);
    uint row = (line - outer * push.out_size) * push.width;
    uint first = uint(taps.at[row]);
    uint count = uint(taps.at[row + 1]);
    uint from = (outer * push.size + first) * inner + (element - line * inner);

    ACC sum = ACC(0);
    for (uint tap = 0; tap < count; ++tap)
        sum = multiply_add(taps.at[row + 2 + tap], load(x, from + tap * inner), sum);
    store(push.out_, element, sum);
}
