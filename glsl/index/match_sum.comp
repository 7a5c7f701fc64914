// Sums of rows by index, few: out[o, r, i] = base[o, r, i] + sum of source[o, e, i] where
// the index of e is r
// grid    one invocation per element of out_, linear
// in      source (outer, entries, inner) T; base (outer, rows, inner) T if HAS_BASE;
//         indices (entries), or (outer, entries, inner) if EACH
// out     out_ (outer, rows, inner) T; error: an index out of range
// consts  EACH: an index for each element; HAS_BASE; INDEX_WORDS, INDEX_SIGNED, FROM_END
// macros  ITEMS: indices that an invocation loads at once, to load nothing else of those
//         that name another row
// source  each result looks at all entries, of which there are few, and adds up its own
//         in their order, so the result is the same in each run
// lint    scalar-load: entries are few, and lie side by side in one column alone
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "index/row_index.glsl"

layout(constant_id = 4) const uint HAS_BASE = 0;
layout(constant_id = 7) const uint EACH = 0;

layout(push_constant, std430) uniform Push {
    In source;
    In base;
    Indices indices;
    Out out_;
    IndexSlot error;
    uint count;
    uint rows;
    uint entries;
    uint inner;
} args;

void main() {
    uint element = linear_invocation();
    In source = args.source, base = args.base;
    Indices indices = args.indices;
    uint rows = args.rows, entries = args.entries, inner = args.inner;
    if (element >= args.count) return;
    uint line = element / inner, outer = line / rows;
    int row = int(line - outer * rows);
    uint first = outer * entries * inner + (element - line * inner), bad = 0;
    ACC sum = ACC(0);
#ifdef ITEMS
    for (uint begin = 0; begin < entries; begin += ITEMS) {
        int named[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            uint entry = min(begin + k, entries - 1);
            uint place = EACH != 0 ? first + entry * inner : entry;
            named[k] = read_row(indices, place, rows, bad);
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k)
            if (named[k] == row && begin + k < entries)
                sum += load(source, first + (begin + k) * inner);
    }
#else
    for (uint entry = 0; entry < entries; ++entry) {
        uint place = first + entry * inner;
        int named = read_row(indices, EACH != 0 ? place : entry, rows, bad);
        ACC value = load(source, place);
        sum += named == row ? value : ACC(0);
    }
#endif
    if (HAS_BASE != 0) sum += load(base, element);
    store(args.out_, element, sum);
    if (bad != 0) args.error.at[0] = bad;
}
