// Results of a GEMM whose factors were scaled by powers of two: see lib/float16_scale.glsl

#ifdef SCALED
#include "lib/float16_scale.glsl"

shared int exponents[BLOCK_M + BLOCK_N];  // of the rows and columns of a tile
uvec2 scaled_from;  // its first row and column

#ifdef IMPLICIT_GEMM
int row_exponent(uint row, uint batch) { return push.row_exponents.at[row]; }
int column_exponent(uint column, uint batch) {
    return push.column_exponents.at[image_of(column / PLANE) / PLANES];
}
#else
// Of an operand that all of a batch share, whose batch stride is 0, there is one.
int row_exponent(uint row, uint batch) {
    uint from = push.a_batch != 0 ? batch * (push.last_row + BLOCK_M) : 0;
    return push.row_exponents.at[from + row];
}
int column_exponent(uint column, uint batch) {
    uint from = push.b_batch != 0 ? batch * (push.last_column + BLOCK_N) : 0;
    return push.column_exponents.at[from + column];
}
#endif

// Loads the exponents of a tile, which are there after a barrier.
void load_exponents(uint first_row, uint first_column, uint batch) {
    scaled_from = uvec2(first_row, first_column);
    for (uint i = gl_LocalInvocationIndex; i < BLOCK_M + BLOCK_N; i += THREADS)
        exponents[i] = i < BLOCK_M
            ? row_exponent(min(first_row + i, push.m - 1), batch)
            : column_exponent(min(first_column + i - BLOCK_M, push.n - 1), batch);
}

float scaled_back(float sum, uint row, uint column) {
    vec2 both = power_in_factors(
        exponents[row - scaled_from.x] + exponents[BLOCK_M + column - scaled_from.y]);
    return sum * both.x * both.y;
}

// Four neighbours of a row, from `column` on.
vec4 scaled_back(vec4 sums, uint row, uint column) {
    int own = exponents[row - scaled_from.x];
    uint from = BLOCK_M + column - scaled_from.y;
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        vec2 both = power_in_factors(own + exponents[from + i]);
        sums[i] = sums[i] * both.x * both.y;
    }
    return sums;
}
#else
#define load_exponents(first_row, first_column, batch)
#define scaled_back(sums, row, column) sums
#endif
