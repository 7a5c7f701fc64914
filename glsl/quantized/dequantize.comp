// Quantized weights as floats
// grid    linear, one invocation for 8 elements, which lie together
// in      blocks (rows, row_size bytes); pieces: of a row; magic and shift divide by
//         them; count: invocations; table: see format.glsl
// out     out_ (rows, pieces * PIECE), DTYPE
// consts  GROUP of int4
// source  gguf, quants.py: the same roundings
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/vec4_io.glsl"
#include "quantized/format.glsl"
#include "quantized/decode.glsl"

#if BYTES == 4
void store_quads(QuadsOut out_, uint index, vec4 low, vec4 high) {
    store_quad(out_, index, low);
    store_quad(out_, index + 1, high);
}
#else
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer VectorsOut { uvec4 at[]; };
void store_quads(QuadsOut out_, uint index, vec4 low, vec4 high) {
#if DTYPE == DTYPE_FLOAT16
    uvec4 vector = uvec4(pack_float16(low.x, low.y), pack_float16(low.z, low.w),
        pack_float16(high.x, high.y), pack_float16(high.z, high.w));
#else
    uvec4 vector = uvec4(pack_bfloat16(low.x, low.y), pack_bfloat16(low.z, low.w),
        pack_bfloat16(high.x, high.y), pack_bfloat16(high.z, high.w));
#endif
    VectorsOut(out_).at[index / 2] = vector;
}
#endif

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
    const uint PARTS = QUADS / 2;
    uint part = at % PARTS;
    uint row = divide(at / PARTS, push.magic, push.shift);
    uint number = at / PARTS - row * push.pieces;
    Piece piece = fetch(push.blocks, row * push.row_size, number, push.table);
    uint first = row * push.pieces * QUADS + quad_place(number, 2 * part);
    store_quads(push.out_, first, quad_of(piece, 2 * part), quad_of(piece, 2 * part + 1));
}
