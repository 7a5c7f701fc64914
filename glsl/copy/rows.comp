// Rows of words copied from one strided place to another
// grid    linear, one workgroup of LANES for each segment of a row; the last segment of
//         a row covers its end, if with words of the one before
// in      source; width: words of a row, at least a segment; segments of a row; count:
//         all of them; rows are (outer, inner), and begin at source_outer and
//         source_inner times those in source, at out_outer and out_inner times in out_;
//         magic and shift divide by segments and by the inner rows
// out     out_
// consts  PAIRED: rows begin and end at even words in out_
// source  memcpy of rows; see lib/uniform_row.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#include "lib/index.glsl"
#include "lib/uniform_row.glsl"

layout(push_constant, std430) uniform Push {
    Words source;
    WordsOut out_;
    uint width;
    uint segments;
    uint count;
    uint inner;
    uint source_outer;
    uint source_inner;
    uint out_outer;
    uint out_inner;
    uint magic[2];
    uint shift[2];
    uint digit[8];
} args;

void main() {
    Words source = args.source;
    WordsOut out_ = args.out_;
    uint number = min(linear_workgroup(), args.count - 1);
    uint row = divide(number, args.magic[0], args.shift[0]);
    uint segment = number - row * args.segments;
    uint outer = divide(row, args.magic[1], args.shift[1]);
    uint inner = row - outer * args.inner;
    uint first = min(segment * SEGMENT, args.width - SEGMENT);
    uint place = outer * args.out_outer + inner * args.out_inner + first;
    place += 2 * gl_LocalInvocationIndex;
    uint start = outer * args.source_outer + inner * args.source_inner + first;
    start = TOLD(args.digit, start);
#define ROUND(round_)                                                                  \
    {                                                                                  \
        uint low = own_word(source, start + 2 * LANES * round_);                       \
        uint high = own_word(source, start + 2 * LANES * round_ + 1);                  \
        store_pair(out_, place + 2 * LANES * round_, low, high);                       \
    }
#include "lib/uniform_row_rounds.glsl"
}
