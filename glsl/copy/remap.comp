// Gather by an index map per dimension: out[c] = x[map(c)]
// grid    linear, ITEMS 32-bit words of out_ for each invocation
// in      x, contiguous; per dimension, innermost first: in_size, out_size, and start,
//         the place in x of coordinate 0; magic and shift, which divide by the first
//         of out_size; fill: two words, the element outside of x
// out     out_, contiguous, count elements
// consts  MODE: boundary mode, the element outside of x; DIMS: dimensions, the last of
//         which counts without an end; SIZE: bytes per element; ITEMS
// source  numpy.pad, numpy.roll, numpy.flip
// lint    integer-division: of a fifth dimension, and a sixth
// lint    private-array: one of two words, which is a selection
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "lib/word_copy.glsl"

layout(constant_id = 4) const uint MODE = 0;
layout(constant_id = 5) const int DIMS = 6;
layout(constant_id = 6) const uint ITEMS = 1;

const uint FILL = 0;
const uint CIRCULAR = 1;
const uint REFLECT = 2;
const uint REPLICATE = 3;
const uint FLIP = 4;
const int MOST_DIMS = 6;
const int MOST_DIVISORS = 3;

layout(push_constant, std430) uniform Push {
    Words x;
    WordsOut out_;
    uint count;
    uint fill[2];
    int in_size[MOST_DIMS];
    uint out_size[MOST_DIMS];
    int start[MOST_DIMS];
    uint magic[MOST_DIVISORS];
    uint shift[MOST_DIVISORS];
} args;

uint quotient(uint number, int dim) {
    if (dim < MOST_DIVISORS) return divide(number, args.magic[dim], args.shift[dim]);
    return number / args.out_size[dim];
}

// The bits of an element, given its number in the result.
uint source_bits(uint number, uint word) {
    uint rest = number, element = 0, step = 1;
    bool inside = true;
    [[unroll]] for (int dim = 0; dim < DIMS; ++dim) {
        int size = args.in_size[dim], start = args.start[dim];
        uint next = dim == DIMS - 1 ? 0 : quotient(rest, dim);
        int at = int(rest - next * args.out_size[dim]);
        rest = next;
        // A flipped dimension is one with a start.
        at = MODE == FLIP && start > 0 ? start - at : start + at;
        if (MODE == CIRCULAR) at = at < 0 ? at + size : at >= size ? at - size : at;
        if (MODE == REFLECT) at = at < 0 ? -at : at >= size ? 2 * size - 2 - at : at;
        if (MODE == REPLICATE) at = clamp(at, 0, size - 1);
        inside = inside && (MODE == FLIP || (at >= 0 && at < size));
        element += uint(at) * step;
        step *= uint(size);
    }
    uint bits = args.fill[word % PARTS];
    if (inside) bits = read_bits(args.x, element, word);
    return bits;
}

void main() {
    uint words = words_of(args.count), results[ITEMS];
    uint first = linear_workgroup() * gl_WorkGroupSize.x * ITEMS + gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint word = min(first + i * gl_WorkGroupSize.x, words - 1);
        results[i] = 0;
        [[unroll]] for (uint lane = 0; lane < LANES; ++lane) {
            uint number = min(element_of(word, lane), args.count - 1);
            results[i] = insert(results[i], lane, source_bits(number, word));
        }
    }
    [[unroll]] for (uint i = 0; i < ITEMS; ++i) {
        uint word = first + i * gl_WorkGroupSize.x;
        if (word < words) args.out_.at[word] = results[i];
    }
}
