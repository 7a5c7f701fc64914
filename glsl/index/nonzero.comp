// Numbers of true elements of a mask: before each tile, and of all
// grid    pass 0: one workgroup per tile, linear; pass 1: one workgroup
// in      mask (count) bool, as words; with RUNS elements of T, of which those are true that
//         differ from the one before
// out     starts (tiles) uint32: true elements, then those before each tile; total (1)
//         int32
// consts  PASS: 0 counts, 1 adds up
// source  prefix sum over tiles of four words an invocation
// lint    scalar-load: counts of tiles, whose share begins anywhere; words of a mask,
//         which may begin at any of them
#version 460
#extension GL_EXT_buffer_reference : require
#ifdef RUNS
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#endif
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "index/mask_tile.glsl"

layout(constant_id = 3) const uint PASS = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict buffer
    Starts { uint at[]; };
layout(push_constant, std430) uniform Push {
    MASK mask;
    Starts starts;
    IntOut total;
    uint count;
} args;

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

void main() {
    uint count = args.count, at = gl_LocalInvocationIndex;
    uint tiles = (count - 1) / TILE + 1;
    if (PASS == 1) {
        add_up(args.starts, tiles);
        return;
    }
    uint tile = linear_workgroup();
    if (tile >= tiles) return;
    uint bits = bits_of(args.mask, tile * TILE + at * MASK_ELEMENTS, count);
    uvec2 found = scan(bitCount(bits));
    if (at == 0) args.starts.at[tile] = found.y;
}
