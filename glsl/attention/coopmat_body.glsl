// Tensor-core attention, shared body: constants, and tiles of both sides
//
// A workgroup owns BLOCK vectors of one side, queries or keys, 16 * STRIPES for each
// subgroup, and loops over the other side in tiles of SPAN. Two of that side's tensors
// are in shared memory while their next tiles are prefetched into registers. Vectors of
// HEAD elements are contiguous, in words of eight, which their strides count. Of float32
// tiles are in two parts; see attention/fragment.glsl. The includer defines OWN_FIELDS,
// its own fields of the arguments.

#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/philox.glsl"

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint STRIPES = 2;
layout(constant_id = 5) const uint SPAN = 64;
layout(constant_id = 6) const uint CAUSAL = 0;
layout(constant_id = 7) const uint HAS_MASK = 0;
layout(constant_id = 8) const uint DROPOUT = 0;
// Whether own vectors stay in shared memory, and the other side's two tensors take turns
// in one tile there, not each in its own.
layout(constant_id = 9) const uint IN_TURN = 0;
// Pairs of tiles in shared memory: with 2 the next pair is stored while this one is used.
layout(constant_id = 10) const uint STAGES = 1;

const uint THREADS = gl_WorkGroupSize.x;
const uint BLOCK = THREADS / 32 * STRIPES * 16;
const uint WORDS = HEAD / 8;
// A word of padding avoids bank conflicts between lines.
const uint PITCH = WORDS + 1;
const uint FIRST = IN_TURN != 0 ? BLOCK * PITCH : 0;
const uint SECOND = IN_TURN != 0 ? FIRST : SPAN * PITCH;
const uint STAGE = 2 * SPAN * PITCH;
// Own vectors that are in shared memory at once before the tiles: of float32, whose low
// parts are behind the high ones, half of many.
const bool HALVED = DTYPE == DTYPE_FLOAT32 && IN_TURN == 0 && BLOCK > 64;
const uint OWN_LINES = HALVED ? BLOCK / 2 : BLOCK;
const uint IN_STAGES = OWN_LINES > 2 * STAGES * SPAN ? OWN_LINES : 2 * STAGES * SPAN;
const uint LOW_AT = (IN_TURN != 0 ? BLOCK + SPAN : IN_STAGES) * PITCH;
const uint TILES = DTYPE == DTYPE_FLOAT32 ? 2 * LOW_AT : LOW_AT;
const uint DEEP = HEAD / 16;
const uint ACROSS = SPAN / 16;
// Lines per load round of the workgroup, and the number of rounds.
const uint LINES = THREADS / WORDS;
const uint LOADS = (SPAN - 1) / LINES + 1;
const bool EVEN = THREADS % WORDS == 0 && SPAN % LINES == 0;

#include "attention/fragment.glsl"

#define INFINITE uintBitsToFloat(0x7f800000u)
const float LOG_2_E = 1.4426950408889634;
const float LN_2 = 0.6931471805599453;

#if PARTS == 2
#define WORD mat2x4
#define PAIR vec2
#define PAIR_BYTES 8
#define PAIR_OF(low, high) vec2(low, high)
#else
#define WORD uvec4
#define PAIR uint
#define PAIR_BYTES 4
#define PAIR_OF(low, high) (uint(ENCODE(ACC(low))) | uint(ENCODE(ACC(high))) << 16)
#endif
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer Words { WORD at[]; };
layout(buffer_reference, std430, buffer_reference_align = PAIR_BYTES) restrict writeonly
    buffer Pairs { PAIR at[]; };

#define VECTORS Words
#include "attention/arguments.glsl"

// Scale of the dot products for exponentials to base 2; and the factor that converts an
// additive score to the scale of dot products.
float scale = all.scale * LOG_2_E, unscale = 1.0 / all.scale;

// A dot product with the mask added; -inf beyond the keys.
float masked(float product, uint query, uint key, uint mask_at) {
    uint row = min(query, queries - 1), column = min(key, keys - 1);
    if (HAS_MASK != 0)
        product += load(mask, mask_at + row * mask_row + column * mask_column) * unscale;
    bool seen = key < keys && (CAUSAL == 0 || key <= FIRST_QUERY + query);
    seen = seen && key >= OLDEST(query);
    return seen ? product : -INFINITE;
}

uint line = gl_LocalInvocationIndex / WORDS;
uint word = gl_LocalInvocationIndex % WORDS;
// This subgroup's first vector among the workgroup's own.
uint own = subgroup * STRIPES * 16;

// Heads whose blocks are interleaved with CAUSAL, so that long and short ones mix.
const uint TOGETHER = 8;

// Return the head of this workgroup, `all` or more if it has none, and its block; with
// CAUSAL the last blocks come first.
uint choose_block(uint all, uint blocks, out uint block) {
    uint at = linear_workgroup(), number = at / blocks;
    block = at % blocks;
    if (CAUSAL == 0 || number >= all) return number;
    uint start = number / TOGETHER * TOGETHER;
    uint together = min(TOGETHER, all - start);
    uint place = at - start * blocks;
    block = blocks - 1 - place / together;
    return start + place % together;
}

// Subtrahend of scaled scores before exp2, from the logsumexp; weights come out 2^LIFT
// times as large.
float shift_of(float logsumexp) {
    return logsumexp == -INFINITE ? INFINITE : logsumexp * LOG_2_E - LIFT;
}

// Store a word to shared memory.
void put_word(uint at, WORD word) {
#if PARTS == 2
    uvec4 high, low;
    [[unroll]] for (uint u = 0; u < 4; ++u) {
        float left = word[u / 2][u % 2 * 2], right = word[u / 2][u % 2 * 2 + 1];
        float left_high = high_part(left), right_high = high_part(right);
        uint left_low = floatBitsToUint(low_part(left, left_high));
        high[u] = floatBitsToUint(left_high) >> 16 | floatBitsToUint(right_high);
        low[u] = left_low >> 16 | floatBitsToUint(low_part(right, right_high));
    }
    tiles[at] = high;
    tiles[at + LOW_AT] = low;
#else
    tiles[at] = word;
#endif
}

// Load this invocation's words of SPAN lines from the line `first` on, of `count`
// lines.
void fetch(
    out WORD next[LOADS], Words x, uint base, uint stride, uint first, uint count) {
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uint at = min(first + line + i * LINES, count - 1);
        next[i] = x.at[base + LINE_AT(at, stride) + word];
    }
}

// Store loaded words to shared memory, from `start` on; lines from `count` on are 0.
void put(WORD next[LOADS], uint start, uint first, uint count) {
    if (first + SPAN > count)
        [[unroll]] for (uint i = 0; i < LOADS; ++i)
            if (first + line + i * LINES >= count) next[i] = WORD(0);
    [[unroll]] for (uint i = 0; i < LOADS; ++i) {
        uint at = line + i * LINES;
        if (EVEN || line < LINES && at < SPAN) put_word(start + at * PITCH + word, next[i]);
    }
}

// Load own vectors, OWN_LINES from the line `start` on, into shared memory, later reused
// for tiles; those from `count` on are 0.
void put_own(Words x, uint base, uint stride, uint first, uint start, uint count) {
    barrier();
    for (uint at = line; at < OWN_LINES; at += LINES) {
        uint from = first + start + at;
        WORD value = x.at[base + min(from, count - 1) * stride + word];
        if (from >= count) value = WORD(0);
        if (line < LINES) put_word(at * PITCH + word, value);
    }
    barrier();
}

// Load own vectors into fragments.
#define LOAD_OWN(fragments, x, base, stride, first, count)                               \
    for (uint start_ = 0; start_ < BLOCK; start_ += OWN_LINES) {                         \
        put_own(x, base, stride, first, start_, count);                                  \
        if (!HALVED || own / OWN_LINES == start_ / OWN_LINES)                            \
            UNROLL for (uint r_ = 0; r_ < STRIPES; ++r_)                                 \
                UNROLL for (uint k_ = 0; k_ < DEEP; ++k_)                                \
                    LOAD_A(                                                              \
                        fragments[r_][k_],                                               \
                        (own % OWN_LINES + r_ * 16) * PITCH + 2 * k_, PITCH);            \
    }

#define CLEAR(sums)                                                                      \
    UNROLL for (uint r_ = 0; r_ < STRIPES; ++r_)                                         \
        UNROLL for (uint d_ = 0; d_ < DEEP; ++d_) sums[r_][d_] = NO_SUMS;

// sums = own vectors times 16 lines of a tile, from the word `start` on.
#define MULTIPLY_OWN(sums, fragments, start)                                             \
    UNROLL for (uint r_ = 0; r_ < STRIPES; ++r_) sums[r_] = NO_SUMS;                     \
    UNROLL for (uint e_ = 0; e_ < DEEP; ++e_) {                                          \
        FACTOR_B right_;                                                                 \
        LOAD_B_TURNED(right_, start + 2 * e_, PITCH);                                    \
        UNROLL for (uint r_ = 0; r_ < STRIPES; ++r_)                                     \
            MULTIPLY(fragments[r_][e_], right_, sums[r_]);                               \
    }

// sums += weights times 16 lines of a tile, from the word `start` on.
#define ADD_PRODUCTS(sums, weights, start)                                               \
    UNROLL for (uint d_ = 0; d_ < DEEP; ++d_) {                                          \
        FACTOR_B right_;                                                                 \
        LOAD_B(right_, start + 2 * d_, PITCH);                                           \
        UNROLL for (uint r_ = 0; r_ < STRIPES; ++r_)                                     \
            MULTIPLY(weights[r_], right_, sums[r_][d_]);                                 \
    }

// Store own results, times `factor`, which may depend on the stripe r_ and half i_ / 4;
// a vector begins at the element (base + row * stride) of `out_`.
#define STORE_OWN(out_, sums, base, stride, first, count, factor)                        \
    UNROLL for (uint r_ = 0; r_ < STRIPES; ++r_)                                         \
        UNROLL for (uint d_ = 0; d_ < DEEP; ++d_)                                        \
            UNROLL for (uint i_ = 0; i_ < ELEMENTS; i_ += 2) {                           \
                uint row_ = first + own + r_ * 16 + row_of(i_);                          \
                uint at_ = base + row_ * (stride) + d_ * 16 + column_of(i_);             \
                float low_ = sums[r_][d_][i_] * (factor);                                \
                float high_ = sums[r_][d_][i_ + 1] * (factor);                           \
                if (row_ < count) out_.at[at_ / 2] = PAIR_OF(low_, high_);               \
            }
