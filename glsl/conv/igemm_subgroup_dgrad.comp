// Implicit GEMM dgrad, NCHW: gradient of conv2d by x, in gather form
// grid    linear in tiles of ROWS x (COLUMNS * LOCAL_X); z: slices of K,
//         of slice_depth, each with all groups
// in      grad (batch, out_channels, out_height, out_width), weight, bias (in_channels)
// out     out_ (slices, batch, in_channels, in_height, in_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*, HAS_BIAS
//         ROWS, COLUMNS; LOCAL_X is the subgroup size
// source  matmul/subgroup_body.glsl on the operands of conv/igemm_operands_dgrad.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/igemm_operands_dgrad.glsl"
#include "matmul/subgroup_body.glsl"
