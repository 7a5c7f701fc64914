// Activations of GEMVs with 16-bit floats in the place of quantized weights
//
// After quantized/floats.glsl, lib/vec4_io.glsl and ROWS; see activations_float.glsl.

const uint QUADS = PIECE / 4;

vec4 activations[ROWS][QUADS];

uint quad_place(uint number, uint i) { return number * QUADS + i; }

void keep(uint r, vec4 values[QUADS]) {
    [[unroll]] for (uint i = 0; i < QUADS; ++i) activations[r][i] = values[i];
}

void multiply(Piece piece, out float products[ROWS]) {
    vec4 values[QUADS];
    [[unroll]] for (uint i = 0; i < QUADS; ++i)
        values[i] = decode_quad(uvec2(piece.words[2 * i], piece.words[2 * i + 1]));
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        float sum = 0.0;
        [[unroll]] for (uint i = 0; i < QUADS; ++i)
            [[unroll]] for (uint e = 0; e < 4; ++e)
                sum = fma(values[i][e], activations[r][i][e], sum);
        products[r] = sum;
    }
}
