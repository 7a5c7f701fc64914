// Rows held in registers, normalised: (x - mean) / sqrt(variance + eps) * weight + bias
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      x (rows, count) T, a float; weight, bias (count) float32
// out     out_ (rows, count) T; mean, if CENTRED, and inverse_std (rows) float32
// consts  CENTRED, HAS_WEIGHT, HAS_BIAS: as in norm/row_norm.comp; those of
//         lib/row_quads.glsl
// source  Ba, Kiros and Hinton, arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lib/element.glsl"
#include "lib/index.glsl"
#include "lib/row_quads.glsl"
#include "lib/row_weight.glsl"

layout(constant_id = 3) const uint CENTRED = 1;
layout(constant_id = 7) const uint HAS_WEIGHT = 0;
layout(constant_id = 8) const uint HAS_BIAS = 0;

layout(push_constant, std430) uniform Push {
    QuadsIn x;
    Weights weight;
    Weights bias;
    QuadsOut out_;
    AccOut mean;
    AccOut inverse_std;
    uint rows;
    uint count;
    float eps;
} push;

float total(vec4 terms, uint bank) {
    vec2 halves = terms.xy + terms.zw;
    return group_sum(halves.x + halves.y, bank);
}

void main() {
    QuadsIn x = push.x;
    Weights weight = push.weight, bias = push.bias;
    QuadsOut out_ = push.out_;
    uint number = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + row_slot();
    Row row = row_at(min(number, push.rows - 1), push.count);
    uint part = row_part();

    vec4 kept[KEPT];
    [[unroll]] for (uint j = 0; j < KEPT; ++j)
        kept[j] = load_row_quad(x, row, j * GROUP + part);
    // Weights are asked for with the row where that leaves registers enough.
    bool early = KEPT <= 4 && GROUP * KEPT <= 1024;
    vec4 weights[KEPT], biases[KEPT];
    if (early)
        [[unroll]] for (uint j = 0; j < KEPT; ++j) {
            uint quad = j * GROUP + part;
            if (HAS_WEIGHT != 0) weights[j] = load_weights(weight, row, quad);
            if (HAS_BIAS != 0) biases[j] = load_weights(bias, row, quad);
        }
    float share = 1.0 / float(row.count), mean = 0.0;
    if (CENTRED != 0) {
        vec4 sums = vec4(0);
        [[unroll]] for (uint j = 0; j < KEPT; ++j)
            sums += within_row(kept[j], row, j, j * GROUP + part, 0.0);
        mean = total(sums, 0) * share;
    }
    // Of differences from the mean, so nothing cancels.
    vec4 squares = vec4(0);
    [[unroll]] for (uint j = 0; j < KEPT; ++j) {
        kept[j] -= mean;
        vec4 apart = within_row(kept[j], row, j, j * GROUP + part, 0.0);
        squares = fma(apart, apart, squares);
    }
    float inverse_std = 1.0 / sqrt(total(squares, 1) * share + push.eps);
    if (number >= push.rows) return;

    [[unroll]] for (uint j = 0; j < KEPT; ++j) {
        uint quad = j * GROUP + part;
        vec4 result = kept[j] * inverse_std;
        if (HAS_WEIGHT != 0)
            result *= early ? weights[j] : load_weights(weight, row, quad);
        if (HAS_BIAS != 0) result += early ? biases[j] : load_weights(bias, row, quad);
        store_row_quad(out_, row, j, quad, result);
    }
    if (part != 0) return;
    if (CENTRED != 0) push.mean.at[number] = mean;
    push.inverse_std.at[number] = inverse_std;
}
