// GEMM result addressing: bounds and offset of a stored element, by row and column
#ifdef IMPLICIT_GEMM
#include "conv/igemm_addressing.glsl"
#else
bool is_result(uint row, uint column) { return row < push.m && column < push.n; }

uint result_at(uint row, uint column) {
    return (gl_WorkGroupID.z * push.m + row) * push.n + column;
}
#endif
