// GEMM result addressing: bounds and offset of a stored element, by row and column, and
// the bias of a row
#ifdef IMPLICIT_GEMM
#include "conv/igemm_addressing.glsl"
#else
#ifdef BIAS
// What is added to each row of the product; the first of split-K's slices has it.
float bias_of(uint row) {
    uint part = GRID_MAPPED == 0 ? gl_WorkGroupID.z / push.batches : gl_WorkGroupID.z;
    return GRID_MAPPED == 3 || part == 0 ? load(push.bias, row) : 0;
}
#endif
#ifdef SIDE_BY_SIDE
// Columns are those of several matrices: see matmul/simt_tile.glsl
bool is_result(uint row, uint column) { return row < push.m && column < push.n; }

uint result_at(uint row, uint column) {
    uint matrix = column / PLANE;
    return gl_WorkGroupID.z * push.m * push.n + (matrix * push.m + row) * PLANE
        + (column - matrix * PLANE);
}
#else
bool is_result(uint row, uint column) { return row < push.m && column < push.n; }

uint result_at(uint row, uint column) {
    return (gl_WorkGroupID.z * push.m + row) * push.n + column;
}
#endif
#endif
