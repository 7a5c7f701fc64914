// Batched GEMM, shared-memory tiles: out[z, m, n] = sum over k of a[z, m, k] b[z, k, n]
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: slices of K, each
//         with all batches
// in      a and b, any strides in elements: *_row, *_column, *_batch (0 broadcasts);
//         `k` of each slice
// out     out_ (slices, batches, m, n), contiguous
// consts  BLOCK_M, BLOCK_N, BLOCK_K, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K
// source  matmul/tiled_body.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/operands.glsl"
#include "matmul/tiled_body.glsl"
