// Gather by an index map per dimension: out[c] = x[map(c)]
// grid    one invocation per 32-bit word of out_, linear
// in      x, contiguous; per dimension, innermost first: in_size, out_size, and start,
//         the place in x of coordinate 0; fill: two words, the element outside of x
// out     out_, contiguous, count elements
// consts  MODE: boundary mode, the element outside of x; SIZE: bytes per element
// source  numpy.pad, numpy.roll, numpy.flip
// lint    integer-division: sizes are arguments; one for each dimension of an element
// lint    private-array: one of two words, which is a selection
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint MODE = 0;

const uint FILL = 0;
const uint CIRCULAR = 1;
const uint REFLECT = 2;
const uint REPLICATE = 3;
const uint FLIP = 4;
const int DIMS = 6;

layout(push_constant, std430) uniform Push {
    Words x;
    WordsOut out_;
    uint count;
    uint fill[2];
    int in_size[DIMS];
    uint out_size[DIMS];
    int start[DIMS];
} args;

void main() {
    uint word = linear_invocation();
    Words x = args.x;
    uint count = args.count, fill[2] = args.fill, out_size[DIMS] = args.out_size;
    int in_size[DIMS] = args.in_size, start[DIMS] = args.start;
    if (word >= words_of(count)) return;
    uint result = 0;
    for (uint lane = 0; lane < LANES; ++lane) {
        uint rest = min(element_of(word, lane), count - 1);
        uint element = 0, step = 1;
        bool inside = true;
        for (int dim = 0; dim < DIMS; ++dim) {
            int size = in_size[dim];
            uint next = rest / out_size[dim];
            int at = int(rest - next * out_size[dim]);
            rest = next;
            // A flipped dimension is one with a start.
            at = MODE == FLIP && start[dim] > 0 ? start[dim] - at : start[dim] + at;
            if (MODE == CIRCULAR) at = at < 0 ? at + size : at >= size ? at - size : at;
            if (MODE == REFLECT) at = at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
            if (MODE == REPLICATE) at = clamp(at, 0, size - 1);
            inside = inside && at >= 0 && at < size;
            element += uint(at) * step;
            step *= uint(size);
        }
        uint bits = fill[word % PARTS];
        if (inside) bits = read_bits(x, element, word);
        result = insert(result, lane, bits);
    }
    args.out_.at[word] = result;
}
