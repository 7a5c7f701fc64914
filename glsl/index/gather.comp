// Gather of rows by index: out[o, e, i] = x[o, row(e), i], elsewhere base or `fill`
// grid    linear, ITEMS 32-bit words of out_ for each invocation
// in      x (outer, rows, inner), each of one dimension in memory, which has a stride, or
//         of more: digits, the last first, are its divisor, size and stride; indices
//         (entries), or (outer, entries, inner) if EACH; base, as out_; fill: two words,
//         the element where no row is named and there is no base; division: of entries,
//         see `line_and_outer`
// out     out_ (outer, entries, inner), contiguous, count elements; error: an index
//         out of range
// consts  EACH: an index for every element; HAS_BASE; INDEX_WORDS, INDEX_SIGNED,
//         FROM_END; SIZE; ITEMS: loads in flight; OUTER_DIGITS, ROW_DIGITS,
//         INNER_DIGITS: at most 2 together
// source  numpy.take, numpy.take_along_axis
// lint    private-array: one of two words, which is a selection
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "index/row_index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint EACH = 0;
layout(constant_id = 7) const uint HAS_BASE = 0;
layout(constant_id = 9) const uint ITEMS = 1;
layout(constant_id = 10) const uint OUTER_DIGITS = 0;
layout(constant_id = 11) const uint ROW_DIGITS = 0;
layout(constant_id = 12) const uint INNER_DIGITS = 0;

layout(push_constant, std430) uniform Push {
    Words x;
    Indices indices;
    Words base;
    WordsOut out_;
    IndexSlot error;
    uint count;
    uint rows;
    uint entries;
    uint inner;
    uint fill[2];
    uint division[4];
    uint stride[3];
    uint digit[8];
} args;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
uint count = args.count, rows = args.rows, entries = args.entries, inner = args.inner;
uint fill[2] = args.fill;
uint division[4] = args.division;
uint stride[3] = args.stride;
uint digit[8] = args.digit;

// Where in x a part's place begins, which has `count` digits from `first` on.
uint part_offset(uint place, uint part, uint first, uint count) {
    uint offset = 0;
    [[unroll]] for (uint k = 0; k < count; ++k) {
        uint at = 4 * (first + k), above = divide(place, digit[at], digit[at + 1]);
        offset += (place - above * digit[at + 2]) * digit[at + 3];
        place = above;
    }
    return offset + place * stride[part];
}

void main() {
    Words x = args.x, base = args.base;
    Indices indices = args.indices;
    WordsOut out_ = args.out_;
    uint first = linear_workgroup() * gl_WorkGroupSize.x * ITEMS + gl_LocalInvocationIndex;
    uint words = words_of(count), bad = 0;
    if (first >= words) return;
    // All indices are loaded before the elements, and these before any is used: a load
    // in a branch would wait for the one before it.
    uint places[ITEMS * LANES];
    bool named[ITEMS * LANES];
    [[unroll]] for (uint k = 0; k < ITEMS * LANES; ++k) {
        uint word = min(first + k / LANES * gl_WorkGroupSize.x, words - 1);
        uint element = min(element_of(word, k % LANES), count - 1);
        uvec2 at = line_and_outer(element, division);
        uint line = at.x, outer = at.y;
        uint entry = EACH != 0 ? element : line - outer * entries;
        int row = read_row(indices, entry, rows, bad);
        named[k] = row >= 0;
        places[k] = part_offset(outer, 0, 0, OUTER_DIGITS);
        places[k] += part_offset(max(row, 0), 1, OUTER_DIGITS, ROW_DIGITS);
        places[k] += part_offset(
            element - line * inner, 2, OUTER_DIGITS + ROW_DIGITS, INNER_DIGITS);
    }
    uint found[ITEMS * LANES], results[ITEMS];
    [[unroll]] for (uint k = 0; k < ITEMS * LANES; ++k) {
        uint word = min(first + k / LANES * gl_WorkGroupSize.x, words - 1);
        found[k] = rows > 0 ? read_bits(x, places[k], word) : 0;
    }
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint word = min(first + i * gl_WorkGroupSize.x, words - 1);
        uint result = HAS_BASE != 0 ? base.at[word] : 0;
        [[unroll]] for (uint lane = 0; lane < LANES; ++lane) {
            uint kept = result >> lane * BITS % 32 & MASK;
            uint otherwise = HAS_BASE != 0 ? kept : fill[word % PARTS];
            uint k = i * LANES + lane;
            result = insert(result, lane, named[k] ? found[k] : otherwise);
        }
        results[i] = result;
    }
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint word = first + i * gl_WorkGroupSize.x;
        if (word < words) out_.at[word] = results[i];
    }
    if (bad != 0) args.error.at[0] = bad;
}
