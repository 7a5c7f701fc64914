// Gradients of attention by keys and values on matrix units:
// scale * (p * (grad v^T - delta))^T q, and p^T grad, where p are the weights, computed
// again from the saved logsumexp
// grid    one workgroup per head of k and BLOCK keys, linear
// in      q, k, v: as in attention/attention_units.comp; grad, logsumexp, delta: as in
//         attention/attention_units_query_vjp.comp
// out     grad_k, grad_v (batch, heads / group, keys, HEAD) T
// consts  those of lib/attention_units.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/attention_units.glsl"

layout(push_constant, std430) uniform Push {
    Words q;
    Words k;
    Words v;
    Words grad;
    AccIn logsumexp;
    AccIn delta;
    Pairs grad_k;
    Pairs grad_v;
    uint batch;
    uint heads;
    uint group;
    uint queries;
    uint keys;
    uint q_batch;
    uint q_head;
    uint q_row;
    uint k_batch;
    uint k_head;
    uint k_row;
    uint v_batch;
    uint v_head;
    uint v_row;
    float scale;
} push;

// Of the queries of a tile: what is taken from their scores, and delta.
shared float shifts[SPAN];
shared float deltas[SPAN];

// Fetch the tile of queries from `ahead` on, of the group's head `member`.
#define FETCH                                                                            \
    {                                                                                    \
        uint head_ = key_head * group + member;                                          \
        uint lines_ = (batch * heads + head_) * queries;                                 \
        uint q_at_ = batch * push.q_batch + head_ * push.q_head;                         \
        fetch(next_q, q, q_at_, push.q_row, ahead, queries);                             \
        fetch(next_grad, grad, lines_ * WORDS, WORDS, ahead, queries);                   \
        uint place_ = lines_ + min(ahead + column, queries - 1);                         \
        next_shift = shift_of(push.logsumexp.at[place_]);                                \
        if (ahead + column >= queries) next_shift = INFINITE;                            \
        next_delta = push.delta.at[place_];                                              \
    }

void main() {
    uint queries = push.queries, keys = push.keys, heads = push.heads;
    uint group = push.group, key_heads = heads / group;
    uint blocks = (keys - 1) / BLOCK + 1, block;
    uint number = choose_block(push.batch * key_heads, blocks, block);
    if (number >= push.batch * key_heads) return;
    // The first keys are seen by most queries.
    if (CAUSAL != 0) block = blocks - 1 - block;
    uint batch = number / key_heads, key_head = number % key_heads;
    uint first_row = block * BLOCK;
    Words q = push.q, grad = push.grad;
    uint k_at = batch * push.k_batch + key_head * push.k_head;
    uint v_at = batch * push.v_batch + key_head * push.v_head;
    float scale = push.scale * LOG2_E;

    FACTOR_A k[STRIPES][DEEP], v[STRIPES][DEEP];
    put_own(push.k, k_at, push.k_row, first_row, keys);
    LOAD_OWN(k)
    put_own(push.v, v_at, push.v_row, first_row, keys);
    LOAD_OWN(v)
    SUMS k_sums[STRIPES][DEEP], v_sums[STRIPES][DEEP];
    CLEAR(k_sums)
    CLEAR(v_sums)

    // No query before the first key of the block sees any of it.
    uint start = CAUSAL != 0 ? min(first_row, queries) / SPAN * SPAN : 0;
    uint count = ((queries - 1) / SPAN + 1 - start / SPAN) * group;
    uint ahead = start, member = 0;
    uint column = min(gl_LocalInvocationIndex, SPAN - 1);
    uvec4 next_q[LOADS], next_grad[LOADS];
    float next_shift, next_delta;
    FETCH
    [[dont_unroll]] for (uint tile = 0; tile < count; ++tile) {
        uint first = ahead;
        barrier();
        put(next_q, 0);
        put(next_grad, SECOND);
        shifts[column] = next_shift;
        deltas[column] = next_delta;
        barrier();
        ahead += SPAN;
        if (ahead >= queries) {
            ahead = start;
            // After the last head its first tile is fetched again, for nobody.
            member = min(member + 1, group - 1);
        }
        FETCH
#ifndef EMULATED
        if (CAUSAL != 0 && first + SPAN <= first_row + own) continue;
#endif
        bool whole = CAUSAL == 0 || first + 1 >= first_row + own + STRIPES * 16;

        UNROLL for (uint j = 0; j < ACROSS; ++j) {
            SUMS scores[STRIPES], products[STRIPES];
            FACTOR_A weights[STRIPES], changes[STRIPES];
            MULTIPLY_OWN(scores, k, j * 16 * PITCH)
            MULTIPLY_OWN(products, v, SECOND + j * 16 * PITCH)
            UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                uint at = j * 16 + column_of(i);
                float shift = shifts[at], delta = deltas[at];
                UNROLL for (uint r = 0; r < STRIPES; ++r) {
                    uint key = first_row + own + r * 16 + row_of(i);
                    float weight = exp2(fma(scores[r][i], scale, -shift));
                    if (!whole && key > first + at) weight = 0.0;
                    weights[r][i] = ROUND(weight);
                    changes[r][i] = ROUND(weight * (products[r][i] - delta));
                }
            }
            ADD_PRODUCTS(v_sums, weights, SECOND + j * 16 * PITCH)
            ADD_PRODUCTS(k_sums, changes, j * 16 * PITCH)
        }
    }

    uint base = number * keys * HEAD;
    STORE_OWN(push.grad_k, k_sums, base, HEAD, first_row, keys, push.scale)
    STORE_OWN(push.grad_v, v_sums, base, HEAD, first_row, keys, 1.0)
}
