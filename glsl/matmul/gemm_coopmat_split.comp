// Batched GEMM of float32 by bf16x3 on tensor cores, of operands that lie as whole vectors
// grid    see matmul/gemm_coopmat.comp
// in      a, b: float32 in vectors of 4; strides and batch strides count vectors. K is
//         padded to whole BLOCK_K / 2; with K_TAIL any, along K whole vectors
// out     see matmul/gemm_coopmat.comp.
// consts  see matmul/gemm_coopmat.comp; BLOCK_K counts high and low halves
// source  -
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_shader_subgroup_basic : require
#define SPLIT_ON_LOAD
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/bfloat16.glsl"
#include "matmul/rounded_results.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/coopmat_types.glsl"
#include "matmul/coopmat_tile.glsl"
#include "matmul/coopmat_split.glsl"
#include "matmul/coopmat_body.glsl"
