// Split-KV attention: softmax(q k^T * scale + mask) v of few queries and a slice of keys
// grid    one workgroup per head of the keys, slice and ROWS queries of the heads that
//         share it, linear; with CACHED slices are y, and the others x and z
// in      q, k, v and mask as in attention/flash.comp
// out     sums (slices, batch, heads, queries, VALUE_HEAD, up to a multiple of four), not
//         divided by the total;
//         statistics (slices, batch, heads, queries, 2): greatest score, or -inf, and
//         the total of exponentials; for attention/flash_combine.comp. With CACHED they
//         are scratch memory, and out_ is (batch, queries, heads, HEAD) T
// consts  HEAD, VALUE_HEAD, HAS_MASK; ROWS, SPAN keys of a tile, powers of two up to
//         LOCAL_X; ALIGNED: vectors of k and v are whole words of 16 bytes; with CACHED:
//         HAS_PADDING; CAPPED: scores become cap * tanh(score / cap); PAGE: tokens of a
//         page, 0 for a cache in which a sequence is contiguous; TURNED: elements that
//         are rotated, an even number; 0: none; TURNED_WORDS: in pairs of whole words,
//         of queries too; KEY_HEADS, GROUP: heads of the keys, and those that share one;
//         QUERIES, or 0 for any number
// macros  CACHED: see attention/cache_step.glsl;
//         SHUFFLES: subgroups, which are full, have CLUSTER invocations of a row each
// lint    scalar-load: of vectors that are no whole words alone, and of queries
// lint    integer-division: of the numbers of a few rows, before the keys
// lint    bank-conflict: none, for ROW_PITCH puts the rows into different banks
// source  Dao, Haziza, Massa and Sizov, Flash-Decoding, 2023
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#ifdef SHUFFLES
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/math/exponential.glsl"
#include "lib/philox.glsl"
#include "lib/vec4_io.glsl"
#ifdef CACHED
#include "lib/index_buffers.glsl"
#include "lib/index_record.glsl"
#include "lib/math/hyperbolic.glsl"
#endif

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint VALUE_HEAD = 64;
layout(constant_id = 5) const uint ROWS = 4;
layout(constant_id = 6) const uint SPAN = 32;
layout(constant_id = 7) const uint HAS_MASK = 0;
layout(constant_id = 8) const uint ALIGNED = 1;
#ifdef CACHED
layout(constant_id = 9) const uint HAS_PADDING = 0;
layout(constant_id = 10) const uint CAPPED = 0;
layout(constant_id = 11) const uint PAGE = 0;
layout(constant_id = 12) const uint TURNED = 0;
layout(constant_id = 13) const uint TURNED_WORDS = 0;
layout(constant_id = 14) const uint KEY_HEADS = 1;
layout(constant_id = 15) const uint GROUP = 1;
layout(constant_id = 16) const uint QUERIES = 0;
#endif
#ifdef SHUFFLES
layout(constant_id = 17) const uint CLUSTER = 1;
#else
const uint CLUSTER = 1;
#endif
const uint DROPOUT = 0;

#define VECTORS In
// clang-format off
#ifdef CACHED
// What workgroups pass on to the last one of them to finish.
#define PASSED coherent
layout(buffer_reference, std430, buffer_reference_align = 4) coherent buffer Finished {
    uint at[];
};
#else
#define PASSED restrict writeonly
#endif
layout(buffer_reference, std430, buffer_reference_align = 16) PASSED buffer Sums {
    vec4 at[];
};
layout(buffer_reference, std430, buffer_reference_align = 8) PASSED buffer Statistics {
    vec2 at[];
};
#ifdef CACHED
#ifdef Q_NORMED
#define Q_NORM_FIELDS AccIn q_gamma; float q_eps;
#else
#define Q_NORM_FIELDS
#endif
#ifdef K_NORMED
#define NORM_FIELDS Q_NORM_FIELDS AccIn k_gamma; float k_eps;
#else
#define NORM_FIELDS Q_NORM_FIELDS
#endif
#define OWN_FIELDS                                                                       \
    In new_k; In new_v; In cosine; In sine; Out out_; Sums sums; Statistics statistics;  \
    Finished finished; IntIn position; IntIn padding; IntIn tables; IndexSlot error;     \
    IndexSlot page_error; NORM_FIELDS uint pages; uint slice_keys; uint slices_magic;    \
    uint slices_shift; uint window;                                                      \
    float cap; uint new_k_batch; uint new_k_head; uint new_k_row; uint new_v_batch;      \
    uint new_v_head; uint new_v_row; uint table_batch; uint table_row;
#else
#define OWN_FIELDS Sums sums; Statistics statistics; uint slice_keys; uint slices;
#endif
// clang-format on
#include "attention/arguments.glsl"

float scale = all.scale;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Words { uvec4 at[]; };

// Elements and vec4 of a word of 16 bytes.
const uint VECTOR = 16 / BYTES;
const uint QUADS = VECTOR / 4;

const uint THREADS = gl_WorkGroupSize.x;
const uint WORDS = (HEAD - 1) / VECTOR + 1, VALUE_WORDS = (VALUE_HEAD - 1) / VECTOR + 1;
// Vectors per load round of the workgroup, and the number of rounds.
const uint LINES = THREADS / WORDS, VALUE_LINES = THREADS / VALUE_WORDS;
const uint VALUE_QUADS = (VALUE_HEAD - 1) / 4 + 1;
const uint LOADS = (SPAN - 1) / LINES + 1, VALUE_LOADS = (SPAN - 1) / VALUE_LINES + 1;
// Products: an invocation has one key, and every PARTS-th word of it.
const uint PARTS = THREADS / SPAN;
// Queries: loads of an invocation.
const uint QUERY_PITCH = WORDS * VECTOR, QUERY_ELEMENTS = ROWS * QUERY_PITCH;
const uint QUERY_LOADS = (QUERY_ELEMENTS - 1) / THREADS + 1;
const uint QUERY_WORD_LOADS = (ROWS * WORDS - 1) / THREADS + 1;
// Softmax: SHARE invocations have a row, and ENTRIES keys each.
const uint SHARE = THREADS / ROWS, ENTRIES = (SPAN - 1) / SHARE + 1;

// An odd pitch, and one that puts the ROWS of a key into different banks.
const uint PITCH = WORDS | 1, ROW_PITCH = THREADS + 32 / ROWS;
// The tile of keys; at last the sums of all rows, or of one.
const uint KEYS = SPAN * PITCH, SUMS = THREADS * QUADS;
const bool AT_ONCE = KEYS >= ROWS * SUMS;
shared uvec4 tile[KEYS > SUMS ? KEYS : SUMS];
shared vec4 own[ROWS * WORDS * QUADS];
// Parts of the scores; then weights, the rows of a key adjacent.
shared float parts[ROWS * ROW_PITCH];
shared float partial[THREADS];
shared float factors[ROWS];
shared float totals[ROWS];
#ifdef CACHED
shared bool is_last;
// Combination: slices whose loads are in flight.
const uint TOGETHER = 16;
#endif

// The invocations of a row, and what they have of it.
#ifdef SHUFFLES
shared float weights[SPAN * ROWS];
uint at = gl_SubgroupID * gl_SubgroupSize + gl_SubgroupInvocationID;
uint row = at / SHARE, share = at % SHARE;
#define PART_OF_ROW(part) (row * SHARE + (part))
#define SHUFFLED(own, combine)                                                           \
    for (uint step_ = 1; step_ < CLUSTER; step_ *= 2)                                    \
        own = combine(own, subgroupShuffleXor(own, step_));
#else
#define weights parts
uint at = gl_LocalInvocationIndex;
uint row = at % ROWS, share = at / ROWS;
#define PART_OF_ROW(part) ((part) * ROWS + row)
#define SHUFFLED(own, combine)
#endif
float sum_of(float a, float b) { return a + b; }

// Their greatest, and the sum of theirs; as many barriers as subgroups require.
float row_greatest(float own) {
    SHUFFLED(own, max)
    if (CLUSTER == SHARE) return own;
    partial[at] = own;
    barrier();
    for (uint p = 0; p < SHARE; p += CLUSTER) own = max(own, partial[PART_OF_ROW(p)]);
    return own;
}

float row_sum(float own) {
    SHUFFLED(own, sum_of)
    if (CLUSTER == SHARE) return own;
    partial[at] = own;
    barrier();
    own = 0.0;
    for (uint p = 0; p < SHARE; p += CLUSTER) own += partial[PART_OF_ROW(p)];
    return own;
}

uint bits_of(In x, uint index) {
#if BYTES == 4
    return floatBitsToUint(x.at[index]);
#else
    return uint(x.at[index]);
#endif
}

// A word of the vector from `from` on, of `width` elements; 0 beyond its end.
uvec4 load_word(In x, uint from, uint word, uint width) {
    if (ALIGNED != 0) return Words(uvec2(x)).at[from / VECTOR + word];
    uvec4 found = uvec4(0);
    [[unroll]] for (uint e = 0; e < VECTOR; ++e) {
        uint column = word * VECTOR + e;
        uint bits = bits_of(x, from + min(column, width - 1));
        if (column < width) found[e * BYTES / 4] |= bits << 8 * (e * BYTES % 4);
    }
    return found;
}

// vec4 number i of a word.
vec4 quad_of(uvec4 word, uint i) {
#if BYTES == 4
    return decode_quad(uintBitsToFloat(word));
#else
    return decode_quad(uvec2(word[2 * i], word[2 * i + 1]));
#endif
}

#ifdef CACHED
#include "attention/cache_step.glsl"
#define KEY_AT(key) offset_of(key, all.k_batch, k_row)
#define VALUE_WORD(key, word)                                                            \
    value_word(v_at + offset_of(key, all.v_batch, v_row), key, word)
#else
#define KEY_AT(key) ((key) * k_row)
#define VALUE_WORD(key, word) load_word(v, v_at + (key) * v_row, word, VALUE_HEAD)
#endif

#ifdef CACHED
// Store four results, from a vector that begins at `to`, of their sums and the total.
void store_result(uint to, uint quad, vec4 sums, float total) {
    Out out_ = all.out_;
    vec4 results = total > 0.0 ? sums / total : vec4(total);
    [[unroll]] for (uint e = 0; e < 4; ++e)
        if (4 * quad + e < VALUE_HEAD) store(out_, to + 4 * quad + e, results[e]);
}

// Where the result of a row of a head of the keys begins.
uint result_at(uint batch, uint key_head, uint row) {
    uint head = key_head * group + row / queries;
    return ((batch * queries + row % queries) * heads + head) * VALUE_HEAD;
}
#endif

#define FETCH_KEYS(from)                                                                 \
    [[unroll]] for (uint n_ = 0; n_ < LOADS; ++n_) {                                     \
        uint key_ = min(from + line + n_ * LINES, end - 1);                              \
        next[n_] = load_word(k, k_at + KEY_AT(key_), word, HEAD);                        \
    }

void main() {
#ifdef CACHED
    group = GROUP;
    heads = GROUP * KEY_HEADS;
    if (QUERIES != 0) queries = QUERIES;
    uint number = gl_WorkGroupID.z * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint slice = gl_WorkGroupID.y, key_heads = KEY_HEADS;
    uint rows = group * queries, blocks = (rows - 1) / ROWS + 1, pair = number / blocks;
#else
    uint slices = all.slices, number = linear_workgroup(), key_heads = heads / group;
    uint rows = group * queries, blocks = (rows - 1) / ROWS + 1;
    uint slice = number / blocks % slices, pair = number / blocks / slices;
#endif
    uint first_row = number % blocks * ROWS;
    if (pair >= all.batch * key_heads) return;
    uint batch = pair / key_heads, key_head = pair % key_heads;
    uint all_rows = all.batch * heads * queries, rows_at = pair * rows + first_row;
#ifdef CACHED
    // What does not depend on the position is loaded with it.
    choose_sequence(batch, key_head);
    uint own_batch = PAGE == 0 ? batch : 0;
    uint k_at = k_base(own_batch, key_head), v_at = v_base(own_batch, key_head);
    uint word = at % WORDS;
    Vector new_key = new_key_word(0, word);
    uvec4 new_value = new_value_word(0, word);
    Vector query_words[QUERY_WORD_LOADS];
    if (TURNED_WORDS != 0)
        [[unroll]] for (uint n = 0; n < QUERY_WORD_LOADS; ++n) {
            uint place = min(at + n * THREADS, ROWS * WORDS - 1);
            uint own_row = min(first_row + place / WORDS, rows - 1);
            uint from = q_base(batch, key_head * group + own_row / queries);
            from += own_row % queries * q_row;
            query_words[n] =
                vector_word(q, from, own_row % queries, place % WORDS);
        }
    bool fits = begin_step();
    bool writes = fits && first_row == 0;
    uint window = all.window;
    uint padded = HAS_PADDING != 0 ? bounded(padding, batch, keys) : 0;
    uint high = min(newest + queries, keys);
    uint low = window != 0 && window <= newest ? newest + 1 - window : 0;
    // Padding sees itself.
    low = max(low, min(padded, newest));
    uint share_keys = divide(high - low - 1, all.slices_magic, all.slices_shift) + 1;
    share_keys = (max(all.slice_keys, share_keys) - 1) / SPAN * SPAN + SPAN;
    uint start = low + slice * share_keys, end = min(start + share_keys, high);
    if (start >= high) return;
    bool is_only = high - low <= share_keys;
#else
    uint k_at = k_base(batch, key_head), v_at = v_base(batch, key_head);
    uint start = slice * all.slice_keys, end = min(start + all.slice_keys, keys);
    const bool is_only = false;  // flash_combine.comp takes whatever it is
    uint word = at % WORDS;
#endif
    uint line = at / WORDS;
    uint value_line = at / VALUE_WORDS, value_place = at % VALUE_WORDS;

    uvec4 next[LOADS];
    FETCH_KEYS(start)
#ifdef CACHED
    if (first_row == 0 && slice == 0 && at == 0) report_position(fits);
    if (TURNED_WORDS != 0) {
        [[unroll]] for (uint n = 0; n < QUERY_WORD_LOADS; ++n) {
            uint place = at + n * THREADS;
            vec4 quads[QUADS];
            query_quads(query_words[n], place % WORDS, quads);
            if (place < ROWS * WORDS)
                [[unroll]] for (uint u = 0; u < QUADS; ++u)
                    own[place * QUADS + u] = quads[u];
        }
    } else
#endif
    {
        // Rows beyond the last repeat it.
        float loaded[QUERY_LOADS];
        [[unroll]] for (uint n = 0; n < QUERY_LOADS; ++n) {
            uint place = min(at + n * THREADS, QUERY_ELEMENTS - 1);
            uint own_row = min(first_row + place / QUERY_PITCH, rows - 1);
            uint head = key_head * group + own_row / queries;
            uint from = q_base(batch, head) + own_row % queries * q_row;
            uint column = min(place % QUERY_PITCH, HEAD - 1);
#ifdef CACHED
            uint turns = turns_at + own_row % queries * all.table_row;
            loaded[n] = query_element(from, column, turns);
#else
            loaded[n] = load(q, from + column);
#endif
        }
        [[unroll]] for (uint n = 0; n < QUERY_LOADS; ++n) {
            uint place = at + n * THREADS;
            if (place < QUERY_ELEMENTS)
                own[place / 4][place % 4] = place % QUERY_PITCH < HEAD ? loaded[n] : 0.0;
        }
    }

    uint true_row = min(first_row + row, rows - 1);
    uint mask_at = mask_base(batch, key_head * group + true_row / queries);
    mask_at += true_row % queries * mask_row;
    float row_scale = scale;
#ifdef Q_NORMED
    uint row_at = q_base(batch, key_head * group + true_row / queries);
    row_at += true_row % queries * q_row;
    float row_squares = 0.0;
    for (uint column = share; column < HEAD; column += SHARE) {
        float value = load(q, row_at + column);
        row_squares = fma(value, value, row_squares);
    }
    row_squares = row_sum(row_squares);
    row_scale *= inversesqrt(row_squares / float(HEAD) + all.q_eps);
#endif
    float greatest = -INFINITE, total = 0.0;
    vec4 results[ROWS][QUADS];
    [[unroll]] for (uint r = 0; r < ROWS; ++r)
        [[unroll]] for (uint u = 0; u < QUADS; ++u) results[r][u] = vec4(0.0);

    for (uint first = start; first < end; first += SPAN) {
        // Before the keys are waited for.
        uvec4 values[VALUE_LOADS];
        [[unroll]] for (uint n = 0; n < VALUE_LOADS; ++n) {
            uint key = min(first + value_line + n * VALUE_LINES, end - 1);
            values[n] = VALUE_WORD(key, value_place);
        }
        [[unroll]] for (uint n = 0; n < LOADS; ++n) {
            uint key = line + n * LINES;
            if (line < LINES && key < SPAN) tile[key * PITCH + word] = next[n];
        }
#ifdef CACHED
        // The same invocations replace what the cache had in the place of new keys.
        uint until = min(first + SPAN, end);
        [[dont_unroll]] for (uint key = max(first, newest); key < until; ++key) {
            bool is_own = line == (key - first) % LINES;
            uint token = key - newest;
            if (is_own && token != 0) {
                new_key = new_key_word(token, word);
                new_value = new_value_word(token, word);
            }
            float factor = 1.0;
#ifdef K_NORMED
            barrier();
            partial[at] = squares_of(new_key.own);
            barrier();
            float squares = 0.0;
            for (uint w = 0; w < WORDS; ++w)
                squares += partial[min(line * WORDS + w, THREADS - 1)];
            factor = inversesqrt(squares / float(HEAD) + all.k_eps);
#endif
            if (!is_own) continue;
            uvec4 taken = rotated_word(new_key, token, word, factor);
            tile[(key - first) * PITCH + word] = taken;
            if (writes) write_words(token, word, taken, new_value, k_at, v_at);
        }
#endif
        barrier();
        float products[ROWS];
        [[unroll]] for (uint r = 0; r < ROWS; ++r) products[r] = 0.0;
        for (uint w = at / SPAN; w < WORDS; w += PARTS) {
            uvec4 taken = tile[at % SPAN * PITCH + w];
            [[unroll]] for (uint u = 0; u < QUADS; ++u) {
                vec4 quad = quad_of(taken, u);
                [[unroll]] for (uint r = 0; r < ROWS; ++r) {
                    vec4 mine = own[(r * WORDS + w) * QUADS + u];
                    [[unroll]] for (uint e = 0; e < 4; ++e)
                        products[r] = fma(mine[e], quad[e], products[r]);
                }
            }
        }
        [[unroll]] for (uint r = 0; r < ROWS; ++r) parts[r * ROW_PITCH + at] = products[r];
        barrier();

        // The last tile's are loaded once more, which is cheaper than a branch.
        uint ahead = first + SPAN < end ? first + SPAN : first;
        FETCH_KEYS(ahead)
        float scores[ENTRIES], next_greatest = greatest;
        [[unroll]] for (uint n = 0; n < ENTRIES; ++n) {
            uint place = share + n * SHARE, key = first + place;
            float score = -INFINITE;
            if (place < SPAN && key < end) {
                score = 0.0;
                for (uint p = 0; p < PARTS; ++p)
                    score += parts[row * ROW_PITCH + p * SPAN + place];
                score *= row_scale;
#ifdef CACHED
                if (CAPPED != 0) score = cap * precise_tanh(score / cap);
                uint own_place = newest + true_row % queries;
                bool seen = key <= own_place && (window == 0 || own_place - key < window);
                if (!seen || (key < padded && key != own_place)) score = -INFINITE;
#endif
                if (HAS_MASK != 0) score += load(mask, mask_at + key * mask_column);
            }
            scores[n] = score;
            next_greatest = max(next_greatest, score);
        }
        next_greatest = row_greatest(next_greatest);
        float reference = next_greatest == -INFINITE ? 0.0 : next_greatest;
        float factor = quick_exp(greatest - reference);
        greatest = next_greatest;
        total *= factor;
        [[unroll]] for (uint n = 0; n < ENTRIES; ++n) {
            uint place = share + n * SHARE;
            float weight = quick_exp(scores[n] - reference);
            total += weight;
            if (place < SPAN) weights[place * ROWS + row] = weight;
        }
        if (share == 0) factors[row] = factor;
        barrier();

        [[unroll]] for (uint r = 0; r < ROWS; ++r)
            [[unroll]] for (uint u = 0; u < QUADS; ++u) results[r][u] *= factors[r];
        [[unroll]] for (uint n = 0; n < VALUE_LOADS; ++n) {
            uint place = value_line + n * VALUE_LINES;
            if (place < SPAN && first + place < end)
                [[unroll]] for (uint u = 0; u < QUADS; ++u) {
                    vec4 quad = quad_of(values[n], u);
                    [[unroll]] for (uint r = 0; r < ROWS; ++r)
                        results[r][u] =
                            fma(vec4(weights[place * ROWS + r]), quad, results[r][u]);
                }
        }
    }

    // The total, and the sums of the lines of values.
    total = row_sum(total);
    Sums sums = all.sums;
    Statistics statistics = all.statistics;
    if (share == 0) {
        totals[row] = total;
        if (!is_only && first_row + row < rows)
            statistics.at[slice * all_rows + rows_at + row] = vec2(greatest, total);
    }
    [[unroll]] for (uint r = 0; r < ROWS; ++r) {
        if (!AT_ONCE || r == 0) barrier();
        [[unroll]] for (uint u = 0; u < QUADS; ++u)
            tile[(AT_ONCE ? r : 0) * SUMS + at * QUADS + u] = floatBitsToUint(results[r][u]);
        if (AT_ONCE && r + 1 < ROWS) continue;
        barrier();
        uint from = AT_ONCE ? 0 : r, left = rows - min(first_row + from, rows);
        uint count = min(AT_ONCE ? ROWS : 1, left) * VALUE_QUADS;
        for (uint each = at; each < count; each += THREADS) {
            uint of = each / VALUE_QUADS, place = of * SUMS + each % VALUE_QUADS;
            vec4 whole = vec4(0.0);
            [[unroll]] for (uint other = 0; other < VALUE_LINES; ++other)
                whole += uintBitsToFloat(tile[place + other * VALUE_WORDS * QUADS]);
            of += from;
#ifdef CACHED
            if (is_only) {
                uint to = result_at(batch, key_head, first_row + of);
                store_result(to, each % VALUE_QUADS, whole, totals[of]);
                continue;
            }
#endif
            uint to = (slice * all_rows + rows_at + of) * VALUE_QUADS;
            sums.at[to + each % VALUE_QUADS] = whole;
        }
    }
#ifdef CACHED
    if (is_only) return;
    // The last workgroup to finish combines the slices.
    memoryBarrierBuffer();
    barrier();
    uint filled = (high - low - 1) / share_keys + 1;
    if (at == 0) {
        Finished finished = all.finished;
        is_last = atomicAdd(finished.at[number], 1) + 1 == filled;
        if (is_last) finished.at[number] = 0;
    }
    barrier();
    if (!is_last) return;
    memoryBarrierBuffer();
    uint count = min(ROWS, rows - first_row) * VALUE_QUADS;
    for (uint each = at; each < count; each += THREADS) {
        uint of = each / VALUE_QUADS, quad = each % VALUE_QUADS;
        vec4 combined = vec4(0.0);
        greatest = -INFINITE;
        total = 0.0;
        [[dont_unroll]] for (uint first = 0; first < filled; first += TOGETHER) {
            vec2 own_statistics[TOGETHER];
            vec4 found[TOGETHER];
            [[unroll]] for (uint i = 0; i < TOGETHER; ++i) {
                uint from = min(first + i, filled - 1) * all_rows + rows_at + of;
                own_statistics[i] = statistics.at[from];
                found[i] = sums.at[from * VALUE_QUADS + quad];
            }
            float next_greatest = greatest;
            [[unroll]] for (uint i = 0; i < TOGETHER; ++i)
                next_greatest = max(next_greatest, own_statistics[i].x);
            float reference = next_greatest == -INFINITE ? 0.0 : next_greatest;
            float factor = quick_exp(greatest - reference);
            greatest = next_greatest;
            total *= factor;
            combined *= factor;
            [[unroll]] for (uint i = 0; i < TOGETHER; ++i) {
                // Sums of a slice that no query of the row sees are not taken.
                bool is_seen = own_statistics[i].x != -INFINITE && first + i < filled;
                if (!is_seen) continue;
                factor = quick_exp(own_statistics[i].x - reference);
                total = fma(factor, own_statistics[i].y, total);
                combined = fma(vec4(factor), found[i], combined);
            }
        }
        store_result(result_at(batch, key_head, first_row + of), quad, combined, total);
    }
#endif
}
