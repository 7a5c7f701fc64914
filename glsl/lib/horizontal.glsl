// Arguments of a shader that may be a horizontal launch: with HORIZONTAL, the rows of a
// table, one for each launch that is fused
//
// The includer declares its arguments between BEGIN_ARGUMENTS and END_ARGUMENTS, as
// members of `push`, and in `main` begins with READ_ARGUMENTS; its number is then
// OWN_WORKGROUP. Of up to four launches the first workgroups lie before the rows, and no
// load of its launch's number precedes that of the row; of more, `second` is 0. See
// framework/codegen/ir/horizontal.py.

#ifdef HORIZONTAL
#define BEGIN_ARGUMENTS struct Sibling {
#define END_ARGUMENTS                                                                    \
        uint first;                                                                      \
    };                                                                                   \
    layout(buffer_reference, std430, buffer_reference_align = 4) restrict readonly       \
        buffer Workgroups { uint at[]; };                                                \
    layout(buffer_reference, std430, buffer_reference_align = 16) restrict readonly      \
        buffer Arguments {                                                               \
        Workgroups sibling_of;                                                           \
        uint second;                                                                     \
        uint third;                                                                      \
        uint fourth;                                                                     \
        Sibling siblings[];                                                              \
    };                                                                                   \
    layout(push_constant) uniform Push { Arguments args; };                              \
    uint own_sibling() {                                                                 \
        uint number = linear_workgroup();                                                \
        if (args.second == 0) return args.sibling_of.at[number];                         \
        return uint(number >= args.second) + uint(number >= args.third)                  \
            + uint(number >= args.fourth);                                               \
    }                                                                                    \
    Sibling push;
#define READ_ARGUMENTS push = args.siblings[own_sibling()];
#define OWN_WORKGROUP (linear_workgroup() - push.first)
#else
#define BEGIN_ARGUMENTS layout(push_constant, std430) uniform Push {
#define END_ARGUMENTS                                                                    \
    }                                                                                    \
    push;
#define READ_ARGUMENTS
#define OWN_WORKGROUP linear_workgroup()
#endif
