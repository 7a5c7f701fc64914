// Batched GEMM on tensor cores: KHR cooperative matrices of a subgroup
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: batch, then split-K slices. With
//         GRID_MAPPED x: tiles of a row, y: rows of tiles, z: 1 none, 2 split-K slices,
//         3 the batch
// in      a, b: 16-bit floats in vectors of 8, K padded to whole BLOCK_K, or with
//         K_TAIL to whole vectors; strides and batch strides count vectors. DTYPE
//         float32: float16 whose lines were scaled, by exponents of rows and of columns,
//         of which each batch has as many as its operand: see lib/float16_scale.glsl.
//         DTYPE int8, with OUT_ACC: in vectors of 16
// out     out_ (batch, m, n), contiguous; DTYPE, or ACC with OUT_ACC
//         With IMPLICIT_GEMM b is gathered from images: see conv/igemm_addressing.glsl;
//         with BIAS a number is added to each row; exponents of columns are those of
//         images, and with SCALED_SUMS none is undone. EMULATED: tests without tensor cores
//         With GROUPS_OF_ROWS, or GROUPS_OF_K, it is a product for each group of rows, or
//         of k, by offsets: see matmul/group.glsl; error: an offset out of range
// consts  BLOCK_M, BLOCK_N, BLOCK_K, SUB_M, SUB_N, SUBGROUP, A_ALONG_K, B_ALONG_K,
//         UNEVEN_SPLITS, K_TAIL, with int8 EDGE_K; L2_PREFETCHES:
//         prefetching reads of b, if its lines are whole vectors; PIPELINE_STAGES: 1 or
//         2; GRID_MAPPED; DEPTH, A_STRIDE, B_STRIDE: sizes of a shape that recurs, or 0
// source  NVIDIA's vk_cooperative_matrix_perf; gemm tiles chosen by measurement
// lint    bank-conflict: what L2_PREFETCHES reads is stored once per GEMM
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
#include "matmul/coopmat_tile.glsl"
#include "matmul/coopmat_aligned.glsl"
#include "matmul/coopmat_body.glsl"
