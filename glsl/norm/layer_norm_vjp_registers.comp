// Layer norm gradients, register-resident rows: by x, s (h - mean(h) - y mean(h y)),
// where h = grad * weight, s is inverse_std and y = (x - mean) * s, without mean(h) if
// not CENTRED; and partial column sums of those by weight and bias, per workgroup
// grid    any number of workgroups in x, in a grid-stride loop over rows
// in      grad, x (rows, count) T, a float; weight (count), mean and inverse_std (rows)
//         float32; count is a multiple of four
// out     out_ (rows, count) T; products: sums of grad * y; sums: of grad; both
//         (workgroups, count) float32
// consts  CENTRED, HAS_WEIGHT: as in norm/layer_norm.comp; those of norm/row_registers.glsl;
//         GROUP is LOCAL_X
// source  derivative of norm/layer_norm_registers.comp, summed in a fixed order
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

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Partials { vec4 at[]; };
layout(push_constant, std430) uniform Push {
    QuadsIn grad;
    QuadsIn x;
    Weights weight;
    AccIn mean;
    AccIn inverse_std;
    QuadsOut out_;
    Partials products;
    Partials sums;
    uint rows;
    uint count;
} push;

void main() {
    QuadsIn grad = push.grad, x = push.x;
    AccIn means = push.mean, inverse_stds = push.inverse_std;
    QuadsOut out_ = push.out_;
    uint rows = push.rows, count = push.count, quads = count / 4u;
    uint part = row_part(), bank = 0;
    float share = 1.0 / float(count);

    vec4 weights[REGISTERS], products[REGISTERS], sums[REGISTERS];
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        products[j] = sums[j] = vec4(0);
        weights[j] = vec4(1);
        if (HAS_WEIGHT != 0)
            weights[j] = push.weight.at[min(j * GROUP + part, quads - 1u)];
    }
    for (uint number = gl_WorkGroupID.x; number < rows; number += gl_NumWorkGroups.x) {
        Row row = row_at(number, count);
        vec4 y[REGISTERS], h[REGISTERS];
        [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
            y[j] = load_row_quad(x, row, j * GROUP + part);
            h[j] = load_row_quad(grad, row, j * GROUP + part);
        }
        float mean = CENTRED != 0 ? means.at[number] : 0.0;
        float inverse_std = inverse_stds.at[number];
        vec4 own_h = vec4(0), own_product = vec4(0);
        [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
            y[j] = (y[j] - mean) * inverse_std;
            vec4 incoming = within_row(h[j], row, j, j * GROUP + part, 0.0);
            products[j] = fma(incoming, y[j], products[j]);
            sums[j] += incoming;
            h[j] = incoming * weights[j];
            own_h += h[j];
            own_product = fma(h[j], y[j], own_product);
        }
        vec2 own = vec2(
            own_h.x + own_h.y + own_h.z + own_h.w,
            own_product.x + own_product.y + own_product.z + own_product.w);
        vec2 middle = group_sum(own, bank) * share;
        bank = 1u - bank;
        if (CENTRED == 0) middle.x = 0.0;
        [[unroll]] for (uint j = 0; j < REGISTERS; ++j)
            store_row_quad(
                out_, row, j, j * GROUP + part,
                inverse_std * (h[j] - middle.x - y[j] * middle.y));
    }
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        uint quad = j * GROUP + part;
        if (quad >= quads) continue;
        push.products.at[gl_WorkGroupID.x * quads + quad] = products[j];
        push.sums.at[gl_WorkGroupID.x * quads + quad] = sums[j];
    }
}
