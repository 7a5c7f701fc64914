// Bin counts of the integers from 0 on
// grid    pass 0: one invocation per count, pass 1: one per number, linear
// in      numbers (numel) int32; others than those counted are left out
// out     out_ (size) int32
// consts  PASS: 0 clears, 1 counts
// source  sums of integers do not depend on the order of atomics
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint PASS = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Counts {
    int at[];
};
layout(push_constant, std430) uniform Push {
    IntIn numbers;
    Counts out_;
    uint numel;
    uint size;
} push;

void main() {
    uint invocation = linear_invocation();
    IntIn numbers = push.numbers;
    Counts out_ = push.out_;
    uint size = push.size;
    if (invocation >= (PASS == 0 ? size : push.numel)) return;
    if (PASS == 0) {
        out_.at[invocation] = 0;
        return;
    }
    int number = numbers.at[invocation];
    if (number >= 0 && uint(number) < size) atomicAdd(out_.at[number], 1);
}
