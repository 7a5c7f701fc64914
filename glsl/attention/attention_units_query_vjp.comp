// Gradient of attention by the queries on matrix units: scale * p * (grad v^T - delta) k,
// where p are the weights, computed again from the saved logsumexp
// grid    one workgroup per head and BLOCK queries, linear
// in      q, k, v: as in attention/attention_units.comp; grad (batch, heads, queries,
//         HEAD) T; logsumexp, and delta, the sums of grad times the result (batch, heads,
//         queries) float
// out     out_ (batch, heads, queries, HEAD) T
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
    Pairs out_;
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

void main() {
    uint queries = push.queries, keys = push.keys, heads = push.heads;
    uint blocks = (queries - 1) / BLOCK + 1, block;
    uint number = choose_block(push.batch * heads, blocks, block);
    if (number >= push.batch * heads) return;
    uint batch = number / heads, head = number % heads;
    uint first_row = block * BLOCK;
    Words k = push.k, v = push.v;
    uint k_at = batch * push.k_batch + head / push.group * push.k_head;
    uint v_at = batch * push.v_batch + head / push.group * push.v_head;
    uint q_at = batch * push.q_batch + head * push.q_head;
    float scale = push.scale * LOG2_E;

    FACTOR_A q[STRIPES][DEEP], grad[STRIPES][DEEP];
    put_own(push.q, q_at, push.q_row, first_row, queries);
    LOAD_OWN(q)
    put_own(push.grad, number * queries * WORDS, WORDS, first_row, queries);
    LOAD_OWN(grad)
    SUMS sums[STRIPES][DEEP];
    CLEAR(sums)
    // Of the rows row_of(0) and row_of(4).
    vec2 shift[STRIPES], delta[STRIPES];
    UNROLL for (uint r = 0; r < STRIPES; ++r)
        UNROLL for (uint half_ = 0; half_ < 2; ++half_) {
            uint row = first_row + own + r * 16 + row_of(4 * half_);
            uint place = number * queries + min(row, queries - 1);
            shift[r][half_] = shift_of(push.logsumexp.at[place]);
            delta[r][half_] = push.delta.at[place];
        }

    uint end = CAUSAL != 0 ? min(keys, first_row + BLOCK) : keys;
    uint count = (end - 1) / SPAN + 1;
    uvec4 next_k[LOADS], next_v[LOADS];
    fetch(next_k, k, k_at, push.k_row, 0, keys);
    fetch(next_v, v, v_at, push.v_row, 0, keys);
    [[dont_unroll]] for (uint tile = 0; tile < count; ++tile) {
        uint first = tile * SPAN;
        barrier();
        put(next_k, 0);
        put(next_v, SECOND);
        barrier();
        // The last tile is fetched once more, which is cheaper than a branch.
        uint ahead = min(tile + 1, count - 1) * SPAN;
        fetch(next_k, k, k_at, push.k_row, ahead, keys);
        fetch(next_v, v, v_at, push.v_row, ahead, keys);
#ifndef EMULATED
        if (CAUSAL != 0 && first > first_row + own + STRIPES * 16 - 1) continue;
#endif
        bool whole = first + SPAN <= keys
            && (CAUSAL == 0 || first + SPAN <= first_row + own);

        UNROLL for (uint j = 0; j < ACROSS; ++j) {
            SUMS scores[STRIPES], products[STRIPES];
            FACTOR_A changes[STRIPES];
            MULTIPLY_OWN(scores, q, j * 16 * PITCH)
            MULTIPLY_OWN(products, grad, SECOND + j * 16 * PITCH)
            UNROLL for (uint r = 0; r < STRIPES; ++r)
                UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                    uint key = first + j * 16 + column_of(i);
                    uint query = first_row + own + r * 16 + row_of(i);
                    float weight = exp2(fma(scores[r][i], scale, -shift[r][i / 4]));
                    if (!whole && (key >= keys || CAUSAL != 0 && key > query))
                        weight = 0.0;
                    changes[r][i] = ROUND(weight * (products[r][i] - delta[r][i / 4]));
                }
            ADD_PRODUCTS(sums, changes, j * 16 * PITCH)
        }
    }

    uint base = number * queries * HEAD;
    STORE_OWN(push.out_, sums, base, HEAD, first_row, queries, push.scale)
}
