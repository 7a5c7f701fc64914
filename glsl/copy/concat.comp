// Concatenation along one dimension of contiguous tensors, as rows of different widths
// grid    one invocation per 32-bit word of out_, linear
// in      part0 to part7 (rows, widths), contiguous; end: where each part of a row ends
// out     out_ (rows, width), contiguous; count: its elements
// consts  PARTS_JOINED: how many parts there are; SIZE: bytes per element
// source  gather form: each word is written once
// lint    integer-division: sizes are arguments; one for each word
// lint    scalar-load: words of sources that begin at any element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint PARTS_JOINED = 8;

layout(push_constant, std430) uniform Push {
    WordsOut out_;
    Words part0;
    Words part1;
    Words part2;
    Words part3;
    Words part4;
    Words part5;
    Words part6;
    Words part7;
    uint count;
    uint width;
    uint end[8];
} args;

void main() {
    uint word = linear_invocation();
    Words part0 = args.part0, part1 = args.part1, part2 = args.part2, part3 = args.part3;
    Words part4 = args.part4, part5 = args.part5, part6 = args.part6, part7 = args.part7;
    uint count = args.count, width = args.width, end[8] = args.end;
    if (word >= words_of(count)) return;
    uint result = 0;
    for (uint lane = 0; lane < LANES; ++lane) {
        uint element = min(element_of(word, lane), count - 1);
        uint row = element / width;
        uint column = element - row * width;
        Words part = part0;
        uint first = 0, last = end[0];
        if (PARTS_JOINED > 1 && column >= end[0]) part = part1, first = end[0], last = end[1];
        if (PARTS_JOINED > 2 && column >= end[1]) part = part2, first = end[1], last = end[2];
        if (PARTS_JOINED > 3 && column >= end[2]) part = part3, first = end[2], last = end[3];
        if (PARTS_JOINED > 4 && column >= end[3]) part = part4, first = end[3], last = end[4];
        if (PARTS_JOINED > 5 && column >= end[4]) part = part5, first = end[4], last = end[5];
        if (PARTS_JOINED > 6 && column >= end[5]) part = part6, first = end[5], last = end[6];
        if (PARTS_JOINED > 7 && column >= end[6]) part = part7, first = end[6], last = end[7];
        uint place = row * (last - first) + column - first;
        result = insert(result, lane, read_bits(part, place, word));
    }
    args.out_.at[word] = result;
}
