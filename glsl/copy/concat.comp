// Concatenation along one dimension of contiguous tensors, as rows of different widths
// grid    linear, ITEMS 32-bit words of out_ for each invocation; with VECTORS 16 bytes
// in      part0 to part7 (rows, widths), contiguous; end: where each part of a row ends
// out     out_ (rows, width), contiguous; count: its elements
// consts  PARTS_JOINED: how many parts there are; SIZE: bytes per element; ITEMS
// source  gather form: each word is written once
// lint    scalar-load: words of sources that begin at any element
//
// With VECTORS elements are 16 bytes, of which widths and ends are numbers too.
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint PARTS_JOINED = 8;
layout(constant_id = 5) const uint ITEMS = 1;

#ifdef VECTORS
#define ITEM uvec4
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Source { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Result { uvec4 at[]; };
#else
#define ITEM uint
#define Source Words
#define Result WordsOut
#endif

layout(push_constant, std430) uniform Push {
    Result out_;
    Source part0;
    Source part1;
    Source part2;
    Source part3;
    Source part4;
    Source part5;
    Source part6;
    Source part7;
    uint count;
    uint width;
    uint end[8];
    uint width_magic;
    uint width_shift;
} args;

// Return the source of an element of the result, and its offset there.
Source source_of(uint element, out uint place) {
    uint row = divide(element, args.width_magic, args.width_shift);
    uint column = element - row * args.width;
    // Loaded before any branch: SwiftShader crashes on pointers that are loaded in one.
    Source part1 = args.part1, part2 = args.part2, part3 = args.part3;
    Source part4 = args.part4, part5 = args.part5, part6 = args.part6;
    Source part7 = args.part7;
    uint end[8] = args.end;
    Source part = args.part0;
    uint first = 0, last = end[0];
#define NEXT_PART(part_, before, own)                                                  \
    if (PARTS_JOINED > own && column >= end[before])                                   \
        part = part_, first = end[before], last = end[own];
    NEXT_PART(part1, 0, 1)
    NEXT_PART(part2, 1, 2)
    NEXT_PART(part3, 2, 3)
    NEXT_PART(part4, 3, 4)
    NEXT_PART(part5, 4, 5)
    NEXT_PART(part6, 5, 6)
    NEXT_PART(part7, 6, 7)
    place = row * (last - first) + column - first;
    return part;
}

ITEM item(uint number) {
    uint place;
#ifdef VECTORS
    Source part = source_of(number, place);
    return part.at[place];
#else
    uint result = 0;
    [[unroll]] for (uint lane = 0; lane < LANES; ++lane) {
        Source part = source_of(min(element_of(number, lane), args.count - 1), place);
        result = insert(result, lane, read_bits(part, place, number));
    }
    return result;
#endif
}

void main() {
#ifdef VECTORS
    uint items = args.count;
#else
    uint items = words_of(args.count);
#endif
    ITEM results[ITEMS];
    uint first = linear_workgroup() * gl_WorkGroupSize.x * ITEMS + gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0; i < ITEMS; ++i)
        results[i] = item(min(first + i * gl_WorkGroupSize.x, items - 1));
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint number = first + i * gl_WorkGroupSize.x;
        if (number < items) args.out_.at[number] = results[i];
    }
}
