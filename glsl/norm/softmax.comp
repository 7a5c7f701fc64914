// Softmax, or its logarithm, along the middle dimension of (outer, count, inner)
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      x (outer, count, inner) T
// out     out_, same
// consts  LOGARITHM; REGISTERS: elements per invocation kept in registers, 0 to read
//         them twice; those of lib/group_reduce.glsl
// source  Milakov and Gimelshein, Online normalizer calculation for softmax,
//         arXiv:1805.02867
// lint    private-array: with REGISTERS rounds are constant, so drivers can unroll
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/online_softmax.glsl"
#include "lib/group_reduce.glsl"

layout(constant_id = 3) const uint LOGARITHM = 0;
layout(constant_id = 6) const uint REGISTERS = 0;

const uint ACCUMULATORS = 4;

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint rows;
    uint count;
    uint inner;
} push;

In x = push.x;
Out out_ = push.out_;
uint rows = push.rows, count = push.count, inner = push.inner;

void main() {
    uint slot = output_slot(), part = group_part();
    uint row = linear_workgroup() * OUTPUTS + slot, known = min(row, rows - 1);
    uint base = known / inner * count * inner + known % inner;
    uint rounds = REGISTERS != 0 ? REGISTERS : (count - 1) / GROUP + 1;

    // Several sums at once, for the exponentials of one wait for each other.
    ACC cached[REGISTERS + ACCUMULATORS];
    State state[ACCUMULATORS];
    for (uint k = 0; k < ACCUMULATORS; ++k) state[k] = State(-INFINITE, ACC(0));
    for (uint i = 0; i < rounds; i += ACCUMULATORS)
        for (uint k = 0; k < ACCUMULATORS; ++k) {
            uint index = (i + k) * GROUP + part;
            ACC value = load(x, base + min(index, count - 1) * inner);
            if (REGISTERS != 0) cached[i + k] = value;
            if (index < count) state[k] = merge(state[k], State(value, ACC(1)));
        }
    for (uint k = 1; k < ACCUMULATORS; ++k) state[0] = merge(state[0], state[k]);
    State all = over_whole_group(state[0], slot, part);
    // As the difference of infinities is.
    if (abs(all.greatest) == INFINITE) all.sum = NOT_A_NUMBER;

    ACC factor = ACC(1) / all.sum, logarithm = precise_log(all.sum);
    for (uint i = 0; i < rounds; i += ACCUMULATORS)
        for (uint k = 0; k < ACCUMULATORS; ++k) {
            uint index = (i + k) * GROUP + part;
            uint place = base + min(index, count - 1) * inner;
            ACC value = (REGISTERS != 0 ? cached[i + k] : load(x, place)) - all.greatest;
            ACC power = LOGARITHM != 0 ? value - logarithm : precise_exp(value) * factor;
            if (index < count && row < rows) store(out_, place, power);
        }
}
