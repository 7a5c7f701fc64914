// Bin counts of the integers from 0 on
// grid    pass 0: one invocation per count, pass 1: one per share of numbers, linear
// in      numbers (numel), integers of WORDS words; others than those counted are left out
// out     out_ (size) int32, or int64 if STEP is 2
// consts  PASS: 0 clears, 1 counts; PRIVATE: copies of the counts in shared memory, 0
//         counts in the result; SLOTS: counts in shared memory, PRIVATE * (size | 1);
//         WORDS; STEP: words of a count
// source  sums of integers do not depend on the order of atomics
// lint    atomic-in-loop: each number is a count of its own; copies in shared memory
//         keep them apart
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint PASS = 0;
layout(constant_id = 4) const uint PRIVATE = 0;
layout(constant_id = 5) const uint SLOTS = 1;
layout(constant_id = 6) const uint WORDS = 1;
layout(constant_id = 7) const uint STEP = 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer Counts {
    int at[];
};
layout(push_constant, std430) uniform Push {
    IntIn numbers;
    Counts out_;
    uint numel;
    uint size;
    uint invocations;
} push;

shared int own[SLOTS];

void count(Counts out_, int number, uint size, uint copy_at) {
    if (number < 0 || uint(number) >= size) return;
    if (PRIVATE == 0)
        atomicAdd(out_.at[uint(number) * STEP], 1);
    else
        atomicAdd(own[copy_at + uint(number)], 1);
}

// A number, or -1 for one of 64 bits that is beyond those of 31.
int number_at(IntIn numbers, uint i) {
    int number = numbers.at[i * WORDS];
    if (WORDS == 1) return number;
    return numbers.at[i * WORDS + 1] == 0 ? max(number, -1) : -1;
}

void main() {
    uint invocation = linear_invocation();
    IntIn numbers = push.numbers;
    Counts out_ = push.out_;
    uint size = push.size, numel = push.numel, step = push.invocations;
    uint at = gl_LocalInvocationIndex;
    if (PASS == 0) {
        if (invocation < size) {
            out_.at[invocation * STEP] = 0;
            if (STEP == 2) out_.at[invocation * STEP + 1] = 0;
        }
        return;
    }
    // Neighbours count in different copies, and in different banks, so that equal
    // numbers collide less.
    uint pitch = size | 1u;
    uint copy_at = PRIVATE == 0 ? 0 : at % PRIVATE * pitch;
    if (PRIVATE != 0) {
        for (uint slot = at; slot < PRIVATE * pitch; slot += gl_WorkGroupSize.x)
            own[slot] = 0;
        barrier();
    }
    // Four loads are in flight. Sums of places might pass 2^32, what is left does not.
    for (uint i = invocation, left = numel - min(i, numel); left != 0;) {
        int first = number_at(numbers, i);
        int second = left > step ? number_at(numbers, i + step) : -1;
        int third = left > 2 * step ? number_at(numbers, i + 2 * step) : -1;
        int fourth = left > 3 * step ? number_at(numbers, i + 3 * step) : -1;
        count(out_, first, size, copy_at);
        count(out_, second, size, copy_at);
        count(out_, third, size, copy_at);
        count(out_, fourth, size, copy_at);
        if (left <= 4 * step) break;
        i += 4 * step;
        left -= 4 * step;
    }
    if (PRIVATE == 0) return;
    barrier();
    for (uint bin = at; bin < size; bin += gl_WorkGroupSize.x) {
        int sum = 0;
        for (uint k = 0; k < PRIVATE; ++k) sum += own[k * pitch + bin];
        if (sum != 0) atomicAdd(out_.at[bin * STEP], sum);
    }
}
