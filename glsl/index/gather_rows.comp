// Gather of long rows by index: out[o, e] = x[o, row(e)], elsewhere `fill`
// grid    linear, one workgroup of LANES for each segment of a row; the last segment of
//         a row covers its end, if with words of the one before
// in      x (outer, rows, width), in words; indices (entries); width, at least a
//         segment; segments of a row; count: all of them; magic and shift, which divide
//         by segments and entries; fill: two words, the element where no row is named
// out     out_ (outer, entries, width); error: an index out of range
// consts  INDEX_WORDS, INDEX_SIGNED, FROM_END; PAIRED: rows begin at even words
// source  numpy.take; see lib/uniform_row.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "lib/index.glsl"
#include "index/row_index.glsl"
#include "lib/uniform_row.glsl"

layout(push_constant, std430) uniform Push {
    Words x;
    Indices indices;
    WordsOut out_;
    IndexSlot error;
    uint width;
    uint segments;
    uint count;
    uint rows;
    uint entries;
    uint fill[2];
    uint magic[2];
    uint shift[2];
    uint digit[8];
} args;

void main() {
    Words x = args.x;
    WordsOut out_ = args.out_;
    Indices indices = args.indices;
    IndexSlot error = args.error;
    uint number = min(linear_workgroup(), args.count - 1);
    uint line = divide(number, args.magic[0], args.shift[0]);
    uint segment = number - line * args.segments;
    uint outer = divide(line, args.magic[1], args.shift[1]);
    uint bad = 0;
    int row = read_row(indices, line - outer * args.entries, args.rows, bad);
    uint first = min(segment * SEGMENT, args.width - SEGMENT);
    uint place = line * args.width + first + 2 * gl_LocalInvocationIndex;
    uint start = (outer * args.rows + uint(max(row, 0))) * args.width + first;
    start = TOLD(args.digit, start);
    uint even = args.fill[first & 1], odd = args.fill[1 - (first & 1)];
#define ROUND(round_)                                                                  \
    {                                                                                  \
        uint low = own_word(x, start + 2 * LANES * round_);                            \
        uint high = own_word(x, start + 2 * LANES * round_ + 1);                       \
        low = row >= 0 ? low : even;                                                   \
        high = row >= 0 ? high : odd;                                                  \
        store_pair(out_, place + 2 * LANES * round_, low, high);                       \
    }
#include "lib/uniform_row_rounds.glsl"
    if (bad != 0) error.at[0] = bad;
}
