// Stream compaction: places or elements where a mask is true, in order, or their inverse
// grid    one workgroup per tile of `index/nonzero`, linear
// in      mask (count) bool, as words, or, with RUNS, elements of T, as x; starts (tiles) uint32: true elements before each, or,
//         if ADDS, of each;
//         COORDINATES: size[dim], sizes of the mask, ndim of them, and `row` and `column`,
//         numbers from one place and from one dimension to the next; else x, elements of
//         BYTES: (count), or one for each true element if SPREADS; most: elements of out_
//         if not SPREADS, otherwise of x
// out     out_: int32 coordinates, of int64 if WIDE; or elements: those of x where the
//         mask is true, or, if SPREADS, x's in these places; error, if SPREADS: the number
//         of an element that x has not; total (1) int32, if ADDS: all true elements
// consts  SPREADS; ADDS: each workgroup adds up the tiles before its own
// source  prefix sum over tiles, see index/nonzero
// lint    scalar-load: words of a mask, which may begin at any of them, and elements that
//         lie where the mask is true
#version 460
#extension GL_EXT_buffer_reference : require
#ifdef RUNS
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#endif
#ifndef BYTES
#define BYTES 4
#endif
#if BYTES == 1
#extension GL_EXT_shader_8bit_storage : require
#define ITEM uint8_t
#elif BYTES == 2
#extension GL_EXT_shader_16bit_storage : require
#define ITEM uint16_t
#elif BYTES == 4
#define ITEM uint
#elif BYTES == 8
#define ITEM uvec2
#else
#define ITEM uvec4
#endif
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/index_record.glsl"
#include "index/mask_tile.glsl"

layout(constant_id = 3) const uint SPREADS = 0;
layout(constant_id = 4) const uint ADDS = 0;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Starts { uint at[]; };
#ifdef COORDINATES
#ifdef WIDE
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly
    buffer Result { uvec2 at[]; };
#else
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly
    buffer Result { uint at[]; };
#endif
#else
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict readonly
    buffer Items { ITEM at[]; };
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict writeonly
    buffer Result { ITEM at[]; };
#endif

const uint MOST_DIMS = 8;

layout(push_constant, std430) uniform Push {
    MASK mask;
    Starts starts;
    IntOut total;
    uint count;
    Result out_;
#ifdef COORDINATES
    uint ndim;
    uint row;
    uint column;
    uint size[MOST_DIMS];
#else
    Items x;
    IndexSlot error;
    uint most;
#endif
} args;

// The true elements of a tile, in order.
shared uint listed[TILE];

#ifdef COORDINATES
void put_one(Result out_, uint place, uint coordinate) {
#ifdef WIDE
    out_.at[place] = uvec2(coordinate, 0);
#else
    out_.at[place] = coordinate;
#endif
}

// The coordinates of one element; what is left of it is the first.
void put(Result out_, uint number, uint element) {
    uint rest = element, place = number * args.row, column = args.column;
    for (uint dim = args.ndim - 1; dim > 0; --dim) {
        uint size = args.size[dim], next = rest / size;
        put_one(out_, place + dim * column, rest - next * size);
        rest = next;
    }
    put_one(out_, place, rest);
}
#endif

// How many true elements come before a tile.
uint start_of(Starts starts, uint tile) {
    if (ADDS == 0) return starts.at[tile];
    uint sum = 0;
    for (uint k = gl_LocalInvocationIndex; k < tile; k += gl_WorkGroupSize.x)
        sum += starts.at[k];
    return scan(sum).y;
}

void main() {
    uint count = args.count, at = gl_LocalInvocationIndex;
    uint tile = linear_workgroup();
    if (tile > (count - 1) / TILE) return;
    uint first = tile * TILE + at * MASK_ELEMENTS;
    uint bits = bits_of(args.mask, first, count);
    uvec2 found = scan(bitCount(bits));
    uint next = found.x;
    while (bits != 0) {
        listed[next++] = first + findLSB(bits);
        bits &= bits - 1;
    }
    barrier();
    uint start = start_of(args.starts, tile);
    if (ADDS != 0 && at == 0 && tile == (count - 1) / TILE)
        args.total.at[0] = int(start + found.y);
    Result out_ = args.out_;
#ifdef COORDINATES
    for (uint k = at; k < found.y; k += gl_WorkGroupSize.x)
        put(out_, start + k, listed[k]);
#else
    Items x = args.x;
    uint most = args.most;
    // What is beyond the last one has no element.
    uint end = min(found.y, max(most, start) - start);
    for (uint k = at; k < end; k += gl_WorkGroupSize.x) {
        if (SPREADS != 0) out_.at[listed[k]] = x.at[start + k];
        else out_.at[start + k] = x.at[listed[k]];
    }
    if (SPREADS != 0 && at == 0 && end < found.y)
        args.error.at[0] = reported(int(start + end), 0);
#endif
}
