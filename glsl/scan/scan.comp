// Scan (prefix sums or products) along the middle dimension of (outer, count, inner)
// grid    one invocation per chunk of each row, linear over (outer, chunks, inner)
// in      x (outer, count, inner) T; if HAS_CARRY, carry (outer, chunks, inner) ACC:
//         the result at the end of each chunk
// out     out_ (outer, count, inner) T; if TOTALS instead (outer, chunks, inner), the
//         total of each chunk
// consts  TOTALS, HAS_CARRY; PRODUCT; REVERSE: from the end to the front
// source  Blelloch, Prefix Sums and Their Applications, 1990
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"

layout(constant_id = 3) const uint TOTALS = 0;
layout(constant_id = 4) const uint HAS_CARRY = 0;
layout(constant_id = 5) const uint PRODUCT = 0;
layout(constant_id = 6) const uint REVERSE = 0;

layout(push_constant, std430) uniform Push {
    In x;
    AccIn carry;
    Out out_;
    uint outer;
    uint count;
    uint inner;
    uint chunks;
    uint chunk_size;
} push;

void main() {
    uint invocation = linear_invocation();
    In x = push.x;
    Out out_ = push.out_;
    uint count = push.count, inner = push.inner, chunks = push.chunks;
    uint chunk_size = push.chunk_size;
    if (invocation >= push.outer * chunks * inner) return;
    uint line = invocation / inner;
    uint outer = line / chunks;
    uint chunk = line - outer * chunks;
    uint base = outer * count * inner + (invocation - line * inner);

    ACC running = PRODUCT != 0 ? ACC(1) : ACC(0);
    if (HAS_CARRY != 0 && chunk > 0) running = push.carry.at[invocation - inner];
    uint end = min(chunk * chunk_size + chunk_size, count);
    for (uint k = chunk * chunk_size; k < end; ++k) {
        uint place = base + (REVERSE != 0 ? count - 1 - k : k) * inner;
        ACC value = load(x, place);
        running = PRODUCT != 0 ? running * value : running + value;
        if (TOTALS == 0) store(out_, place, running);
    }
    if (TOTALS != 0) store(out_, invocation, running);
}
