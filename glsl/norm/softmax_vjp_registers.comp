// Gradients of softmax, y (g - sum(g y)), or of its logarithm, g - exp(y) sum(g), of
// register-resident rows
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      grad, y (rows, count) T, a float: the incoming gradient, and the result
// out     out_, same
// consts  LOGARITHM; those of norm/row_registers.glsl
// source  the derivative of each element by each other, summed
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "norm/row_registers.glsl"

layout(constant_id = 3) const uint LOGARITHM = 0;

layout(push_constant, std430) uniform Push {
    QuadsIn grad;
    QuadsIn y;
    QuadsOut out_;
    uint rows;
    uint count;
} push;

void main() {
    QuadsIn grad = push.grad, y = push.y;
    QuadsOut out_ = push.out_;
    uint number = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + row_slot();
    Row row = row_at(min(number, push.rows - 1), push.count);
    uint part = row_part();

    vec4 cached_grad[REGISTERS], cached_y[REGISTERS];
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        cached_grad[j] = load_row_quad(grad, row, j * GROUP + part);
        cached_y[j] = load_row_quad(y, row, j * GROUP + part);
    }
    vec4 sums = vec4(0);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        vec4 term = LOGARITHM != 0 ? cached_grad[j] : cached_grad[j] * cached_y[j];
        sums += within_row(term, row, j, j * GROUP + part, 0.0);
    }
    float sum = group_sum(sums.x + sums.y + sums.z + sums.w, 0);
    if (number >= push.rows) return;

    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        vec4 own = cached_y[j], result = own * (cached_grad[j] - sum);
        if (LOGARITHM != 0) {
            vec4 power = vec4(
                precise_exp(own.x), precise_exp(own.y),
                precise_exp(own.z), precise_exp(own.w));
            result = cached_grad[j] - power * sum;
        }
        store_row_quad(out_, row, j, j * GROUP + part, result);
    }
}
