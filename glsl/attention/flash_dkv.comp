// Flash attention gradients by keys and values: scale * (p * (grad v^T - delta))^T q,
// and p^T grad, where p are the weights, recomputed from the saved logsumexp
// grid    one workgroup per head of k and BLOCK keys, linear
// in      q, k, v, mask, seed: as in attention/flash.comp; grad, logsumexp, delta: as
//         in attention/flash_dq.comp
// out     grad_k (batch, heads / group, keys, HEAD), grad_v (..., VALUE_HEAD) T
// consts  those of attention/flash_body.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
// lint    scalar-load: vectors begin at any element, so nothing is aligned to 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#define OWN_FIELDS In grad; AccIn logsumexp; AccIn delta; Out grad_k; Out grad_v;
#include "attention/flash_body.glsl"

void main() {
    uint blocks = (keys - 1) / BLOCK + 1;
    uint number = linear_workgroup() / blocks;
    uint first_row = linear_workgroup() % blocks * BLOCK;
    uint key_heads = heads / group;
    if (number >= all.batch * key_heads) return;
    uint batch = number / key_heads, key_head = number % key_heads;
    In grad = all.grad;
    uint k_at = k_base(batch, key_head), v_at = v_base(batch, key_head);

    float k_sums[ROWS][COLUMNS], v_sums[ROWS][VALUE_COLUMNS];
    for (uint i = 0; i < ROWS; ++i) {
        for (uint c = 0; c < COLUMNS; ++c) k_sums[i][c] = 0.0;
        for (uint c = 0; c < VALUE_COLUMNS; ++c) v_sums[i][c] = 0.0;
    }
    // No query before the first key of the block sees any of it.
    uint start = CAUSAL != 0 ? first_row / SPAN * SPAN : 0;
    for (uint member = 0; member < group; ++member) {
        uint head = key_head * group + member;
        uint line = (batch * heads + head) * queries;
        uint q_at = q_base(batch, head), grad_at = line * VALUE_HEAD;
        uint mask_at = mask_base(batch, head);
        for (uint first = start; first < queries; first += SPAN) {
            float scores[ROWS][TILE], products[ROWS][TILE];
            multiply(
                k, k_at, k_row, keys, first_row, q, q_at, q_row, queries, first, HEAD,
                scores);
            multiply(
                v, v_at, v_row, keys, first_row, grad, grad_at, VALUE_HEAD, queries,
                first, VALUE_HEAD, products);
            for (uint j = 0; j < TILE; ++j) {
                uint query = first + column_of(j);
                uint place = line + min(query, queries - 1);
                float logsumexp = all.logsumexp.at[place], delta = all.delta.at[place];
                bool sees = query < queries && logsumexp != -INFINITE;
                for (uint i = 0; i < ROWS; ++i) {
                    uint key = first_row + team * ROWS + i;
                    float weight = score(scores[i][j], query, key, mask_at) - logsumexp;
                    weight = sees ? FALLING_EXP(weight) : 0.0;
                    float factor = DROPOUT != 0 ? kept(place, key, seed, dropout) : 1.0;
                    scores[i][j] = weight * factor;
                    products[i][j] =
                        weight * (products[i][j] * factor - delta) * scale;
                }
            }
            share(scores);
            ACCUMULATE(
                v_sums, VALUE_HEAD, VALUE_COLUMNS, grad, grad_at, VALUE_HEAD, first,
                queries)
            share(products);
            ACCUMULATE(k_sums, HEAD, COLUMNS, q, q_at, q_row, first, queries)
        }
    }
    Out grad_k = all.grad_k, grad_v = all.grad_v;
    uint base = number * keys * HEAD, v_out = number * keys * VALUE_HEAD;
    STORE(grad_k, k_sums, HEAD, COLUMNS, base, HEAD, first_row, keys)
    STORE(grad_v, v_sums, VALUE_HEAD, VALUE_COLUMNS, v_out, VALUE_HEAD, first_row, keys)
}
