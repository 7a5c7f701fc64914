// Attention arguments, shared by all attention kernels
//
// The includer first includes lib/dtype.glsl and lib/philox.glsl and defines VECTORS,
// the type of q, k and v, OWN_FIELDS, its own fields, and the constant DROPOUT.

#include "attention/dropout.glsl"
#ifdef PAGED
#include "lib/index_buffers.glsl"
#endif

// Strides are in elements of each type; the last dimension's is 1, but for the mask.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Arguments {
    VECTORS q;
    VECTORS k;
    VECTORS v;
    In mask;
    Seed seed;
    OWN_FIELDS
#ifdef PAGED
    IntIn position;
    IntIn tables;
    uint pages;
    uint window;
    float cap;
#endif
    uint batch;
    uint heads;
    uint group;
    uint queries;
    uint keys;
    uint q_batch;
    uint q_head;
    uint q_row;
    uint k_batch;
    uint k_head;
    uint k_row;
    uint v_batch;
    uint v_head;
    uint v_row;
    uint mask_batch;
    uint mask_head;
    uint mask_row;
    uint mask_column;
    float scale;
    float dropout;
};
layout(push_constant) uniform Push { Arguments args; };

Arguments all = args;
VECTORS q = all.q, k = all.k, v = all.v;
In mask = all.mask;
uint heads = all.heads, group = all.group, queries = all.queries, keys = all.keys;
uint q_row = all.q_row, k_row = all.k_row, v_row = all.v_row;
uint mask_row = all.mask_row, mask_column = all.mask_column;
float dropout = all.dropout;

#ifdef PAGED
#include "attention/pages.glsl"
#define BEGIN_SEQUENCE(batch) begin_sequence(batch);
#define FIRST_QUERY first_query
#define OLDEST(query) oldest(query)
#define WINDOW window
#define LINE_AT(line, stride) line_at(line, stride)
#define OWN_BATCH(batch) (PAGE == 0 ? (batch) : 0)
#define CAPPED_TO(score, cap) capped(score, cap)
#define CAP all.cap
#define IS_CAPPED (CAPPED != 0)
#else
#define BEGIN_SEQUENCE(batch)
#define FIRST_QUERY 0
#define OLDEST(query) 0
#define WINDOW 0
#define LINE_AT(line, stride) ((line) * (stride))
#define OWN_BATCH(batch) batch
#define CAPPED_TO(score, cap) (score)
#define CAP 0.0
#define IS_CAPPED false
#endif

uvec2 seed = DROPOUT != 0 ? uvec2(all.seed.key[0], all.seed.key[1]) : uvec2(0);

// Offset of the vectors of a head.
uint q_base(uint batch, uint head) { return batch * all.q_batch + head * all.q_head; }
uint k_base(uint batch, uint head) { return batch * all.k_batch + head * all.k_head; }
uint v_base(uint batch, uint head) { return batch * all.v_batch + head * all.v_head; }
uint mask_base(uint batch, uint head) {
    return batch * all.mask_batch + head * all.mask_head;
}
