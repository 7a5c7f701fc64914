// Flash attention gradients by keys and values on tensor cores:
// scale * (p * (grad v^T - delta))^T q, and p^T grad, where p are the weights,
// recomputed from the saved logsumexp
// grid    one workgroup per head of k and BLOCK keys, linear
// in      q, k, v: as in attention/flash_coopmat.comp; grad, logsumexp, delta: as in
//         attention/flash_coopmat_dq.comp
// out     grad_k, grad_v (batch, heads / group, keys, HEAD) T
// consts  those of attention/coopmat_body.glsl; RESULT: which gradients
// source  Dao, FlashAttention-2, arXiv:2307.08691
// lint    scalar-load: arguments, once; vectors come in words of 16 bytes
#version 460
#extension GL_EXT_buffer_reference : require
#define OWN_FIELDS Words grad; AccIn logsumexp; AccIn delta; Pairs grad_k; Pairs grad_v;
#include "attention/coopmat_body.glsl"

// 0 is both; where there are too few registers for it, one dispatch computes the gradients
// by keys, 1, and one those by values, 2.
layout(constant_id = 11) const uint RESULT = 0;
const bool BY_KEYS = RESULT != 2, BY_VALUES = RESULT != 1;

// Per query of a tile: the subtrahend of its scores, and delta.
shared float shifts[SPAN];
shared float deltas[SPAN];

// Prefetch the tile of queries from `ahead` on, of the group's head `member`.
#define FETCH                                                                            \
    {                                                                                    \
        uint head_ = key_head * group + member;                                          \
        uint lines_ = (batch * heads + head_) * queries;                                 \
        fetch(next_q, q, q_base(batch, head_), q_row, ahead, queries);                   \
        fetch(next_grad, grad, lines_ * WORDS, WORDS, ahead, queries);                   \
        uint place_ = lines_ + min(ahead + column, queries - 1);                         \
        next_shift = shift_of(all.logsumexp.at[place_]);                                 \
        if (ahead + column >= queries) next_shift = INFINITE;                            \
        next_delta = all.delta.at[place_];                                               \
    }

void main() {
    uint key_heads = heads / group;
    uint blocks = (keys - 1) / BLOCK + 1, block;
    uint number = choose_block(all.batch * key_heads, blocks, block);
    if (number >= all.batch * key_heads) return;
    // The first keys are seen by most queries.
    if (CAUSAL != 0) block = blocks - 1 - block;
    uint batch = number / key_heads, key_head = number % key_heads;
    uint first_row = block * BLOCK;
    Words grad = all.grad;

    FACTOR_A own_k[STRIPES][DEEP], own_v[STRIPES][DEEP];
    LOAD_OWN(own_k, k, k_base(batch, key_head), k_row, first_row, keys)
    if (BY_KEYS) LOAD_OWN(own_v, v, v_base(batch, key_head), v_row, first_row, keys)
    SUMS k_sums[STRIPES][DEEP], v_sums[STRIPES][DEEP];
    CLEAR(k_sums)
    CLEAR(v_sums)

    // No query before the first key of the block sees any of it.
    uint start = CAUSAL != 0 ? min(first_row, queries) / SPAN * SPAN : 0;
    uint count = ((queries - 1) / SPAN + 1 - start / SPAN) * group;
    uint ahead = start, member = 0;
    uint column = min(gl_LocalInvocationIndex, SPAN - 1);
    WORD next_q[LOADS], next_grad[LOADS];
    float next_shift, next_delta;
    FETCH
    [[dont_unroll]] for (uint tile = 0; tile < count; ++tile) {
        uint first = ahead, head = key_head * group + member;
        uint lines = (batch * heads + head) * queries, mask_at = mask_base(batch, head);
        barrier();
        put(next_q, 0, first, queries);
        put(next_grad, SECOND, first, queries);
        shifts[column] = next_shift;
        deltas[column] = next_delta;
        barrier();
        ahead += SPAN;
        if (ahead >= queries) {
            ahead = start;
            // After the last head its first tile is prefetched again, unused.
            member = min(member + 1, group - 1);
        }
        FETCH
#ifndef EMULATED
        if (CAUSAL != 0 && first + SPAN <= first_row + own) continue;
#endif
        bool whole = HAS_MASK == 0
            && (CAUSAL == 0 || first + 1 >= first_row + own + STRIPES * 16);

        UNROLL for (uint j = 0; j < ACROSS; ++j) {
            SUMS scores[STRIPES], products[STRIPES];
            FACTOR_A weights[STRIPES], changes[STRIPES];
            MULTIPLY_OWN(scores, own_k, j * 16 * PITCH)
            if (BY_KEYS) {
                MULTIPLY_OWN(products, own_v, SECOND + j * 16 * PITCH)
            }
            if (!whole)
                UNROLL for (uint r = 0; r < STRIPES; ++r)
                    UNROLL for (uint i = 0; i < ELEMENTS; ++i)
                        scores[r][i] = masked(
                            scores[r][i], first + j * 16 + column_of(i),
                            first_row + own + r * 16 + row_of(i), mask_at);
            UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                uint at = j * 16 + column_of(i);
                float shift = shifts[at], delta = deltas[at];
                UNROLL for (uint r = 0; r < STRIPES; ++r) {
                    float weight = exp2(fma(scores[r][i], scale, -shift));
                    float factor = DROPOUT == 0 ? 1.0 : kept(
                        lines + first + at, first_row + own + r * 16 + row_of(i),
                        seed, dropout);
                    if (BY_VALUES) {
                        SET(weights[r], i, weight * factor);
                    }
                    if (BY_KEYS) {
                        SET(changes[r], i, weight * (products[r][i] * factor - delta));
                    }
                }
            }
            if (BY_VALUES) ADD_PRODUCTS(v_sums, weights, SECOND + j * 16 * PITCH)
            if (BY_KEYS) ADD_PRODUCTS(k_sums, changes, j * 16 * PITCH)
        }
    }

    uint base = number * keys * HEAD;
    Pairs grad_k = all.grad_k, grad_v = all.grad_v;
    if (BY_KEYS) STORE_OWN(grad_k, k_sums, base, HEAD, first_row, keys, all.scale)
    if (BY_VALUES) STORE_OWN(grad_v, v_sums, base, HEAD, first_row, keys, 1.0)
}
