// Batched GEMM, subgroup tiles: out[z, m, n] = sum over k of a[z, m, k] * b[z, k, n]
// grid    linear in tiles of ROWS x (COLUMNS * LOCAL_X); z: slices of K, each
//         with all batches
// in      a and b, any strides in elements: *_row, *_column, *_batch (0 broadcasts);
//         `k` of each slice
// out     out_ (slices, batches, m, n), contiguous
// consts  ROWS, COLUMNS; LOCAL_X is the subgroup size
// source  matmul/subgroup_body.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/operands.glsl"
#include "matmul/subgroup_body.glsl"
