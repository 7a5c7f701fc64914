// Softmax, or its logarithm, of register-resident rows
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      x (rows, count) T, a float
// out     out_, same
// consts  LOGARITHM; those of norm/row_registers.glsl
// source  norm/softmax_registers.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "norm/row_registers.glsl"
#include "norm/softmax_registers.glsl"

layout(constant_id = 3) const uint LOGARITHM = 0;

layout(push_constant, std430) uniform Push {
    QuadsIn x;
    QuadsOut out_;
    uint rows;
    uint count;
} push;

void main() {
    QuadsIn x = push.x;
    QuadsOut out_ = push.out_;
    uint number = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + row_slot();
    Row row = row_at(min(number, push.rows - 1), push.count);
    uint part = row_part();

    vec4 cached[REGISTERS];
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j)
        cached[j] = load_row_quad(x, row, j * GROUP + part);
    vec4 high = vec4(-INFINITE);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        cached[j] = within_row(cached[j], row, j, j * GROUP + part, -INFINITE);
        high = max(high, cached[j]);
    }
    float own = subgroupMax(max(max(high.x, high.y), max(high.z, high.w)));
    float reference = exponential_reference(own);
    vec4 sums = vec4(0);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        vec4 apart = cached[j] - reference;
        vec4 power = quick_exp(apart);
        sums += power;
        if (LOGARITHM == 0) cached[j] = power;
    }
    float sum = subgroupAdd(sums.x + sums.y + sums.z + sums.w);
    vec2 all = over_row(vec2(own, sum));
    // As the difference of infinities is.
    if (abs(all.x) == INFINITE) all.y = NOT_A_NUMBER;
    if (number >= push.rows) return;

    float factor = exponential_factor(own, all.x) / all.y;
    float logarithm = precise_log(all.y);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        uint quad = j * GROUP + part;
        vec4 result = LOGARITHM != 0 ? cached[j] - all.x - logarithm : cached[j] * factor;
        store_row_quad(out_, row, j, quad, result);
    }
}
