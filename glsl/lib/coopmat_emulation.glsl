// Emulated 16 x 16 cooperative matrices of matmul/gemm_coopmat, for tests on devices
// without tensor cores: 32 invocations exchange elements through shared memory, so
// either all invocations of a workgroup multiply or none does
//
// The includer has included lib/dtype.glsl, and has `shared uvec4 tiles[]`.

#if DTYPE == DTYPE_FLOAT32
#include "lib/float16.glsl"
#define DECODE_FACTOR(bits) from_float16(bits)
#else
#define DECODE_FACTOR(bits) DECODE(bits)
#endif

#define A_FRAGMENT float[8]
#define B_FRAGMENT float[8]
#define C_FRAGMENT float[8]
#define NO_SUMS float[8](0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
#define stored(sums) sums
#define BY_ROWS false
#define BY_COLUMNS true
#define coopMatLoad(matrix, memory, at, pitch, turned)                                  \
    load_matrix(matrix, at, pitch, turned)
#define coopMatMulAdd(a, b, sums) multiplied(a, b, sums)
#define coopMatStore(matrix, memory, at, pitch, turned) store_matrix(matrix, at, pitch)
#define STRIP_BARRIER() barrier()

shared float factors[gl_WorkGroupSize.x * 16];
uint lane = gl_LocalInvocationIndex % 32;
uint subgroup = gl_LocalInvocationIndex / 32;

uint row_of(uint i) { return lane / 4 + 8 * (i >> 2); }
uint column_of(uint i) { return 2 * (lane % 4) + (i & 1) + 8 * (i >> 1 & 1); }

void load_matrix(out float fragment[8], uint at, uint pitch, bool turned) {
    [[dont_unroll]] for (uint i = 0; i < 8; ++i) {
        uint line = turned ? column_of(i) : row_of(i);
        uint place = turned ? row_of(i) : column_of(i);
        uint word = tiles[at + line * pitch + place / 8][place / 2 % 4];
        fragment[i] = DECODE_FACTOR(place % 2 == 0 ? word & 0xffffu : word >> 16);
    }
}

float[8] multiplied(float a[8], float b[8], float sums[8]) {
    uint base = subgroup * 512;
    barrier();
    [[dont_unroll]] for (uint i = 0; i < 8; ++i) {
        uint place = base + row_of(i) * 16 + column_of(i);
        factors[place] = a[i];
        factors[place + 256] = b[i];
    }
    barrier();
    [[dont_unroll]] for (uint i = 0; i < 8; ++i)
        [[dont_unroll]] for (uint k = 0; k < 16; ++k)
            sums[i] += factors[base + row_of(i) * 16 + k]
                * factors[base + 256 + k * 16 + column_of(i)];
    return sums;
}

void store_matrix(float fragment[8], uint at, uint pitch) {
    [[dont_unroll]] for (uint i = 0; i < 8; i += 2) {
        uint place = column_of(i);
        uint line = at + row_of(i) * pitch;
#if STORED_BYTES == 2
        tiles[line + place / 8][place / 2 % 4] =
            uint(ENCODE(fragment[i])) | uint(ENCODE(fragment[i + 1])) << 16;
#else
        tiles[line + place / 4][place % 4] = floatBitsToUint(fragment[i]);
        tiles[line + place / 4][place % 4 + 1] = floatBitsToUint(fragment[i + 1]);
#endif
    }
}
