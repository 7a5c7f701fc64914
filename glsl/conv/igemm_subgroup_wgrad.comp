// Implicit GEMM wgrad, NCHW: gradient of conv2d by weight, as partial sums over
// `chunks` of (batch, out pixels)
// grid    linear in tiles of ROWS x (COLUMNS * LOCAL_X); z: group * chunks + chunk
// in      x, grad (batch, out_channels, out_height, out_width)
// out     out_ (chunks, out_channels, in_channels / groups, KERNEL_H, KERNEL_W):
//         the gradient is its sum over chunks; of ACC where there are several
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*
//         ROWS, COLUMNS; LOCAL_X is the subgroup size
// source  matmul/subgroup_body.glsl on the operands of conv/igemm_operands_wgrad.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/igemm_operands_wgrad.glsl"
#include "matmul/subgroup_body.glsl"
