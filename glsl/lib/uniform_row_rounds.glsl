// A statement for each of the ROUNDS of `uniform_row.glsl`: ROUND(number)

ROUND(0)
#if ROUNDS > 1
ROUND(1)
#endif
#if ROUNDS > 2
ROUND(2)
ROUND(3)
#endif
#if ROUNDS > 4
ROUND(4)
ROUND(5)
ROUND(6)
ROUND(7)
#endif
#if ROUNDS > 8
ROUND(8)
ROUND(9)
ROUND(10)
ROUND(11)
ROUND(12)
ROUND(13)
ROUND(14)
ROUND(15)
#endif
