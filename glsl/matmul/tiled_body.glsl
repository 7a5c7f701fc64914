// GEMM body with shared-memory tiles: out[m, n] = sum over k of a[m, k] * b[k, n]
//
// A workgroup computes BLOCK_M x BLOCK_N outputs, an invocation QUADS_M x QUADS_N
// blocks of 4x4, spread so that neighbours read neighbouring vectors of it. Tiles are
// double-buffered, so one barrier per K step is enough. Prefetching the next tiles into
// registers before the arithmetic was tried: on an H200 128x128 tiles lost (39 -> 33
// TFLOP/s), 64x64 tiles hardly won.
//
// LOCAL_X must be BLOCK_M * BLOCK_N / (16 * QUADS_M * QUADS_N), and a multiple of each
// of BLOCK_M, BLOCK_N and BLOCK_K. A_ALONG_K: neighbours load along k, not along m;
// B_ALONG_K likewise. The includer defines what is multiplied: see
// matmul/subgroup_body.glsl.
// lint    scalar-load: A_ALONG_K and B_ALONG_K make neighbours load neighbours

layout(constant_id = 3) const uint BLOCK_M = 64;
layout(constant_id = 4) const uint BLOCK_N = 64;
layout(constant_id = 5) const uint BLOCK_K = 8;
layout(constant_id = 6) const uint QUADS_M = 2;
layout(constant_id = 7) const uint QUADS_N = 2;
layout(constant_id = 8) const uint A_ALONG_K = 0;
layout(constant_id = 9) const uint B_ALONG_K = 0;

const uint ACROSS_M = BLOCK_M / (4 * QUADS_M);
const uint ACROSS_N = BLOCK_N / (4 * QUADS_N);
const uint INVOCATIONS = ACROSS_M * ACROSS_N;
const uint LOADS_A = BLOCK_M * BLOCK_K / INVOCATIONS;
const uint LOADS_B = BLOCK_N * BLOCK_K / INVOCATIONS;

// One vector of padding avoids bank conflicts of stores along K.
shared ACC4 tile_a[2][BLOCK_K][BLOCK_M / 4 + 1];
shared ACC4 tile_b[2][BLOCK_K][BLOCK_N / 4 + 1];

// Tile coordinates of the i-th load of this invocation: (k, m or n).
uvec2 place(uint i, uint block, uint along_k) {
    uint element = gl_LocalInvocationIndex + i * INVOCATIONS;
    return along_k != 0 ? uvec2(element % BLOCK_K, element / BLOCK_K)
                        : uvec2(element / block, element % block);
}

#ifndef ROW_TILE
#define ROW_TILE(tile, size) (tile)
#endif

void main() {
    uint columns = product_columns();
    uint tiles = (columns - 1) / BLOCK_N + 1;
    uint first_row = ROW_TILE(linear_workgroup() / tiles, BLOCK_M) * BLOCK_M;
    uint rows = product_rows();
    uvec2 range = product_depth();
    uint first_column = linear_workgroup() % tiles * BLOCK_N;
    if (first_row >= rows) return;

    uint x = gl_LocalInvocationIndex % ACROSS_N;
    uint y = gl_LocalInvocationIndex / ACROSS_N;
    Row row_of[LOADS_A];
    Column column_of[LOADS_B];
    for (uint i = 0; i < LOADS_A; ++i) {
        uint m = first_row + place(i, BLOCK_M, A_ALONG_K).y;
        row_of[i] = row(min(m, rows - 1));
    }
    for (uint i = 0; i < LOADS_B; ++i) {
        uint n = first_column + place(i, BLOCK_N, B_ALONG_K).y;
        column_of[i] = column(min(n, columns - 1));
    }
    ACC4 sum[QUADS_M * 4][QUADS_N];
    for (uint i = 0; i < QUADS_M * 4; ++i)
        for (uint j = 0; j < QUADS_N; ++j) sum[i][j] = ACC4(0);

    uint stage = 0;
    for (uint start = range.x; start < range.y; start += BLOCK_K) {
        for (uint i = 0; i < LOADS_A; ++i) {
            uvec2 at = place(i, BLOCK_M, A_ALONG_K);
            uint k = start + at.x;
            ACC value = load_a(row_of[i], min(k, range.y - 1));
            tile_a[stage][at.x][at.y / 4][at.y % 4] = k < range.y ? value : ACC(0);
        }
        for (uint i = 0; i < LOADS_B; ++i) {
            uvec2 at = place(i, BLOCK_N, B_ALONG_K);
            uint k = start + at.x;
            ACC value = load_b(depth(min(k, range.y - 1)), column_of[i]);
            tile_b[stage][at.x][at.y / 4][at.y % 4] = k < range.y ? value : ACC(0);
        }
        barrier();
        for (uint k = 0; k < BLOCK_K; ++k) {
            ACC4 a[QUADS_M], b[QUADS_N];
            for (uint i = 0; i < QUADS_M; ++i)
                a[i] = tile_a[stage][k][i * ACROSS_M + y];
            for (uint j = 0; j < QUADS_N; ++j)
                b[j] = tile_b[stage][k][j * ACROSS_N + x];
            for (uint i = 0; i < QUADS_M * 4; ++i)
                for (uint j = 0; j < QUADS_N; ++j)
                    sum[i][j] = multiply_add(ACC4(a[i / 4][i % 4]), b[j], sum[i][j]);
        }
        stage ^= 1;
    }

#ifdef EPILOGUE
    for (uint i = 0; i < QUADS_M * 4; ++i) {
        uint m = first_row + 4 * (i / 4 * ACROSS_M + y) + i % 4;
        for (uint j = 0; j < QUADS_N; ++j) {
            uint n = first_column + 4 * (j * ACROSS_N + x);
            uint to = result_row(m) + result_column(n);
            vec4 values;
            for (uint e = 0; e < 4; ++e)
                values[e] = float(result(min(m, rows - 1), sum[i][j][e]));
            if (m < rows && n < columns) epilogue(push.epilogue, to / 4, values);
        }
    }
#else
    for (uint j = 0; j < QUADS_N * 4; ++j) {
        uint n = first_column + 4 * (j / 4 * ACROSS_N + x) + j % 4;
        uint to = result_column(n);
        for (uint i = 0; i < QUADS_M * 4; ++i) {
            uint m = first_row + 4 * (i / 4 * ACROSS_M + y) + i % 4;
            ACC value = result(min(m, rows - 1), sum[i][j / 4][j % 4]);
            if (m < rows && n < columns) store(out_, result_row(m) + to, value);
        }
    }
#endif
}
