// Gradient of cross_entropy by logits: grad * (softmax(x) - (1 - s) * [label] - s / columns)
// grid    one invocation per element of out_, linear
// in      grad, logsumexp (rows), logits (rows, columns) float32; labels (rows) of
//         LABEL_WORDS words; s is label_smoothing; columns_magic and columns_shift divide
// out     out_ (rows, columns) float32: 0 in an ignored row, NaN if the label is no column
// consts  LABEL_WORDS: 1 int32, 2 int64
// source  derivative of the definition in loss/cross_entropy.comp
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/types.glsl"
#include "lib/label.glsl"

layout(push_constant, std430) uniform Push {
    FloatIn grad;
    FloatIn logits;
    IntIn labels;
    FloatIn logsumexp;
    FloatOut out_;
    uint rows;
    uint columns;
    uint columns_magic;
    uint columns_shift;
    int ignore_index;
    float label_smoothing;
} push;

void main() {
    uint columns = push.columns;
    uint element = linear_invocation();
    if (element >= push.rows * columns) return;
    uint row = divide(element, push.columns_magic, push.columns_shift);
    int label = read_label(push.labels, row, columns, push.ignore_index);
    float target = push.label_smoothing / float(columns);
    if (element - row * columns == uint(label)) target += 1.0 - push.label_smoothing;
    float softmax = exp(push.logits.at[element] - push.logsumexp.at[row]);
    float grad = push.grad.at[row] * (softmax - target);
    if (label == IGNORED) grad = 0.0;
    if (label == BAD_LABEL) grad = uintBitsToFloat(0x7fc00000u);
    push.out_.at[element] = grad;
}
