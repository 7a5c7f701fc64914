// Layer norm gradient by x: s * (h - mean(h) - y * mean(h * y)), where h = grad *
// weight, s is inverse_std, and y = (x - mean) * s; without mean(h) if not CENTRED
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      grad, x (rows, count) T; weight (count), mean and inverse_std (rows) of ACC
// out     out_ (rows, count) T
// consts  CENTRED, HAS_WEIGHT, REGISTERS: as in norm/layer_norm.comp; those of
//         lib/group_reduce.glsl
// source  derivative of norm/layer_norm.comp
// lint    scalar-load: rows begin at any element, so nothing is aligned to 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint CENTRED = 1;
layout(constant_id = 6) const uint REGISTERS = 0;
layout(constant_id = 7) const uint HAS_WEIGHT = 0;

struct State {
    ACC sum;
    ACC products;
};

State merge(State old, State new) {
    return State(old.sum + new.sum, old.products + new.products);
}

#include "lib/group_reduce.glsl"

layout(push_constant, std430) uniform Push {
    In grad;
    In x;
    AccIn weight;
    AccIn mean;
    AccIn inverse_std;
    Out out_;
    uint rows;
    uint count;
} push;

In grad = push.grad, x = push.x;
AccIn weight = push.weight, means = push.mean, inverse_stds = push.inverse_std;
Out out_ = push.out_;
uint rows = push.rows, count = push.count;

void main() {
    uint slot = output_slot(), part = group_part();
    uint row = linear_workgroup() * OUTPUTS + slot, known = min(row, rows - 1);
    uint base = known * count;
    uint rounds = REGISTERS != 0 ? REGISTERS : (count - 1) / GROUP + 1;
    ACC mean = ACC(0);
    if (CENTRED != 0) mean = means.at[known];
    ACC inverse_std = inverse_stds.at[known];

    ACC cached_h[REGISTERS + 1], cached_y[REGISTERS + 1];
    State state = State(ACC(0), ACC(0));
    for (uint i = 0; i < rounds; ++i) {
        uint index = min(i * GROUP + part, count - 1);
        ACC y = (load(x, base + index) - mean) * inverse_std;
        ACC h = load(grad, base + index);
        if (HAS_WEIGHT != 0) h *= weight.at[index];
        if (REGISTERS != 0) cached_h[i] = h, cached_y[i] = y;
        if (i * GROUP + part < count) state = merge(state, State(h, h * y));
    }
    over_group(state, slot, part);
    barrier();
    state = shared_state[shared_place(slot, 0)];
    if (row >= rows) return;

    ACC share = ACC(1) / ACC(count);
    ACC mean_h = CENTRED != 0 ? state.sum * share : ACC(0);
    ACC mean_product = state.products * share;
    for (uint i = 0; i < rounds; ++i) {
        uint index = i * GROUP + part;
        if (index >= count) break;
        ACC y, h;
        if (REGISTERS != 0) {
            h = cached_h[i], y = cached_y[i];
        } else {
            y = (load(x, base + index) - mean) * inverse_std;
            h = load(grad, base + index);
            if (HAS_WEIGHT != 0) h *= weight.at[index];
        }
        store(out_, base + index, inverse_std * (h - mean_h - y * mean_product));
    }
}
