// A step of decoding, for attention/flash_split.comp with CACHED: tokens that are added
// to a cache, rotated, written and attended to
//
// k and v are a cache with room for `keys` tokens. The first query is token `position`;
// the keys and values from there on are new_k and new_v (batch, key_heads, queries,
// HEAD), which the workgroups of the first rows write into it. Queries and new keys are
// rotated by cosine and sine (1 or batch, queries, TURNED), as in
// attention/extend_cache.comp. Only keys that a query sees are read: itself and those
// before, the nearest `window` of them, if that is not 0, and after `padding` (batch)
// ones. With Q_NORMED, K_NORMED queries, new keys are taken as after an RMS norm over HEAD
// with the weight q_gamma, k_gamma. With PAGE k and v are (pages, key_heads, PAGE, HEAD), a sequence has its own
// `position`, and token t of it is in page `tables` (batch, keys / PAGE)[t / PAGE].
// error: a position out of range; page_error: a page

In new_k = all.new_k, new_v = all.new_v, cosine = all.cosine, sine = all.sine;
IntIn position = all.position, padding = all.padding, tables = all.tables;
float cap = all.cap;
#ifdef Q_NORMED
AccIn q_gamma = all.q_gamma;
#define Q_GAMMA(column) q_gamma.at[column]
#else
#define Q_GAMMA(column) 1.0
#endif
#ifdef K_NORMED
AccIn k_gamma = all.k_gamma;
#define K_GAMMA(column) k_gamma.at[column]
#else
#define K_GAMMA(column) 1.0
#endif

// Where the sequence's own are: new vectors, angles, pages; the token of its first query.
uint new_k_at = 0, new_v_at = 0, turns_at = 0, table = 0, newest = 0;
uint own_position = 0;

layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer OutWords { uvec4 at[]; };

#if BYTES == 4
#define ROUNDED(value) (value)
#define WORD_OF(quads) floatBitsToUint(quads[0])
#elif DTYPE == DTYPE_FLOAT16
#define ROUNDED(value) from_float16(to_float16(value))
#define PACK pack_float16
#else
#define ROUNDED(value) from_bfloat16(to_bfloat16(value))
#define PACK pack_bfloat16
#endif
#if BYTES == 2
#define WORD_OF(quads)                                                                   \
    uvec4(PACK(quads[0].x, quads[0].y), PACK(quads[0].z, quads[0].w),                    \
          PACK(quads[1].x, quads[1].y), PACK(quads[1].z, quads[1].w))
#endif

// Offset of a key or value among those of its head, in lines `row` elements apart.
uint offset_of(uint key, uint page_stride, uint row) {
    if (PAGE == 0) return key * row;
    uint page = bounded(tables, table + key / PAGE, all.pages - 1);
    return page * page_stride + key % PAGE * row;
}

// Word of the value of a token, which lies at `offset` if the cache has it.
uvec4 value_word(uint offset, uint key, uint word) {
    bool is_new = key >= newest;
    uint from = is_new ? new_v_at + (key - newest) * all.new_v_row : offset;
    In source = is_new ? new_v : v;
    return load_word(source, from, word, VALUE_HEAD);
}

// The first half of what is rotated pairs with the second.
uint pair_of(uint column) {
    return column < TURNED / 2 ? column + TURNED / 2 : column - TURNED / 2;
}

float turned(float value, float other, uint column, uint turns) {
    if (column >= TURNED) return value;
    other = column < TURNED / 2 ? -other : other;
    return value * load(cosine, turns + column) + other * load(sine, turns + column);
}

// Element `column` of the query from `from` on, rotated, but not divided by its norm.
float query_element(uint from, uint column, uint turns) {
    uint pair = column < TURNED ? pair_of(column) : column;
    float value = load(q, from + column) * Q_GAMMA(column);
    float found = turned(value, load(q, from + pair) * Q_GAMMA(pair), column, turns);
#ifndef Q_NORMED
    found = ROUNDED(found);
#endif
    return found;
}

// What a word of a rotated vector is made of, whose loads are in flight.
struct Vector {
    uvec4 own;
    uvec4 other;
    uvec4 cosine;
    uvec4 sine;
};

// That of a query or a new key of a token, which begins at `from`.
Vector vector_word(In source, uint from, uint token, uint word) {
    Vector found;
    found.own = load_word(source, from, word, HEAD);
    if (TURNED_WORDS != 0) {
        uint pair = TURNED / 2 / VECTOR, own_word = min(word, 2 * pair - 1);
        uint turns = turns_at + token * all.table_row;
        uint other = own_word < pair ? own_word + pair : own_word - pair;
        found.other = load_word(source, from, other, HEAD);
        found.cosine = load_word(cosine, turns, own_word, TURNED);
        found.sine = load_word(sine, turns, own_word, TURNED);
    }
    return found;
}

Vector new_key_word(uint token, uint word) {
    return vector_word(new_k, new_k_at + token * all.new_k_row, token, word);
}

uvec4 new_value_word(uint token, uint word) {
    return load_word(new_v, new_v_at + token * all.new_v_row, word, HEAD);
}

// Four factors from element 4 * u of a word on.
vec4 gammas(AccIn gamma, uint word, uint u) {
    uint column = word * VECTOR + 4 * u;
    return vec4(gamma.at[min(column, HEAD - 1)], gamma.at[min(column + 1, HEAD - 1)],
                gamma.at[min(column + 2, HEAD - 1)], gamma.at[min(column + 3, HEAD - 1)]);
}
#ifdef Q_NORMED
#define Q_GAMMAS(word, u) gammas(q_gamma, word, u)
#else
#define Q_GAMMAS(word, u) 1.0
#endif
#ifdef K_NORMED
#define K_GAMMAS(word, u) gammas(k_gamma, word, u)
#else
#define K_GAMMAS(word, u) 1.0
#endif

// A word with TURNED_WORDS, rotated, times factors of its elements; GAMMAS(word, u).
#define ROTATE(taken, word, factor, GAMMAS, quads)                                       \
    {                                                                                    \
        uint half_ = TURNED / 2 / VECTOR;                                                \
        uint other_word_ = word < half_ ? word + half_ : word - half_;                   \
        float sign_ = word < half_ ? -factor : factor;                                   \
        [[unroll]] for (uint u_ = 0; u_ < QUADS; ++u_) {                                 \
            vec4 own_ = factor * quad_of(taken.own, u_) * GAMMAS(word, u_);              \
            vec4 other_ = sign_ * quad_of(taken.other, u_) * GAMMAS(other_word_, u_);    \
            quads[u_] = own_ * quad_of(taken.cosine, u_) + other_ * quad_of(taken.sine, u_); \
        }                                                                                \
    }

// Elements of a query, rotated with TURNED_WORDS, but not divided by its norm.
void query_quads(Vector taken, uint word, out vec4 quads[QUADS]) {
    if (word * VECTOR >= TURNED) {
        [[unroll]] for (uint u = 0; u < QUADS; ++u)
            quads[u] = quad_of(taken.own, u) * Q_GAMMAS(word, u);
        return;
    }
    ROTATE(taken, word, 1.0, Q_GAMMAS, quads)
#ifndef Q_NORMED
    [[unroll]] for (uint u = 0; u < QUADS; ++u)
        [[unroll]] for (uint e = 0; e < 4; ++e) quads[u][e] = ROUNDED(quads[u][e]);
#endif
}

#ifdef K_NORMED
float squares_of(uvec4 word) {
    float sum = 0.0;
    [[unroll]] for (uint u = 0; u < QUADS; ++u) {
        vec4 quad = quad_of(word, u);
        sum += dot(quad, quad);
    }
    return sum;
}
#endif

// A word of a new key, rotated, times `factor`.
uvec4 rotated_word(Vector taken, uint token, uint word, float factor) {
    vec4 quads[QUADS];
    if (word * VECTOR >= TURNED) {
#ifdef K_NORMED
        [[unroll]] for (uint u = 0; u < QUADS; ++u)
            quads[u] = factor * quad_of(taken.own, u) * K_GAMMAS(word, u);
        return WORD_OF(quads);
#else
        return taken.own;
#endif
    }
    if (TURNED_WORDS != 0) {
        ROTATE(taken, word, factor, K_GAMMAS, quads)
        return WORD_OF(quads);
    }
    uint from = new_k_at + token * all.new_k_row;
    uint turns = turns_at + token * all.table_row;
    [[unroll]] for (uint e = 0; e < VECTOR; ++e) {
        uint column = min(word * VECTOR + e, HEAD - 1);
        uint pair = column < TURNED ? pair_of(column) : column;
        float value = load(new_k, from + column) * K_GAMMA(column);
        float other = load(new_k, from + pair) * K_GAMMA(pair);
        value = factor * turned(value, other, column, turns);
        quads[e / 4][e % 4] = word * VECTOR + e < HEAD ? value : 0.0;
    }
    return WORD_OF(quads);
}

void store_word(In cache, uint from, uint word, uvec4 bits) {
    if (ALIGNED != 0) {
        OutWords(uvec2(cache)).at[from / VECTOR + word] = bits;
        return;
    }
    Out elements = Out(uvec2(cache));
    [[unroll]] for (uint e = 0; e < VECTOR; ++e) {
        uint column = word * VECTOR + e;
#if BYTES == 4
        if (column < HEAD) elements.at[from + column] = uintBitsToFloat(bits[e]);
#else
        uint own = bits[e / 2] >> 16 * (e % 2) & 0xffffu;
        if (column < HEAD) elements.at[from + column] = T(own);
#endif
    }
}

// Write a word of a new token's key, and of its value, unless its page is none.
void write_words(
    uint token, uint word, uvec4 key_bits, uvec4 value_bits, uint k_at, uint v_at) {
    uint key = newest + token, k_line = key * k_row, v_line = key * v_row;
    if (PAGE != 0) {
        uint entry = 2 * (table + key / PAGE);
        int low = tables.at[entry], high = tables.at[entry + 1];
        if (high != 0 || uint(low) >= all.pages) {
            IndexSlot page_error = all.page_error;
            page_error.at[0] = reported(low, high);
            return;
        }
        k_line = uint(low) * all.k_batch + key % PAGE * k_row;
        v_line = uint(low) * all.v_batch + key % PAGE * v_row;
    }
    store_word(k, k_at + k_line, word, key_bits);
    store_word(v, v_at + v_line, word, value_bits);
}

// Choose the sequence and its head of keys.
void choose_sequence(uint batch, uint key_head) {
    new_k_at = batch * all.new_k_batch + key_head * all.new_k_head;
    new_v_at = batch * all.new_v_batch + key_head * all.new_v_head;
    turns_at = batch * all.table_batch;
    own_position = PAGE == 0 ? 0 : batch;
    table = own_position * (keys / max(PAGE, 1));
}

// Take its position; return whether that is in range.
bool begin_step() {
    newest = bounded(position, own_position, keys - 1);
    return position.at[2 * own_position + 1] == 0
        && uint(position.at[2 * own_position]) < keys;
}

// Report the position, which `fits` or does not, if the tokens have no room.
void report_position(bool fits) {
    int lower = position.at[2 * own_position], upper = position.at[2 * own_position + 1];
    if (fits && uint(lower) + queries <= keys) return;
    IndexSlot error = all.error;
    error.at[0] = reported(fits ? int(keys) : lower, upper);
}
