// GEMM result addressing: bounds and offset of a stored element, by row and column
#ifdef IMPLICIT_GEMM
#include "conv/igemm_addressing.glsl"
#elif defined(SIDE_BY_SIDE)
// Columns are those of several matrices, of PLANE each: a multiple of four. Of `push`,
// b_batch is the distance of matrices that the right operand is made of, in vectors.
layout(constant_id = 20) const uint PLANE = 4;

bool is_result(uint row, uint column) { return row < push.m && column < push.n; }

uint result_at(uint row, uint column) {
    uint matrix = column / PLANE;
    return gl_WorkGroupID.z * push.m * push.n + (matrix * push.m + row) * PLANE
        + (column - matrix * PLANE);
}

// Offset of a vector of columns in its line.
uint columns_offset(uint vector) {
    uint matrix = vector / (PLANE / WIDTH);
    return matrix * push.b_batch + (vector - matrix * (PLANE / WIDTH));
}
#else
bool is_result(uint row, uint column) { return row < push.m && column < push.n; }

uint result_at(uint row, uint column) {
    return (gl_WorkGroupID.z * push.m + row) * push.n + column;
}
#endif
