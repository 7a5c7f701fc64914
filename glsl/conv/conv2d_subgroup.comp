// Convolution of NCHW images with (out, in / groups, height, width) filters
// grid    linear in tiles of ROWS x (COLUMNS * LOCAL_X); z: group
// in      x (batch, in_channels, in_height, in_width), weight, bias (out_channels)
// out     out_ (batch, out_channels, out_height, out_width)
// consts  KERNEL_H, KERNEL_W, STRIDE_*, PADDING_*, DILATION_*, HAS_BIAS
//         ROWS, COLUMNS; LOCAL_X is the subgroup size
// source  lib/product_subgroup.glsl on the operands of lib/conv2d_forward.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/element.glsl"
#include "lib/index.glsl"
#include "lib/conv2d_forward.glsl"
#include "lib/product_subgroup.glsl"
