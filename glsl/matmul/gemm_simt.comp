// Batched SIMT GEMM in float32 or int8, large tiles in registers
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: batch, then split-K slices. With
//         GRID_MAPPED x: tiles of a row, y: rows of tiles, z: 1 none, 2 split-K slices,
//         3 the batch
// in      a, b: float32 in vectors of 4, K padded to whole pairs of 8, or with K_TAIL,
//         and more than one pair, to whole vectors; strides and batch strides count
//         vectors. DTYPE int8, with OUT_ACC: words of 4 int8 along K in place of
//         float32
// out     out_ (batch, m, n), contiguous
//         IMPLICIT_GEMM and BIAS: see matmul/gemm_coopmat.comp; with SIDE_BY_SIDE (batch,
//         m, PLANE), and SUMMED: see matmul/simt_tile.glsl
// consts  BLOCK_M, BLOCK_N, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K, DIRECT_STORE,
//         UNEVEN_SPLITS, K_SLICES, PREFETCH_DISTANCE, K_TAIL; UNEVEN_SLICES:
//         some slices have fewer steps than others; DEPTH, A_STRIDE, B_STRIDE: sizes of
//         a shape that recurs, or 0; GRID_MAPPED
// source  the order of CUTLASS's SIMT kernels; tiles chosen by measurement
// lint    bank-conflict: stores along k run only where neighbours load along k
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/simt_tile.glsl"
#include "matmul/simt_aligned.glsl"
#include "matmul/simt_body.glsl"
