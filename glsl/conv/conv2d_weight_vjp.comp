// Gradient of conv2d by weight, as `chunks` partial sums over (batch, out pixels)
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: group * chunks + chunk
// in      x, grad (batch, out_channels, out_height, out_width)
// out     out_ (chunks, out_channels, in_channels / groups, KERNEL_H, KERNEL_W):
//         the gradient is its sum over chunks; of ACC where there are several
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
//         BLOCK_M, BLOCK_N, BLOCK_K, QUADS_M, QUADS_N, A_ALONG_K, B_ALONG_K
// source  lib/product_shared.glsl on the operands of lib/conv2d_weight_vjp.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/element.glsl"
#include "lib/index.glsl"
#include "lib/conv2d_weight_vjp.glsl"
#include "lib/product_shared.glsl"
