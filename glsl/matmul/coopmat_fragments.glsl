// Fragments of matmul/gemm_coopmat.comp on tensor cores; see lib/coopmat_emulation.glsl

#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#define A_FRAGMENT coopmat<ELEMENT, gl_ScopeSubgroup, EDGE, EDGE_K, gl_MatrixUseA>
#define B_FRAGMENT coopmat<ELEMENT, gl_ScopeSubgroup, EDGE_K, EDGE, gl_MatrixUseB>
#define C_FRAGMENT coopmat<SUM, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseAccumulator>
#define STORED_FRAGMENT                                                                \
    coopmat<STORED, gl_ScopeSubgroup, EDGE, EDGE, gl_MatrixUseAccumulator>
#ifdef AS_BITS
STORED_FRAGMENT stored(C_FRAGMENT sums) {
    STORED_FRAGMENT bits;
    [[unroll]] for (uint e = 0; e < sums.length(); e += 2) {
        f16vec2 both = unpackFloat2x16(pack_bfloat16(sums[e], sums[e + 1]));
        bits[e] = both.x;
        bits[e + 1] = both.y;
    }
    return bits;
}
#else
#define stored(sums) STORED_FRAGMENT(sums)
#endif
#define NO_SUMS C_FRAGMENT(SUM(0))
#define BY_ROWS gl_CooperativeMatrixLayoutRowMajor
#define BY_COLUMNS gl_CooperativeMatrixLayoutColumnMajor
#define STRIP_BARRIER() subgroupBarrier()
uint lane = gl_SubgroupInvocationID;
uint subgroup = gl_SubgroupID;
