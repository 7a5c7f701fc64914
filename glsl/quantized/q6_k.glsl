// GGUF's Q6_K: low nibbles, high pairs of bits, 16 signed bytes of scales, float16 scale
// of these; 256 elements
//
// Each half has 64 bytes of nibbles, the low ones of its first 64 elements.
// Source: ggml, ggml-common.h and ggml-quants.c.

#define PIECE 32
#define RUNS 2
#define HAS_OFFSET 1
#define HAS_SHIFT 0

struct Piece {
    uvec4 nibbles;
    uvec4 high;  // bits 0 and 1 of each byte: the low nibbles', 4 and 5: the others'
    float scale[RUNS];
    float shift[RUNS];
    float offset;
};

Piece fetch(Blocks blocks, uint row, uint number, uint table) {
    uint start = row + number / 8 * 210;
    uint part = number % 8, upper = part / 4, within = part % 4;
    Piece piece;
    piece.nibbles = four_words(blocks, start + 16 * part);
    uint high = start + 128 + 32 * upper + 16 * (within % 2);
    piece.high = four_words(blocks, high) >> within / 2 * 2;
    float d = unpackHalf2x16(half_word(blocks, start + 208)).x;
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        uint at = start + 192 + 8 * upper + within + 4 * run;
        uint bits = blocks.at[at / 4] >> 8 * (at & 3);
        piece.scale[run] = d * float(int(bits << 24) >> 24);
        piece.shift[run] = 0.0;
    }
    piece.offset = 32.0;
    return piece;
}

uint codes(Piece piece, uint i) {
    uint low = piece.nibbles[i % 4] >> 4 * (i / 4) & 0x0f0f0f0fu;
    return low | (piece.high[i % 4] >> 4 * (i / 4) & 0x03030303u) << 4;
}

uint quad_place(uint number, uint i) {
    uint part = number % 8;
    return number / 8 * 64 + part / 4 * 32 + part % 4 * 4 + i % 4 + i / 4 * 16;
}
