// GEMM on tensor cores with quantized weights as the right operand, decoded on load
// grid    as of matmul/gemm_coopmat.comp, without a batch
// in      a (m, k): 16-bit floats in vectors of 8, lines along K; b (n, k): blocks of
//         b_stride bytes a row, with GROUPS_OF_ROWS b_batch rows for each matrix; table:
//         see quantized/format.glsl; k is whole steps
// out     out_ (m, n), contiguous; DTYPE, or ACC with OUT_ACC
// consts  BLOCK_M, BLOCK_N, BLOCK_K, SUB_M, SUB_N, SUBGROUP, A_ALONG_K, B_ALONG_K: 1,
//         UNEVEN_SPLITS, GRID_MAPPED, DEPTH, A_STRIDE, B_STRIDE: as there; GROUP of int4
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/rounded_results.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/coopmat_types.glsl"
#include "quantized/format.glsl"
#include "quantized/vectors.glsl"
#include "matmul/coopmat_tile.glsl"
#include "matmul/coopmat_decoded.glsl"
#include "matmul/coopmat_body.glsl"
