// int8: the float32 scale of a row, zeros up to 16 bytes, then signed bytes; int4: the
// nibbles of a row, then a float16 scale and zero for each group of GROUP
//
// Of each four bytes of nibbles the low ones are four elements, the high ones the next
// four.

#define RUNS 1
#define HAS_SHIFT 0
#if FORMAT == FORMAT_INT8
#define PIECE 16
#define SIGNED_CODES
#define HAS_OFFSET 0
#else
#define PIECE 32
#define HAS_OFFSET 1
#define NIBBLES
layout(constant_id = 30) const uint GROUP = 128;
#endif

struct Piece {
    uvec4 words;
    float scale[RUNS];
    float shift[RUNS];
    float offset;
};

struct Loaded {
    uvec4 scales;
    uvec4 words;
};

Loaded load_piece(Blocks blocks, uint row, uint number, uint table) {
#if FORMAT == FORMAT_INT8
    return Loaded(blocks.at[row / 16], blocks.at[row / 16 + 1 + number]);
#else
    uint group = number * PIECE / GROUP;
    return Loaded(blocks.at[(row + table) / 16 + group / 4],
                  blocks.at[row / 16 + number]);
#endif
}

Piece decoded(Loaded loaded, uint row, uint number) {
    Piece piece;
    piece.shift[0] = 0.0;
    piece.words = loaded.words;
#if FORMAT == FORMAT_INT8
    piece.scale[0] = uintBitsToFloat(loaded.scales.x);
    piece.offset = 0.0;
#else
    uint group = number * PIECE / GROUP;
    uvec2 two = group % 4 < 2 ? loaded.scales.xy : loaded.scales.zw;
    vec2 entry = unpackHalf2x16(group % 2 == 0 ? two.x : two.y);
    piece.scale[0] = entry.x;
    piece.offset = entry.y;
#endif
    return piece;
}

uint codes(Piece piece, uint i) {
#if FORMAT == FORMAT_INT8
    return piece.words[i];
#else
    return piece.words[i / 2] >> 4 * (i % 2) & 0x0f0f0f0fu;
#endif
}

uint nibbles_of(Piece piece, uint i) { return piece.words[i / 2 % 4]; }
bool is_upper(uint i) { return i % 2 == 1; }

uint quad_place(uint number, uint i) { return number * (PIECE / 4) + i; }
