// Quantized weights: pieces of PIECE elements of a row, decoded in registers
//
// The host defines FORMAT as one of the names below, or it is Q4_0
// (framework/kernels/quantized.py). An element is
//     scale * (code - offset) + shift
// where the RUNS runs of a piece have their own scale and shift.
//
//   Blocks             bytes in memory, as words or as vectors of 16 bytes
//   load_piece(Blocks, row, number, table)
//                      what a piece of the row that starts at byte `row` is made of;
//                      `table` is where a row of int4 has scales, in bytes from its start
//   decoded(Loaded, row, number)
//                      the piece
//   fetch(Blocks, row, number, table)
//                      both, of a piece that is used at once
//   codes(piece, i)    four codes, one in each byte; with SIGNED_CODES signed ones
//   quad_place(number, i)
//                      where these are in their row, in elements divided by four
//   HAS_OFFSET, HAS_SHIFT
//                      whether there are such
//   NIBBLES            if codes have four bits: code i is in word nibbles_of(piece, i), in
//                      the upper half of each byte if is_upper(i)
//   INTEGER_SCALES     if scale and shift of a run are integer_scale(piece, run) and
//                      integer_shift(piece, run), of at most 63, times piece.factors

#define FORMAT_Q4_0 0
#define FORMAT_Q4_1 1
#define FORMAT_Q5_0 2
#define FORMAT_Q5_1 3
#define FORMAT_Q8_0 4
#define FORMAT_Q4_K 5
#define FORMAT_Q5_K 6
#define FORMAT_Q6_K 7
#define FORMAT_INT8 8
#define FORMAT_INT4 9

#ifndef FORMAT
#define FORMAT FORMAT_Q4_0
#endif

#if FORMAT == FORMAT_Q4_K || FORMAT == FORMAT_Q5_K || FORMAT >= FORMAT_INT8
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Blocks { uvec4 at[]; };
#else
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Blocks { uint at[]; };

// The 16 bits at an even byte, of the word that has them.
uint half_word(uint word, uint start) { return word >> 8 * (start & 2) & 0xffffu; }

// The words that four from an even byte on lie in; nothing is read beyond the word of
// the last byte.
struct FiveWords {
    uvec4 first;
    uint last;
};

FiveWords load_words(Blocks blocks, uint start) {
    uint first = start / 4, odd = start >> 1 & 1;
    return FiveWords(uvec4(blocks.at[first], blocks.at[first + 1], blocks.at[first + 2],
                           blocks.at[first + 3]),
                     blocks.at[first + 3 + odd]);
}

uvec4 four_words(FiveWords words, uint start) {
    uvec4 high = uvec4(words.first.yzw, words.last);
    return (start & 2) != 0 ? words.first >> 16 | high << 16 : words.first;
}
#endif

#if FORMAT <= FORMAT_Q5_1
#include "quantized/blocks_of_32.glsl"
#elif FORMAT == FORMAT_Q8_0
#include "quantized/q8_0.glsl"
#elif FORMAT == FORMAT_Q6_K
#include "quantized/q6_k.glsl"
#elif FORMAT <= FORMAT_Q5_K
#include "quantized/q4_k.glsl"
#else
#include "quantized/rows.glsl"
#endif

Piece fetch(Blocks blocks, uint row, uint number, uint table) {
    return decoded(load_piece(blocks, row, number, table), row, number);
}

const uint QUADS = PIECE / 4;
const uint RUN = QUADS / RUNS;  // quads of a run

// Four codes as floats.
vec4 floats_of(uint word) {
#ifdef SIGNED_CODES
    return vec4(ivec4(int(word)) << ivec4(24, 16, 8, 0) >> 24);
#else
    return vec4(uvec4(word, word >> 8, word >> 16, word >> 24) & 0xffu);
#endif
}

// A sum, and the product of a run, given that of its codes and the sum of the others.
float add_run(Piece piece, uint run, float product, float total, float sum) {
#if HAS_OFFSET
    product = fma(-piece.offset, total, product);
#endif
    sum = fma(piece.scale[run], product, sum);
#if HAS_SHIFT
    sum = fma(piece.shift[run], total, sum);
#endif
    return sum;
}
