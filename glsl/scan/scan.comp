// Scan along the middle dimension of (outer, count, inner)
// grid    one invocation per chunk of each row, linear over (outer, chunks, inner)
// in      x (outer, count, inner) of T, or of states with FROM_STATES; if HAS_CARRY,
//         carry (outer, chunks, inner): the state at the end of each chunk
// out     out_ (outer, count, inner) of T, or of states with TO_STATES; if TOTALS instead
//         (outer, chunks, inner) of states, the total of each chunk; with EXTREME places
//         (outer, count, inner), unless states are written
// consts  TOTALS, HAS_CARRY; REVERSE: from the end to the front; those of scan/state.glsl
// source  Blelloch, Prefix Sums and Their Applications, 1990
#version 460
#extension GL_EXT_buffer_reference : require
#include "lib/dtype.glsl"
#include "lib/index.glsl"
#include "lib/place_buffers.glsl"
#include "scan/state.glsl"

layout(constant_id = 3) const uint TOTALS = 0;
layout(constant_id = 4) const uint HAS_CARRY = 0;
layout(constant_id = 6) const uint REVERSE = 0;

layout(push_constant, std430) uniform Push {
    SOURCE x;
    StatesIn carry;
    TARGET out_;
#if defined(EXTREME) && !defined(TO_STATES)
    PlaceOut places;
#endif
    uint outer;
    uint count;
    uint inner;
    uint chunks;
    uint chunk_size;
} push;

void main() {
    uint invocation = linear_invocation();
    SOURCE x = push.x;
    TARGET out_ = push.out_;
#if defined(EXTREME) && !defined(TO_STATES)
    PlaceOut places = push.places;
#endif
    uint count = push.count, inner = push.inner, chunks = push.chunks;
    uint chunk_size = push.chunk_size;
    if (invocation >= push.outer * chunks * inner) return;
    uint line = invocation / inner;
    uint outer = line / chunks;
    uint chunk = line - outer * chunks;
    uint base = outer * count * inner + (invocation - line * inner);

    State running = neutral();
    if (HAS_CARRY != 0 && chunk > 0) running = push.carry.at[invocation - inner];
    uint end = min(chunk * chunk_size + chunk_size, count);
    for (uint k = chunk * chunk_size; k < end; ++k) {
        uint at = base + (REVERSE != 0 ? count - 1 - k : k) * inner;
        running = joined(running, element(x, at, k));
#ifdef TO_STATES
        if (TOTALS == 0) out_.at[at] = running;
#else
        store(out_, at, value_of(running));
#ifdef EXTREME
        store_place(places, at, running.place);
#endif
#endif
    }
#ifdef TO_STATES
    if (TOTALS != 0) out_.at[invocation] = running;
#endif
}
