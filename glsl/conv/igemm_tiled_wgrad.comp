// Implicit GEMM wgrad, NCHW: gradient of conv2d by weight, as partial sums over
// `chunks` of (batch, out pixels)
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: group * chunks + chunk
// in      x, grad (batch, out_channels, out_height, out_width)
// out     out_ (chunks, out_channels, in_channels / groups, KERNEL_H, KERNEL_W):
//         the gradient is its sum over chunks; of ACC where there are several
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
//         BLOCK_M, BLOCK_N, BLOCK_K, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K
// source  matmul/tiled_body.glsl on the operands of conv/igemm_operands_wgrad.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/igemm_operands_wgrad.glsl"
#include "matmul/tiled_body.glsl"
