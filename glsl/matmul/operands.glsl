// GEMM operands, batched, with any strides, for matmul/*_body.glsl

layout(push_constant, std430) uniform Push {
    In a;
    In b;
    Out out_;
    uint m;
    uint n;
    uint k;
    uint a_row;
    uint a_column;
    uint b_row;
    uint b_column;
    uint a_batch;
    uint b_batch;
    uint batches;
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
} push;

// Read once, before any loop: lavapipe fetches push constants inside one lane by lane.
In a = push.a;
In b = push.b;
Out out_ = push.out_;
uint a_column = push.a_column;
uint b_row = push.b_row;
uint columns = push.n;
uint out_batch_rows = gl_WorkGroupID.z * push.m;

// Slices of K, of push.k each, follow one another along z, each with all batches.
uint slice = gl_WorkGroupID.z / push.batches;
uint batch = gl_WorkGroupID.z - slice * push.batches;
uint a_from = batch * push.a_batch + slice * push.k * a_column;
uint b_from = batch * push.b_batch + slice * push.k * b_row;

#define Row uint
#define Column uint
#define Depth uint

uint product_rows() { return push.m; }
uint product_columns() { return columns; }
uvec2 product_depth() { return uvec2(0, push.k); }

Row row(uint m) { return a_from + m * push.a_row; }
Column column(uint n) { return b_from + n * push.b_column; }
Depth depth(uint k) { return k * b_row; }

ACC load_a(Row m, uint k) { return load(a, m + k * a_column); }
ACC load_b(Depth k, Column n) { return load(b, k + n); }

uint result_row(uint m) { return (out_batch_rows + m) * columns; }
uint result_column(uint n) { return n; }
ACC result(uint m, ACC sum) { return sum; }
