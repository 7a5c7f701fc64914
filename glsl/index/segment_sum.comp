// Segment sums of rows sorted by index: out[o, row(e), i] = sum of source[o, e, i]
// grid    one invocation per chunk of entries and per column (o, i), linear
// in      source (outer, entries, inner) T, of later passes ACC, with IN_ACC; rows
//         (entries) int32, below 0 for none; order (entries) int32, which sorts rows, if
//         FIRST; later passes are in order
// out     out_ (outer, rows_out, inner) T, zeros before; the first and the last sum of
//         each chunk, if not LAST: carry_rows (2 chunks), carry (outer, 2 chunks, inner)
//         ACC
// consts  CHUNK: entries per invocation; FIRST, LAST: of the passes
// source  segmented sum in a fixed order, so the result is the same in each run
// lint    scalar-load: a chunk of entries begins at any element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint CHUNK = 64;
layout(constant_id = 4) const uint FIRST = 1;
layout(constant_id = 5) const uint LAST = 1;

layout(push_constant, std430) uniform Push {
    In source;
    IntIn rows;
    IntIn order;
    Out out_;
    AccOut carry;
    IntOut carry_rows;
    uint chunks;
    uint entries;
    uint outer;
    uint inner;
    uint rows_out;
} args;

void main() {
    uint invocation = linear_invocation();
    In source = args.source;
    IntIn rows = args.rows, order = args.order;
    Out out_ = args.out_;
    AccOut carry = args.carry;
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
    ACC sums[2] = ACC[2](ACC(0), ACC(0));
    ACC sum = ACC(0);
    int current = -1;
    uint runs = 0;
    // One round past the end closes the last run.
    for (uint at = chunk * CHUNK; at <= end; ++at) {
        uint place = min(at, end - 1);
        uint entry = place;
        if (FIRST != 0) entry = uint(order.at[place]);
        int row = rows.at[entry];
        ACC value = load(source, (o * entries + entry) * inner + i);
        bool closes = at == end;
        if (row < 0 && !closes) continue;
        if ((row != current || closes) && current >= 0) {
            bool edge = LAST == 0 && (runs == 0 || closes);
            if (edge) {
                uint side = runs == 0 ? 0 : 1;
                if (side == 0) kept.x = current, sums[0] = sum;
                else kept.y = current, sums[1] = sum;
            } else {
                store(out_, (o * rows_out + uint(current)) * inner + i, sum);
            }
            ++runs;
            sum = ACC(0);
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
