// Elements of labels: what x has in the class of each, and class indices of labels
// grid    one invocation per label, linear over (batch, inner)
// in      x (batch, classes, inner) of T, with strides by_batch, by_class and by_inner
//         labels (batch, inner) of LABEL_WORDS words, with strides next_batch and next_inner
// out     out_ (batch, inner) of T, 0 where there is no class; numbers (batch, inner)
//         int32: the label, -2 if it is ignore_index, -1 if it is no class
//         error: a label that is no class
// consts  LABEL_WORDS: 1 int32, 2 int64
// source  loss/label.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "loss/label.glsl"

layout(push_constant, std430) uniform Push {
    In x;
    IntIn labels;
    Out out_;
    IntOut numbers;
    IndexSlot error;
    uint count;
    uint classes;
    uint inner;
    int ignore_index;
    uint by_batch;
    uint by_class;
    uint by_inner;
    uint next_batch;
    uint next_inner;
} push;

void main() {
    uint entry = linear_invocation();
    In x = push.x;
    IntIn labels = push.labels;
    Out out_ = push.out_;
    IntOut numbers = push.numbers;
    IndexSlot error = push.error;
    if (entry >= push.count) return;
    uint row = entry / push.inner, column = entry - row * push.inner;
    uint place = row * push.next_batch + column * push.next_inner;
    int label = read_label(labels, place, push.classes, push.ignore_index);
    uint first = row * push.by_batch + column * push.by_inner;
    ACC value = load(x, first + uint(max(label, 0)) * push.by_class);
    store(out_, entry, label < 0 ? ACC(0) : value);
    numbers.at[entry] = label;
    if (label == BAD_LABEL) error.at[0] = reported_label(labels, place);
}
