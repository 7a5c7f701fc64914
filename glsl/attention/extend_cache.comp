// Keys and values written into a cache from a position on; queries and keys rotated
// grid    one invocation per element, or word, of the queries, keys and values, linear
// in      q (batch, heads, count, HEAD); k, v (batch, key_heads, count, HEAD); cosine,
//         sine (1 or batch, count, TURNED): T, strides in elements, the last of all is
//         1; position: int64, where the first of `count` tokens is held; with PAGE one
//         for each sequence, and tables int64 (batch, room / PAGE): numbers of pages
// out     turned, as q but contiguous; keys, values (batch, key_heads, room, HEAD), or
//         with PAGE (pages, key_heads, PAGE, HEAD): only those of the tokens; error: a
//         position out of range; page_error: a page
// consts  HEAD; TURNED: elements that are rotated, an even number; 0: none; PAGE: tokens
//         of a page; 0: the cache of a sequence is contiguous
// macros  WORDS: vectors, and halves of what is rotated, are whole words of 16 bytes
// lint    scalar-load: of arguments, which are the same for all
// source  Su et al., RoFormer, arXiv:2104.09864
#version 460
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_buffer_reference_uvec2 : require
#extension GL_EXT_control_flow_attributes : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#ifdef WORDS
#include "lib/vec4_io.glsl"
#endif
#include "lib/index_buffers.glsl"
#include "lib/index_record.glsl"

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint TURNED = 0;
layout(constant_id = 5) const uint PAGE = 0;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Arguments {
    In q;
    In k;
    In v;
    In cosine;
    In sine;
    IntIn position;
    IntIn tables;
    Out turned;
    Out keys;
    Out values;
    IndexSlot error;
    IndexSlot page_error;
    uint batch;
    uint heads;
    uint key_heads;
    uint count;
    uint room;
    uint pages;
    uint q_batch;
    uint q_head;
    uint q_row;
    uint k_batch;
    uint k_head;
    uint k_row;
    uint v_batch;
    uint v_head;
    uint v_row;
    uint table_batch;
    uint table_row;
};
layout(push_constant) uniform Push { Arguments args; };

#ifdef WORDS
layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly
    buffer WordsIn { uvec4 at[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) restrict writeonly
    buffer WordsOut { uvec4 at[]; };

// Elements and vec4 of a word.
const uint WIDTH = 16 / BYTES, QUADS = WIDTH / 4;

uvec4 taken(In x, uint from) { return WordsIn(uvec2(x)).at[from / WIDTH]; }
void put(Out x, uint to, uvec4 word) { WordsOut(uvec2(x)).at[to / WIDTH] = word; }

vec4 quad_of(uvec4 word, uint i) {
#if BYTES == 4
    return decode_quad(uintBitsToFloat(word));
#else
    return decode_quad(uvec2(word[2 * i], word[2 * i + 1]));
#endif
}

// The word from `column` on of the vector from `from` on, rotated.
uvec4 rotated(In x, uint from, uint column, In cosine, In sine, uint table) {
    uvec4 own = taken(x, from + column);
    if (column >= TURNED) return own;
    bool first = column < TURNED / 2;
    uint pair = first ? column + TURNED / 2 : column - TURNED / 2;
    uvec4 other = taken(x, from + pair), found = uvec4(0);
    uvec4 cosines = taken(cosine, table + column), sines = taken(sine, table + column);
    [[unroll]] for (uint i = 0; i < QUADS; ++i) {
        vec4 turn = quad_of(sines, i);
        vec4 quad = quad_of(own, i) * quad_of(cosines, i)
            + quad_of(other, i) * (first ? -turn : turn);
#if BYTES == 4
        found = floatBitsToUint(quad);
#elif DTYPE == DTYPE_FLOAT16
        found[2 * i] = pack_float16(quad.x, quad.y);
        found[2 * i + 1] = pack_float16(quad.z, quad.w);
#else
        found[2 * i] = pack_bfloat16(quad.x, quad.y);
        found[2 * i + 1] = pack_bfloat16(quad.z, quad.w);
#endif
    }
    return found;
}
#else
const uint WIDTH = 1;
#define taken load
#define put store

// Element `column` of the vector from `from` on, rotated: the first half of what is
// rotated pairs with the second.
ACC rotated(In x, uint from, uint column, In cosine, In sine, uint table) {
    ACC value = load(x, from + column);
    if (column >= TURNED) return value;
    bool first = column < TURNED / 2;
    ACC other = load(x, from + (first ? column + TURNED / 2 : column - TURNED / 2));
    ACC turn = load(sine, table + column);
    return value * load(cosine, table + column) + (first ? -other : other) * turn;
}
#endif

void main() {
    Arguments all = args;
    In q = all.q, k = all.k, v = all.v, cosine = all.cosine, sine = all.sine;
    IntIn position = all.position, tables = all.tables;
    Out turned = all.turned, keys = all.keys, values = all.values;
    IndexSlot error = all.error, page_error = all.page_error;
    uint heads = all.heads, key_heads = all.key_heads, count = all.count;
    uint row = linear_invocation() / (HEAD / WIDTH);
    uint column = linear_invocation() % (HEAD / WIDTH) * WIDTH;
    uint whole = heads + 2 * key_heads;
    uint head = row % whole, token = row / whole % count, batch = row / whole / count;
    if (batch >= all.batch) return;
    uint table = batch * all.table_batch + token * all.table_row;
    if (head < heads) {
        uint from = batch * all.q_batch + head * all.q_head + token * all.q_row;
        uint to = ((batch * heads + head) * count + token) * HEAD + column;
        put(turned, to, rotated(q, from, column, cosine, sine, table));
        return;
    }
    uint own = PAGE == 0 ? 0 : 2 * batch;
    int lower = position.at[own], upper = position.at[own + 1];
    uint place = uint(lower) + token;
    if (upper != 0 || place >= all.room || uint(lower) >= all.room) {
        error.at[0] = reported(upper == 0 && lower >= 0 ? int(place) : lower, upper);
        return;
    }
    uint part = batch, length = all.room;
    if (PAGE != 0) {
        uint entry = 2 * (batch * (length / PAGE) + place / PAGE);
        int low = tables.at[entry], high = tables.at[entry + 1];
        if (high != 0 || uint(low) >= all.pages) {
            page_error.at[0] = reported(low, high);
            return;
        }
        part = uint(low);
        place %= PAGE;
        length = PAGE;
    }
    head -= heads;
    bool is_key = head < key_heads;
    head -= is_key ? 0 : key_heads;
    uint to = ((part * key_heads + head) * length + place) * HEAD + column;
    if (is_key) {
        uint from = batch * all.k_batch + head * all.k_head + token * all.k_row;
        put(keys, to, rotated(k, from, column, cosine, sine, table));
    } else {
        uint from = batch * all.v_batch + head * all.v_head + token * all.v_row;
        put(values, to, taken(v, from + column));
    }
}
