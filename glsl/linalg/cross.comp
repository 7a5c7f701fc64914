// Cross products of vectors of three elements: out[o, :, i] = a[o, :, i] x b[o, :, i]
// grid    one invocation per vector, linear
// in      a, b (outer, 3, inner) T
// out     out_, same
// consts  none
// source  in ACC; each product is rounded, so that of a vector with itself there is 0
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(push_constant, std430) uniform Push {
    In a;
    In b;
    Out out_;
    uint count;
    uint inner;
    uvec2 divide_inner;
} args;

void main() {
    uint vector = linear_invocation();
    In a = args.a, b = args.b;
    Out out_ = args.out_;
    uint inner = args.inner;
    if (vector >= args.count) return;
    uint outer = divide(vector, args.divide_inner.x, args.divide_inner.y);
    uint first = 2 * outer * inner + vector;
    ACC x[3], y[3];
    [[unroll]] for (uint k = 0; k < 3; ++k) {
        x[k] = load(a, first + k * inner);
        y[k] = load(b, first + k * inner);
    }
    [[unroll]] for (uint k = 0; k < 3; ++k) {
        uint next = (k + 1) % 3, last = (k + 2) % 3;
        precise ACC ahead = x[next] * y[last], behind = x[last] * y[next];
        precise ACC found = ahead - behind;
        store(out_, first + k * inner, found);
    }
}
