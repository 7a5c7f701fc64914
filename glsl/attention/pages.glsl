// Keys and values of a cache, for attention/arguments.glsl with PAGED
//
// k and v are (batch, key_heads, keys, HEAD), and the first query is token `position`. Or
// they are (pages, key_heads, PAGE, HEAD), of one layout, and a sequence has its own
// `position` (batch); token t of it is in page `tables` (batch, keys / PAGE)[t / PAGE].
// Each query sees itself and those before, the nearest `window` of them if that is not
// 0. CAUSAL is 1. With CAPPED scores become cap * tanh(score / cap).

#include "lib/math/hyperbolic.glsl"

layout(constant_id = 21) const uint PAGE = 0;  // 0: a sequence is contiguous
layout(constant_id = 22) const uint CAPPED = 0;

IntIn position = all.position, tables = all.tables;
uint page_stride = all.k_batch, last_page = all.pages - 1, window = all.window;
uint first_query = 0, own_table = 0;

// Choose the sequence; there are no keys after its last query.
void begin_sequence(uint batch) {
    own_table = PAGE == 0 ? 0 : batch * (keys / PAGE);
    first_query = bounded(position, PAGE == 0 ? 0 : batch, keys - 1);
    keys = min(keys, first_query + queries);
}

// Offset of a key among those of its head.
uint line_at(uint key, uint row_stride) {
    if (PAGE == 0) return key * row_stride;
    uint page = bounded(tables, own_table + key / PAGE, last_page);
    return page * page_stride + key % PAGE * row_stride;
}

float capped(float score, float cap) {
    return CAPPED != 0 ? cap * precise_tanh(score / cap) : score;
}

// First key that a query sees.
uint oldest(uint query) {
    uint place = first_query + query + 1;
    return window != 0 && place > window ? place - window : 0;
}
