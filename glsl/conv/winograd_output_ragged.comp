// Winograd output transform, of results with any lines, which no epilogue takes
// grid    linear in rows and tiles
// in      products (points, rows, pitch), bias (rows)
// out     out_ (images, rows, height, width)
// consts  those of conv/winograd.glsl and conv/winograd_output.glsl
// source  conv/winograd.glsl
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "conv/winograd.glsl"
#include "conv/winograd_tiles.glsl"
#define RAGGED
#include "conv/winograd_output.glsl"
