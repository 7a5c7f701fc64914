// Flash attention gradient by the queries on tensor cores:
// scale * p * (grad v^T - delta) k, where p are the weights, recomputed from the saved
// logsumexp
// grid    one workgroup per head and BLOCK queries, linear
// in      q, k, v: as in attention/flash_coopmat.comp; grad (batch, heads, queries,
//         HEAD) T; logsumexp, and delta, the sums of grad times the result (batch, heads,
//         queries) float
// out     out_ (batch, heads, queries, HEAD) T
// consts  those of attention/coopmat_body.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#define OWN_FIELDS Words grad; AccIn logsumexp; AccIn delta; Pairs out_;
#include "attention/coopmat_body.glsl"

void main() {
    uint blocks = (queries - 1) / BLOCK + 1, block;
    uint number = choose_block(all.batch * heads, blocks, block);
    if (number >= all.batch * heads) return;
    uint batch = number / heads, head = number % heads;
    uint first_row = block * BLOCK;
    uint k_at = k_base(batch, head / group);
    uint v_at = v_base(batch, head / group);
    uint mask_at = mask_base(batch, head);

    FACTOR_A own_q[STRIPES][DEEP], own_grad[STRIPES][DEEP];
    LOAD_OWN(own_q, q, q_base(batch, head), q_row, first_row, queries)
    Words grad = all.grad;
    LOAD_OWN(own_grad, grad, number * queries * WORDS, WORDS, first_row, queries)
    SUMS sums[STRIPES][DEEP];
    CLEAR(sums)
    // Of the rows row_of(0) and row_of(4).
    vec2 shift[STRIPES], delta[STRIPES];
    UNROLL for (uint r = 0; r < STRIPES; ++r)
        UNROLL for (uint half_ = 0; half_ < 2; ++half_) {
            uint row = first_row + own + r * 16 + row_of(4 * half_);
            uint place = number * queries + min(row, queries - 1);
            shift[r][half_] = shift_of(all.logsumexp.at[place]);
            delta[r][half_] = all.delta.at[place];
        }

    uint end = CAUSAL != 0 ? min(keys, first_row + BLOCK) : keys;
    uint count = (end - 1) / SPAN + 1;
    WORD next_k[LOADS], next_v[LOADS];
    fetch(next_k, k, k_at, k_row, 0, keys);
    fetch(next_v, v, v_at, v_row, 0, keys);
    [[dont_unroll]] for (uint tile = 0; tile < count; ++tile) {
        uint first = tile * SPAN;
        barrier();
        put(next_k, 0, first, keys);
        put(next_v, SECOND, first, keys);
        barrier();
        // The last tile is prefetched once more, which is cheaper than a branch.
        uint ahead = min(tile + 1, count - 1) * SPAN;
        fetch(next_k, k, k_at, k_row, ahead, keys);
        fetch(next_v, v, v_at, v_row, ahead, keys);
#ifndef EMULATED
        if (CAUSAL != 0 && first > first_row + own + STRIPES * 16 - 1) continue;
#endif
        bool whole = HAS_MASK == 0 && first + SPAN <= keys
            && (CAUSAL == 0 || first + SPAN <= first_row + own);

        UNROLL for (uint j = 0; j < ACROSS; ++j) {
            SUMS scores[STRIPES], products[STRIPES];
            FACTOR_A changes[STRIPES];
            MULTIPLY_OWN(scores, own_q, j * 16 * PITCH)
            MULTIPLY_OWN(products, own_grad, SECOND + j * 16 * PITCH)
            UNROLL for (uint r = 0; r < STRIPES; ++r) {
                uint query = first_row + own + r * 16;
                uint key = first + j * 16;
                if (!whole)
                    UNROLL for (uint i = 0; i < ELEMENTS; ++i)
                        scores[r][i] = masked(
                            scores[r][i], query + row_of(i), key + column_of(i), mask_at);
                UNROLL for (uint i = 0; i < ELEMENTS; ++i) {
                    float weight = exp2(fma(scores[r][i], scale, -shift[r][i / 4]));
                    float product = products[r][i];
                    if (DROPOUT != 0)
                        product *= kept(
                            number * queries + query + row_of(i), key + column_of(i),
                            seed, dropout);
                    SET(changes[r], i, weight * (product - delta[r][i / 4]));
                }
            }
            ADD_PRODUCTS(sums, changes, j * 16 * PITCH)
        }
    }

    uint base = number * queries * HEAD;
    Pairs out_ = all.out_;
    STORE_OWN(out_, sums, base, HEAD, first_row, queries, all.scale)
}
