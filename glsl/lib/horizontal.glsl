// Arguments of a shader that may be a horizontal launch: with HORIZONTAL, the rows of a
// table, one for each launch that is fused
//
// The includer declares its arguments between BEGIN_ARGUMENTS and END_ARGUMENTS, as
// members of `push`, and in `main` begins with READ_ARGUMENTS; its number is then
// OWN_WORKGROUP. See framework/codegen/ir/horizontal.py.

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
        Sibling siblings[];                                                              \
    };                                                                                   \
    layout(push_constant) uniform Push { Arguments args; };                              \
    Sibling push;
#define READ_ARGUMENTS push = args.siblings[args.sibling_of.at[linear_workgroup()]];
#define OWN_WORKGROUP (linear_workgroup() - push.first)
#else
#define BEGIN_ARGUMENTS layout(push_constant, std430) uniform Push {
#define END_ARGUMENTS                                                                    \
    }                                                                                    \
    push;
#define READ_ARGUMENTS
#define OWN_WORKGROUP linear_workgroup()
#endif
