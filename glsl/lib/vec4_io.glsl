// vec4 loads and stores, at offsets that are multiples of four elements
//
// For dtypes of 4 bytes and floats of 2, after lib/dtype.glsl.

#if BYTES == 4
#define QUAD ACC4
#define QUAD_BYTES 16
#else
#define QUAD uvec2
#define QUAD_BYTES 8
#endif

layout(buffer_reference, std430, buffer_reference_align = QUAD_BYTES) restrict readonly
    buffer QuadsIn { QUAD at[]; };
layout(buffer_reference, std430, buffer_reference_align = QUAD_BYTES) restrict writeonly
    buffer QuadsOut { QUAD at[]; };

ACC4 decode_quad(QUAD bits) {
#if BYTES == 4
    return bits;
#else
    return vec4(DECODE(bits.x & 0xffffu), DECODE(bits.x >> 16),
                DECODE(bits.y & 0xffffu), DECODE(bits.y >> 16));
#endif
}

ACC4 load_quad(QuadsIn quads, uint index) { return decode_quad(quads.at[index]); }

void store_quad(QuadsOut quads, uint index, ACC4 value) {
#if BYTES == 4
    quads.at[index] = value;
#elif DTYPE == DTYPE_FLOAT16
    quads.at[index] = uvec2(pack_float16(value.x, value.y), pack_float16(value.z, value.w));
#else
    quads.at[index] =
        uvec2(pack_bfloat16(value.x, value.y), pack_bfloat16(value.z, value.w));
#endif
}
