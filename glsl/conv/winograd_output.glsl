// Winograd output transform: the sums of all points in place of products, and the bias
//
// Lines of results are of whole vectors, and so are those of tiles, unless RAGGED: there
// results of a tile may lie apart.

layout(constant_id = 7) const uint HAS_BIAS = 0;

layout(push_constant, std430) uniform Push {
    In products;
    In bias;
    Out out_;
    uint rows;
    uint tiles_magic;
    uint tiles_shift;
    TILE_FIELDS
#ifdef EPILOGUE
    Epilogue epilogue;
#endif
} push;

void main() {
    uint number = linear_invocation();
    if (number >= push.rows * push.tiles) return;
    In products = push.products, each = push.bias;
    Out out_ = push.out_;
    uint row = divide(number, push.tiles_magic, push.tiles_shift);
    uint own = number - row * push.tiles;
    uint from = row * push.pitch + own, plane = push.rows * push.pitch;
    float sums[TILE_DOWN][MOST];
    [[unroll]] for (uint j = 0; j < POINTS_ACROSS; ++j) {
        float line[MOST];
        [[unroll]] for (uint i = 0; i < POINTS_DOWN; ++i)
            line[i] = load(products, from + (i * POINTS_ACROSS + j) * plane);
        combine(POINTS_DOWN, TILE_DOWN, line);
        [[unroll]] for (uint i = 0; i < TILE_DOWN; ++i) sums[i][j] = line[i];
    }
    uvec3 place = PLACE_OF(push.first + own);
    float bias = HAS_BIAS != 0 ? load(each, row) : 0.0;
    uint start = (first_plane(place.x, push.rows) + row * PLANES) * push.height;
    [[unroll]] for (uint i = 0; i < TILE_DOWN; ++i) {
        combine(POINTS_ACROSS, TILE_ACROSS, sums[i]);
        uint y = place.y + i * DILATION_DOWN;
        if (y >= push.height) continue;
        uint to = (start + y) * push.width + place.z;
#ifdef RAGGED
        [[unroll]] for (uint j = 0; j < TILE_ACROSS; ++j) {
            uint apart = j * DILATION_ACROSS;
            if (place.z + apart >= push.width) continue;
            store(out_, to + apart, sums[i][j] + bias);
        }
#else
        [[unroll]] for (uint j = 0; j < TILE_ACROSS / 4; ++j) {
            vec4 four;
            [[unroll]] for (uint e = 0; e < 4; ++e) four[e] = sums[i][4 * j + e] + bias;
            if (place.z + 4 * j >= push.width) continue;
#ifdef EPILOGUE
            epilogue(push.epilogue, to / 4 + j, four);
#else
            store_quad(QuadsOut(uvec2(out_)), to / 4 + j, four);
#endif
        }
#endif
    }
}
