// Floats of 16 bits in the place of a format of quantized/format.glsl
//
// Rows and their sizes are in vectors of eight; a piece is one.

#define PIECE 8

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Blocks { uvec4 at[]; };

struct Piece {
    uvec4 words;
};

#define Loaded Piece

Piece load_piece(Blocks blocks, uint row, uint number, uint table) {
    return Piece(blocks.at[row + number]);
}

Piece decoded(Piece loaded, uint row, uint number) { return loaded; }

Piece fetch(Blocks blocks, uint row, uint number, uint table) {
    return load_piece(blocks, row, number, table);
}

uint vector_place(uint number, uint v) { return number; }

uvec4 elements(Piece piece, uint v) { return piece.words; }
