// Layer norm, or RMS norm: (x - mean) / sqrt(variance + eps) * weight + bias
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      x (rows, count) T; weight, bias (count) of ACC
// out     out_ (rows, count) T; mean, if CENTRED, and inverse_std (rows) of ACC
// consts  CENTRED: subtract the mean, otherwise it counts as 0; HAS_WEIGHT, HAS_BIAS;
//         REGISTERS: elements per invocation kept in registers, 0 to read them twice;
//         those of lib/group_reduce.glsl
// source  Ba, Kiros and Hinton, arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467
// lint    scalar-load: rows begin at any element, so nothing is aligned to 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint CENTRED = 1;
layout(constant_id = 6) const uint REGISTERS = 0;
layout(constant_id = 7) const uint HAS_WEIGHT = 0;
layout(constant_id = 8) const uint HAS_BIAS = 0;

struct State {
    ACC mean;
    ACC squares;
    ACC count;
};

// Chan, Golub and LeVeque, Updating Formulae and a Pairwise Algorithm for Computing
// Sample Variances, 1979.
State merge(State old, State new) {
    ACC count = old.count + new.count;
    if (CENTRED == 0) return State(ACC(0), old.squares + new.squares, count);
    ACC share = count > ACC(0) ? new.count / count : ACC(0);
    ACC apart = new.mean - old.mean;
    ACC squares = old.squares + new.squares + apart * apart * (old.count * share);
    return State(old.mean + apart * share, squares, count);
}

State single(ACC value) {
    if (CENTRED == 0) return State(ACC(0), value * value, ACC(1));
    return State(value, ACC(0), ACC(1));
}

#include "lib/group_reduce.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    AccIn weight;
    AccIn bias;
    Out out_;
    AccOut mean;
    AccOut inverse_std;
    uint rows;
    uint count;
    float eps;
} push;

In x = push.x;
AccIn weight = push.weight, bias = push.bias;
Out out_ = push.out_;
uint rows = push.rows, count = push.count;
float eps = push.eps;

void main() {
    uint slot = output_slot(), part = group_part();
    uint row = linear_workgroup() * OUTPUTS + slot;
    uint base = min(row, rows - 1) * count;
    uint rounds = REGISTERS != 0 ? REGISTERS : (count - 1) / GROUP + 1;

    ACC cached[REGISTERS + 1];
    State state = State(ACC(0), ACC(0), ACC(0));
    for (uint i = 0; i < rounds; ++i) {
        uint index = i * GROUP + part;
        ACC value = load(x, base + min(index, count - 1));
        if (REGISTERS != 0) cached[i] = value;
        if (index < count) state = merge(state, single(value));
    }
    over_group(state, slot, part);
    barrier();
    state = shared_state[shared_place(slot, 0)];
    if (row >= rows) return;

    ACC inverse_std = ACC(1) / sqrt(state.squares / ACC(count) + ACC(eps));
    for (uint i = 0; i < rounds; ++i) {
        uint index = i * GROUP + part;
        if (index >= count) break;
        ACC value = REGISTERS != 0 ? cached[i] : load(x, base + index);
        value = (value - state.mean) * inverse_std;
        if (HAS_WEIGHT != 0) value *= weight.at[index];
        if (HAS_BIAS != 0) value += bias.at[index];
        store(out_, base + index, value);
    }
    if (part != 0) return;
    if (CENTRED != 0) push.mean.at[row] = state.mean;
    push.inverse_std.at[row] = inverse_std;
}
