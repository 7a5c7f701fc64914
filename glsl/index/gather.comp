// Gather of rows by index: out[o, e, i] = x[o, row(e), i], elsewhere base or `fill`
// grid    one invocation per 32-bit word of out_, linear
// in      x (outer, rows, inner); indices (entries), or (outer, entries, inner) if
//         EACH; base, as out_; fill: two words, the element where no row is named and
//         there is no base
// out     out_ (outer, entries, inner), contiguous, count elements; error: an index
//         out of range
// consts  EACH: an index for every element; HAS_BASE; INDEX_WORDS, INDEX_SIGNED,
//         FROM_END; SIZE
// source  numpy.take, numpy.take_along_axis
// lint    integer-division: sizes are arguments; one for each element
// lint    private-array: one of two words, which is a selection
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "index/row_index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint EACH = 0;
layout(constant_id = 7) const uint HAS_BASE = 0;

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
} args;

void main() {
    uint word = linear_invocation();
    Words x = args.x, base = args.base;
    Indices indices = args.indices;
    uint count = args.count, rows = args.rows, entries = args.entries;
    uint inner = args.inner, fill[2] = args.fill;
    if (word >= words_of(count)) return;
    uint result = HAS_BASE != 0 ? base.at[word] : 0;
    uint bad = 0;
    for (uint lane = 0; lane < LANES; ++lane) {
        uint element = min(element_of(word, lane), count - 1);
        uint line = element / inner;
        uint outer = line / entries;
        uint entry = EACH != 0 ? element : line - outer * entries;
        int row = read_row(indices, entry, rows, bad);
        uint place = (outer * rows + uint(max(row, 0))) * inner + element - line * inner;
        uint kept = result >> lane * BITS % 32 & MASK;
        uint bits = HAS_BASE != 0 ? kept : fill[word % PARTS];
        if (row >= 0) bits = read_bits(x, place, word);
        result = insert(result, lane, bits);
    }
    args.out_.at[word] = result;
    if (bad != 0) args.error.at[0] = bad;
}
