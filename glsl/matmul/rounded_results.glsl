// ROUNDED: results are float16 before an epilogue, or anything else, takes them
#if DTYPE == DTYPE_FLOAT16 && defined(DEVICE_ROUNDING) && !defined(OUT_ACC)            \
    && !defined(BIAS)
#define ROUNDED
#endif
