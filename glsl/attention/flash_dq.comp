// Flash attention gradient by the queries: scale * p * (grad v^T - delta) k, where p
// are the weights, recomputed from the saved logsumexp
// grid    one workgroup per head and BLOCK queries, linear
// in      q, k, v, mask, seed: as in attention/flash.comp; grad (batch, heads,
//         queries, VALUE_HEAD) T; logsumexp, and delta, the sums of grad times the
//         result (batch, heads, queries) of ACC
// out     out_ (batch, heads, queries, HEAD) T
// consts  those of attention/flash_body.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
// lint    scalar-load: vectors begin at any element, so nothing is aligned to 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#define OWN_FIELDS In grad; AccIn logsumexp; AccIn delta; Out out_;
#include "attention/flash_body.glsl"

void main() {
    uint blocks = (queries - 1) / BLOCK + 1;
    uint number = linear_workgroup() / blocks;
    uint first_row = linear_workgroup() % blocks * BLOCK;
    if (number >= all.batch * heads) return;
    uint batch = number / heads, head = number % heads;
    uint k_at = k_base(batch, head / group), v_at = v_base(batch, head / group);
    uint mask_at = mask_base(batch, head);
    In grad = all.grad;
    uint q_at = q_base(batch, head), grad_at = number * queries * VALUE_HEAD;
    float logsumexp[ROWS], delta[ROWS];
    for (uint i = 0; i < ROWS; ++i) {
        uint row = min(first_row + team * ROWS + i, queries - 1);
        logsumexp[i] = all.logsumexp.at[number * queries + row];
        delta[i] = all.delta.at[number * queries + row];
    }

    float sums[ROWS][COLUMNS];
    for (uint i = 0; i < ROWS; ++i)
        for (uint c = 0; c < COLUMNS; ++c) sums[i][c] = 0.0;
    uint end = CAUSAL != 0 ? min(keys, first_row + BLOCK) : keys;
    for (uint first = 0; first < end; first += SPAN) {
        float scores[ROWS][TILE], products[ROWS][TILE];
        multiply(
            q, q_at, q_row, queries, first_row, k, k_at, k_row, keys, first, HEAD, scores);
        multiply(
            grad, grad_at, VALUE_HEAD, queries, first_row, v, v_at, v_row, keys, first,
            VALUE_HEAD, products);
        bool all_seen = sees_all(first_row, first, SPAN);
        for (uint i = 0; i < ROWS; ++i)
            for (uint j = 0; j < TILE; ++j) {
                uint row = first_row + team * ROWS + i, key = first + column_of(j);
                float weight = all_seen
                    ? scores[i][j] * scale
                    : score(scores[i][j], row, key, mask_at);
                weight -= logsumexp[i];
                weight = logsumexp[i] == -INFINITE ? 0.0 : FALLING_EXP(weight);
                if (DROPOUT != 0)
                    products[i][j] *= kept(number * queries + row, key, seed, dropout);
                scores[i][j] = weight * (products[i][j] - delta[i]) * scale;
            }
        share(scores);
        ACCUMULATE(sums, HEAD, COLUMNS, k, k_at, k_row, first, end)
    }
    Out out_ = all.out_;
    uint base = number * queries * HEAD;
    STORE(out_, sums, HEAD, COLUMNS, base, HEAD, first_row, queries)
}
