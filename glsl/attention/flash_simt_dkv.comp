// Flash attention gradients by keys and values in register tiles: scale * (p * (grad v^T
// - delta))^T q, and p^T grad, where p are the weights, recomputed from the logsumexp
// grid    one workgroup per head of k and BLOCK keys, linear
// in      as of attention/flash_dkv.comp
// out     as of attention/flash_dkv.comp
// consts  those of attention/simt_body.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#define OWN_FIELDS In grad; AccIn logsumexp; AccIn delta; Out grad_k; Out grad_v;
#include "attention/simt_body.glsl"

void main() {
    uint blocks = (keys - 1) / BLOCK + 1;
    uint number = linear_workgroup() / blocks;
    uint first_row = linear_workgroup() % blocks * BLOCK;
    uint key_heads = heads / group;
    if (number >= all.batch * key_heads) return;
    uint batch = number / key_heads, key_head = number % key_heads;
    In grad = all.grad;
    AccIn logsumexp = all.logsumexp, delta = all.delta;
    uint k_at = k_base(batch, key_head), v_at = v_base(batch, key_head);

    vec4 k_sums[ROWS][RESULT_QUADS], v_sums[ROWS][RESULT_QUADS];
    CLEAR(k_sums, RESULT_QUADS)
    CLEAR(v_sums, RESULT_QUADS)
    // No query before the first key of the block sees any of it.
    uint start = CAUSAL != 0 ? first_row / SPAN * SPAN : 0;
    for (uint member = 0; member < group; ++member) {
        uint head = key_head * group + member;
        uint line = (batch * heads + head) * queries;
        uint q_at = q_base(batch, head), grad_at = line * VALUE_HEAD;
        uint mask_at = mask_base(batch, head);
        for (uint first = start; first < queries; first += SPAN) {
            vec4 scores[ROWS][COLUMN_QUADS], values[ROWS][COLUMN_QUADS];
            multiply(
                k, k_at, k_row, keys, first_row, q, q_at, q_row, queries, first, HEAD,
                scores);
            // While the weights are computed.
            vec4 next[LINE_LOADS];
            fetch_lines(grad, grad_at, VALUE_HEAD, first, queries, VALUE_HEAD, next);
            bool all_seen = sees_all(first, first_row, BLOCK);
            [[unroll]] for (uint j = 0; j < TILE; ++j) {
                uint query = first + column_of(j);
                uint place = line + min(query, queries - 1);
                float subtrahend = logsumexp.at[place];
                bool sees = query < queries && subtrahend != -INFINITE;
                [[unroll]] for (uint i = 0; i < ROWS; ++i) {
                    uint key = first_row + row_of(i);
                    float weight = scores[i][j / 4][j % 4];
                    weight = all_seen ? weight * scale
                                      : score(weight, query, key, mask_at);
                    weight = sees ? quick_exp(weight - subtrahend) : 0.0;
                    values[i][j / 4][j % 4] = weight;
                    if (DROPOUT != 0) {
                        float factor = kept(place, key, seed, dropout);
                        values[i][j / 4][j % 4] = weight * factor;
                        // Weights are not negative: the sign says which are dropped.
                        scores[i][j / 4][j % 4] = factor == 0.0 ? -weight : weight;
                    }
                }
            }
            share(values);
            accumulate(
                grad, grad_at, VALUE_HEAD, first, queries, VALUE_HEAD, next, v_sums);
            multiply(
                v, v_at, v_row, keys, first_row, grad, grad_at, VALUE_HEAD, queries,
                first, VALUE_HEAD, values);
            fetch_lines(q, q_at, q_row, first, queries, HEAD, next);
            [[unroll]] for (uint j = 0; j < TILE; ++j) {
                uint query = first + column_of(j);
                float subtrahend = delta.at[line + min(query, queries - 1)];
                [[unroll]] for (uint h = 0; h < ROW_QUADS; ++h) {
                    vec4 weights = tile[tile_at(j, h)];
                    [[unroll]] for (uint u = 0; u < 4; ++u) {
                        uint i = 4 * h + u;
                        float weight = weights[u], product = values[i][j / 4][j % 4];
                        if (DROPOUT != 0) {
                            weight = abs(scores[i][j / 4][j % 4]);
                            bool dropped = scores[i][j / 4][j % 4] < 0.0;
                            product = dropped ? 0.0 : product / (1.0 - dropout);
                        }
                        float found = weight * (product - subtrahend) * scale;
                        values[i][j / 4][j % 4] = query < queries ? found : 0.0;
                    }
                }
            }
            share(values);
            accumulate(q, q_at, q_row, first, queries, HEAD, next, k_sums);
        }
    }
    Out grad_k = all.grad_k, grad_v = all.grad_v;
    uint base = number * keys * HEAD, v_out = number * keys * VALUE_HEAD;
    store_own(grad_k, k_sums, HEAD, base, HEAD, first_row, keys);
    store_own(grad_v, v_sums, VALUE_HEAD, v_out, VALUE_HEAD, first_row, keys);
}
