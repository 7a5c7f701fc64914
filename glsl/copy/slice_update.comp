// Slice update (strided scatter): result = base, with a strided region from source
// grid    one invocation per 32-bit word of base, linear
// in      base and source, contiguous; size, stride: the region over base from the
//         longest stride down; step: strides of the same dimensions in source; offset:
//         the region's first element; count: elements of base
// out     result, as base
// consts  SIZE: bytes per element, 1, 2, 4 or 8
// source  gather form: each word is written once, by the invocation that owns it
// lint    integer-division: sizes are arguments; one for each dimension of an element
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

const int DIMS = 6;

layout(push_constant, std430) uniform Push {
    Words base;
    Words source;
    WordsOut result;
    uint count;
    uint offset;
    uint size[DIMS];
    uint stride[DIMS];
    uint step[DIMS];
} args;

void main() {
    uint word = linear_invocation();
    Words base = args.base, source = args.source;
    uint count = args.count, offset = args.offset;
    uint size[DIMS] = args.size, stride[DIMS] = args.stride, step[DIMS] = args.step;
    if (word >= words_of(count)) return;
    uint result = base.at[word];
    for (uint lane = 0; lane < LANES; ++lane) {
        uint element = element_of(word, lane);
        bool inside = element >= offset && element < count;
        uint rest = element - offset;
        uint place = 0;
        for (int dim = 0; dim < DIMS; ++dim) {
            uint coordinate = rest / stride[dim];
            rest -= coordinate * stride[dim];
            // The padding dimensions have size 1 and stride 1 and must take nothing.
            inside = inside && coordinate < size[dim];
            place += coordinate * step[dim];
        }
        if (inside && rest == 0)
            result = insert(result, lane, read_bits(source, place, word));
    }
    args.result.at[word] = result;
}
