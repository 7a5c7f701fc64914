// Stream compaction of a mask: flat offsets of its true elements, and their number
// grid    passes 0 and 2: one workgroup per tile, linear; pass 1: one workgroup
// in      mask (count) bool, as words
// out     starts (tiles) uint32: true elements, then those before each tile;
//         places (count) int32, of which the first `total` are set; total (1) int32
// consts  PASS: 0 counts, 1 adds up, 2 writes
// source  prefix sum over tiles of four words an invocation
// lint    scalar-load: counts of tiles, whose share begins anywhere; words of a mask,
//         which may begin at any of them
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"

layout(constant_id = 3) const uint PASS = 0;

const uint ELEMENTS = 16;
const uint TILE = ELEMENTS * gl_WorkGroupSize.x;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Starts { uint at[]; };
layout(push_constant, std430) uniform Push {
    IntIn mask;
    Starts starts;
    IntOut places;
    IntOut total;
    uint count;
} args;

// Sums up to each invocation, scanned after Hillis and Steele; and a tile's offsets.
shared uint sums[2][gl_WorkGroupSize.x];
shared uint listed[PASS == 2 ? TILE : 1];

// How much comes before this invocation, and all of the workgroup.
uvec2 scan(uint own) {
    uint at = gl_LocalInvocationIndex, now = 0;
    sums[0][at] = own;
    barrier();
    for (uint apart = 1; apart < gl_WorkGroupSize.x; apart *= 2) {
        sums[1 - now][at] = sums[now][at] + (at >= apart ? sums[now][at - apart] : 0u);
        now = 1 - now;
        barrier();
    }
    return uvec2(sums[now][at] - own, sums[now][gl_WorkGroupSize.x - 1]);
}

// Exclusive prefix sum of the tiles' counts: each invocation sums a share of them.
void add_up(Starts starts, uint tiles) {
    uint at = gl_LocalInvocationIndex;
    uint share = (tiles - 1) / gl_WorkGroupSize.x + 1;
    uint first = min(at * share, tiles), end = min(first + share, tiles);
    uint sum = 0;
    for (uint tile = first; tile < end; ++tile) sum += starts.at[tile];
    uvec2 found = scan(sum);
    if (at == 0) args.total.at[0] = int(found.y);
    uint before = found.x;
    for (uint tile = first; tile < end; ++tile) {
        uint trues = starts.at[tile];
        starts.at[tile] = before;
        before += trues;
    }
}

// Which of the 16 elements from `first` on are true, as bits.
uint bits_of(IntIn mask, uint first, uint count) {
    uint found = 0;
    for (uint k = 0; k < 4; ++k) {
        uint element = first + 4 * k;
        if (element >= count) break;
        uint word = uint(mask.at[element / 4]);
        for (uint lane = 0; lane < 4; ++lane) {
            bool holds = element + lane < count && (word >> 8 * lane & 0xffu) != 0;
            found |= holds ? 1u << (4 * k + lane) : 0u;
        }
    }
    return found;
}

void main() {
    uint count = args.count, at = gl_LocalInvocationIndex;
    uint tiles = (count - 1) / TILE + 1;
    if (PASS == 1) {
        add_up(args.starts, tiles);
        return;
    }
    uint tile = linear_workgroup();
    if (tile >= tiles) return;
    uint first = tile * TILE + at * ELEMENTS;
    uint bits = bits_of(args.mask, first, count);
    uvec2 found = scan(bitCount(bits));
    if (PASS == 0) {
        if (at == 0) args.starts.at[tile] = found.y;
        return;
    }
    uint next = found.x;
    while (bits != 0) {
        listed[next++] = first + findLSB(bits);
        bits &= bits - 1;
    }
    barrier();
    uint start = args.starts.at[tile];
    for (uint k = at; k < found.y; k += gl_WorkGroupSize.x)
        args.places.at[start + k] = int(listed[k]);
}
