// Rotary position embedding: pairs (a, b) rotated to (a cos - b sin, b cos + a sin)
// grid    one invocation per pair, linear
// in      x (rows, 2 * pairs) T; cosine, sine (tables, table_rows, pairs) of ACC: row r
//         takes row r % table_rows of table r / span, or of the only one; *_magic and
//         *_shift, also of span: see `divide`
// out     out_, as x
// consts  INTERLEAVED: pairs are neighbours, otherwise one is of each half; INVERSE: the
//         other way round
// source  Su et al., RoFormer, arXiv:2104.09864
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint INTERLEAVED = 0;
layout(constant_id = 4) const uint INVERSE = 0;

layout(push_constant, std430) uniform Push {
    In x;
    AccIn cosine;
    AccIn sine;
    Out out_;
    uint rows;
    uint pairs;
    uint pairs_magic;
    uint pairs_shift;
    uint tables;
    uint span_magic;
    uint span_shift;
    uint table_rows;
    uint rows_magic;
    uint rows_shift;
} push;

void main() {
    In x = push.x;
    AccIn cosine = push.cosine, sine = push.sine;
    Out out_ = push.out_;
    uint invocation = linear_invocation();
    uint pairs = push.pairs;
    uint row = divide(invocation, push.pairs_magic, push.pairs_shift);
    if (row >= push.rows) return;
    uint pair = invocation - row * pairs;
    uint table = divide(row, push.span_magic, push.span_shift);
    if (push.tables == 1) table = 0;
    uint within = row - divide(row, push.rows_magic, push.rows_shift) * push.table_rows;
    uint place = (table * push.table_rows + within) * pairs + pair;

    uint first = row * 2 * pairs + (INTERLEAVED != 0 ? 2 * pair : pair);
    uint second = first + (INTERLEAVED != 0 ? 1 : pairs);
    ACC a = load(x, first), b = load(x, second);
    ACC c = cosine.at[place], s = sine.at[place];
    if (INVERSE != 0) s = -s;
    store(out_, first, a * c - b * s);
    store(out_, second, b * c + a * s);
}
