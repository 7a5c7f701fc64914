// Grouped GEMM, subgroup tiles: one product for each group of rows, or of k
// grid    linear in tiles of ROWS x (COLUMNS * LOCAL_X); z: groups with GROUPS_OF_K, rows
//         with NUMBERED_ROWS
// in      a, b and offsets as of matmul/grouped_operands.glsl; b_group: stride of a group
// out     out_, contiguous; error: an offset, or a number, out of range
// consts  ROWS, COLUMNS; LOCAL_X is the subgroup size
// source  matmul/subgroup_body.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/grouped_operands.glsl"
#include "matmul/subgroup_body.glsl"
