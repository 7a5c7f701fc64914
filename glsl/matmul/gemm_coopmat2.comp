// Batched GEMM on tensor cores: NV cooperative matrices of a workgroup
// grid    linear in tiles of BLOCK_M x BLOCK_N; z: batch, then split-K slices
// in      a, b: 16-bit floats, 16-byte aligned, K padded to whole BLOCK_K;
//         strides and batch strides count vectors of 8
// out     out_ (batch, m, n), contiguous; DTYPE, or ACC with OUT_ACC
// consts  BLOCK_M, BLOCK_N, BLOCK_K, A_ALONG_K, B_ALONG_K, DIRECT_STORE,
//         UNEVEN_SPLITS; DEPTH, A_STRIDE, B_STRIDE: sizes of a shape that recurs, or 0
// source  GL_NV_cooperative_matrix2; a candidate alone, which has not been timed yet
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_NV_cooperative_matrix2 : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#if DTYPE == DTYPE_BFLOAT16
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define ELEMENT float16_t
#endif

// No device accumulates in bfloat16, so none can store such matrices; elements are then
// rounded and stored one by one.
#if DTYPE == DTYPE_BFLOAT16 && !defined(OUT_ACC)
#define ONE_BY_ONE
#elif DTYPE == DTYPE_FLOAT16 && !defined(OUT_ACC)
#define STORED float16_t
#define STORED_BYTES 2
#else
#define STORED float
#define STORED_BYTES 4
#endif

layout(constant_id = 3) const uint BLOCK_M = 128;
layout(constant_id = 4) const uint BLOCK_N = 128;
layout(constant_id = 5) const uint BLOCK_K = 64;  // a power of two
layout(constant_id = 6) const uint A_ALONG_K = 1;
layout(constant_id = 7) const uint B_ALONG_K = 0;
layout(constant_id = 8) const uint DEPTH = 0;
layout(constant_id = 9) const uint A_STRIDE = 0;
layout(constant_id = 10) const uint B_STRIDE = 0;
layout(constant_id = 11) const uint UNEVEN_SPLITS = 0;
layout(constant_id = 12) const uint DIRECT_STORE = 0;  // whether rows are whole vectors,
                                                 // and all tiles lie inside
const uint WIDTH = 8;  // elements of a vector

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Elements { ELEMENT at[]; };

layout(push_constant, std430) uniform Push {
    Elements a;
    Elements b;
    Out out_;
    uint m;
    uint n;
    uint k;  // K of a split-K slice; the last has the rest of the total
    uint total;
    uint batches;
    uint a_stride;
    uint b_stride;
    uint a_batch;
    uint b_batch;
    uint last_row;  // start of the last tiles
    uint last_column;
} push;

#define SUMS(TYPE)                                                                     \
    coopmat<TYPE, gl_ScopeWorkgroup, BLOCK_M, BLOCK_N, gl_MatrixUseAccumulator>

#ifdef ONE_BY_ONE
ACC put(const in uint row, const in uint column, const in ACC value,
    const in uint first_row, const in uint first_column, const in uint plane_row) {
    bool inside = first_row + row < push.m && first_column + column < push.n;
    if (DIRECT_STORE != 0 || inside)
        store(push.out_, (plane_row + row) * push.n + first_column + column, value);
    return value;
}
#else
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer Results { STORED at[]; };
layout(buffer_reference, std430, buffer_reference_align = STORED_BYTES) restrict
    writeonly buffer AnyResults { STORED at[]; };
#endif

void main() {
    uint rows = push.m;
    uint columns = DIRECT_STORE != 0 ? push.n & ~(WIDTH - 1) : push.n;
    uint across = (columns - 1) / BLOCK_N + 1;
    uint first_row = linear_workgroup() / across * BLOCK_M;
    if (first_row >= rows) return;
    // The last tiles move back over their neighbours and write the same values again,
    // so that no load needs a bound; operands with less than a tile are padded.
    first_row = min(first_row, push.last_row);
    uint first_column = min(linear_workgroup() % across * BLOCK_N, push.last_column);
    uint part = gl_WorkGroupID.z / push.batches;
    uint batch = gl_WorkGroupID.z % push.batches;
    uint depth = DEPTH != 0 ? DEPTH : push.k;
    uint own = UNEVEN_SPLITS != 0 ? min(depth, push.total - part * depth) : depth;
    // Drivers load single elements where they cannot see a divisor of a size or stride.
    own &= ~(BLOCK_K - 1);
    uint a_stride = WIDTH * (A_STRIDE != 0 ? A_STRIDE : push.a_stride);
    uint b_stride = WIDTH * (B_STRIDE != 0 ? B_STRIDE : push.b_stride);
    uint a_from = WIDTH * (batch * push.a_batch);
    uint b_from = WIDTH * (batch * push.b_batch);
    first_row = A_ALONG_K != 0 ? first_row : first_row & ~(WIDTH - 1);
    first_column = B_ALONG_K != 0 ? first_column : first_column & ~(WIDTH - 1);
    a_from += A_ALONG_K != 0 ? first_row * a_stride + part * depth
                             : part * depth * a_stride + first_row;
    b_from += B_ALONG_K != 0 ? first_column * b_stride + part * depth
                             : part * depth * b_stride + first_column;

    // Of each operand only the lines of this workgroup's tile.
    tensorLayoutNV<2> a = createTensorLayoutNV(2);
    tensorLayoutNV<2> b = createTensorLayoutNV(2);
    tensorViewNV<2, false, 1, 0> turned = createTensorViewNV(2, false, 1, 0);
    if (A_ALONG_K != 0) a = setTensorLayoutDimensionNV(a, BLOCK_M, own);
    else a = setTensorLayoutDimensionNV(a, own, BLOCK_M);
    if (B_ALONG_K != 0) b = setTensorLayoutDimensionNV(b, BLOCK_N, own);
    else b = setTensorLayoutDimensionNV(b, own, BLOCK_N);
    a = setTensorLayoutStrideNV(a, a_stride, 1);
    b = setTensorLayoutStrideNV(b, b_stride, 1);

    SUMS(ACC) sum = SUMS(ACC)(0);
    [[dont_unroll]] for (uint k = 0; k < own; k += BLOCK_K) {
        coopmat<ELEMENT, gl_ScopeWorkgroup, BLOCK_M, BLOCK_K, gl_MatrixUseA> left;
        coopmat<ELEMENT, gl_ScopeWorkgroup, BLOCK_K, BLOCK_N, gl_MatrixUseB> right;
        if (A_ALONG_K != 0)
            coopMatLoadTensorNV(left, push.a.at, a_from,
                sliceTensorLayoutNV(a, 0, BLOCK_M, k, BLOCK_K));
        else
            coopMatLoadTensorNV(left, push.a.at, a_from,
                sliceTensorLayoutNV(a, k, BLOCK_K, 0, BLOCK_M), turned);
        if (B_ALONG_K != 0)
            coopMatLoadTensorNV(right, push.b.at, b_from,
                sliceTensorLayoutNV(b, 0, BLOCK_N, k, BLOCK_K), turned);
        else
            coopMatLoadTensorNV(right, push.b.at, b_from,
                sliceTensorLayoutNV(b, k, BLOCK_K, 0, BLOCK_N));
        sum = coopMatMulAdd(left, right, sum);
    }

    uint plane_row = gl_WorkGroupID.z * rows + first_row;
#ifdef ONE_BY_ONE
    coopMatPerElementNV(sum, sum, put, first_row, first_column, plane_row);
#else
    SUMS(STORED) results = SUMS(STORED)(sum);
    uint to = plane_row * columns + first_column;
    if (DIRECT_STORE != 0) {
        tensorLayoutNV<2> place = createTensorLayoutNV(2);
        place = setTensorLayoutDimensionNV(place, BLOCK_M, BLOCK_N);
        place = setTensorLayoutStrideNV(place, columns, 1);
        coopMatStoreTensorNV(results, Results(push.out_).at, to,
            sliceTensorLayoutNV(place, 0, BLOCK_M, 0, BLOCK_N));
    } else {
        // Elements out of bounds are not stored.
        tensorLayoutNV<2, gl_CooperativeMatrixClampModeConstantNV> place
            = createTensorLayoutNV(2, gl_CooperativeMatrixClampModeConstantNV);
        place = setTensorLayoutDimensionNV(
            place, rows - first_row, columns - first_column);
        place = setTensorLayoutStrideNV(place, columns, 1);
        coopMatStoreTensorNV(results, AnyResults(push.out_).at, to,
            sliceTensorLayoutNV(place, 0, BLOCK_M, 0, BLOCK_N));
    }
#endif
}
