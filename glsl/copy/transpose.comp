// Batched transpose of planes:
// out[b, i, j] = x[b * batch + i * step + j * line]
// grid    linear in tiles of ROWS x COLUMNS; z: plane
// in      x of T; step is 1, or neighbours are not read together
// out     out_ (planes, rows, columns) T, contiguous
// consts  LOCAL_X: a multiple of ROWS and COLUMNS, which are powers of two; FLIP_ROWS,
//         FLIP_COLUMNS: of the result, reversed
// source  through shared memory, so that reads and writes both run along memory
#version 460
#extension GL_EXT_buffer_reference : require
#define MOVES_ELEMENTS
#include "lib/dtype.glsl"
#include "lib/index.glsl"

#if BYTES < 4
#define HELD uint
#else
#define HELD T
#endif

layout(constant_id = 3) const uint FLIP_ROWS = 0;
layout(constant_id = 4) const uint FLIP_COLUMNS = 0;

layout(constant_id = 5) const uint ROWS = 64;
layout(constant_id = 6) const uint COLUMNS = 64;

layout(push_constant, std430) uniform Push {
    In x;
    Out out_;
    uint rows;
    uint columns;
    uint step;
    uint line;
    uint batch;
} push;

// One column of padding avoids bank conflicts; for 8 bytes, where it would exceed the
// 32 KiB that every device has, each row is swizzled instead.
const uint PITCH = BYTES < 8 ? ROWS + 1 : ROWS;
shared HELD tile[COLUMNS][PITCH];

uint place(uint column, uint row) { return BYTES < 8 ? row : row ^ column % ROWS; }

void main() {
    In x = push.x;
    Out out_ = push.out_;
    uint rows = push.rows, columns = push.columns;
    uint across = (rows - 1) / ROWS + 1, number = linear_workgroup();
    uint first_row = number % across * ROWS, first_column = number / across * COLUMNS;
    if (first_column >= columns) return;

    uint fast = gl_LocalInvocationIndex % ROWS, slow = gl_LocalInvocationIndex / ROWS;
    uint together = gl_WorkGroupSize.x / ROWS;
    uint from = gl_WorkGroupID.z * push.batch + (first_row + fast) * push.step;
    if (first_row + fast < rows)
        for (uint j = slow; j < min(COLUMNS, columns - first_column); j += together) {
            uint column = first_column + j;
            if (FLIP_COLUMNS != 0) column = columns - 1 - column;
            tile[j][place(j, fast)] = HELD(x.at[from + column * push.line]);
        }
    barrier();
    fast = gl_LocalInvocationIndex % COLUMNS;
    slow = gl_LocalInvocationIndex / COLUMNS;
    together = gl_WorkGroupSize.x / COLUMNS;
    uint to = gl_WorkGroupID.z * rows * columns + first_column + fast;
    if (first_column + fast < columns)
        for (uint i = slow; i < min(ROWS, rows - first_row); i += together) {
            uint row = first_row + i;
            if (FLIP_ROWS != 0) row = rows - 1 - row;
            out_.at[to + row * columns] = T(tile[fast][place(fast, i)]);
        }
}
