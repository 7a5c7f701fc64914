// Rows reduced by index, a column by each invocation: out[o, r, i] = base[o, r, i] joined
// with source[o, e, i] where the index of (o, e, i) is r
// grid    one invocation per column (o, i), linear
// in      source (outer, entries, inner); base (outer, rows, inner) if HAS_BASE; indices
//         (entries), or (outer, entries, inner) if EACH; columns: outer * inner; magic and
//         shift, which divide by inner
// out     out_ (outer, rows, inner) T; error: an index out of range
// consts  OPERATION; HAS_BASE; KEEPS: elements of base stay where nothing goes, and count
//         nowhere else; EACH; INDEX_WORDS, INDEX_SIGNED, FROM_END; CELLS: results of a
//         workgroup, at least; COUNTS: as many with KEEPS or MEAN, or 1; ITEMS: entries
//         that an invocation loads at once
// macros  MEAN: floats are divided by how many there are
// source  elements are joined in ACC, base first and then in the order of entries, so the
//         result is the same in each run; NaN is both greatest and least
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "index/row_index.glsl"
#ifdef MEAN
#if BYTES == 8
#define FLOAT64
#endif
#include "lib/math/division.glsl"
#endif

layout(constant_id = 3) const uint OPERATION = 3;
layout(constant_id = 4) const uint HAS_BASE = 0;
layout(constant_id = 7) const uint EACH = 1;
layout(constant_id = 9) const uint KEEPS = 0;
layout(constant_id = 10) const uint ITEMS = 8;
layout(constant_id = 11) const uint CELLS = 4096;
layout(constant_id = 12) const uint COUNTS = 1;

const uint MAX = 0;
const uint MIN = 1;
const uint PROD = 2;
const uint SUM = 3;

layout(push_constant, std430) uniform Push {
    In source;
    In base;
    Indices indices;
    Out out_;
    IndexSlot error;
    uint columns;
    uint rows;
    uint entries;
    uint inner;
    uint magic;
    uint shift;
} args;

// Both by (row, invocation): each bank of shared memory has its own column.
shared ACC cells[CELLS];
shared uint counts[COUNTS];

ACC joined(ACC old, ACC value) {
    if (OPERATION == SUM) return old + value;
    if (OPERATION == PROD) return old * value;
    bool better = OPERATION == MAX ? value > old : value < old;
    return better || value != value ? value : old;
}

ACC result_of(ACC value, uint count) {
#ifdef MEAN
    return rounded_quotient(value, ACC(max(count, 1)));
#else
    return value;
#endif
}

void main() {
    uint column = linear_invocation();
    In source = args.source, base = args.base;
    Indices indices = args.indices;
    Out out_ = args.out_;
    uint rows = args.rows, entries = args.entries, inner = args.inner;
    uint width = gl_WorkGroupSize.x, own = gl_LocalInvocationIndex;
    if (column >= args.columns) return;
    uint outer = divide(column, args.magic, args.shift), at = column - outer * inner;
    uint result = outer * rows * inner + at, first = outer * entries * inner + at, bad = 0;

    bool is_counted = COUNTS > 1;
    for (uint begin = 0; begin < rows; begin += ITEMS) {
        ACC values[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            values[k] = ACC(OPERATION == PROD ? 1 : 0);
            if (HAS_BASE != 0)
                values[k] = load(base, result + min(begin + k, rows - 1) * inner);
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            if (begin + k >= rows) continue;
            uint cell = (begin + k) * width + own;
            cells[cell] = values[k];
            if (is_counted) counts[cell] = KEEPS != 0 ? 0 : HAS_BASE;
        }
    }
    for (uint begin = 0; begin < entries; begin += ITEMS) {
        int named[ITEMS];
        ACC values[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            uint entry = min(begin + k, entries - 1), place = first + entry * inner;
            named[k] = read_row(indices, EACH != 0 ? place : entry, rows, bad);
            values[k] = load(source, place);
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            if (named[k] < 0 || begin + k >= entries) continue;
            uint cell = uint(named[k]) * width + own;
            uint count = is_counted ? counts[cell] : 1;
            // The first of those that replace an element of base is joined with nothing.
            bool replaces = KEEPS != 0 && count == 0;
            cells[cell] = replaces ? values[k] : joined(cells[cell], values[k]);
            if (is_counted) counts[cell] = count + 1;
        }
    }
    for (uint row = 0; row < rows; ++row) {
        uint cell = row * width + own;
        store(out_, result + row * inner,
              result_of(cells[cell], is_counted ? counts[cell] : 1));
    }
    if (bad != 0) args.error.at[0] = bad;
}
