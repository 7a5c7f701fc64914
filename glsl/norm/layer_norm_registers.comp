// Layer norm of register-resident rows:
// (x - mean) / sqrt(variance + eps) * weight + bias
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      x (rows, count) T, a float; weight, bias (count) float32
// out     out_ (rows, count) T; mean, if CENTRED, and inverse_std (rows) float32
// consts  CENTRED, HAS_WEIGHT, HAS_BIAS: as in norm/layer_norm.comp; those of
//         norm/row_registers.glsl
// source  Ba, Kiros and Hinton, arXiv:1607.06450; Zhang and Sennrich, arXiv:1910.07467
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "norm/row_registers.glsl"
#include "norm/row_weight.glsl"

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

// The sum over the subgroup.
float subgroup_total(vec4 terms) {
    vec2 halves = terms.xy + terms.zw;
    return subgroupAdd(halves.x + halves.y);
}

// A mean, the sum of squared differences from it, and of how many elements.
// Source: Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing
// sample variances, 1979.
struct Moments {
    float mean, squares, elements;
};

Moments merge(Moments a, Moments b) {
    float elements = a.elements + b.elements, apart = b.mean - a.mean;
    float share = b.elements / max(elements, 1.0);
    float squares = a.squares + b.squares + apart * apart * a.elements * share;
    return Moments(a.mean + apart * share, squares, elements);
}

// Those of a subgroup of the row; without CENTRED the mean is 0.
Moments of_subgroup(uint number, float own) {
    vec2 moments = row_shared[0][number];
    return Moments(moments.x, moments.y, ENDS != 0 ? row_shared[1][number].x : own);
}

// The mean of a row and the sum of squared differences from it, of those of its subgroups.
vec2 over_row(vec2 moments, float own, float count) {
    uint subgroups = row_subgroups(), first = row_slot() * subgroups;
    if (subgroups == 1u) return moments;
    if (subgroupElect()) {
        row_shared[0][gl_SubgroupID] = moments;
        if (ENDS != 0) row_shared[1][gl_SubgroupID].x = own;
    }
    barrier();
    Moments mine = Moments(0.0, 0.0, 0.0);
    uint i = gl_SubgroupInvocationID;
    if (i < subgroups) mine = of_subgroup(first + i, own);
    for (i += gl_SubgroupSize; i < subgroups; i += gl_SubgroupSize)
        mine = merge(mine, of_subgroup(first + i, own));
    float mean = 0.0, apart = 0.0;
    if (CENTRED != 0) {
        mean = subgroupAdd(mine.mean * mine.elements) / count;
        apart = mine.mean - mean;
    }
    return vec2(mean, subgroupAdd(mine.squares + mine.elements * apart * apart));
}

void main() {
    QuadsIn x = push.x;
    Weights weight = push.weight, bias = push.bias;
    QuadsOut out_ = push.out_;
    uint number = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + row_slot();
    Row row = row_at(min(number, push.rows - 1), push.count);
    uint part = row_part();

    vec4 cached[REGISTERS];
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j)
        cached[j] = load_row_quad(x, row, j * GROUP + part);
    // Weights are loaded with the row where registers suffice.
    bool early = REGISTERS <= 4;
    vec4 weights[REGISTERS], biases[REGISTERS];
    if (early)
        [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
            uint quad = j * GROUP + part;
            if (HAS_WEIGHT != 0) weights[j] = load_weights(weight, row, quad);
            if (HAS_BIAS != 0) biases[j] = load_weights(bias, row, quad);
        }
    // The mean of the subgroup's elements, and squares of differences from it: nothing
    // cancels, and one barrier is enough for the row.
    float own = float(4u * REGISTERS * gl_SubgroupSize), mean = 0.0;
    if (CENTRED != 0) {
        vec4 sums = vec4(0), inside = vec4(0);
        [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
            uint quad = j * GROUP + part;
            sums += within_row(cached[j], row, j, quad, 0.0);
            if (ENDS != 0) inside += within_row(vec4(1), row, j, quad, 0.0);
        }
        if (ENDS != 0) own = subgroup_total(inside);
        mean = subgroup_total(sums) / max(own, 1.0);
    }
    vec4 squares = vec4(0);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        vec4 apart = within_row(cached[j] - mean, row, j, j * GROUP + part, 0.0);
        squares = fma(apart, apart, squares);
    }
    vec2 moments = vec2(mean, subgroup_total(squares));
    moments = over_row(moments, own, float(row.count));
    mean = moments.x;
    float inverse_std = 1.0 / sqrt(moments.y / float(row.count) + push.eps);
    if (number >= push.rows) return;

    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        uint quad = j * GROUP + part;
        vec4 result = (cached[j] - mean) * inverse_std;
        if (HAS_WEIGHT != 0)
            result *= early ? weights[j] : load_weights(weight, row, quad);
        if (HAS_BIAS != 0) result += early ? biases[j] : load_weights(bias, row, quad);
        store_row_quad(out_, row, j, quad, result);
    }
    if (part != 0) return;
    if (CENTRED != 0) push.mean.at[number] = mean;
    push.inverse_std.at[number] = inverse_std;
}
