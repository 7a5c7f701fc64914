// Batched SIMT GEMM of float32 whose operands start anywhere, large tiles in registers
// grid    as matmul/gemm_simt.comp
// in      a, b: float32 at any address, not padded, of sizes that are a tile at least;
//         strides and batch strides count elements
// out     as matmul/gemm_simt.comp, without IMPLICIT_GEMM
// consts  as matmul/gemm_simt.comp
// source  matmul/gemm_simt.comp
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "matmul/epilogue_hook.glsl"
#include "matmul/simt_tile.glsl"
#include "matmul/simt_unaligned.glsl"
#include "matmul/simt_body.glsl"
