// Elements of quantized weights, as the package gguf rounds them
//
// After quantized/format.glsl.

// Four elements of a piece, in float32.
vec4 quad_of(Piece piece, uint i) {
    vec4 values = floats_of(codes(piece, i));
#if HAS_OFFSET
    values -= piece.offset;
#endif
    precise vec4 scaled = piece.scale[i / RUN] * values;
#if HAS_SHIFT
    scaled = scaled + piece.shift[i / RUN];
#endif
    return scaled;
}
