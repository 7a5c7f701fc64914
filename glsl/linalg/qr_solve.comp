// Products of reflections' vectors with columns, solved for what to take of each vector
// grid    x one workgroup for 16 columns, z matrices
// in      products (matrices, parts, VECTORS, width) REAL: see linalg/qr_gram.comp; taus
//         (matrices, n): the factors of the reflections, of which the first is `begun`'s
// out     shares (matrices, VECTORS, width): T of I - V T V^T, or its transpose if FORWARD,
//         times the products; its inverse is triangular, with the products of vectors
//         beside the diagonal and 1 / tau on it
// consts  FORWARD; LOCAL_X: 256
// macros  DOUBLE: see linalg/real.glsl; VECTORS: how many there are, 4 to 64
// source  Golub and Van Loan, "Matrix Computations", 4th edition, section 5.2.3; Puglisi,
//         "Modification of the Householder method based on the compact WY representation",
//         SIAM Journal on Scientific and Statistical Computing 13, 1992
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/index.glsl"
#include "linalg/real.glsl"

#ifndef VECTORS
#define VECTORS 16
#endif

layout(constant_id = 3) const uint FORWARD = 0;

layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict readonly
    buffer Reals { REAL at[]; };
layout(buffer_reference, std430, buffer_reference_align = REAL_SIZE) restrict writeonly
    buffer Results { REAL at[]; };

layout(push_constant, std430) uniform Push {
    Reals products;
    Reals taus;
    Results shares;
    uint n;
    uint begun;
    uint parts;
    uint width;
} args;

const uint WORKGROUP = 256;
const uint EDGE = 16;
// Columns in front, of products of the vectors with each other
const uint OWN = 64;

// Vectors that are solved for by one invocation, before their shares are taken from the
// others' products by all
const uint BLOCK = min(VECTORS, 16);
// Elements that an invocation adds up at once
const uint AT_ONCE = 8;

// Of each vector the products with those that are solved after it, the next one first
shared REAL beside[VECTORS][VECTORS];
shared REAL given[VECTORS][EDGE];
shared REAL tau_of[VECTORS];

// The vector that is number k of the substitution
uint place_of(uint k) { return FORWARD != 0 ? k : VECTORS - 1 - k; }

void main() {
    uint thread = gl_LocalInvocationIndex, n = args.n, begun = args.begun;
    uint parts = args.parts, width = args.width, size = VECTORS * width;
    uint left = OWN + gl_WorkGroupID.x * EDGE, begin = gl_WorkGroupID.z * parts * size;
    Reals products = args.products, taus = args.taus;
    Results shares = args.shares;
    if (thread < VECTORS) {
        uint column = begun + place_of(thread);
        REAL tau = 0.0;
        if (column < n) tau = taus.at[gl_WorkGroupID.z * n + column];
        tau_of[thread] = tau;
    }
    const uint of_vectors = VECTORS * VECTORS, count = of_vectors + VECTORS * EDGE;
    [[dont_unroll]] for (uint base = thread; base < count; base += AT_ONCE * WORKGROUP) {
        uint at[AT_ONCE];
        REAL sums[AT_ONCE];
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
            // Beyond the last one that is loaded again.
            uint i = min(base + j * WORKGROUP, count - 1), k = i / VECTORS;
            uint right = place_of(min(k + 1 + i % VECTORS, VECTORS - 1));
            if (i >= of_vectors) {
                k = (i - of_vectors) / EDGE;
                right = left + (i - of_vectors) % EDGE;
            }
            at[j] = begin + place_of(k) * width + right;
            sums[j] = 0.0;
        }
        for (uint part = 0; part < parts; ++part) {
            [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
                sums[j] += products.at[at[j]];
                at[j] += size;
            }
        }
        [[unroll]] for (uint j = 0; j < AT_ONCE; ++j) {
            uint i = base + j * WORKGROUP;
            if (i < of_vectors) beside[i / VECTORS][i % VECTORS] = sums[j];
            if (i >= of_vectors && i < count)
                given[(i - of_vectors) / EDGE][(i - of_vectors) % EDGE] = sums[j];
        }
    }
    barrier();
    uint start = gl_WorkGroupID.z * size + left + thread;
    for (uint first = 0; first < VECTORS; first += BLOCK) {
        if (thread < EDGE) {
            REAL held[BLOCK];
            [[unroll]] for (uint k = 0; k < BLOCK; ++k) held[k] = given[first + k][thread];
            // Number k is always the first in registers, which are rotated by one.
            [[dont_unroll]] for (uint k = 0; k < BLOCK; ++k) {
                REAL value = held[0] * tau_of[first + k];
                given[first + k][thread] = value;
                shares.at[start + place_of(first + k) * width] = value;
                [[unroll]] for (uint other = 1; other < BLOCK; ++other)
                    held[other - 1] =
                        fma(-beside[first + k][other - 1], value, held[other]);
            }
        }
        barrier();
        uint behind = first + BLOCK;
        for (uint i = thread; i < (VECTORS - behind) * EDGE; i += WORKGROUP) {
            uint other = behind + i / EDGE, column = i % EDGE;
            REAL rest = given[other][column];
            [[unroll]] for (uint k = 0; k < BLOCK; ++k)
                rest = fma(-beside[first + k][other - 1 - first - k],
                    given[first + k][column], rest);
            given[other][column] = rest;
        }
        barrier();
    }
}
