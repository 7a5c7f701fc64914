// Element-wise binary operation
// grid    linear in invocations, one element each
// in      x and y (count) T
// out     out_, same
// consts  OPERATION
// source  the definition
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint OPERATION = 0;

// As vkbackend/arrays/kernels.py numbers them.
const uint ADD = 0;
const uint SUB = 1;
const uint MUL = 2;
const uint DIV = 3;

layout(push_constant, std430) uniform Push {
    In x;
    In y;
    Out out_;
    uint count;
} push;

void main() {
    uint at = linear_invocation();
    if (at >= push.count) return;
    float x = load(push.x, at), y = load(push.y, at), z = x / y;
    if (OPERATION == ADD) z = x + y;
    if (OPERATION == SUB) z = x - y;
    if (OPERATION == MUL) z = x * y;
    store(push.out_, at, z);
}
