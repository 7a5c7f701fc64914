// Flash attention gradient by the queries in register tiles: scale * p * (grad v^T -
// delta) k, where p are the weights, recomputed from the saved logsumexp
// grid    one workgroup per head and BLOCK queries, linear; with CAUSAL the longest first
// in      as of attention/flash_dq.comp
// out     as of attention/flash_dq.comp
// consts  those of attention/simt_body.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#define OWN_FIELDS In grad; AccIn logsumexp; AccIn delta; Out out_;
#include "attention/simt_body.glsl"

#define row_logsumexp own_first_numbers
#define row_delta own_second_numbers

void main() {
    uint blocks = (queries - 1) / BLOCK + 1;
    uint number = linear_workgroup() / blocks, block = linear_workgroup() % blocks;
    if (number >= all.batch * heads) return;
    uint first_row = (CAUSAL != 0 ? blocks - 1 - block : block) * BLOCK;
    uint batch = number / heads, head = number % heads;
    uint k_at = k_base(batch, head / group), v_at = v_base(batch, head / group);
    uint mask_at = mask_base(batch, head);
    In grad = all.grad;
    uint q_at = q_base(batch, head), grad_at = number * queries * VALUE_HEAD;
    AccIn logsumexp = all.logsumexp, delta = all.delta;
    if (at < BLOCK) {
        uint place = number * queries + min(first_row + at, queries - 1);
        row_logsumexp[at / 4][at % 4] = logsumexp.at[place];
        row_delta[at / 4][at % 4] = delta.at[place];
    }

    vec4 sums[ROWS][RESULT_QUADS];
    CLEAR(sums, RESULT_QUADS)
    uint end = CAUSAL != 0 ? min(keys, first_row + BLOCK) : keys;
    for (uint first = 0; first < end; first += SPAN) {
        // Scores, then products with gradients; meanwhile weights wait in the tile.
        vec4 values[ROWS][COLUMN_QUADS];
        multiply(
            q, q_at, q_row, queries, first_row, k, k_at, k_row, keys, first, HEAD, values);
        bool all_seen = sees_all(first_row, first, SPAN);
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            float subtrahend = row_logsumexp[team * ROW_QUADS + i / 4][i % 4];
            bool sees = subtrahend != -INFINITE;
            [[unroll]] for (uint j = 0; j < TILE; ++j) {
                float product = values[i][j / 4][j % 4];
                product = all_seen ? product * scale
                                   : score(
                                         product, first_row + row_of(i),
                                         first + column_of(j), mask_at);
                values[i][j / 4][j % 4] = sees ? quick_exp(product - subtrahend) : 0.0;
            }
        }
        share(values);
        multiply(
            grad, grad_at, VALUE_HEAD, queries, first_row, v, v_at, v_row, keys, first,
            VALUE_HEAD, values);
        vec4 next_k[LINE_LOADS];
        fetch_lines(k, k_at, k_row, first, end, HEAD, next_k);
        [[unroll]] for (uint j = 0; j < TILE; ++j)
            [[unroll]] for (uint h = 0; h < ROW_QUADS; ++h) {
                vec4 weights = tile[tile_at(j, h)] * scale;
                vec4 deltas = row_delta[team * ROW_QUADS + h];
                [[unroll]] for (uint u = 0; u < 4; ++u) {
                    uint i = 4 * h + u;
                    float product = values[i][j / 4][j % 4];
                    if (DROPOUT != 0)
                        product *= kept(
                            number * queries + first_row + row_of(i), first + column_of(j),
                            seed, dropout);
                    values[i][j / 4][j % 4] = weights[u] * (product - deltas[u]);
                }
            }
        share(values);
        accumulate(k, k_at, k_row, first, end, HEAD, next_k, sums);
    }
    Out out_ = all.out_;
    uint base = number * queries * HEAD;
    store_own(out_, sums, HEAD, base, HEAD, first_row, queries);
}
