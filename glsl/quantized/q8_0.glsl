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

struct Loaded {
    uint scale;
    FiveWords words;
};

uint block_start(uint row, uint number) { return row + number / 2 * 34; }

Loaded load_piece(Blocks blocks, uint row, uint number, uint table) {
    uint start = block_start(row, number);
    return Loaded(blocks.at[start / 4],
                  load_words(blocks, start + 2 + number % 2 * 16));
}

Piece decoded(Loaded loaded, uint row, uint number) {
    uint start = block_start(row, number);
    Piece piece;
    piece.scale[0] = unpackHalf2x16(half_word(loaded.scale, start)).x;
    piece.shift[0] = 0.0;
    piece.offset = 0.0;
    piece.words = four_words(loaded.words, start + 2);
    return piece;
}

uint codes(Piece piece, uint i) { return piece.words[i]; }

uint quad_place(uint number, uint i) { return number * 4 + i; }
