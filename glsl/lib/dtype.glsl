// Element types of one dtype: storage type T and accumulator type ACC
//
// Include it first, for it switches on extensions. The host defines DTYPE as one of the
// names below (framework/kernels/shader_types.py); without it elements are float32.
//
//   T, ACC, ACC4          ACC: float for floats up to 32 bits, int or uint for integers
//                         up to 32 bits and bool, otherwise T; ACC4: four of them
//   In, Out               elements in memory; AccIn, AccOut: numbers as ACC
//   load(In, i), store(Out, i, value)
//                         a variable cannot be a T of fewer than 32 bits
//   multiply_add(a, b, c) a * b + c, rounded once where ACC is a float
//   IS_FLOAT              1 or 0, for the preprocessor
//
// A shader that does nothing but move elements defines MOVES_ELEMENTS and has complex
// numbers, too, for which there are neither multiply_add nor ACC4.
// IN_ACC and OUT_ACC, if the host defines them, make In and Out the same as AccIn and
// AccOut: several kernels then pass on sums that are not rounded.

// From 1 on: a name that is none of these counts as 0, and is an error below.
#define DTYPE_FLOAT32 1
#define DTYPE_FLOAT16 2
#define DTYPE_BFLOAT16 3
#define DTYPE_FLOAT64 4
#define DTYPE_BOOL 5
#define DTYPE_INT8 6
#define DTYPE_UINT8 7
#define DTYPE_INT16 8
#define DTYPE_UINT16 9
#define DTYPE_INT32 10
#define DTYPE_UINT32 11
#define DTYPE_INT64 12
#define DTYPE_UINT64 13
#ifdef MOVES_ELEMENTS
#define DTYPE_COMPLEX64 14
#endif

#ifndef DTYPE
#define DTYPE DTYPE_FLOAT32
#endif
#define IS_FLOAT (DTYPE <= DTYPE_FLOAT64)

#if DTYPE == DTYPE_FLOAT16 || DTYPE == DTYPE_BFLOAT16 || DTYPE == DTYPE_INT16          \
    || DTYPE == DTYPE_UINT16
#extension GL_EXT_shader_16bit_storage : require
#elif DTYPE == DTYPE_BOOL || DTYPE == DTYPE_INT8 || DTYPE == DTYPE_UINT8
#extension GL_EXT_shader_8bit_storage : require
#elif DTYPE == DTYPE_INT64 || DTYPE == DTYPE_UINT64
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#endif

#if DTYPE == DTYPE_FLOAT32
#define T float
#define BYTES 4
#elif DTYPE == DTYPE_FLOAT16 || DTYPE == DTYPE_BFLOAT16 || DTYPE == DTYPE_UINT16
#define T uint16_t
#define BYTES 2
#elif DTYPE == DTYPE_FLOAT64
#define T double
#define BYTES 8
#elif DTYPE == DTYPE_BOOL || DTYPE == DTYPE_UINT8
#define T uint8_t
#define BYTES 1
#elif DTYPE == DTYPE_INT8
#define T int8_t
#define BYTES 1
#elif DTYPE == DTYPE_INT16
#define T int16_t
#define BYTES 2
#elif DTYPE == DTYPE_INT32
#define T int
#define BYTES 4
#elif DTYPE == DTYPE_UINT32
#define T uint
#define BYTES 4
#elif DTYPE == DTYPE_INT64
#define T int64_t
#define BYTES 8
#elif DTYPE == DTYPE_UINT64
#define T uint64_t
#define BYTES 8
#elif defined(DTYPE_COMPLEX64) && DTYPE == DTYPE_COMPLEX64
#define T vec2
#define BYTES 8
#else
#error "DTYPE is none of the names above"
#endif

#if DTYPE == DTYPE_FLOAT64
#define ACC double
#define ACC4 dvec4
#elif IS_FLOAT
#define ACC float
#define ACC4 vec4
#elif DTYPE == DTYPE_INT64
#define ACC int64_t
#define ACC4 i64vec4
#elif DTYPE == DTYPE_UINT64
#define ACC uint64_t
#define ACC4 u64vec4
#elif defined(DTYPE_COMPLEX64) && DTYPE == DTYPE_COMPLEX64
#define ACC vec2
#elif DTYPE == DTYPE_INT8 || DTYPE == DTYPE_INT16 || DTYPE == DTYPE_INT32
#define ACC int
#define ACC4 ivec4
#else
#define ACC uint
#define ACC4 uvec4
#endif

#if BYTES == 8
#define ACC_BYTES 8
#else
#define ACC_BYTES 4
#endif

#if DTYPE == DTYPE_FLOAT16
#include "lib/float16.glsl"
#define DECODE(stored) from_float16(uint(stored))
#define ENCODE(value) T(to_float16(value))
#elif DTYPE == DTYPE_BFLOAT16
#include "lib/bfloat16.glsl"
#define DECODE(stored) from_bfloat16(uint(stored))
#define ENCODE(value) T(to_bfloat16(value))
#elif DTYPE == DTYPE_BOOL
#define DECODE(stored) ACC(stored)
#define ENCODE(value) T(uint((value) != 0u))
#else
#define DECODE(stored) ACC(stored)
#define ENCODE(value) T(value)
#endif

layout(buffer_reference, std430, buffer_reference_align = ACC_BYTES) restrict readonly
    buffer AccIn { ACC at[]; };
layout(buffer_reference, std430, buffer_reference_align = ACC_BYTES) restrict writeonly
    buffer AccOut { ACC at[]; };

#ifdef IN_ACC
#define In AccIn
ACC load(In elements, uint index) { return elements.at[index]; }
#else
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict readonly
    buffer In { T at[]; };
ACC load(In elements, uint index) { return DECODE(elements.at[index]); }
#endif

#ifdef OUT_ACC
#define Out AccOut
void store(Out elements, uint index, ACC value) { elements.at[index] = value; }
#else
layout(buffer_reference, std430, buffer_reference_align = BYTES) restrict writeonly
    buffer Out { T at[]; };
void store(Out elements, uint index, ACC value) { elements.at[index] = ENCODE(value); }
#endif

#if IS_FLOAT
ACC multiply_add(ACC a, ACC b, ACC c) { return fma(a, b, c); }
ACC4 multiply_add(ACC4 a, ACC4 b, ACC4 c) { return fma(a, b, c); }
#elif !defined(DTYPE_COMPLEX64) || DTYPE != DTYPE_COMPLEX64
ACC multiply_add(ACC a, ACC b, ACC c) { return a * b + c; }
ACC4 multiply_add(ACC4 a, ACC4 b, ACC4 c) { return a * b + c; }
#endif
