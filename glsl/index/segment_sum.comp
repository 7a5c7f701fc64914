// Segment sums of rows sorted by index: out[o, row(e), i] = sum of source[o, e, i]
// grid    one invocation per chunk of entries and per column (o, i), linear
// in      source (outer, entries, inner) T; rows (entries) int32, below 0 for none;
//         order (entries) int32, which sorts rows, if FIRST; later passes are in order
// out     out_ (outer, rows_out, inner) T, zeros before; the first and the last sum of
//         each chunk, if not LAST: carry_rows (2 chunks), carry (outer, 2 chunks, inner)
// consts  CHUNK: entries per invocation; FIRST, LAST: of the passes
// source  segmented sum in a fixed order, so the result is the same in each run
// lint    scalar-load: a chunk of entries begins at any element
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : enable
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

#ifndef T
#define T float
#endif

layout(constant_id = 3) const uint CHUNK = 64;
layout(constant_id = 4) const uint FIRST = 1;
layout(constant_id = 5) const uint LAST = 1;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Source { T at[]; };
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    Sums { T at[]; };
layout(push_constant, std430) uniform Push {
    Source source;
    IntIn rows;
    IntIn order;
    Sums out_;
    Sums carry;
    IntOut carry_rows;
    uint chunks;
    uint entries;
    uint outer;
    uint inner;
    uint rows_out;
} args;

void main() {
    uint invocation = linear_invocation();
    Source source = args.source;
    IntIn rows = args.rows, order = args.order;
    Sums out_ = args.out_, carry = args.carry;
    IntOut carry_rows = args.carry_rows;
    uint chunks = args.chunks, entries = args.entries, inner = args.inner;
    uint rows_out = args.rows_out, columns = args.outer * inner;
    uint chunk = invocation / columns;
    if (chunk >= chunks) return;
    uint column = invocation - chunk * columns;
    uint o = column / inner;
    uint i = column - o * inner;

    uint end = min(chunk * CHUNK + CHUNK, entries);
    ivec2 kept = ivec2(-1);
    T sums[2] = T[2](T(0), T(0));
    T sum = T(0);
    int current = -1;
    uint runs = 0;
    // One round past the end closes the last run.
    for (uint at = chunk * CHUNK; at <= end; ++at) {
        uint place = min(at, end - 1);
        uint entry = place;
        if (FIRST != 0) entry = uint(order.at[place]);
        int row = rows.at[entry];
        T value = source.at[(o * entries + entry) * inner + i];
        bool closes = at == end;
        if (row < 0 && !closes) continue;
        if ((row != current || closes) && current >= 0) {
            bool edge = LAST == 0 && (runs == 0 || closes);
            if (edge) {
                uint side = runs == 0 ? 0 : 1;
                if (side == 0) kept.x = current, sums[0] = sum;
                else kept.y = current, sums[1] = sum;
            } else {
                out_.at[(o * rows_out + uint(current)) * inner + i] = sum;
            }
            ++runs;
            sum = T(0);
        }
        current = row;
        sum += value;
    }
    if (LAST != 0) return;
    uint first = 2 * chunk;
    carry.at[(o * 2 * chunks + first) * inner + i] = sums[0];
    carry.at[(o * 2 * chunks + first + 1) * inner + i] = sums[1];
    if (column == 0) {
        carry_rows.at[first] = kept.x;
        carry_rows.at[first + 1] = kept.y;
    }
}
