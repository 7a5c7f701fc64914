// GEMM result addressing: bounds and offset of a stored element, by row and column
#ifdef IMPLICIT_GEMM
#include "conv/igemm_addressing.glsl"
#elif defined(SIDE_BY_SIDE)
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
