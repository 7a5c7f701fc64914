// Types of matmul/gemm_coopmat.comp: ELEMENT of operands, SUM, STORED in shared memory

#if DTYPE == DTYPE_FLOAT16 || DTYPE == DTYPE_FLOAT32
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define ELEMENT float16_t
#elif DTYPE == DTYPE_INT8
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#define ELEMENT int8_t
#else
#extension GL_EXT_bfloat16 : require
#define ELEMENT bfloat16_t
#ifdef BFLOAT16_BITS
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#endif
#ifdef FLOAT16_ACCUMULATE
#define SUM float16_t
#else
#define SUM ACC
#endif
// Factors of float32 were scaled and rounded to float16; results are scaled back.
#if DTYPE == DTYPE_FLOAT32 && !defined(SCALED_SUMS)
#define SCALED
#endif

// With WIDE_STORES results are stored in vectors of 16 bytes, and rows must be whole
// vectors. float16 is rounded before shared memory, if the device may round it.
#if !defined(EPILOGUE) && !defined(BIAS)
#if defined(WIDE_STORES)                                                               \
    && (DTYPE != DTYPE_FLOAT16 || defined(ROUNDED) || defined(OUT_ACC))
#define WIDE
#endif
// bfloat16, which no accumulator has, then passes as the bits of float16.
#if defined(BFLOAT16_BITS) && DTYPE == DTYPE_BFLOAT16 && !defined(OUT_ACC)
#define AS_BITS
#endif
#endif
#if defined(ROUNDED) || defined(AS_BITS)
#define STORED float16_t
#define STORED_BYTES 2
#else
#define STORED ACC
#define STORED_BYTES 4
#endif
