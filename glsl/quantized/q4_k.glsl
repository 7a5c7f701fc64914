// GGUF's Q4_K and Q5_K: float16 scales of scales and of minima, eight pairs of 6-bit
// scales and minima, high bits, then nibbles; 256 elements
//
// Of each 32 bytes the low nibbles are 32 elements, the high ones the next 32.
// Source: ggml, ggml-common.h and ggml-quants.c.

#define PIECE 32
#define RUNS 2
#define HAS_OFFSET 0
#define HAS_SHIFT 1

#define INTEGER_SCALES
#if FORMAT == FORMAT_Q4_K
#define NIBBLES
#endif

struct Piece {
    uvec4 nibbles;
    uvec4 high;     // the bits of this piece are the lowest two of each byte
    uvec2 integers;  // scales and minima of the runs, in the lowest bytes
    vec2 factors;
    float scale[RUNS];
    float shift[RUNS];
    float offset;
};

int integer_scale(Piece piece, uint run) {
    return int(piece.integers.x >> 8 * run & 0xffu);
}
int integer_shift(Piece piece, uint run) {
    return int(piece.integers.y >> 8 * run & 0xffu);
}

// Scales and minima number 2 * pair and 2 * pair + 1 of a block, from its first 16 bytes.
uvec2 scale_pairs(uvec4 head, uint pair) {
    uvec3 at = head.yzw >> 16 * (pair % 2);
    uvec2 late = uvec2(at.z, at.z >> 4) & 0x0f0fu | at.xy >> 2 & 0x3030u;
    return pair < 2 ? at.xy & 0x3f3fu : late;
}

struct Loaded {
    uvec4 head;
    uvec4 nibbles;
#if FORMAT == FORMAT_Q5_K
    uvec4 high;
#endif
};

Loaded load_piece(Blocks blocks, uint row, uint number, uint table) {
    const uint HIGH = FORMAT == FORMAT_Q5_K ? 2 : 0;  // vectors
    uint block = row / 16 + number / 8 * (9 + HIGH);
    uint part = number % 8;
    Loaded loaded;
    loaded.head = blocks.at[block];
    loaded.nibbles = blocks.at[block + 1 + HIGH + part];
#if FORMAT == FORMAT_Q5_K
    loaded.high = blocks.at[block + 1 + part % 2];
#endif
    return loaded;
}

Piece decoded(Loaded loaded, uint row, uint number) {
    uint part = number % 8;
    Piece piece;
    piece.nibbles = loaded.nibbles;
    piece.high = uvec4(0);
#if FORMAT == FORMAT_Q5_K
    piece.high = loaded.high >> part / 2 * 2;
#endif
    piece.integers = scale_pairs(loaded.head, part / 2);
    piece.factors = unpackHalf2x16(loaded.head.x) * vec2(1.0, -1.0);
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        piece.scale[run] = piece.factors.x * float(integer_scale(piece, run));
        piece.shift[run] = piece.factors.y * float(integer_shift(piece, run));
    }
    piece.offset = 0.0;
    return piece;
}

uint codes(Piece piece, uint i) {
    uint low = piece.nibbles[i % 4] >> 4 * (i / 4) & 0x0f0f0f0fu;
#if FORMAT == FORMAT_Q5_K
    low |= (piece.high[i % 4] >> i / 4 & 0x01010101u) << 4;
#endif
    return low;
}

uint nibbles_of(Piece piece, uint i) { return piece.nibbles[i % 4]; }
bool is_upper(uint i) { return i >= 4; }

uint quad_place(uint number, uint i) {
    uint part = number % 8;
    return number / 8 * 64 + part / 2 * 16 + part % 2 * 4 + i % 4 + i / 4 * 8;
}
