// Sums, means or maxima of bags of rows of a table: out[b, i] = sum of weight[row(e), i]
// grid    linear: (segments of a row, bags, elements of a segment), or quads with QUADS;
//         the last segment of a row covers its end, if with elements of the one before
// in      weight (rows, width), of the elements or quads; indices (entries): the rows;
//         offsets (marks), if HAS_OFFSETS: where each bag begins, the last ends at the next
//         mark or at the end of entries, otherwise each has `each` entries; shares
//         (entries) T, if HAS_SHARES: factors of rows; padding: a row that does not count, or -1; count:
//         invocations; segment; segments; magic and shift, which divide by segment and bags
// out     out_ (bags, width), 0 of an empty bag; places (bags, width) int32, if PLACES: the
//         row of each maximum, or -1; error: an index out of range; offset_error: an
//         offset that is beyond the entries or does not rise
// consts  HAS_OFFSETS, OFFSET_WORDS; HAS_SHARES; PLACES; INDEX_WORDS, INDEX_SIGNED,
//         FROM_END; ITEMS: rows whose loads are in flight
// macros  MAXIMUM, MEAN: in place of sums; QUADS
// source  in ACC in the order of entries, so the result is the same in each run; of equal
//         maxima the first, NaN if it is the first: as PyTorch
// lint    scalar-load: entries of a bag begin anywhere, and rows lie anywhere
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
#ifdef QUADS
#include "lib/vec4_io.glsl"
#endif

layout(constant_id = 3) const uint HAS_OFFSETS = 0;
layout(constant_id = 4) const uint OFFSET_WORDS = 1;
layout(constant_id = 7) const uint HAS_SHARES = 0;
layout(constant_id = 9) const uint ITEMS = 4;
layout(constant_id = 10) const uint PLACES = 0;

#ifdef QUADS
#define VALUE ACC4
#define PLACE ivec4
#define PLACE_BYTES 16
#define Rows QuadsIn
#define Results QuadsOut
#define LOAD load_quad
#define STORE store_quad
#else
#define VALUE ACC
#define PLACE int
#define PLACE_BYTES 4
#define Rows In
#define Results Out
#define LOAD load
#define STORE store
#endif

layout(buffer_reference, std430, buffer_reference_align = PLACE_BYTES) restrict
    writeonly buffer Places { PLACE at[]; };

layout(push_constant, std430) uniform Push {
    Rows weight;
    Indices indices;
    Indices offsets;
    In shares;
    Results out_;
    Places places;
    IndexSlot error;
    IndexSlot offset_error;
    uint width;
    uint count;
    uint rows;
    uint entries;
    uint bags;
    uint marks;
    uint each;
    int padding;
    uint segment;
    uint magic[2];
    uint shift[2];
} args;

// An offset, at most the number of entries
uint offset_of(Indices offsets, uint mark, uint entries, inout uint bad) {
    int lower = offsets.at[OFFSET_WORDS * mark], upper = lower >> 31;
    if (OFFSET_WORDS > 1) upper = offsets.at[OFFSET_WORDS * mark + 1];
    bool fits = upper == 0 && uint(lower) <= entries;
    bad = fits ? bad : reported(lower, upper);
    return fits ? uint(lower) : upper < 0 ? 0 : entries;
}

VALUE quotient(VALUE sum, uint count) {
#if !defined(MEAN)
    return sum;
#elif defined(QUADS)
    ACC by = ACC(max(count, 1));
    return VALUE(rounded_quotient(sum.x, by), rounded_quotient(sum.y, by),
                 rounded_quotient(sum.z, by), rounded_quotient(sum.w, by));
#else
    return rounded_quotient(sum, ACC(max(count, 1)));
#endif
}

void main() {
    uint number = linear_invocation();
    Rows weight = args.weight;
    Indices indices = args.indices, offsets = args.offsets;
    In shares = args.shares;
    Results out_ = args.out_;
    Places places = args.places;
    IndexSlot error = args.error, offset_error = args.offset_error;
    uint width = args.width, rows = args.rows, entries = args.entries;
    int padding = args.padding;
    if (number >= args.count) return;
    uint line = divide(number, args.magic[0], args.shift[0]);
    uint part = divide(line, args.magic[1], args.shift[1]), bag = line - part * args.bags;
    uint column = min(part * args.segment, width - args.segment);
    column += number - line * args.segment;

    uint at = bag * args.each, end = at + args.each, bad = 0, bad_offset = 0;
    if (HAS_OFFSETS != 0) {
        at = offset_of(offsets, bag, entries, bad_offset);
        end = entries;
        if (bag + 1 < args.marks) end = offset_of(offsets, bag + 1, entries, bad_offset);
        if (end < at) bad_offset = reported(int(end), 0);
    }
    VALUE result = VALUE(0);
    PLACE place = PLACE(-1);
    uint taken = 0;
    for (; at < end; at += ITEMS) {
        int row[ITEMS];
        VALUE found[ITEMS];
        ACC share[ITEMS];
        [[unroll]] for (uint k = 0; k < ITEMS; ++k)
            row[k] = read_row(indices, min(at + k, end - 1), rows, bad);
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            found[k] = VALUE(0);
            if (rows > 0) found[k] = LOAD(weight, uint(max(row[k], 0)) * width + column);
            share[k] = ACC(1);
            if (HAS_SHARES != 0) share[k] = load(shares, min(at + k, end - 1));
        }
        [[unroll]] for (uint k = 0; k < ITEMS; ++k) {
            if (at + k >= end || row[k] == padding) continue;
            VALUE value = row[k] < 0 ? VALUE(uintBitsToFloat(0x7fc00000u)) : found[k];
#ifdef MAXIMUM
            bool first = taken == 0;
#ifdef QUADS
            bvec4 better = bvec4(first || value.x > result.x, first || value.y > result.y,
                                 first || value.z > result.z, first || value.w > result.w);
            result = mix(result, value, better);
            place = ivec4(better.x ? row[k] : place.x, better.y ? row[k] : place.y,
                          better.z ? row[k] : place.z, better.w ? row[k] : place.w);
#else
            bool better = first || value > result;
            result = better ? value : result;
            place = better ? row[k] : place;
#endif
#else
            result += HAS_SHARES != 0 ? value * share[k] : value;
#endif
            ++taken;
        }
    }
    STORE(out_, bag * width + column, quotient(result, taken));
    if (PLACES != 0) places.at[bag * width + column] = place;
    if (bad != 0) error.at[0] = bad;
    if (bad_offset != 0) offset_error.at[0] = bad_offset;
}
