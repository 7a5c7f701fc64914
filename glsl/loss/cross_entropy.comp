// Cross-entropy of rows of logits: log_total - (1 - s) * y[label] - s * mean(y), where
// y = x - greatest and log_total = log(sum(exp(y))), so that large logits lose no digits
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      logits (rows, columns); labels (rows) of LABEL_WORDS words; s is
//         label_smoothing
// out     loss, greatest, log_total, counts (rows) float32; the loss of an ignored row
//         is 0, that of a label outside the columns NaN; counts is 0 for an ignored row,
//         else 1; error: a label outside the columns
// consts  GROUP: invocations per row, a power of two; LABEL_WORDS: 1 int32, 2 int64
// source  PyTorch's definition of label smoothing
// lint    scalar-load: rows begin at any element, so nothing is aligned to 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "loss/label.glsl"
layout(constant_id = 3) const uint GROUP = 1;
#include "lib/group_sum.glsl"

layout(push_constant, std430) uniform Push {
    In logits;
    IntIn labels;
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
    In logits = push.logits;
    uint columns = push.columns;
    uint row = linear_invocation() / GROUP;
    uint first = gl_LocalInvocationIndex % GROUP;
    uint base = min(row, push.rows - 1) * columns;

    // Each invocation sums relative to its own maximum before the first barrier:
    // lavapipe spills values that are live across one.
    const float lowest = uintBitsToFloat(0xff800000u);
    float own_greatest = lowest;
    for (uint i = first; i < columns; i += GROUP)
        own_greatest = max(own_greatest, load(logits, base + i));
    float reference = own_greatest == lowest ? 0.0 : own_greatest;
    float exponentials = 0.0;
    float sum = 0.0;
    for (uint i = first; i < columns; i += GROUP) {
        float value = load(logits, base + i) - reference;
        exponentials += exp(value);
        sum += value;
    }
    float greatest = tree_max(own_greatest);
    if (exponentials > 0.0) exponentials *= exp(reference - greatest);
    float log_total = log(tree_sum(exponentials));
    uint own = first < columns ? (columns - first - 1) / GROUP + 1 : 0;
    float mean = tree_sum(fma(float(own), reference - greatest, sum)) / float(columns);

    if (first != 0 || row >= push.rows) return;
    int label = read_label(push.labels, row, columns, push.ignore_index);
    float picked = load(logits, base + uint(max(label, 0))) - greatest;
    float loss = log_total - picked;
    if (push.label_smoothing != 0.0)
        loss = mix(loss, log_total - mean, push.label_smoothing);
    if (label == IGNORED) loss = 0.0;
    if (label == BAD_LABEL) loss = uintBitsToFloat(0x7fc00000u);
    push.loss.at[row] = loss;
    push.greatest.at[row] = greatest;
    push.log_total.at[row] = log_total;
    push.counts.at[row] = label == IGNORED ? 0.0 : 1.0;
    if (label == BAD_LABEL)
        push.error.at[0] = reported_label(push.labels, row);
}
