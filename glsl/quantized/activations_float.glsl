// Activations of quantized GEMVs, in registers as floats
//
// The includer has ROWS, and a format of quantized/format.glsl.
//
//   keep(r, values)           takes those of row r for a piece of weights
//   multiply(piece, products) their products with each row

vec4 activations[ROWS][QUADS];
float total[ROWS][RUNS];

void keep(uint r, vec4 values[QUADS]) {
    [[unroll]] for (uint i = 0; i < QUADS; ++i) activations[r][i] = values[i];
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        total[r][run] = 0.0;
#if HAS_OFFSET || HAS_SHIFT
        [[unroll]] for (uint k = 0; k < RUN; ++k) {
            vec4 each = values[run * RUN + k];
            total[r][run] += each.x + each.y + (each.z + each.w);
        }
#endif
    }
}

void multiply(Piece piece, out float products[ROWS]) {
    [[unroll]] for (uint r = 0; r < ROWS; ++r) products[r] = 0.0;
    [[unroll]] for (uint run = 0; run < RUNS; ++run) {
        float sums[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) sums[r] = 0.0;
        [[unroll]] for (uint k = 0; k < RUN; ++k) {
            uint i = run * RUN + k;
            vec4 values = floats_of(codes(piece, i));
            // With fma a compiler has no choice which products it contracts into sums:
            // one with an epilogue chose otherwise.
            [[unroll]] for (uint r = 0; r < ROWS; ++r)
                [[unroll]] for (uint e = 0; e < 4; ++e)
                    sums[r] = fma(values[e], activations[r][i][e], sums[r]);
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r)
            products[r] = add_run(piece, run, sums[r], total[r][run], products[r]);
    }
}
