// Tiles in shared memory of the SIMT GEMMs with large tiles, and their constants

#if DTYPE == DTYPE_INT8
#include "lib/dot_int8.glsl"
#define NUMBER int
#define VECTOR ivec4
#define MULTIPLY_ADD(a, b, c) ((c) + dot_int8(a, b))
#else
#define NUMBER float
#define VECTOR vec4
#define MULTIPLY_ADD(a, b, c) fma(a, b, c)
#endif

layout(constant_id = 3) const uint BLOCK_M = 128;
layout(constant_id = 4) const uint BLOCK_N = 128;
layout(constant_id = 5) const uint QUADS_M = 4;
layout(constant_id = 6) const uint QUADS_N = 2;
layout(constant_id = 7) const uint A_ALONG_K = 1;
layout(constant_id = 8) const uint B_ALONG_K = 0;
layout(constant_id = 9) const uint DIRECT_STORE = 0;
layout(constant_id = 10) const uint DEPTH = 0;
layout(constant_id = 11) const uint A_STRIDE = 0;
layout(constant_id = 12) const uint B_STRIDE = 0;
layout(constant_id = 13) const uint UNEVEN_SPLITS = 0;
layout(constant_id = 14) const uint K_SLICES = 1;
layout(constant_id = 15) const uint PREFETCH_DISTANCE = 1;
layout(constant_id = 16) const uint UNEVEN_SLICES = 0;
layout(constant_id = 18) const uint K_TAIL = 0;
layout(constant_id = 19) const uint GRID_MAPPED = 0;

#if defined(SIDE_BY_SIDE) || defined(SUMMED)
// SIDE_BY_SIDE: columns are those of several right operands, of PLANE each, and results
// are a matrix for each. SUMMED: so is K, of both operands, along which they lie; results
// are summed. PLANE is a multiple of WIDTH, and batch strides are the distances of
// matrices.
layout(constant_id = 20) const uint PLANE = 4;
#endif

const uint BLOCK_K = 8;
const uint STRIP = 8;  // tiles
const uint WIDTH = 4;  // elements of a vector
const uint ACROSS_M = BLOCK_M / (4 * QUADS_M);
const uint ACROSS_N = BLOCK_N / (4 * QUADS_N);
const uint THREADS = ACROSS_M * ACROSS_N;  // of a slice
const uint A_LOADS = BLOCK_M * BLOCK_K / 4 / THREADS;
const uint B_LOADS = BLOCK_N * BLOCK_K / 4 / THREADS;
const uint ROWS = 4 * QUADS_M;  // of an invocation
const uint COLUMNS = 4 * QUADS_N;
// Lines of a tile that all invocations load at once.
const uint A_LINES = THREADS / (A_ALONG_K != 0 ? BLOCK_K / 4 : BLOCK_M / 4);
const uint B_LINES = THREADS / (B_ALONG_K != 0 ? BLOCK_K / 4 : BLOCK_N / 4);

// A vector of padding avoids bank conflicts of stores along K.
const uint A_PITCH = BLOCK_M / 4 + 1;
const uint B_PITCH = BLOCK_N / 4 + 1;
const uint A_TILE = BLOCK_K * A_PITCH;
const uint B_TILE = BLOCK_K * B_PITCH;
const uint B_START = 2 * K_SLICES * A_TILE;

// Two tiles of each operand per slice. Sliced-K interleaves K steps, so that a
// multiprocessor with one workgroup overlaps loads with arithmetic.
shared VECTOR tiles[B_START + 2 * K_SLICES * B_TILE];

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Vectors { VECTOR at[]; };
layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly
    buffer Numbers { NUMBER at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer OutVectors { VECTOR at[]; };

#include "matmul/arguments.glsl"
#include "matmul/result_address.glsl"

// Whether results are staged in shared memory, which does not speed up sliced-K. Those of
// stride phases are apart: staged, neighbours of a line are stored at once.
#if defined(EPILOGUE)
const bool PASSES = false;
#elif defined(IMPLICIT_GEMM)
const bool PASSES = RESULTS == PHASES && DIRECT_STORE == 0 && K_SLICES == 1;
#else
const bool PASSES = DIRECT_STORE == 0 && K_SLICES == 1;
#endif

#if defined(SIDE_BY_SIDE) || defined(SUMMED)
// Offset of a vector among those of a line of matrices that are `apart`.
uint offset_among(uint vector, uint apart) {
    uint matrix = vector / (PLANE / WIDTH);
    return matrix * apart + (vector - matrix * (PLANE / WIDTH));
}
#endif

// Registers of the step that comes to a stage of shared memory next; with
// PREFETCH_DISTANCE 2 those of the step after it are being loaded as well.
#define NEXT(stage) (stage) % PREFETCH_DISTANCE

// Whether an offset in a step lies before the start of K.
#define IN_K_TAIL(step, place) (K_TAIL != 0 && (step) * BLOCK_K + (place) < skipped)

#define A_AT(stage, k, vector)                                                         \
    ((2 * slice + (stage)) * A_TILE + (k) * A_PITCH + (vector))
#define B_IN(stage, k, vector)                                                         \
    (B_START + (2 * slice + (stage)) * B_TILE + (k) * B_PITCH + (vector))

#define READ(stage, k)                                                                 \
    [[unroll]] for (uint i = 0; i < QUADS_M; ++i)                                      \
        left[(k) % 2][i] = tiles[A_AT(stage, (k) % BLOCK_K, i * ACROSS_M + y)];        \
    [[unroll]] for (uint j = 0; j < QUADS_N; ++j)                                      \
        right[(k) % 2][j] = tiles[B_IN(stage, (k) % BLOCK_K, j * ACROSS_N + x)];
