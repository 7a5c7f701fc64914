// Results of a GEMM whose factors were scaled by powers of two: see lib/float16_scale.glsl

#ifdef SCALED
#include "lib/float16_scale.glsl"

#ifdef IMPLICIT_GEMM
int column_exponent(uint column) {
    uint image = image_of(min(column, push.n - 1) / PLANE);
    return push.column_exponents.at[image / PLANES];
}
int row_exponent(uint row) { return push.row_exponents.at[row]; }
#else
// Of operands that all of a batch share there is one, whose batch stride is 0.
uint exponents_from(uint batch_stride, uint count) {
    uint batch = GRID_MAPPED == 0 ? gl_WorkGroupID.z % push.batches
        : GRID_MAPPED == 3        ? gl_WorkGroupID.z
                                  : 0;
    return batch_stride != 0 ? batch * count : 0;
}
int column_exponent(uint column) {
    uint from = exponents_from(push.b_batch, push.last_column + BLOCK_N);
    return push.column_exponents.at[from + column];
}
int row_exponent(uint row) {
    uint from = exponents_from(push.a_batch, push.last_row + BLOCK_M);
    return push.row_exponents.at[from + row];
}
#endif

// Four neighbours of a row, from `column` on.
vec4 scaled_back(vec4 sums, uint row, uint column) {
    int own = row_exponent(row);
#ifdef IMPLICIT_GEMM
    if (PLANE % 4 == 0) {
        vec2 both = power_in_factors(own + column_exponent(column));
        return sums * both.x * both.y;
    }
#endif
    [[unroll]] for (uint i = 0; i < 4; ++i) {
        vec2 both = power_in_factors(own + column_exponent(column + i));
        sums[i] = sums[i] * both.x * both.y;
    }
    return sums;
}
#else
#define scaled_back(sums, row, column) sums
#endif
