// Batched GEMM on tensor cores whose operands start anywhere
// grid    as matmul/gemm_coopmat.comp
// in      a, b: 16-bit floats at any address, not padded, of sizes that are a tile at
//         least, and with K_TAIL of any K; strides and batch strides count elements
// out     as matmul/gemm_coopmat.comp, without IMPLICIT_GEMM
// consts  as matmul/gemm_coopmat.comp, without EDGE_K and L2_PREFETCHES
// source  matmul/gemm_coopmat.comp and lib/unaligned_load.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/unaligned_load.glsl"
#include "matmul/rounded_results.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/coopmat_types.glsl"
#include "matmul/coopmat_tile.glsl"
#include "matmul/coopmat_unaligned.glsl"
#include "matmul/coopmat_body.glsl"
