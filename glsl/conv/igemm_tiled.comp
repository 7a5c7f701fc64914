// Implicit GEMM convolution, NCHW, filters (out, in / groups, height, width)
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: slices of K,
//         of slice_depth, each with all groups
// in      x (batch, in_channels, in_height, in_width), weight, bias (out_channels)
// out     out_ (slices, batch, out_channels, out_height, out_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*, HAS_BIAS
//         BLOCK_M, BLOCK_N, BLOCK_K, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K
// source  matmul/tiled_body.glsl on the operands of conv/igemm_operands.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "conv/igemm_operands.glsl"
#include "matmul/tiled_body.glsl"
