// Flat offsets of indexed rows: out[e] = (outer * rows + row(e)) * inner + i, or NO_ROW
// grid    one invocation per index, linear
// in      indices (outer, entries, inner), contiguous, of INDEX_WORDS words;
//         division: see `line_and_outer`
// out     out_, same shape, int32; error: an index out of range
// consts  INDEX_WORDS, INDEX_SIGNED, FROM_END
// source  numpy.ravel_multi_index, with one explicit index and the others implied
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/index.glsl"
#include "index/row_index.glsl"
#include "lib/index_buffers.glsl"

layout(push_constant, std430) uniform Push {
    Indices indices;
    IntOut out_;
    IndexSlot error;
    uint count;
    uint rows;
    uint entries;
    uint inner;
    uint division[4];
} args;

void main() {
    uint element = linear_invocation();
    Indices indices = args.indices;
    IntOut out_ = args.out_;
    uint rows = args.rows, inner = args.inner;
    if (element >= args.count) return;
    uvec2 at = line_and_outer(element, args.division);
    uint bad = 0;
    int row = read_row(indices, element, rows, bad);
    int place = int((at.y * rows + uint(row)) * inner + element - at.x * inner);
    out_.at[element] = row < 0 ? NO_ROW : place;
    if (bad != 0) args.error.at[0] = bad;
}
