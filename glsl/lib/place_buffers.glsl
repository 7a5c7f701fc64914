// Buffer of positions, none below 0: int32, or int64 with the macro WIDE_PLACES
//
// An int64 is stored as its words, which asks for no 64-bit integers of the shader.

#ifdef WIDE_PLACES
layout(buffer_reference, std430, buffer_reference_align = 8) restrict writeonly buffer
    PlaceOut { uvec2 at[]; };
#define AS_PLACE(number) uvec2(number, 0)
#else
layout(buffer_reference, std430, buffer_reference_align = 4) restrict writeonly buffer
    PlaceOut { int at[]; };
#define AS_PLACE(number) int(number)
#endif

void store_place(PlaceOut places, uint index, uint place) {
    places.at[index] = AS_PLACE(place);
}
