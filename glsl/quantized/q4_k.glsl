// GGUF's Q4_K and Q5_K: float16 scales of scales and of minima, eight pairs of 6-bit
// scales and minima, high bits, then nibbles; 256 elements
//
// Of each 32 bytes the low nibbles are 32 elements, the high ones the next 32.
// Source: ggml, ggml-common.h and ggml-quants.c.

#define PIECE 32
#define RUNS 2
#define HAS_OFFSET 0
#define HAS_SHIFT 1

struct Piece {
    uvec4 nibbles;
    uvec4 high;  // the bits of this piece are the lowest two of each byte
    float scale[RUNS];
    float shift[RUNS];
    float offset;
};

// Scale and minimum number j of a block, from its first 16 bytes.
uvec2 scale_pair(uvec4 head, uint j) {
    uint to = 8 * (j % 4);
    uvec2 early = head.yz >> to & 63u;
    uvec2 low = uvec2(head.w >> to, head.w >> to + 4) & 15u;
    uvec2 late = low | (head.yz >> to + 6 & 3u) << 4;
    return j < 4 ? early : late;
}

Piece fetch(Blocks blocks, uint row, uint number, uint table) {
    const uint HIGH = FORMAT == FORMAT_Q5_K ? 2 : 0;  // vectors
    uint block = row / 16 + number / 8 * (9 + HIGH);
    uint part = number % 8;
    uvec4 head = blocks.at[block];
    Piece piece;
    piece.nibbles = blocks.at[block + 1 + HIGH + part];
    piece.high = uvec4(0);
#if FORMAT == FORMAT_Q5_K
    piece.high = blocks.at[block + 1 + part % 2] >> part / 2 * 2;
#endif
    vec2 scales = unpackHalf2x16(head.x);
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        vec2 pair = vec2(scale_pair(head, part / 2 * 2 + run));
        piece.scale[run] = scales.x * pair.x;
        piece.shift[run] = -scales.y * pair.y;
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

uint quad_place(uint number, uint i) {
    uint part = number % 8;
    return number / 8 * 64 + part / 2 * 16 + part % 2 * 4 + i % 4 + i / 4 * 8;
}
