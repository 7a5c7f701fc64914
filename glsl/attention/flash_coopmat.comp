// Flash attention on tensor cores: softmax(q k^T * scale) v for each head
// grid    one workgroup per head and BLOCK queries, linear; with CAUSAL the longest first
// in      q (batch, heads, queries, HEAD), k, v (batch, heads / group, keys, HEAD), T,
//         strided in words of 16 bytes
// out     out_ (batch, queries, heads, HEAD) T; logsumexp (batch, heads, queries) of the
//         scores, float
// consts  those of attention/coopmat_body.glsl
// macros  PAGED: k and v are a cache, see attention/pages.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#define OWN_FIELDS Pairs out_; AccOut logsumexp;
#include "attention/coopmat_body.glsl"

// Lazy rescaling: the running maximum is replaced when exceeded by so much, in powers
// of two. Weights then stay below 2^8, and accumulators are hardly ever rescaled.
const float SLACK = 8.0;

// Whether the next tiles are prefetched after the scores of the current ones, not
// before them; quicker on an NVIDIA H200 (driver 580.159.04, 2026-11-21) but for this.
const bool LATE = CAUSAL == 0 || HEAD > 64;

// Whether a subgroup goes past tiles of which it sees nothing, where it waits for no
// other in the rest of the loop.
const bool SKIPS = IN_TURN == 0 && STAGES == 1;

#define FETCH(first)                                                                     \
    {                                                                                    \
        fetch(next_k, k, k_at, k_row, first, keys);                                     \
        fetch(next_v, v, v_at, v_row, first, keys);                                     \
    }

void main() {
    uint blocks = (queries - 1) / BLOCK + 1, block;
    uint number = choose_block(all.batch * heads, blocks, block);
    if (number >= all.batch * heads) return;
    uint batch = number / heads, head = number % heads;
    uint first_row = block * BLOCK;
    BEGIN_SEQUENCE(batch)
    uint k_at = k_base(OWN_BATCH(batch), head / group);
    uint v_at = v_base(OWN_BATCH(batch), head / group);
    uint mask_at = mask_base(batch, head);

    FACTOR_A own_q[STRIPES][DEEP];
    if (IN_TURN == 0)
        LOAD_OWN(own_q, q, q_base(batch, head), q_row, first_row, queries)
    else
        put_own(q, q_base(batch, head), q_row, first_row, 0, queries);
    SUMS sums[STRIPES][DEEP];
    CLEAR(sums)
    // Of the rows row_of(0) and row_of(4); totals are this invocation's part.
    vec2 greatest[STRIPES], total[STRIPES];
    UNROLL for (uint r = 0; r < STRIPES; ++r) {
        greatest[r] = vec2(-1e30);
        total[r] = vec2(0.0);
    }

    uint end = CAUSAL != 0 ? min(keys, FIRST_QUERY + first_row + BLOCK) : keys;
    uint count = (end - 1) / SPAN + 1, nearest = OLDEST(first_row) / SPAN;
    WORD next_k[LOADS], next_v[LOADS];
    if (IN_TURN == 0) FETCH(nearest * SPAN)
    else fetch(next_k, k, k_at, k_row, nearest * SPAN, keys);
    if (STAGES == 2) {
        barrier();
        put(next_k, FIRST, nearest * SPAN, keys);
        put(next_v, SECOND, nearest * SPAN, keys);
        barrier();
    }
    [[dont_unroll]] for (uint tile = nearest; tile < count; ++tile) {
        uint first = tile * SPAN;
        uint stage = STAGES == 2 ? (tile - nearest) % 2 * STAGE : 0;
        if (STAGES == 1) {
            barrier();
            put(next_k, FIRST, first, keys);
            if (IN_TURN == 0) put(next_v, SECOND, first, keys);
            barrier();
        }
        // The last tile is prefetched once more, which is cheaper than a branch.
        uint ahead = min(tile + 1, count - 1) * SPAN;
#ifdef EMULATED
        bool seen = true;
#else
        bool seen =
            CAUSAL == 0 || first < FIRST_QUERY + first_row + own + STRIPES * 16;
#endif
        if (IN_TURN != 0) fetch(next_k, v, v_at, v_row, first, keys);
        else if (STAGES == 2 || !LATE || !seen) FETCH(ahead)
        if (SKIPS && !seen) continue;

        FACTOR_A weights[STRIPES][ACROSS];
        if (SKIPS || seen) {
            SUMS scores[STRIPES][ACROSS];
            UNROLL for (uint r = 0; r < STRIPES; ++r)
                UNROLL for (uint j = 0; j < ACROSS; ++j) scores[r][j] = NO_SUMS;
            UNROLL for (uint e = 0; e < DEEP; ++e) {
                FACTOR_A left[STRIPES];
                UNROLL for (uint r = 0; r < STRIPES; ++r) {
                    if (IN_TURN == 0) {
                        COPY_A(left[r], own_q[r][e]);
                    } else {
                        LOAD_A(left[r], (own + r * 16) * PITCH + 2 * e, PITCH);
                    }
                }
                UNROLL for (uint j = 0; j < ACROSS; ++j) {
                    FACTOR_B right;
                    LOAD_B_TURNED(right, stage + FIRST + j * 16 * PITCH + 2 * e, PITCH);
                    UNROLL for (uint r = 0; r < STRIPES; ++r)
                        MULTIPLY(left[r], right, scores[r][j]);
                }
            }
            if (IS_CAPPED)
                UNROLL for (uint r = 0; r < STRIPES; ++r)
                    UNROLL for (uint j = 0; j < ACROSS; ++j)
                        UNROLL for (uint i = 0; i < ELEMENTS; ++i)
                            scores[r][j][i] =
                                CAPPED_TO(scores[r][j][i], CAP * unscale);
            bool whole = HAS_MASK == 0 && first + SPAN <= keys
                && (CAUSAL == 0 || first + SPAN <= FIRST_QUERY + first_row + own)
                && WINDOW == 0;
            if (!whole)
                UNROLL for (uint r = 0; r < STRIPES; ++r)
                    UNROLL for (uint j = 0; j < ACROSS; ++j)
                        UNROLL for (uint i = 0; i < ELEMENTS; ++i)
                            scores[r][j][i] = masked(
                                scores[r][j][i], first_row + own + r * 16 + row_of(i),
                                first + j * 16 + column_of(i), mask_at);

            if (SKIPS && LATE) FETCH(ahead)

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
                vec2 level = LIFT - greatest[r];
                UNROLL for (uint j = 0; j < ACROSS; ++j)
                    UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                        float weight = exp2(fma(scores[r][j][i], scale, level[i / 4]));
                        total[r][i / 4] += weight;
                        if (DROPOUT != 0)
                            weight *= kept(
                                number * queries + first_row + own + r * 16 + row_of(i),
                                first + j * 16 + column_of(i), seed, dropout);
                        SET(weights[r][j], i, weight);
                    }
            }
        }
        if (IN_TURN != 0) {
            barrier();
            put(next_k, SECOND, first, keys);
            barrier();
            fetch(next_k, k, k_at, k_row, ahead, keys);
        }
        if (SKIPS || seen)
            UNROLL for (uint j = 0; j < ACROSS; ++j)
                UNROLL for (uint d = 0; d < DEEP; ++d) {
                    FACTOR_B right;
                    LOAD_B(right, stage + SECOND + j * 16 * PITCH + 2 * d, PITCH);
                    UNROLL for (uint r = 0; r < STRIPES; ++r)
                        MULTIPLY(weights[r][j], right, sums[r][d]);
                }
        if (STAGES == 2) {
            put(next_k, STAGE - stage + FIRST, ahead, keys);
            put(next_v, STAGE - stage + SECOND, ahead, keys);
            barrier();
        }
    }

    UNROLL for (uint r = 0; r < STRIPES; ++r) {
        total[r] += subgroupShuffleXor(total[r], 1);
        total[r] += subgroupShuffleXor(total[r], 2);
        UNROLL for (uint half_ = 0; half_ < 2; ++half_) {
            uint row = first_row + own + r * 16 + row_of(4 * half_);
            float whole = total[r][half_] * exp2(-LIFT);
            if (lane % 4 == 0 && row < queries)
                all.logsumexp.at[number * queries + row] =
                    (greatest[r][half_] + log2(whole)) * LN_2;
            total[r][half_] = whole > 0.0 ? 1.0 / whole : whole;
        }
    }
    uint base = (batch * queries * heads + head) * HEAD;
    Pairs out_ = all.out_;
    STORE_OWN(out_, sums, base, heads * HEAD, first_row, queries, total[r_][i_ / 4])
}
