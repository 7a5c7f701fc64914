// Cross-entropy of rows of logits: log_total - (1 - s) * y[label] - s * mean(y), where
// y = x - greatest and log_total = log(sum(exp(y))), so that large logits lose no digits
// grid    linear in workgroups of LOCAL_X / GROUP rows; z: with PARTIAL, the part of them
// in      logits (rows, columns); labels (rows) of LABEL_WORDS words; s is
//         label_smoothing; with MERGE states (parts, rows) instead of most logits
// out     loss, greatest, log_total, counts (rows) float32; the loss of an ignored row
//         is 0, that of a label outside the columns NaN; counts is 0 for an ignored row,
//         else 1; error: a label outside the columns. With PARTIAL states (parts, rows)
// consts  GROUP: invocations per row, a power of two; LABEL_WORDS: 1 int32, 2 int64
// macros  ITEMS: loads in flight; PARTIAL, MERGE: one of two passes, for long rows
// source  PyTorch's definition of label smoothing; Milakov and Gimelshein, "Online
//         normalizer calculation for softmax", arXiv:1805.02867
// lint    scalar-load: rows begin at any element, so nothing is aligned to 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "loss/label.glsl"
layout(constant_id = 3) const uint GROUP = 1;
#include "lib/group_sum.glsl"

#ifndef ITEMS
#define ITEMS 4
#endif

// Sums over some columns, relative to the greatest of them, or to 0 if that is -inf
struct State {
    float greatest;
    float exponentials;
    float sum;
    float columns;
};

layout(buffer_reference, std430, buffer_reference_align = 16) restrict buffer States {
    State at[];
};

layout(push_constant, std430) uniform Push {
    In logits;
#if defined(PARTIAL) || defined(MERGE)
    States states;
#endif
#ifndef PARTIAL
    IntIn labels;
    AccOut loss;
    AccOut greatest;
    AccOut log_total;
    AccOut counts;
    IndexSlot error;
    int ignore_index;
    float label_smoothing;
#endif
    uint rows;
    uint columns;
    uint parts;
} push;

#define LOWEST uintBitsToFloat(0xff800000u)

float reference(float greatest) { return greatest == LOWEST ? 0.0 : greatest; }

// The sums relative to another number, which is greater
State relative(State state, float to) {
    float change = reference(state.greatest) - to;
    if (state.exponentials > 0.0) state.exponentials *= exp(change);
    if (state.columns > 0.0) state.sum = fma(state.columns, change, state.sum);
    return state;
}

State merge(State old, State new) {
    float greatest = max(old.greatest, new.greatest), to = reference(greatest);
    old = relative(old, to);
    new = relative(new, to);
    return State(greatest, old.exponentials + new.exponentials, old.sum + new.sum,
                 old.columns + new.columns);
}

void main() {
    In logits = push.logits;
    uint columns = push.columns;
    uint row = linear_invocation() / GROUP, rows = push.rows;
    uint first = gl_LocalInvocationIndex % GROUP;
    uint base = min(row, rows - 1) * columns;

    // Each invocation sums relative to its own maximum before the first barrier:
    // lavapipe spills values that are live across one.
    State own = State(LOWEST, 0.0, 0.0, 0.0);
#ifdef MERGE
    States states = push.states;
    for (uint part = first; part < push.parts; part += GROUP)
        own = merge(own, states.at[part * rows + min(row, rows - 1)]);
#else
#ifdef PARTIAL
    uint part = gl_WorkGroupID.z, share = (columns - 1) / push.parts + 1;
    uint begin = min(part * share, columns), end = min(begin + share, columns);
#else
    const uint begin = 0;
    uint end = columns;
#endif
    for (uint start = begin + first; start < end; start += GROUP * ITEMS) {
        float values[ITEMS];
        float greatest = own.greatest;
        [[unroll]] for (uint i = 0; i < ITEMS; ++i)
            values[i] = load(logits, base + min(start + i * GROUP, end - 1));
        [[unroll]] for (uint i = 0; i < ITEMS; ++i) greatest = max(greatest, values[i]);
        float to = reference(greatest);
        if (greatest > own.greatest) own = relative(own, to);
        own.greatest = greatest;
        [[unroll]] for (uint i = 0; i < ITEMS; ++i)
            if (start + i * GROUP < end) {
                float above = values[i] - to;
                own.exponentials += exp(above);
                own.sum += above;
                own.columns += 1.0;
            }
    }
#endif
    float greatest = tree_max(own.greatest);
    own = relative(own, reference(greatest));
    float exponentials = tree_sum(own.exponentials), sum = tree_sum(own.sum);

#ifdef PARTIAL
    State whole = State(greatest, exponentials, sum, float(end - begin));
    if (first == 0 && row < rows) push.states.at[part * rows + row] = whole;
#else
    if (first != 0 || row >= rows) return;
    float log_total = log(exponentials);
    int label = read_label(push.labels, row, columns, push.ignore_index);
    float picked = load(logits, base + uint(max(label, 0))) - greatest;
    float loss = log_total - picked;
    if (push.label_smoothing != 0.0)
        loss = mix(loss, log_total - sum / float(columns), push.label_smoothing);
    if (label == IGNORED) loss = 0.0;
    if (label == BAD_LABEL) loss = uintBitsToFloat(0x7fc00000u);
    push.loss.at[row] = loss;
    push.greatest.at[row] = greatest;
    push.log_total.at[row] = log_total;
    push.counts.at[row] = label == IGNORED ? 0.0 : 1.0;
    if (label == BAD_LABEL)
        push.error.at[0] = reported_label(push.labels, row);
#endif
}
