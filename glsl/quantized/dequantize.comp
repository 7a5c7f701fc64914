// Quantized weights as floats
// grid    linear, one invocation for four elements, so that neighbours store neighbours
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
    uint i = at % QUADS;
    uint row = divide(at / QUADS, push.magic, push.shift);
    uint number = at / QUADS - row * push.pieces;
    Piece piece = fetch(push.blocks, row * push.row_size, number, push.table);
    vec4 values = floats_of(codes(piece, i));
#if HAS_OFFSET
    values -= piece.offset;
#endif
    precise vec4 scaled = piece.scale[i / RUN] * values;
#if HAS_SHIFT
    scaled = scaled + piece.shift[i / RUN];
#endif
    store_quad(push.out_, row * push.pieces * QUADS + quad_place(number, i), scaled);
}
