// Activations of quantized GEMVs, in registers as 16-bit integers in two planes of bytes
//
// What quantized/activations_float.glsl gives, for activations of float16 and bfloat16.
// Those of a piece are multiples of a power of two, 2^-15 of the largest or less: of most
// 16-bit floats no bit is lost. The low bytes of four and the high ones are words for
// dp4a. Sums are exact. If one is infinite or NaN, all products are NaN.

#include "lib/dot_int8.glsl"

uint low_bytes[ROWS][QUADS];
uint high_bytes[ROWS][QUADS];
float total[ROWS][RUNS];
float units[ROWS];

// Largest biased exponent below that of 1 that is told from 0.
#define LEAST_EXPONENT 40u
// Has 16 bits below its last one but for the sign, so that integers added to it stand there.
#define TO_INTEGER 12582912.0

void keep(uint r, vec4 values[QUADS]) {
    uvec4 largest = uvec4(0);
    [[unroll]] for (uint i = 0; i < QUADS; ++i)
        largest = max(largest, floatBitsToUint(values[i]) & 0x7fffffffu);
    largest.xy = max(largest.xy, largest.zw);
    uint exponent = max(largest.x, largest.y) >> 23;
    bool is_finite = exponent != 255;
    exponent = max(exponent, LEAST_EXPONENT);
    float scale = uintBitsToFloat(268 - exponent << 23);
    units[r] = uintBitsToFloat(is_finite ? exponent - 14 << 23 : 0x7fc00000u);
    [[unroll]] for (uint i = 0; i < QUADS; ++i) {
        vec4 scaled = values[i] * scale;
#ifdef NORMED
        scaled = min(scaled, vec4(32767.0));
#endif
        uvec4 bits = floatBitsToUint(scaled + TO_INTEGER);
        uvec4 low = bits & 0xffu, high = bits >> 8 & 0xffu;
        low_bytes[r][i] = low.x | low.y << 8 | low.z << 16 | low.w << 24;
        high_bytes[r][i] = high.x | high.y << 8 | high.z << 16 | high.w << 24;
    }
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        int sum = 0;
#if HAS_OFFSET || HAS_SHIFT
        [[unroll]] for (uint k = 0; k < RUN; ++k) {
            uint i = run * RUN + k;
            sum += dot_int8_uint8(0x01010101, low_bytes[r][i]);
            sum += dot_int8(0x01010101, int(high_bytes[r][i])) << 8;
        }
#endif
        total[r][run] = float(sum);
    }
}

float unit(uint r) { return units[r]; }

void dot_products(Piece piece, uint run, out float products[ROWS]) {
    int low[ROWS], high[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) low[r] = high[r] = 0;
    [[unroll]] for (uint k = 0; k < RUN; ++k) {
        uint i = run * RUN + k;
        int four = int(codes(piece, i));
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            low[r] += dot_int8_uint8(four, low_bytes[r][i]);
            high[r] += dot_int8(four, int(high_bytes[r][i]));
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        products[r] = float((high[r] << 8) + low[r]);
}
