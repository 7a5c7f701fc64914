// Activations of quantized GEMVs, in registers as 16-bit integers
//
// What quantized/activations_float.glsl has, for activations of float16 and bfloat16.
// Those of a piece are multiples of a power of two, 2^-14 of the largest or less: of most
// 16-bit floats no bit is lost. The low bytes of four are a word for dp4a, and the high
// ones another. Sums of a run are exact. If an activation is infinite or NaN, its
// products are NaN.

#include "lib/dot_int8.glsl"

uint low_bytes[ROWS][QUADS];
uint high_bytes[ROWS][QUADS];
int total[ROWS][RUNS];
float units[ROWS];

// Least biased exponent of a largest activation that is no zero.
#define LEAST_EXPONENT 40u
// 1.5 * 2^23: an integer that is added to it has its low 16 bits at the end of the sum.
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
        // Elements 0 and 2, and 1 and 3, whose bytes are then selected.
        uvec2 pairs = bits.xy & 0xffffu | bits.zw << 16;
        low_bytes[r][i] = pairs.x & 0x00ff00ffu | pairs.y << 8 & 0xff00ff00u;
        high_bytes[r][i] = pairs.x >> 8 & 0x00ff00ffu | pairs.y & 0xff00ff00u;
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
        total[r][run] = sum;
    }
}

// Products of the codes of a run with each row.
void add_products(Piece piece, uint run, out int products[ROWS]) {
    // The first of codes, the second of those that are 16 times as large.
    int low[2][ROWS], high[2][ROWS];
    [[unroll]] for (uint p = 0; p < 2; ++p)
        [[unroll]] for (uint r = 0; r < ROWS; ++r) low[p][r] = high[p][r] = 0;
    [[unroll]] for (uint k = 0; k < RUN; ++k) {
        uint i = run * RUN + k;
#ifdef NIBBLES
        uint part = is_upper(i) ? 1 : 0;
        uint four = nibbles_of(piece, i) & (is_upper(i) ? 0xf0f0f0f0u : 0x0f0f0f0fu);
#else
        const uint part = 0;
        uint four = codes(piece, i);
#endif
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
#ifdef SIGNED_CODES
            low[part][r] += dot_int8_uint8(int(four), low_bytes[r][i]);
            high[part][r] += dot_int8(int(four), int(high_bytes[r][i]));
#else
            low[part][r] += int(dot_uint8(four, low_bytes[r][i]));
            high[part][r] += dot_int8_uint8(int(high_bytes[r][i]), four);
#endif
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        products[r] =
            (high[0][r] << 8) + low[0][r] + ((high[1][r] << 8) + low[1][r] >> 4);
}

void multiply(Piece piece, out float products[ROWS]) {
#ifdef INTEGER_SCALES
    int scaled[ROWS], shifted[ROWS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r) scaled[r] = shifted[r] = 0;
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        int sums[ROWS];
        add_products(piece, run, sums);
        [[unroll]] for (uint r = 0; r < ROWS; ++r) {
            scaled[r] += integer_scale(piece, run) * sums[r];
            shifted[r] += integer_shift(piece, run) * total[r][run];
        }
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float product = piece.factors.x * float(scaled[r]);
        product = fma(piece.factors.y, float(shifted[r]), product);
        products[r] = product * units[r];
    }
#else
    [[unroll]] for (uint r = 0; r < ROWS; ++r) products[r] = 0.0;
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        int sums[ROWS];
        add_products(piece, run, sums);
        [[unroll]] for (uint r = 0; r < ROWS; ++r)
            products[r] = add_run(piece, run, float(sums[r]), float(total[r][run]),
                                  products[r]);
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) products[r] *= units[r];
#endif
}
