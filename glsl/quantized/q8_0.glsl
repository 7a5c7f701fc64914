// GGUF's Q8_0: float16 scale, then 32 signed bytes
//
// Source: ggml, ggml-common.h.

#define PIECE 16
#define RUNS 1
#define SIGNED_CODES
#define HAS_OFFSET 0
#define HAS_SHIFT 0

struct Piece {
    uvec4 words;
    float scale[RUNS];
    float shift[RUNS];
    float offset;
};

Piece fetch(Blocks blocks, uint row, uint number, uint table) {
    uint start = row + number / 2 * 34;
    Piece piece;
    piece.scale[0] = unpackHalf2x16(half_word(blocks, start)).x;
    piece.shift[0] = 0.0;
    piece.offset = 0.0;
    piece.words = four_words(blocks, start + 2 + number % 2 * 16);
    return piece;
}

uint codes(Piece piece, uint i) { return piece.words[i]; }

uint quad_place(uint number, uint i) { return number * 4 + i; }
