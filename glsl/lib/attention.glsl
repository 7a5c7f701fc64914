// What the attention kernels share: their arguments, and products of two sides' vectors
//
// A workgroup owns BLOCK vectors of one side, queries or keys, ROWS for each team of
// LANES invocations, and walks over the other side in steps of SPAN, TILE for each
// invocation. The includer first includes lib/element.glsl, lib/index.glsl,
// lib/math/exponential.glsl and lib/random.glsl, and defines OWN_FIELDS, its own fields
// of the arguments.

layout(constant_id = 3) const uint HEAD = 64;
layout(constant_id = 4) const uint VALUE_HEAD = 64;
layout(constant_id = 5) const uint LANES = 32;
layout(constant_id = 6) const uint ROWS = 8;
layout(constant_id = 7) const uint TILE = 2;
layout(constant_id = 8) const uint CAUSAL = 0;
layout(constant_id = 9) const uint HAS_MASK = 0;
layout(constant_id = 10) const uint DROPOUT = 0;
// Whether vectors of the other side go through shared memory, for coalesced loads.
layout(constant_id = 11) const uint STAGED = 1;

const uint BLOCK = ROWS * (gl_WorkGroupSize.x / LANES);
const uint SPAN = TILE * LANES;
const uint PITCH = SPAN + 1;
const uint SLAB = 16;
const uint COLUMNS = (HEAD - 1) / LANES + 1;
const uint VALUE_COLUMNS = (VALUE_HEAD - 1) / LANES + 1;

layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly buffer
    Seed { uint key[2]; };
// Strides are in elements; the last dimension's is 1, but for the mask.
layout(buffer_reference, std430, buffer_reference_align = 8) restrict readonly buffer
    Arguments {
    In q;
    In k;
    In v;
    In mask;
    Seed seed;
    OWN_FIELDS
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

shared float tile[BLOCK * PITCH];
shared float slab[STAGED != 0 ? SLAB * PITCH : 1];

Arguments all = args;
In q = all.q, k = all.k, v = all.v, mask = all.mask;
uint heads = all.heads, group = all.group, queries = all.queries, keys = all.keys;
uint q_row = all.q_row, k_row = all.k_row, v_row = all.v_row;
uint mask_row = all.mask_row, mask_column = all.mask_column;
float scale = all.scale, dropout = all.dropout;

uvec2 seed = DROPOUT != 0 ? uvec2(all.seed.key[0], all.seed.key[1]) : uvec2(0);

uint at = gl_LocalInvocationIndex;
uint lane = at % LANES, team = at / LANES;

// Where the vectors of a head begin.
uint q_base(uint batch, uint head) { return batch * all.q_batch + head * all.q_head; }
uint k_base(uint batch, uint head) { return batch * all.k_batch + head * all.k_head; }
uint v_base(uint batch, uint head) { return batch * all.v_batch + head * all.v_head; }
uint mask_base(uint batch, uint head) {
    return batch * all.mask_batch + head * all.mask_head;
}

// What a query and a key score; nothing counts beyond the keys.
float score(float product, uint query, uint key, uint mask_at) {
    float result = product * scale;
    uint row = min(query, queries - 1), column = min(key, keys - 1);
    if (HAS_MASK != 0)
        result += load(mask, mask_at + row * mask_row + column * mask_column);
    bool seen = key < keys && (CAUSAL == 0 || key <= query);
    return seen ? result : -INFINITE;
}

// The factor of a weight under dropout: 0, or what keeps the expected sum.
float kept(uint row, uint key) {
    uint bits = philox(uvec4(key, row, 0u, 0u), seed).x;
    float draw = float(bits >> 8) * (1.0 / 16777216.0);
    return draw >= dropout ? 1.0 / (1.0 - dropout) : 0.0;
}

// Products of own vectors, which begin at `own_at`, and those of the other side from
// `first` on, of which there are `count`, `stride` apart.
void multiply(
    In own, uint own_at[ROWS], In other, uint base, uint stride, uint count, uint first,
    uint depth, out float result[ROWS][TILE]) {
    for (uint i = 0; i < ROWS; ++i)
        for (uint j = 0; j < TILE; ++j) result[i][j] = 0.0;
    uint other_at[TILE];
    for (uint j = 0; j < TILE; ++j)
        other_at[j] = base + min(first + j * LANES + lane, count - 1) * stride;
    for (uint start = 0; start < depth; start += SLAB) {
        if (STAGED != 0) {
            barrier();
            for (uint i = at; i < SLAB * SPAN; i += gl_WorkGroupSize.x) {
                uint entry = base + min(first + i / SLAB, count - 1) * stride;
                slab[i % SLAB * PITCH + i / SLAB] =
                    load(other, entry + min(start + i % SLAB, depth - 1));
            }
            barrier();
        }
        for (uint pair = 0; pair < SLAB && start + pair < depth; pair += 2)
            for (uint e = pair; e < pair + 2; ++e) {
                float values[TILE];
                uint at_e = min(start + e, depth - 1);
                for (uint j = 0; j < TILE; ++j) {
                    if (STAGED != 0) values[j] = slab[e * PITCH + j * LANES + lane];
                    else values[j] = load(other, other_at[j] + at_e);
                    if (start + e >= depth) values[j] = 0.0;
                }
                for (uint i = 0; i < ROWS; ++i) {
                    float value = load(own, own_at[i] + at_e);
                    for (uint j = 0; j < TILE; ++j)
                        result[i][j] = fma(value, values[j], result[i][j]);
                }
            }
    }
}

// Give the tile what this invocation found, when nobody needs the old one any more.
void share(float values[ROWS][TILE]) {
    barrier();
    for (uint i = 0; i < ROWS; ++i)
        for (uint j = 0; j < TILE; ++j)
            tile[(team * ROWS + i) * PITCH + j * LANES + lane] = values[i][j];
    barrier();
}

// sums[i][c] += sum over the tile's columns of tile[i][column] * other[column][c], for
// columns of the other side from `first` to before `end`; those from there on are 0. Two
// at a time, as `multiply`, for some drivers end loops after so many rounds in all.
#define ACCUMULATE(sums, WIDTH, WIDTH_COLUMNS, other, base, stride, first, end)          \
    for (uint pair_ = 0; pair_ < SPAN && first + pair_ < end; pair_ += 2)                \
        for (uint step_ = pair_; step_ < pair_ + 2; ++step_) {                           \
            float values_[WIDTH_COLUMNS];                                                \
            uint from_ = base + min(first + step_, end - 1) * stride;                    \
            for (uint c = 0; c < WIDTH_COLUMNS; ++c)                                     \
                values_[c] = load(other, from_ + min(lane + c * LANES, WIDTH - 1));      \
            for (uint i = 0; i < ROWS; ++i) {                                            \
                float weight_ = tile[(team * ROWS + i) * PITCH + step_];                 \
                for (uint c = 0; c < WIDTH_COLUMNS; ++c)                                 \
                    sums[i][c] = fma(weight_, values_[c], sums[i][c]);                   \
            }                                                                            \
        }

// Store own vectors, of which there are `count`, from `base` on, `stride` apart.
#define STORE(out_, sums, WIDTH, WIDTH_COLUMNS, base, stride, first_row, count)          \
    for (uint i = 0; i < ROWS; ++i) {                                                    \
        uint row_ = first_row + team * ROWS + i;                                         \
        for (uint c = 0; c < WIDTH_COLUMNS; ++c) {                                       \
            uint column_ = lane + c * LANES;                                             \
            if (row_ < count && column_ < WIDTH)                                         \
                store(out_, base + row_ * (stride) + column_, sums[i][c]);               \
        }                                                                                \
    }
