// Numbers of the kernels of linear algebra: float32, or float64 with the macro DOUBLE

#ifdef DOUBLE
#define REAL double
#define REAL_SIZE 8
#define NOT_A_NUMBER packDouble2x32(uvec2(0u, 0x7ff80000u))
#else
#define REAL float
#define REAL_SIZE 4
#define NOT_A_NUMBER uintBitsToFloat(0x7fc00000u)
#endif
