// Quantized weights as floats
// grid    linear, one invocation for 16 elements, which lie together
// in      blocks (rows, row_size bytes); pieces: of a row; magic and shift divide by
//         them; count: invocations; table: see format.glsl
// out     out_ (rows, pieces * PIECE), DTYPE
// consts  GROUP of int4
// source  gguf, quants.py: the same roundings
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/vec4_io.glsl"
#include "quantized/format.glsl"

layout(push_constant, std430) uniform Push {
    Blocks blocks;
    QuadsOut out_;
    uint row_size;
    uint pieces;
    uint magic;
    uint shift;
    uint count;
    uint table;
} push;

void main() {
    uint at = linear_invocation();
    if (at >= push.count) return;
    const uint PARTS = QUADS / 4;
    uint part = at % PARTS;
    uint row = divide(at / PARTS, push.magic, push.shift);
    uint number = at / PARTS - row * push.pieces;
    Piece piece = fetch(push.blocks, row * push.row_size, number, push.table);
    uint first = row * push.pieces * QUADS + quad_place(number, 4 * part);
    [[unroll]] for (uint j = 0; j < 4; ++j) {
        uint i = 4 * part + j;
        vec4 values = floats_of(codes(piece, i));
#if HAS_OFFSET
        values -= piece.offset;
#endif
        precise vec4 scaled = piece.scale[i / RUN] * values;
#if HAS_SHIFT
        scaled = scaled + piece.shift[i / RUN];
#endif
        store_quad(push.out_, first + j, scaled);
    }
}
