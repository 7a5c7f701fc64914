// Grouped GEMM, shared-memory tiles: one product for each group of rows, or of k
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: groups with GROUPS_OF_K, rows with
//         NUMBERED_ROWS
// in      a, b and offsets as of matmul/grouped_operands.glsl; b_group: stride of a group
// out     out_, contiguous; error: an offset, or a number, out of range
// consts  BLOCK_M, BLOCK_N, BLOCK_K, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K
// source  matmul/tiled_body.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/grouped_operands.glsl"
#include "matmul/tiled_body.glsl"
