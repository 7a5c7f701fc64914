// Attention on matrix units: softmax(q k^T * scale) v for each head
// grid    one workgroup per head and BLOCK queries, linear; with CAUSAL the longest first
// in      q (batch, heads, queries, HEAD), k, v (batch, heads / group, keys, HEAD), T,
//         strided in words of 16 bytes
// out     out_ (batch, queries, heads, HEAD) T; logsumexp (batch, heads, queries) of the
//         scores, float
// consts  those of lib/attention_units.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/attention_units.glsl"

layout(push_constant, std430) uniform Push {
    Words q;
    Words k;
    Words v;
    Pairs out_;
    AccOut logsumexp;
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

// A maximum is replaced when another one exceeds it by so much, in powers of two: weights
// then stay below 2^8, and sums are hardly ever scaled.
const float SLACK = 8.0;

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

    put_own(push.q, q_at, push.q_row, first_row, queries);
    FACTOR_A q[STRIPES][DEEP];
    LOAD_OWN(q)
    SUMS sums[STRIPES][DEEP];
    CLEAR(sums)
    // Of the rows row_of(0) and row_of(4); totals are this invocation's part.
    vec2 greatest[STRIPES], total[STRIPES];
    UNROLL for (uint r = 0; r < STRIPES; ++r) {
        greatest[r] = vec2(-1e30);
        total[r] = vec2(0.0);
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

        SUMS scores[STRIPES][ACROSS];
        UNROLL for (uint r = 0; r < STRIPES; ++r)
            UNROLL for (uint j = 0; j < ACROSS; ++j) scores[r][j] = NO_SUMS;
        UNROLL for (uint e = 0; e < DEEP; ++e)
            UNROLL for (uint j = 0; j < ACROSS; ++j) {
                FACTOR_B right;
                LOAD_B_TURNED(right, j * 16 * PITCH + 2 * e, PITCH);
                UNROLL for (uint r = 0; r < STRIPES; ++r)
                    MULTIPLY(q[r][e], right, scores[r][j]);
            }
        if (first + SPAN > keys || CAUSAL != 0 && first + SPAN > first_row + own)
            UNROLL for (uint r = 0; r < STRIPES; ++r)
                UNROLL for (uint j = 0; j < ACROSS; ++j)
                    UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                        uint key = first + j * 16 + column_of(i);
                        uint query = first_row + own + r * 16 + row_of(i);
                        if (key >= keys || CAUSAL != 0 && key > query)
                            scores[r][j][i] = -INFINITE;
                    }

        FACTOR_A weights[STRIPES][ACROSS];
        UNROLL for (uint r = 0; r < STRIPES; ++r) {
            vec2 most = vec2(-INFINITE);
            UNROLL for (uint j = 0; j < ACROSS; ++j)
                UNROLL for (uint i = 0; i < ELEMENTS; ++i)
                    most[i / 4] = max(most[i / 4], scores[r][j][i]);
            most *= scale;
            if (subgroupAny(any(greaterThan(most, greatest[r] + SLACK)))) {
                most = max(most, subgroupShuffleXor(most, 1));
                most = max(most, subgroupShuffleXor(most, 2));
                most = max(most, greatest[r]);
                vec2 factor = exp2(greatest[r] - most);
                greatest[r] = most;
                total[r] *= factor;
                UNROLL for (uint d = 0; d < DEEP; ++d)
                    UNROLL for (uint i = 0; i < ELEMENTS; ++i)
                        sums[r][d][i] *= factor[i / 4];
            }
            UNROLL for (uint j = 0; j < ACROSS; ++j)
                UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                    float weight =
                        exp2(fma(scores[r][j][i], scale, -greatest[r][i / 4]));
                    total[r][i / 4] += weight;
                    weights[r][j][i] = ROUND(weight);
                }
        }
        UNROLL for (uint j = 0; j < ACROSS; ++j)
            UNROLL for (uint d = 0; d < DEEP; ++d) {
                FACTOR_B right;
                LOAD_B(right, SECOND + j * 16 * PITCH + 2 * d, PITCH);
                UNROLL for (uint r = 0; r < STRIPES; ++r)
                    MULTIPLY(weights[r][j], right, sums[r][d]);
            }
    }

    UNROLL for (uint r = 0; r < STRIPES; ++r) {
        total[r] += subgroupShuffleXor(total[r], 1);
        total[r] += subgroupShuffleXor(total[r], 2);
        UNROLL for (uint half_ = 0; half_ < 2; ++half_) {
            uint row = first_row + own + r * 16 + row_of(4 * half_);
            if (lane % 4 == 0 && row < queries)
                push.logsumexp.at[number * queries + row] =
                    (greatest[r][half_] + log2(total[r][half_])) * LN_2;
            float whole = total[r][half_];
            total[r][half_] = whole > 0.0 ? 1.0 / whole : whole;
        }
    }
    uint base = (batch * queries * heads + head) * HEAD;
    STORE_OWN(push.out_, sums, base, heads * HEAD, first_row, queries, total[r_][i_ / 4])
}
