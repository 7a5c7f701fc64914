// Tensors joined along one dimension that are all read through the same strides
// grid    one invocation per 32-bit word of out_, linear
// in      part0 to part3, strided; end: where each part ends along the dimension
// out     out_, contiguous, of the sizes `size`, the third of which is joined; count
// consts  PARTS_JOINED: how many parts there are; SIZE: bytes per element
// source  gather form: each word is written once
// lint    integer-division: sizes are arguments; one for each word
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/word.glsl"

layout(constant_id = 4) const uint PARTS_JOINED = 4;

const uint DIMS = 5;
const uint JOINED = 2;

layout(push_constant, std430) uniform Push {
    WordsOut out_;
    Words part0;
    Words part1;
    Words part2;
    Words part3;
    uint count;
    uint end[4];
    uint size[DIMS];
    uint stride[DIMS];
} args;

void main() {
    uint word = linear_invocation();
    Words part0 = args.part0, part1 = args.part1, part2 = args.part2, part3 = args.part3;
    uint count = args.count, end[4] = args.end;
    uint size[DIMS] = args.size, stride[DIMS] = args.stride;
    if (word >= words_of(count)) return;
    uint result = 0;
    for (uint lane = 0; lane < LANES; ++lane) {
        uint rest = min(element_of(word, lane), count - 1);
        uint place = 0, along = 0;
        for (uint back = 1; back <= DIMS; ++back) {
            uint dim = DIMS - back, at = rest % size[dim];
            rest /= size[dim];
            place += at * stride[dim];
            if (dim == JOINED) along = at;
        }
        Words part = part0;
        uint first = 0;
        if (PARTS_JOINED > 1 && along >= end[0]) part = part1, first = end[0];
        if (PARTS_JOINED > 2 && along >= end[1]) part = part2, first = end[1];
        if (PARTS_JOINED > 3 && along >= end[2]) part = part3, first = end[2];
        place -= first * stride[JOINED];
        result = insert(result, lane, read_bits(part, place, word));
    }
    args.out_.at[word] = result;
}
