// GGUF's Q4_0, Q4_1, Q5_0 and Q5_1: float16 scale, minimum, high bits, then nibbles, of
// which the low ones are the first 16 elements
//
// source  ggml, ggml-common.h
// lint    scalar-load: blocks begin at any even byte

#define PIECE 32
#define RUNS 1
#if FORMAT == FORMAT_Q4_0 || FORMAT == FORMAT_Q5_0
#define HAS_OFFSET 1
#define HAS_SHIFT 0
#else
#define HAS_OFFSET 0
#define HAS_SHIFT 1
#endif
#if FORMAT <= FORMAT_Q4_1
#define NIBBLES
#endif

struct Piece {
    uvec4 nibbles;
    uint high;
    float scale[RUNS];
    float shift[RUNS];
    float offset;
};

struct Loaded {
    uint head;
#if !HAS_OFFSET
    uint high;
#endif
    uvec4 words;
    uint last;
};

#if FORMAT == FORMAT_Q4_0
#define BLOCK_BYTES 18
#elif FORMAT == FORMAT_Q4_1
#define BLOCK_BYTES 20
#elif FORMAT == FORMAT_Q5_0
#define BLOCK_BYTES 22
#else
#define BLOCK_BYTES 24
#endif

Loaded load_piece(Blocks blocks, uint row, uint number, uint table) {
    uint first = (row + number * BLOCK_BYTES) / 4;
    Loaded loaded;
    loaded.head = blocks.at[first];
    loaded.last = 0;
#if !HAS_OFFSET
    loaded.high = 0;
#endif
#if FORMAT == FORMAT_Q5_0
    loaded.last = blocks.at[first + 5];
#elif FORMAT == FORMAT_Q5_1
    first += 1;
    loaded.high = blocks.at[first];
#endif
    loaded.words = uvec4(blocks.at[first + 1], blocks.at[first + 2],
                         blocks.at[first + 3], blocks.at[first + 4]);
    return loaded;
}

Piece decoded(Loaded loaded, uint row, uint number) {
    Piece piece;
    piece.high = 0;
    piece.shift[0] = 0.0;
    piece.offset = 0.0;
    uint head = loaded.head;
    uvec4 words = loaded.words;
#if HAS_OFFSET
    bool odd = (row + number * BLOCK_BYTES & 2) != 0;
    piece.scale[0] = unpackHalf2x16(odd ? head >> 16 : head).x;
#if FORMAT == FORMAT_Q4_0
    piece.offset = 8.0;
    piece.nibbles = odd ? words : uvec4(head, words.xyz) >> 16 | words << 16;
#else
    piece.offset = 16.0;
    piece.high = odd ? words.x : head >> 16 | words.x << 16;
    uvec4 next = uvec4(words.yzw, loaded.last);
    piece.nibbles = odd ? next : words >> 16 | next << 16;
#endif
#else
    vec2 scales = unpackHalf2x16(head);
    piece.scale[0] = scales.x;
    piece.shift[0] = scales.y;
    piece.high = loaded.high;
    piece.nibbles = words;
#endif
    return piece;
}

uint codes(Piece piece, uint i) {
    uint low = piece.nibbles[i % 4] >> 4 * (i / 4) & 0x0f0f0f0fu;
#if FORMAT == FORMAT_Q5_0 || FORMAT == FORMAT_Q5_1
    // Four neighbouring bits, each to the lowest of its byte.
    low |= ((piece.high >> 4 * i & 15u) * 0x204081u & 0x01010101u) << 4;
#endif
    return low;
}

uint nibbles_of(Piece piece, uint i) { return piece.nibbles[i % 4]; }
bool is_upper(uint i) { return i >= 4; }

uint quad_place(uint number, uint i) { return number * 8 + i; }
