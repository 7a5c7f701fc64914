// Label validation: class indices of labels
// grid    one invocation per label, linear
// in      labels (count) of LABEL_WORDS words
// out     out_ (count) int32: the label, -2 if it is ignore_index, -1 if it is no class
//         error: a label that is no class
// consts  LABEL_WORDS: 1 int32, 2 int64
// source  loss/label.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "loss/label.glsl"

layout(push_constant, std430) uniform Push {
    IntIn labels;
    IntOut out_;
    IndexSlot error;
    uint count;
    uint classes;
    int ignore_index;
} push;

void main() {
    uint entry = linear_invocation();
    IntIn labels = push.labels;
    IntOut out_ = push.out_;
    if (entry >= push.count) return;
    uint classes = push.classes;
    int label = read_label(labels, entry, classes, push.ignore_index);
    out_.at[entry] = label;
    if (label == BAD_LABEL)
        push.error.at[0] = reported_label(labels, entry);
}
