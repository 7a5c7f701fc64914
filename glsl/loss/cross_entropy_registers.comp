// Cross-entropy of register-resident rows of logits, as loss/cross_entropy.comp defines
// it, and its gradient by the logits, without a second read
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      logits (rows, columns) T; labels (rows) of LABEL_WORDS words; share, if GRAD:
//         one float32, the gradient of each loss
// out     loss, greatest, log_total, counts (rows) float32; out_, if GRAD: (rows, columns)
//         T, 0 in an ignored row, NaN where no column is the label; error: such a
//         label
// consts  GRAD; SMOOTHED: 0 if label_smoothing is; LABEL_WORDS: 1 int32, 2 int64; those of
//         norm/row_registers.glsl
// source  norm/softmax_registers.glsl; PyTorch's definition of label smoothing
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_arithmetic : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/math/exponential.glsl"
#include "norm/row_registers.glsl"
#include "norm/softmax_registers.glsl"
#include "loss/label.glsl"

layout(constant_id = 3) const uint GRAD = 0;
layout(constant_id = 7) const uint SMOOTHED = 1;

layout(push_constant, std430) uniform Push {
    QuadsIn logits;
    IntIn labels;
    AccIn share;
    QuadsOut out_;
    AccOut loss;
    AccOut greatest;
    AccOut log_total;
    AccOut counts;
    IndexSlot error;
    uint rows;
    uint columns;
    int ignore_index;
    float label_smoothing;
} push;

void main() {
    QuadsIn logits = push.logits;
    QuadsOut out_ = push.out_;
    float smoothing = SMOOTHED != 0 ? push.label_smoothing : 0.0;
    uint number = linear_workgroup() * (gl_WorkGroupSize.x / GROUP) + row_slot();
    uint known = min(number, push.rows - 1);
    Row row = row_at(known, push.columns);
    uint part = row_part();

    vec4 cached[REGISTERS];
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j)
        cached[j] = load_row_quad(logits, row, j * GROUP + part);
    // Loaded with the row: a later load could not be overlapped with anything.
    float share = GRAD != 0 ? push.share.at[0] : 0.0;
    int label = read_label(push.labels, known, push.columns, push.ignore_index);
    float picked = load(In(logits), known * push.columns + uint(max(label, 0)));
    vec4 high = vec4(-INFINITE);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        cached[j] = within_row(cached[j], row, j, j * GROUP + part, -INFINITE);
        high = max(high, cached[j]);
    }
    float own = subgroupMax(max(max(high.x, high.y), max(high.z, high.w)));
    float reference = exponential_reference(own);
    vec4 sums = vec4(0), apart_sums = vec4(0);
    [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
        vec4 apart = cached[j] - reference;
        if (SMOOTHED != 0)
            apart_sums += within_row(cached[j], row, j, j * GROUP + part, 0.0);
        cached[j] = quick_exp(apart);
        sums += cached[j];
    }
    vec2 all = over_row(vec2(own, subgroupAdd(sums.x + sums.y + sums.z + sums.w)));
    if (SMOOTHED != 0) {
        float own_sum = apart_sums.x + apart_sums.y + apart_sums.z + apart_sums.w;
        apart_sums.x = group_sum(own_sum, 1) / float(row.count) - all.x;
    }
    if (number >= push.rows) return;

    bool bad = label == BAD_LABEL, ignored = label == IGNORED;
    if (GRAD != 0) {
        float factor = exponential_factor(own, all.x) / all.y * share;
        if (bad) factor = NOT_A_NUMBER;
        vec4 even = vec4(-smoothing / float(row.count) * share), here = even;
        uint spot = uint(max(label, 0)) + row.lead;
        here[spot & 3u] -= (1.0 - smoothing) * share;
        uint label_quad = label < 0 ? ~0u : spot >> 2;
        [[unroll]] for (uint j = 0; j < REGISTERS; ++j) {
            uint quad = j * GROUP + part;
            vec4 result = fma(cached[j], vec4(factor), quad == label_quad ? here : even);
            store_row_quad(out_, row, j, quad, ignored ? vec4(0) : result);
        }
    }
    if (part != 0) return;
    float log_total = precise_log(all.y);
    float loss = log_total - (picked - all.x);
    if (SMOOTHED != 0) loss = mix(loss, log_total - apart_sums.x, smoothing);
    if (ignored) loss = 0.0;
    push.loss.at[number] = bad ? NOT_A_NUMBER : loss;
    push.greatest.at[number] = all.x;
    push.log_total.at[number] = log_total;
    push.counts.at[number] = ignored ? 0.0 : 1.0;
    if (bad) push.error.at[0] = reported_label(push.labels, number);
}
