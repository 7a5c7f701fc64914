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

// Of each vector the products with those that are solved after it, the next one first
shared REAL beside[VECTORS][VECTORS];
shared REAL given[VECTORS][EDGE];

// The vector that is number k of the substitution
uint place_of(uint k) { return FORWARD != 0 ? k : VECTORS - 1 - k; }

REAL product(Reals products, uint row, uint column) {
    uint parts = args.parts, width = args.width;
    uint at = (gl_WorkGroupID.z * parts * VECTORS + row) * width + column;
    REAL sum = 0.0;
    for (uint part = 0; part < parts; ++part) {
        sum += products.at[at];
        at += VECTORS * width;
    }
    return sum;
}

void main() {
    uint thread = gl_LocalInvocationIndex, n = args.n, begun = args.begun;
    uint width = args.width, left = OWN + gl_WorkGroupID.x * EDGE;
    Reals products = args.products, taus = args.taus;
    Results shares = args.shares;
    for (uint i = thread; i < VECTORS * VECTORS; i += WORKGROUP) {
        uint k = i / VECTORS, other = k + 1 + i % VECTORS;
        REAL value = 0.0;
        if (other < VECTORS) value = product(products, place_of(k), place_of(other));
        beside[k][i % VECTORS] = value;
    }
    for (uint i = thread; i < VECTORS * EDGE; i += WORKGROUP)
        given[i / EDGE][i % EDGE] = product(products, place_of(i / EDGE), left + i % EDGE);
    barrier();
    if (thread >= EDGE) return;
    REAL held[VECTORS];
    [[unroll]] for (uint k = 0; k < VECTORS; ++k) held[k] = given[k][thread];
    uint start = gl_WorkGroupID.z * VECTORS * width + left + thread;
    // Number k is always the first in registers, which are rotated by one.
    [[dont_unroll]] for (uint k = 0; k < VECTORS; ++k) {
        uint place = place_of(k), column = begun + place;
        REAL value = 0.0;
        if (column < n) value = held[0] * taus.at[gl_WorkGroupID.z * n + column];
        shares.at[start + place * width] = value;
        [[unroll]] for (uint other = 1; other < VECTORS; ++other)
            held[other - 1] = fma(-beside[k][other - 1], value, held[other]);
    }
}
