// Batched transpose of planes of 2-byte elements, vectorised over pairs:
// out[b, i, j] = x[b * batch + i + j * line]
// grid    linear in tiles of 128 rows x 64 columns; z: plane
// in      x of 2-byte elements; it begins at a whole word, and line and batch are even
// out     out_ (planes, rows, columns), contiguous; rows and columns are even
// consts  LOCAL_X: a multiple of 64; FLIP_ROWS, FLIP_COLUMNS: of the result, reversed
// source  as copy/transpose.comp, whose loads and stores move half as much
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"

layout(constant_id = 3) const uint FLIP_ROWS = 0;
layout(constant_id = 4) const uint FLIP_COLUMNS = 0;

const uint ROW_PAIRS = 64;
const uint COLUMN_PAIRS = 32;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    PairsIn { uint at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    PairsOut { uint at[]; };

layout(push_constant, std430) uniform Push {
    PairsIn x;
    PairsOut out_;
    uint rows;
    uint columns;
    uint line;
    uint batch;
} push;

// Of each row its pairs of columns: first the even rows, then the odd ones, so that
// neighbours in a workgroup write to different banks.
shared uint tile[2 * ROW_PAIRS][COLUMN_PAIRS + 1];

void main() {
    PairsIn x = push.x;
    PairsOut out_ = push.out_;
    uint row_pairs = push.rows / 2, column_pairs = push.columns / 2, line = push.line / 2;
    uint across = (row_pairs - 1) / ROW_PAIRS + 1, number = linear_workgroup();
    uint first_row = number % across * ROW_PAIRS;
    uint first_column = number / across * COLUMN_PAIRS;
    if (first_column >= column_pairs) return;

    uint fast = gl_LocalInvocationIndex % ROW_PAIRS;
    uint slow = gl_LocalInvocationIndex / ROW_PAIRS;
    uint together = gl_WorkGroupSize.x / ROW_PAIRS;
    uint from = gl_WorkGroupID.z * (push.batch / 2) + first_row + fast;
    if (first_row + fast < row_pairs)
        [[unroll]] for (uint j = slow; j < COLUMN_PAIRS; j += together) {
            uint column = 2 * min(first_column + j, column_pairs - 1);
            uint next = column + 1;
            if (FLIP_COLUMNS != 0) {
                column = push.columns - 1 - column;
                next = column - 1;
            }
            uint one = x.at[from + column * line], two = x.at[from + next * line];
            tile[fast][j] = one & 0xffffu | two << 16;
            tile[ROW_PAIRS + fast][j] = one >> 16 | two & 0xffff0000u;
        }
    barrier();

    fast = gl_LocalInvocationIndex % COLUMN_PAIRS;
    slow = gl_LocalInvocationIndex / COLUMN_PAIRS;
    together = gl_WorkGroupSize.x / COLUMN_PAIRS;
    uint to = gl_WorkGroupID.z * push.rows * column_pairs + first_column + fast;
    if (first_column + fast < column_pairs)
        [[unroll]] for (uint i = slow; i < 2 * ROW_PAIRS; i += together) {
            uint row = 2 * first_row + i;
            if (row >= push.rows) continue;
            if (FLIP_ROWS != 0) row = push.rows - 1 - row;
            out_.at[to + row * column_pairs] = tile[i % 2 * ROW_PAIRS + i / 2][fast];
        }
}
