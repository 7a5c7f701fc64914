// Segment sums gathered by each result: out[o, r, i] = base[o, r, i] + sum of its entries
// grid    pass 0: one invocation per row and one more; pass 1: one per element, linear
// in      places (entries) int32, the row of each entry, or not below rows, unsigned, for
//         none; order (entries) int32, which sorts places as unsigned; source (outer,
//         entries, inner) T; base (outer, rows, inner) T if HAS_BASE
// out     starts (rows + 1) uint32: where each row's entries begin in order; out_ (outer,
//         rows, inner) T
// consts  PASS: 0 finds starts, 1 adds up; HAS_BASE
// source  sums in ACC in the order of entries, so the result is the same in each run
// lint    scalar-load: entries of a row begin anywhere
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint PASS = 1;
layout(constant_id = 4) const uint HAS_BASE = 0;

// Loads in flight, which all are of other memory.
const uint AHEAD = 4;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Starts { uint at[]; };
layout(push_constant, std430) uniform Push {
    In source;
    In base;
    IntIn places;
    IntIn order;
    Starts starts;
    Out out_;
    uint count;
    uint rows;
    uint entries;
    uint inner;
    uvec2 divide_rows;
    uvec2 divide_inner;
} args;

// How many entries are of rows before `row`.
uint entries_before(IntIn places, IntIn order, uint row, uint entries) {
    uint first = 0, end = entries;
    while (first < end) {
        uint middle = (first + end) / 2;
        if (uint(places.at[order.at[middle]]) < row) first = middle + 1;
        else end = middle;
    }
    return first;
}

void main() {
    uint element = linear_invocation();
    In source = args.source, base = args.base;
    IntIn places = args.places, order = args.order;
    Starts starts = args.starts;
    uint rows = args.rows, entries = args.entries, inner = args.inner;
    if (PASS == 0) {
        if (element <= rows)
            starts.at[element] = entries_before(places, order, element, entries);
        return;
    }
    if (element >= args.count) return;
    uint line = divide(element, args.divide_inner.x, args.divide_inner.y);
    uint outer = divide(line, args.divide_rows.x, args.divide_rows.y);
    uint row = line - outer * rows;
    uint first = outer * entries * inner + (element - line * inner);
    uint next = starts.at[row], end = starts.at[row + 1];
    ACC sum = ACC(0);
    for (; next + AHEAD <= end; next += AHEAD) {
        ACC found[AHEAD];
        [[unroll]] for (uint k = 0; k < AHEAD; ++k)
            found[k] = load(source, first + uint(order.at[next + k]) * inner);
        [[unroll]] for (uint k = 0; k < AHEAD; ++k) sum += found[k];
    }
    for (; next < end; ++next) sum += load(source, first + uint(order.at[next]) * inner);
    if (HAS_BASE != 0) sum += load(base, element);
    store(args.out_, element, sum);
}
