// Flash attention in register tiles: softmax(q k^T * scale + mask) v for each head
// grid    one workgroup per head and BLOCK queries, linear; with CAUSAL the longest first
// in      as of attention/flash.comp
// out     as of attention/flash.comp
// consts  those of attention/simt_body.glsl
// source  Dao, FlashAttention-2, arXiv:2307.08691
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#define OWN_FIELDS Out out_; AccOut logsumexp;
#include "attention/simt_body.glsl"

// Numbers of each own vector: the factor of earlier sums, and what is subtracted from
// scores.
#define row_factors own_first_numbers
#define row_references own_second_numbers

// Have each row's invocation read what those of its team found: a line of the tile for
// each lane. The tile is dead.
void share_numbers(float numbers[ROWS]) {
    [[unroll]] for (uint h = 0; h < ROW_QUADS; ++h)
        tile[lane * BLOCK_QUADS + swizzled(team * ROW_QUADS + h, lane)] = vec4(
            numbers[4 * h], numbers[4 * h + 1], numbers[4 * h + 2], numbers[4 * h + 3]);
}
float number_of(uint row, uint lane_) {
    return tile[lane_ * BLOCK_QUADS + swizzled(row / 4, lane_)][row % 4];
}

void main() {
    uint blocks = (queries - 1) / BLOCK + 1;
    uint number = linear_workgroup() / blocks, block = linear_workgroup() % blocks;
    if (number >= all.batch * heads) return;
    uint first_row = (CAUSAL != 0 ? blocks - 1 - block : block) * BLOCK;
    uint batch = number / heads, head = number % heads;
    uint k_at = k_base(batch, head / group), v_at = v_base(batch, head / group);
    uint mask_at = mask_base(batch, head);
    uint q_at = q_base(batch, head);

    vec4 sums[ROWS][RESULT_QUADS];
    CLEAR(sums, RESULT_QUADS)
    // Of the row `at`; and of each row, of this invocation's columns.
    float greatest = -INFINITE, totals[ROWS];
    [[unroll]] for (uint i = 0; i < ROWS; ++i) totals[i] = 0.0;
    uint end = CAUSAL != 0 ? min(keys, first_row + BLOCK) : keys;
    for (uint first = 0; first < end; first += SPAN) {
        vec4 scores[ROWS][COLUMN_QUADS];
        multiply(
            q, q_at, q_row, queries, first_row, k, k_at, k_row, keys, first, HEAD, scores);
        // While the weights are computed.
        vec4 next_v[LINE_LOADS];
        fetch_lines(v, v_at, v_row, first, end, VALUE_HEAD, next_v);
        bool all_seen = sees_all(first_row, first, SPAN);
        float most[ROWS];
        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            most[i] = -INFINITE;
            [[unroll]] for (uint j = 0; j < TILE; ++j) {
                float product = scores[i][j / 4][j % 4];
                product = all_seen ? product * scale
                                   : score(
                                         product, first_row + row_of(i),
                                         first + column_of(j), mask_at);
                scores[i][j / 4][j % 4] = product;
                most[i] = max(most[i], product);
            }
        }
        share_numbers(most);
        barrier();
        if (at < BLOCK) {
            float next = greatest;
            for (uint p = 0; p < LANES; ++p) next = max(next, number_of(at, p));
            float reference = next == -INFINITE ? 0.0 : next;
            row_factors[at / 4][at % 4] = quick_exp(greatest - reference);
            row_references[at / 4][at % 4] = reference;
            greatest = next;
        }
        barrier();

        [[unroll]] for (uint i = 0; i < ROWS; ++i) {
            float factor = row_factors[team * ROW_QUADS + i / 4][i % 4];
            float reference = row_references[team * ROW_QUADS + i / 4][i % 4];
            [[unroll]] for (uint c = 0; c < RESULT_QUADS; ++c) sums[i][c] *= factor;
            float total = 0.0;
            [[unroll]] for (uint j = 0; j < TILE; ++j) {
                float weight = quick_exp(scores[i][j / 4][j % 4] - reference);
                total += weight;
                if (DROPOUT != 0)
                    weight *= kept(
                        number * queries + first_row + row_of(i), first + column_of(j),
                        seed, dropout);
                scores[i][j / 4][j % 4] = weight;
            }
            totals[i] = fma(totals[i], factor, total);
        }
        share(scores);
        accumulate(v, v_at, v_row, first, end, VALUE_HEAD, next_v, sums);
    }

    barrier();
    share_numbers(totals);
    barrier();
    if (at < BLOCK) {
        float total = 0.0;
        for (uint p = 0; p < LANES; ++p) total += number_of(at, p);
        row_factors[at / 4][at % 4] = total > 0.0 ? 1.0 / total : total;
        if (first_row + at < queries)
            all.logsumexp.at[number * queries + first_row + at] =
                greatest + precise_log(total);
    }
    barrier();
    [[unroll]] for (uint i = 0; i < ROWS; ++i)
        [[unroll]] for (uint c = 0; c < RESULT_QUADS; ++c)
            sums[i][c] *= row_factors[team * ROW_QUADS + i / 4][i % 4];
    Out out_ = all.out_;
    uint stride = heads * VALUE_HEAD;
    uint base = batch * queries * stride + head * VALUE_HEAD;
    store_own(out_, sums, VALUE_HEAD, base, stride, first_row, queries);
}
