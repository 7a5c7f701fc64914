// Flash attention: softmax(q k^T * scale + mask) v for each head, tile by tile
// grid    one workgroup per head and BLOCK queries, linear
// in      q (batch, heads, queries, HEAD), k (batch, heads / group, keys, HEAD), v
//         (batch, heads / group, keys, VALUE_HEAD), mask (batch, heads, queries, keys),
//         each strided, T; seed: two words
// out     out_ (batch, queries, heads, VALUE_HEAD) T; logsumexp (batch, heads, queries)
//         of the scores, ACC: -inf and 0 in out_ for a query that sees no key
// consts  those of attention/flash_body.glsl
// macros  PAGED: k and v are a cache, see attention/pages.glsl
// source  Dao, Fu, Ermon, Rudra and Re, FlashAttention, arXiv:2205.14135
// lint    bank-conflict: in the softmax alone; the products, which load far more of the
//         tile, need the odd pitch
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#define OWN_FIELDS Out out_; AccOut logsumexp;
#include "attention/flash_body.glsl"

// Invocations that share one row of the tile.
const uint PARTS = gl_WorkGroupSize.x / BLOCK;

// Of a row of the tile, the invocation `part` takes four columns at a time: vec4 n is
// column_of_quad(n, part, 0) to (n, part, 3).
#ifdef QUADS
uint column_of_quad(uint n, uint part, uint u) { return (n * PARTS + part) * 4 + u; }
vec4 quad_of_tile(uint row, uint n, uint part) {
    return tile[(row * PITCH + column_of_quad(n, part, 0)) / 4];
}
void set_quad_of_tile(uint row, uint n, uint part, vec4 quad) {
    tile[(row * PITCH + column_of_quad(n, part, 0)) / 4] = quad;
}
#else
uint column_of_quad(uint n, uint part, uint u) { return (4 * n + u) * PARTS + part; }
vec4 quad_of_tile(uint row, uint n, uint part) {
    vec4 quad;
    for (uint u = 0; u < 4; ++u)
        quad[u] = tile[row * PITCH + column_of_quad(n, part, u)];
    return quad;
}
void set_quad_of_tile(uint row, uint n, uint part, vec4 quad) {
    for (uint u = 0; u < 4; ++u)
        tile[row * PITCH + column_of_quad(n, part, u)] = quad[u];
}
#endif

shared float partial[gl_WorkGroupSize.x];
shared float factors[BLOCK];

void main() {
    uint blocks = (queries - 1) / BLOCK + 1;
    uint number = linear_workgroup() / blocks;
    uint first_row = linear_workgroup() % blocks * BLOCK;
    if (number >= all.batch * heads) return;
    uint batch = number / heads, head = number % heads;
    BEGIN_SEQUENCE(batch)
    uint k_at = k_base(OWN_BATCH(batch), head / group);
    uint v_at = v_base(OWN_BATCH(batch), head / group);
    uint mask_at = mask_base(batch, head);
    uint q_at = q_base(batch, head);

    float sums[ROWS][VALUE_COLUMNS];
    for (uint i = 0; i < ROWS; ++i)
        for (uint c = 0; c < VALUE_COLUMNS; ++c) sums[i][c] = 0.0;
    uint row = at / PARTS, part = at % PARTS;
    float greatest = -INFINITE, total = 0.0;
    uint end = CAUSAL != 0 ? min(keys, FIRST_QUERY + first_row + BLOCK) : keys;
    for (uint first = OLDEST(first_row) / SPAN * SPAN; first < end; first += SPAN) {
        float scores[ROWS][TILE];
        multiply(
            q, q_at, q_row, queries, first_row, k, k_at, k_row, keys, first, HEAD, scores);
        bool all_seen = sees_all(first_row, first, SPAN);
        for (uint i = 0; i < ROWS; ++i)
            for (uint j = 0; j < TILE; ++j)
                scores[i][j] = all_seen
                    ? CAPPED_TO(scores[i][j] * scale, CAP)
                    : score(
                          scores[i][j], first_row + team * ROWS + i,
                          first + column_of(j), mask_at);
        share(scores);

        float next = greatest;
        for (uint n = 0; n < SPAN / PARTS / 4; ++n) {
            vec4 quad = quad_of_tile(row, n, part);
            next = max(next, max(max(quad.x, quad.y), max(quad.z, quad.w)));
        }
        if (PARTS > 1) {
            partial[at] = next;
            barrier();
            for (uint p = 0; p < PARTS; ++p)
                next = max(next, partial[row * PARTS + p]);
        }
        float reference = next == -INFINITE ? 0.0 : next;
        float factor = FALLING_EXP(greatest - reference);
        total *= factor;
        for (uint n = 0; n < SPAN / PARTS / 4; ++n) {
            vec4 quad = quad_of_tile(row, n, part);
            for (uint u = 0; u < 4; ++u) {
                float weight = FALLING_EXP(quad[u] - reference);
                total += weight;
                uint key = first + column_of_quad(n, part, u);
                if (DROPOUT != 0)
                    weight *= kept(
                        number * queries + first_row + row, key, seed, dropout);
                quad[u] = weight;
            }
            set_quad_of_tile(row, n, part, quad);
        }
        if (part == 0) factors[row] = factor;
        greatest = next;
        barrier();

        for (uint i = 0; i < ROWS; ++i)
            for (uint c = 0; c < VALUE_COLUMNS; ++c)
                sums[i][c] *= factors[team * ROWS + i];
        ACCUMULATE(sums, VALUE_HEAD, VALUE_COLUMNS, v, v_at, v_row, first, end)
    }

    barrier();
    partial[at] = total;
    barrier();
    total = 0.0;
    for (uint p = 0; p < PARTS; ++p) total += partial[row * PARTS + p];
    if (part == 0) factors[row] = total > 0.0 ? 1.0 / total : total;
    if (part == 0 && first_row + row < queries)
        all.logsumexp.at[number * queries + first_row + row] =
            greatest + precise_log(total);
    barrier();
    for (uint i = 0; i < ROWS; ++i)
        for (uint c = 0; c < VALUE_COLUMNS; ++c) sums[i][c] *= factors[team * ROWS + i];
    Out out_ = all.out_;
    uint stride = heads * VALUE_HEAD;
    uint base = batch * queries * stride + head * VALUE_HEAD;
    STORE(out_, sums, VALUE_HEAD, VALUE_COLUMNS, base, stride, first_row, queries)
}
