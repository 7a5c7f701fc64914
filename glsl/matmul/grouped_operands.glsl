// GEMM operands of grouped products, with any strides, for matmul/*_body.glsl
//
//   GROUPS_OF_ROWS    out[m, n] = sum over k of a[m, k] b[g, k, n], g the group of row m
//   GROUPS_OF_K   out[g, m, n] = sum over the k of group g of a[m, k] b[k, n]
//   NUMBERED_ROWS  out[z, n] = sum over k of a[z / share, k] b[numbers[z], k, n]
//
// The last is for few rows: z counts them, from the first of the dispatch on.
#if !defined(GROUPS_OF_ROWS) && !defined(GROUPS_OF_K) && !defined(NUMBERED_ROWS)
#define GROUPS_OF_ROWS
#endif
#include "matmul/group.glsl"
#include "lib/matrix_number.glsl"

layout(push_constant, std430) uniform Push {
    In a;
    In b;
    Out out_;
#ifdef NUMBERED_ROWS
    Numbers numbers;
#else
    Offsets offsets;
#endif
    IndexSlot error;
    uint groups;
    uint m;  // rows of all groups
    uint n;
    uint k;
    uint a_row;
    uint a_column;
    uint b_row;
    uint b_column;
    uint b_group;
    uint share;
    uint first;
} push;

In a = push.a;
In b = push.b;
Out out_ = push.out_;
#ifndef NUMBERED_ROWS
Offsets offsets = push.offsets;
Group group;
#endif
uint a_column = push.a_column;
uint b_row = push.b_row;
uint columns = push.n;

#define Row uint
#define Column uint
#define Depth uint

uint product_columns() { return columns; }

#if defined(GROUPS_OF_ROWS)
#define ROW_TILE(tile, size) row_tile(tile, size)
uint row_tile(uint tile, uint size) {
    CHECK_OFFSETS(offsets, push.groups, push.m, push.error)
    group = group_of_tile(offsets, push.groups, push.m, tile, size);
    return group.tile;
}
uint product_rows() { return group.end - group.first; }
uvec2 product_depth() { return uvec2(0, group.number == push.groups ? 0 : push.k); }
Row row(uint m) { return (group.first + m) * push.a_row; }
Column column(uint n) {
    return min(group.number, push.groups - 1) * push.b_group + n * push.b_column;
}
uint result_row(uint m) { return (group.first + m) * columns; }
#elif defined(GROUPS_OF_K)
uint product_rows() { return push.m; }
uvec2 product_depth() {
    CHECK_OFFSETS(offsets, push.groups, push.k, push.error)
    uint g = push.first + gl_WorkGroupID.z;
    uint start = group_first(offsets, g, push.k);
    return uvec2(start, max(start, group_end(offsets, g, push.k)));
}
Row row(uint m) { return m * push.a_row; }
Column column(uint n) { return n * push.b_column; }
uint result_row(uint m) {
    return ((push.first + gl_WorkGroupID.z) * push.m + m) * columns;
}
#else
uint product_rows() { return 1; }
uvec2 product_depth() { return uvec2(0, push.k); }
Row row(uint m) { return (push.first + gl_WorkGroupID.z) / push.share * push.a_row; }
Column column(uint n) {
    uint z = push.first + gl_WorkGroupID.z;
    uint number = matrix_number(push.numbers, z, push.groups, push.error);
    return number * push.b_group + n * push.b_column;
}
uint result_row(uint m) { return (push.first + gl_WorkGroupID.z) * columns; }
#endif

Depth depth(uint k) { return k * b_row; }
ACC load_a(Row m, uint k) { return load(a, m + k * a_column); }
ACC load_b(Depth k, Column n) { return load(b, k + n); }
uint result_column(uint n) { return n; }
ACC result(uint m, ACC sum) { return sum; }
