// Arguments of the GEMMs with large tiles, matmul/gemm_coopmat.comp and gemm_simt.comp

#ifndef FORMAT
#define Right Vectors
#else
#define Right Blocks
#endif

layout(push_constant, std430) uniform Push {
    Vectors a;
    Right b;
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
#ifdef FORMAT
    uint table;  // see quantized/format.glsl
#endif
#ifdef GROUPED
    Offsets offsets;
    IndexSlot error;
    uint groups;
#endif
#ifdef SCALED
    Exponents row_exponents;  // see lib/float16_scale.glsl
    Exponents column_exponents;
#endif
#ifdef BIAS
    In bias;
#endif
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
} push;
