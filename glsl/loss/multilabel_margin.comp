// Multi-label margin loss of rows: the mean over classes of what scores of those that
// are no labels lack to 1 below the scores of labels; or, with COUNTS, its derivative
// times the number of classes, in whole numbers: how many labels a class lacks it to,
// and of a label, by how many classes it is lacked, below 0
// grid    one workgroup per row and TILE of its classes, linear, the tiles of a row first
// in      x (rows, classes); labels (rows, classes) of LABEL_WORDS words: those of a row
//         are up to the first -1; parts: tiles of a row
// out     out_ (rows, parts) of ACC, NaN where a label is no class; with COUNTS counts
//         (rows, classes) int32, which must be 0 if there are several parts; error: a
//         label that is neither a class nor -1
// consts  LABEL_WORDS: 1 int32, 2 int64
// macros  COUNTS; ITEMS: classes of an invocation
// source  PyTorch's definition: comparisons with NaN are false, a label that comes
//         twice counts twice
// lint    divergent-barrier: rounds end by what all read from shared memory
// lint    atomic-in-loop: in shared memory, one for each label
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "loss/label.glsl"

const uint GROUP = gl_WorkGroupSize.x;
#include "lib/group_sum.glsl"

#ifndef ITEMS
#define ITEMS 4
#endif
const uint TILE = ITEMS * gl_WorkGroupSize.x;

// Written and read by the invocations of several workgroups.
layout(buffer_reference, std430, buffer_reference_align = 4) coherent restrict buffer
    Counts { int at[]; };

layout(push_constant, std430) uniform Push {
    In x;
    IntIn labels;
#ifdef COUNTS
    Counts counts;
#else
    AccOut out_;
#endif
    IndexSlot error;
    uint rows;
    uint classes;
    uint parts;
} push;

#define LOWEST ACC(uintBitsToFloat(0xff800000u))
#define NOT_A_NUMBER ACC(uintBitsToFloat(0x7fc00000u))

shared uint is_label[(TILE + 31) / 32];
shared uint labels_here;
// 1 minus the scores of labels; -inf beyond these, which no class lacks anything to.
shared ACC margins[gl_WorkGroupSize.x];
#ifdef COUNTS
// -inf where a class is a label, or beyond the last.
shared ACC scores[TILE];
#endif

void main() {
    In x = push.x;
    IntIn labels = push.labels;
    IndexSlot error = push.error;
    uint rows = push.rows, classes = push.classes, parts = push.parts;
    uint group = linear_workgroup(), at = gl_LocalInvocationIndex;
    if (group >= rows * parts) return;
    uint row = group / parts, part = group - row * parts;
    uint first = part * TILE, start = row * classes;

    ACC own[ITEMS];
#ifdef COUNTS
    Counts counts = push.counts;
    int taken[ITEMS];
#else
    AccOut out_ = push.out_;
    ACC taken[ITEMS];
#endif
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint column = first + at + i * gl_WorkGroupSize.x;
        own[i] = load(x, start + min(column, classes - 1));
        taken[i] = 0;
    }
    for (uint word = at; word < (TILE + 31) / 32; word += gl_WorkGroupSize.x)
        is_label[word] = 0;

    bool is_bad = false;
    uint given = 0;
    for (uint base = 0; base < classes; base += gl_WorkGroupSize.x) {
        if (at == 0) labels_here = gl_WorkGroupSize.x;
        int label = IGNORED;
        if (base + at < classes)
            label = read_label(labels, start + base + at, classes, -1);
        barrier();
        if (label == IGNORED) atomicMin(labels_here, at);
        barrier();
        uint count = labels_here;
        if (label == BAD_LABEL) {
            is_bad = true;
            error.at[0] = reported_label(labels, start + base + at);
        }
        bool is_given = at < count && label >= 0;
        margins[at] = LOWEST;
        if (is_given) {
            margins[at] = ACC(1) - load(x, start + uint(label));
            uint place = uint(label) - first;
            if (place < TILE) atomicOr(is_label[place / 32], 1u << place % 32);
        }
        barrier();
        for (uint k = 0; k < count; k += 4)
            [[unroll]] for (uint j = 0; j < 4; ++j) {
                ACC margin = margins[k + j];
                [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
                    ACC lacking = margin + own[i];
#ifdef COUNTS
                    taken[i] += lacking > ACC(0) ? 1 : 0;
#else
                    taken[i] += lacking > ACC(0) ? lacking : ACC(0);
#endif
                }
            }
        given = base + count;
        if (count < gl_WorkGroupSize.x) break;
    }
    // Labels after the end count nothing, and are checked once.
    if (part == 0)
        for (uint k = given + 1 + at; k < classes; k += gl_WorkGroupSize.x)
            if (read_label(labels, start + k, classes, -1) == BAD_LABEL) {
                is_bad = true;
                error.at[0] = reported_label(labels, start + k);
            }

#ifdef COUNTS
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint place = at + i * gl_WorkGroupSize.x;
        bool is_class = first + place < classes;
        bool counts_here = is_class
            && bitfieldExtract(is_label[place / 32], int(place % 32), 1) == 0;
        scores[place] = counts_here ? own[i] : LOWEST;
        if (is_class && (counts_here || parts == 1))
            counts.at[start + first + place] = counts_here ? taken[i] : 0;
    }
    memoryBarrierBuffer();
    barrier();
    // Of few labels several invocations take each, and neighbours take other classes.
    uint share = gl_WorkGroupSize.x;
    while (share > 1 && gl_WorkGroupSize.x / share < given) share /= 2;
    for (uint k = at / share; k < given; k += gl_WorkGroupSize.x / share) {
        int label = read_label(labels, start + k, classes, -1);
        if (label < 0) continue;
        ACC margin = ACC(1) - load(x, start + uint(label));
        int lacked = 0;
        for (uint place = at % share; place < TILE; place += ITEMS * share)
            [[unroll]] for (uint j = 0; j < ITEMS; ++j)
                lacked += margin + scores[place + j * share] > ACC(0) ? 1 : 0;
        if (lacked > 0) atomicAdd(counts.at[start + uint(label)], -lacked);
    }
#else
    ACC total = is_bad ? NOT_A_NUMBER : ACC(0);
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint place = at + i * gl_WorkGroupSize.x;
        bool counts_here = first + place < classes
            && bitfieldExtract(is_label[place / 32], int(place % 32), 1) == 0;
        if (counts_here) total += taken[i];
    }
    total = tree_sum(total);
    if (at == 0) out_.at[group] = total / ACC(classes);
#endif
}
