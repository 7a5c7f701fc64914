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

// Read once, before any branch: lavapipe fetches push constants inside one lane by lane.
FloatIn row_grad = push.grad;
FloatIn logits = push.logits;
IntIn labels = push.labels;
FloatIn logsumexp = push.logsumexp;
FloatOut out_ = push.out_;
uint columns = push.columns;
uint count = push.rows * columns;
uvec2 division = uvec2(push.columns_magic, push.columns_shift);
int ignore_index = push.ignore_index;
float smoothing = push.label_smoothing;

void main() {
    uint element = linear_invocation();
    if (element >= count) return;
    uint row = divide(element, division.x, division.y);
    int label = read_label(labels, row, columns, ignore_index);
    float target = smoothing / float(columns);
    if (element - row * columns == uint(label)) target += 1.0 - smoothing;
    float softmax = exp(logits.at[element] - logsumexp.at[row]);
    float grad = row_grad.at[row] * (softmax - target);
    if (label == IGNORED) grad = 0.0;
    if (label == BAD_LABEL) grad = uintBitsToFloat(0x7fc00000u);
    out_.at[element] = grad;
}
