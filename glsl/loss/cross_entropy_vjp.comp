// Gradient of cross_entropy by logits: grad * (softmax(x) - target), where the target
// is (1 - s) at the label, plus s / columns everywhere
// grid    one invocation per element of out_, linear
// in      grad, greatest, log_total (rows) float32; logits (rows, columns); labels
//         (rows) of LABEL_WORDS words; s is label_smoothing; columns_magic,
//         columns_shift: see `divide`
// out     out_ (rows, columns): 0 in an ignored row, NaN where no column is the
//         label
// consts  LABEL_WORDS: 1 int32, 2 int64; SHARED: grad is one number for all rows
// source  derivative of the definition in loss/cross_entropy.comp
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "loss/label.glsl"

layout(constant_id = 3) const uint SHARED = 0;

layout(push_constant, std430) uniform Push {
    AccIn grad;
    In logits;
    IntIn labels;
    AccIn greatest;
    AccIn log_total;
    Out out_;
    uint rows;
    uint columns;
    uint columns_magic;
    uint columns_shift;
    int ignore_index;
    float label_smoothing;
} push;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
AccIn row_grad = push.grad;
In logits = push.logits;
IntIn labels = push.labels;
AccIn greatest = push.greatest;
AccIn log_total = push.log_total;
Out out_ = push.out_;
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
    float above = load(logits, element) - greatest.at[row];
    float softmax = exp(above - log_total.at[row]);
    float grad = row_grad.at[SHARED != 0 ? 0 : row] * (softmax - target);
    if (label == IGNORED) grad = 0.0;
    if (label == BAD_LABEL) grad = uintBitsToFloat(0x7fc00000u);
    store(out_, element, grad);
}
