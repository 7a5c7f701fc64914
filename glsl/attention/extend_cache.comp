// Keys and values written into a cache from a position on; queries and keys rotated
// grid    one invocation per element of the queries, keys and values, linear
// in      q (batch, heads, count, HEAD); k, v (batch, key_heads, count, HEAD); cosine,
//         sine (1 or batch, count, TURNED): T, strides in elements, the last of all is
//         1; position: int64, where the first of `count` tokens is held
// out     turned, as q but contiguous; keys, values (batch, key_heads, room, HEAD): only
//         those of the tokens; error: a position out of range
// consts  HEAD; TURNED: elements that are rotated, an even number; 0: none
// lint    integer-division: sizes are arguments
// lint    scalar-load: of arguments, which are the same for all
// source  Su et al., RoFormer, arXiv:2104.09864
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/index_buffers.glsl"
#include "lib/index_record.glsl"

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint TURNED = 0;

layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Arguments {
    In q;
    In k;
    In v;
    In cosine;
    In sine;
    IntIn position;
    Out turned;
    Out keys;
    Out values;
    IndexSlot error;
    uint batch;
    uint heads;
    uint key_heads;
    uint count;
    uint room;
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

void main() {
    Arguments all = args;
    In q = all.q, k = all.k, v = all.v, cosine = all.cosine, sine = all.sine;
    IntIn position = all.position;
    Out turned = all.turned, keys = all.keys, values = all.values;
    IndexSlot error = all.error;
    uint heads = all.heads, key_heads = all.key_heads, count = all.count;
    uint row = linear_invocation() / HEAD, column = linear_invocation() % HEAD;
    uint whole = heads + 2 * key_heads;
    uint head = row % whole, token = row / whole % count, batch = row / whole / count;
    if (batch >= all.batch) return;
    uint table = batch * all.table_batch + token * all.table_row;
    if (head < heads) {
        uint from = batch * all.q_batch + head * all.q_head + token * all.q_row;
        uint to = ((batch * heads + head) * count + token) * HEAD + column;
        store(turned, to, rotated(q, from, column, cosine, sine, table));
        return;
    }
    int lower = position.at[0], upper = position.at[1];
    uint place = uint(lower) + token;
    if (upper != 0 || place >= all.room || uint(lower) >= all.room) {
        error.at[0] = reported(upper == 0 && lower >= 0 ? int(place) : lower, upper);
        return;
    }
    head -= heads;
    bool is_key = head < key_heads;
    head -= is_key ? 0 : key_heads;
    uint to = ((batch * key_heads + head) * all.room + place) * HEAD + column;
    if (is_key) {
        uint from = batch * all.k_batch + head * all.k_head + token * all.k_row;
        store(keys, to, rotated(k, from, column, cosine, sine, table));
    } else {
        uint from = batch * all.v_batch + head * all.v_head + token * all.v_row;
        store(values, to, load(v, from + column));
    }
}
