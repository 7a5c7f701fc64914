// Gradients of softmax, y (g - sum(g y)), or of its logarithm, g - exp(y) sum(g)
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      grad, y (outer, count, inner) T: the incoming gradient, and the result
// out     out_, same
// consts  LOGARITHM; REGISTERS: elements per invocation kept in registers, 0 to read
//         them twice; those of lib/group_reduce.glsl
// source  the derivative of each element by each other, summed
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"

struct State {
    ACC sum;
};

State merge(State old, State new) { return State(old.sum + new.sum); }

#include "lib/group_reduce.glsl"

layout(constant_id = 3) const uint LOGARITHM = 0;
layout(constant_id = 6) const uint REGISTERS = 0;

layout(push_constant, std430) uniform Push {
    In grad;
    In y;
    Out out_;
    uint rows;
    uint count;
    uint inner;
} push;

In grad = push.grad, y = push.y;
Out out_ = push.out_;
uint rows = push.rows, count = push.count, inner = push.inner;

void main() {
    uint slot = output_slot(), part = group_part();
    uint row = linear_workgroup() * OUTPUTS + slot, known = min(row, rows - 1);
    uint base = known / inner * count * inner + known % inner;
    uint rounds = REGISTERS != 0 ? REGISTERS : (count - 1) / GROUP + 1;

    ACC cached_grad[REGISTERS + 1], cached_y[REGISTERS + 1];
    State state = State(ACC(0));
    for (uint i = 0; i < rounds; ++i) {
        uint index = i * GROUP + part;
        uint place = base + min(index, count - 1) * inner;
        ACC term = load(grad, place), own = ACC(1);
        if (LOGARITHM == 0 || REGISTERS != 0) own = load(y, place);
        if (REGISTERS != 0) {
            cached_grad[i] = term;
            cached_y[i] = own;
        }
        if (LOGARITHM == 0) term *= own;
        if (index < count) state.sum += term;
    }
    ACC sum = over_whole_group(state, slot, part).sum;

    for (uint i = 0; i < rounds; ++i) {
        uint index = i * GROUP + part;
        uint place = base + min(index, count - 1) * inner;
        ACC incoming = REGISTERS != 0 ? cached_grad[i] : load(grad, place);
        ACC own = REGISTERS != 0 ? cached_y[i] : load(y, place);
        ACC result = LOGARITHM != 0
            ? incoming - precise_exp(own) * sum
            : own * (incoming - sum);
        if (index < count && row < rows) store(out_, place, result);
    }
}
