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

struct Loaded {
    FiveWords nibbles;
    FiveWords high;
    uint scale;
    uint scales[RUNS];
};

uint block_start(uint row, uint number) { return row + number / 8 * 210; }

// Where the scale of a run is, in bytes.
uint scale_place(uint start, uint part, uint run) {
    return start + 192 + 8 * (part / 4) + part % 4 + 4 * run;
}

Loaded load_piece(Blocks blocks, uint row, uint number, uint table) {
    uint start = block_start(row, number), part = number % 8;
    Loaded loaded;
    loaded.nibbles = load_words(blocks, start + 16 * part);
    uint high = start + 128 + 32 * (part / 4) + 16 * (part % 2);
    loaded.high = load_words(blocks, high);
    loaded.scale = blocks.at[(start + 208) / 4];
    [[unroll]] for (uint run = 0; run < RUNS; ++run)
        loaded.scales[run] = blocks.at[scale_place(start, part, run) / 4];
    return loaded;
}

Piece decoded(Loaded loaded, uint row, uint number) {
    uint start = block_start(row, number), part = number % 8;
    Piece piece;
    piece.nibbles = four_words(loaded.nibbles, start);
    piece.high = four_words(loaded.high, start) >> part % 4 / 2 * 2;
    float d = unpackHalf2x16(half_word(loaded.scale, start + 208)).x;
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        uint bits = loaded.scales[run] >> 8 * (scale_place(start, part, run) & 3);
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
