// Tiles of results in images: those of a piece of all images, in one line
// consts  those of conv/winograd.glsl and conv/volume.glsl; DILATION: distance of a
//         tile's results, and of the pixels of its window

#include "conv/volume.glsl"

layout(constant_id = 8) const uint DILATION_DOWN = 1;
layout(constant_id = 9) const uint DILATION_ACROSS = 1;

// Fields of each push block.
#define TILE_FIELDS \
    uint first; /* tile of all images that the piece starts with */ \
    uint tiles; \
    uint pitch; /* of a line of tiles in memory, at least `tiles` */ \
    uint height; \
    uint width; \
    uint plane; /* tiles of an image */ \
    uint across; /* tiles of its lines */ \
    uint plane_magic; \
    uint plane_shift; \
    uint across_magic; \
    uint across_shift;

// Image, and line and column of the first result, of a tile.
#define PLACE_OF(tile) \
    place_of(tile, push.plane, uvec2(push.plane_magic, push.plane_shift), \
             push.across, uvec2(push.across_magic, push.across_shift))

// First result of a tile of a line: as many as `dilation` tiles have their results between
// each other, and begin with neighbours.
uint first_of(uint tile, uint results, uint dilation) {
    return tile + tile / dilation * dilation * (results - 1);
}

uvec3 place_of(uint tile, uint plane, uvec2 by_plane, uint across, uvec2 by_across) {
    uint image = divide(tile, by_plane.x, by_plane.y);
    uint rest = tile - image * plane;
    uint line = divide(rest, by_across.x, by_across.y);
    return uvec3(image, first_of(line, TILE_DOWN, DILATION_DOWN),
        first_of(rest - line * across, TILE_ACROSS, DILATION_ACROSS));
}
