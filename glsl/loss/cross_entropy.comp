// Cross-entropy of rows of logits: logsumexp(x) - (1 - s) * x[label] - s * mean(x)
// grid    linear in workgroups of LOCAL_X / GROUP rows
// in      logits (rows, columns) float32; labels (rows) of LABEL_WORDS words; s is
//         label_smoothing
// out     loss, logsumexp, counts (rows) float32; the loss of an ignored row is 0, that of
//         a label outside the columns NaN; counts is 0 for an ignored row, else 1
// consts  GROUP: invocations per row, a power of two; LABEL_WORDS: 1 int32, 2 int64
// source  PyTorch's definition of label smoothing
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/types.glsl"
#include "lib/label.glsl"
layout(constant_id = 3) const uint GROUP = 1;
#include "lib/tree.glsl"

layout(push_constant, std430) uniform Push {
    FloatIn logits;
    IntIn labels;
    FloatOut loss;
    FloatOut logsumexp;
    FloatOut counts;
    uint rows;
    uint columns;
    int ignore_index;
    float label_smoothing;
} push;

void main() {
    FloatIn logits = push.logits;
    uint columns = push.columns;
    uint row = linear_invocation() / GROUP;
    uint first = gl_LocalInvocationIndex % GROUP;
    uint base = min(row, push.rows - 1) * columns;

    float greatest = uintBitsToFloat(0xff800000u);
    float sum = 0.0;
    for (uint i = first; i < columns; i += GROUP) {
        float value = logits.at[base + i];
        greatest = max(greatest, value);
        sum += value;
    }
    greatest = tree_max(greatest);
    float exponentials = 0.0;
    for (uint i = first; i < columns; i += GROUP)
        exponentials += exp(logits.at[base + i] - greatest);
    float logsumexp = greatest + log(tree_sum(exponentials));
    float mean = tree_sum(sum) / float(columns);

    if (first != 0 || row >= push.rows) return;
    int label = read_label(push.labels, row, columns, push.ignore_index);
    float loss = logsumexp - logits.at[base + uint(max(label, 0))];
    if (push.label_smoothing != 0.0)
        loss = mix(loss, logsumexp - mean, push.label_smoothing);
    if (label == IGNORED) loss = 0.0;
    if (label == BAD_LABEL) loss = uintBitsToFloat(0x7fc00000u);
    push.loss.at[row] = loss;
    push.logsumexp.at[row] = logsumexp;
    push.counts.at[row] = label == IGNORED ? 0.0 : 1.0;
}
