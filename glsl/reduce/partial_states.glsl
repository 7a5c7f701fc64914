// Partial states in memory, of reductions with more than one number per state
//
// With PARTIAL the states of chunks are results; with MERGE they are what is reduced.
// The includer defines State before, and RESULTS for neither.

layout(buffer_reference, std430, buffer_reference_align = ACC_BYTES) restrict readonly
    buffer States { State at[]; };
layout(buffer_reference, std430, buffer_reference_align = ACC_BYTES) restrict writeonly
    buffer StatesOut { State at[]; };

#ifdef MERGE
#define SOURCE States
#else
#define SOURCE In
#endif

#ifdef PARTIAL
#undef RESULTS
#define RESULTS StatesOut states;
#endif
