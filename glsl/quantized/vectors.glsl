// Pieces of quantized weights as vectors of eight 16-bit floats, for tensor cores
//
// After lib/dtype.glsl and quantized/format.glsl
//
//   vector_place(number, v)  where vector v of a piece is in its row, in vectors
//   elements(piece, v)       the vector; elements are rounded once, and differ from
//                            those of quantized/decode.glsl by a last bit at most
#if DTYPE == DTYPE_FLOAT32
#include "lib/bfloat16.glsl"
#endif

uint vector_place(uint number, uint v) { return quad_place(number, 2 * v) / 2; }

// Elements times FACTOR as 16-bit floats.
#if DTYPE == DTYPE_FLOAT16
const float FACTOR = 1.0;
uvec2 rounded_quad(vec4 x) {
    return uvec2(pack_float16(x.x, x.y), pack_float16(x.z, x.w));
}
#else
const float FACTOR = CUT_ROUNDS;
uvec2 rounded_quad(vec4 x) {
    uvec4 bits = floatBitsToUint(x);
    return uvec2(upper_halves(bits.xy), upper_halves(bits.zw));
}
#endif

#ifdef NIBBLES
// Floats of four codes and MARK, by their bits: quicker than conversions.
const float MARK = 128.0;
vec4 marked_codes(Piece piece, uint i) {
    uint word = nibbles_of(piece, i);
    uvec4 four = is_upper(i) ? uvec4(word << 12, word << 4, word >> 4, word >> 12)
                             : uvec4(word << 16, word << 8, word, word >> 8);
    return uintBitsToFloat(four & 0xf0000u | floatBitsToUint(MARK));
}
#else
const float MARK = 0.0;
vec4 marked_codes(Piece piece, uint i) { return floats_of(codes(piece, i)); }
#endif

uvec2 elements_of_quad(Piece piece, uint i) {
    float scale = piece.scale[i / RUN] * FACTOR, shift = 0.0;
#if HAS_SHIFT
    shift = piece.shift[i / RUN] * FACTOR;
#endif
#if HAS_OFFSET
    shift = fma(-(piece.offset + MARK), scale, shift);
#else
    shift = fma(-MARK, scale, shift);
#endif
    return rounded_quad(fma(marked_codes(piece, i), vec4(scale), vec4(shift)));
}

uvec4 elements(Piece piece, uint v) {
    return uvec4(elements_of_quad(piece, 2 * v), elements_of_quad(piece, 2 * v + 1));
}
