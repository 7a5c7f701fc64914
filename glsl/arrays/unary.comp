// Element-wise unary operation
// grid    linear in invocations, one element each
// in      x (count) T
// out     out_, same
// consts  OPERATION
// source  Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv:1606.08415
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/hyperbolic.glsl"

layout(constant_id = 3) const uint OPERATION = 0;

// As vkbackend/arrays/kernels.py numbers them.
const uint RELU = 0;
const uint SIGMOID = 1;
const uint TANH = 2;
const uint SWISH = 3;
const uint GELU = 4;
const uint SCALE = 5;

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint count;
    float factor;
} push;

float sigmoid(float x) {
    float power = falling_exp(-abs(x));
    return (x < 0.0 ? power : 1.0) / (1.0 + power);
}

void main() {
    uint at = linear_invocation();
    if (at >= push.count) return;
    float x = load(push.x, at);
    float y = x * push.factor;
    if (OPERATION == RELU) y = x < 0.0 ? 0.0 : x;
    if (OPERATION == SIGMOID) y = sigmoid(x);
    if (OPERATION == TANH) y = precise_tanh(x);
    if (OPERATION == SWISH) y = x * sigmoid(x);
    // sqrt(8 / pi) (x + 0.044715 x^3)
    if (OPERATION == GELU)
        y = x * sigmoid(1.59576912 * x * (1.0 + 0.044715 * x * x));
    store(push.out_, at, y);
}
