// Concatenation along one dimension of tensors of equal strides
// grid    one invocation per 32-bit word of out_, linear; with VECTORS one for 16 bytes
// in      part0 to part3, strided; end: where each part ends along the dimension
// out     out_, contiguous, of the sizes `size`, the third of which is joined; count
// consts  PARTS_JOINED: how many parts there are; SIZE: bytes per element
// source  gather form: each word is written once
// lint    integer-division: sizes are arguments; one for each word
//
// With VECTORS elements are 16 bytes, of which strides and sizes are numbers too.
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint PARTS_JOINED = 4;

const uint DIMS = 5;
const uint JOINED = 2;

#ifdef VECTORS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly buffer
    Source { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly buffer
    Result { uvec4 at[]; };
#else
#define Source Words
#define Result WordsOut
#endif

layout(push_constant, std430) uniform Push {
    Result out_;
    Source part0;
    Source part1;
    Source part2;
    Source part3;
    uint count;
    uint end[4];
    uint size[DIMS];
    uint stride[DIMS];
} args;

Source part0 = args.part0, part1 = args.part1, part2 = args.part2, part3 = args.part3;
uint end[4] = args.end, size[DIMS] = args.size, stride[DIMS] = args.stride;

// Return the source of an element of the result, and its offset there.
Source source_of(uint element, out uint place) {
    uint along = 0;
    place = 0;
    for (uint back = 1; back <= DIMS; ++back) {
        uint dim = DIMS - back, at = element % size[dim];
        element /= size[dim];
        place += at * stride[dim];
        if (dim == JOINED) along = at;
    }
    Source part = part0;
    uint first = 0;
    if (PARTS_JOINED > 1 && along >= end[0]) part = part1, first = end[0];
    if (PARTS_JOINED > 2 && along >= end[1]) part = part2, first = end[1];
    if (PARTS_JOINED > 3 && along >= end[2]) part = part3, first = end[2];
    place -= first * stride[JOINED];
    return part;
}

void main() {
    uint word = linear_invocation(), count = args.count, place;
#ifdef VECTORS
    if (word >= count) return;
    Source part = source_of(word, place);
    args.out_.at[word] = part.at[place];
#else
    if (word >= words_of(count)) return;
    uint result = 0;
    for (uint lane = 0; lane < LANES; ++lane) {
        Source part = source_of(min(element_of(word, lane), count - 1), place);
        result = insert(result, lane, read_bits(part, place, word));
    }
    args.out_.at[word] = result;
#endif
}
