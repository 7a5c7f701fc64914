// Implicit GEMM dgrad, NCHW: gradient of conv2d by x, in gather form
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: slices of K,
//         of slice_depth, each with all groups
// in      grad (batch, out_channels, out_height, out_width), weight, bias (in_channels)
// out     out_ (slices, batch, in_channels, in_height, in_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*, HAS_BIAS
//         BLOCK_M, BLOCK_N, BLOCK_K, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K
// source  matmul/tiled_body.glsl on the operands of conv/igemm_operands_dgrad.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/igemm_operands_dgrad.glsl"
#include "matmul/tiled_body.glsl"
