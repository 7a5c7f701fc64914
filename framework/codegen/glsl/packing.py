"""Packing in GLSL: four neighbouring elements as 32-bit words, or one alone.

Storage is read and written word by word, so 1- and 2-byte types need no device feature.
"""

from __future__ import annotations

from ...base.dtype import DTYPES
from ...base.float8 import FORMATS

LANES = range(4)
"""Neighbouring elements of one invocation."""

XYZW = "xyzw"

# GLSL type of the words that hold four neighbouring elements, and their count.
VEC4_WORDS = {1: ("uint", 1), 2: ("uvec2", 1), 4: ("uvec4", 1), 8: ("uvec4", 2)}

PAIR_WORDS = {1: "uint", 2: "uint", 4: "uvec2", 8: "uvec4"}
"""GLSL type of the word that holds two neighbouring elements, by the size of one; of
single bytes, it holds two such pairs."""

# The same memory in 64-bit words: those that are loaded at once, and stored.
WIDE = {"uvec2": "uint64_t", "uvec4": "u64vec2"}
WIDE_STORED = {"uvec2": "uint64_t", "uvec4": "uint64_t"}
ALIGNMENT = {"uint": 4, "uvec2": 8, "uint64_t": 8, "uvec4": 16, "u64vec2": 16}

ROUNDED = frozenset({"float16", "bfloat16"})
"""Dtypes whose values are computed in float32 and then rounded."""

# GLSL type of one element that is written alone, by its size.
SINGLE_WORD = {1: "uint8_t", 2: "uint16_t", 4: "uint", 8: "uvec2"}
ALIGNMENT |= {"uint8_t": 1, "uint16_t": 2}


def load_vec4(k: int, itemsize: int, place: str, wide: bool) -> list[str]:
    """Load the words of four neighbouring elements into w{k}_0, w{k}_1."""
    words, count = VEC4_WORDS[itemsize]
    lines = []
    for part in range(count):
        at = f"in{k}.at[{f'{count}u * {place} + {part}u' if count > 1 else place}]"
        if not wide or words not in WIDE:
            lines.append(f"{words} w{k}_{part} = {at};")
            continue
        lines.append(f"{WIDE[words]} d{k}_{part} = {at};")
        halves = (
            [f"d{k}_{part}.x", f"d{k}_{part}.y"]
            if words == "uvec4"
            else [f"d{k}_{part}"]
        )
        unpacked = ", ".join(f"unpackUint2x32({half})" for half in halves)
        lines.append(f"{words} w{k}_{part} = {words}({unpacked});")
    return lines


def unpack(name: str, k: int, lane: int) -> str:
    """Return element `lane` of the four in the words w{k}_*."""
    dtype = DTYPES[name]
    if dtype.itemsize == 8:
        return decode(name, f"w{k}_{lane // 2}.{'xy' if lane % 2 == 0 else 'zw'}", "0u")
    if dtype.itemsize == 4:
        return decode(name, f"w{k}_0.{XYZW[lane]}", "0u")
    if dtype.itemsize == 2:
        return decode(name, f"w{k}_0.{'xxyy'[lane]}", f"{lane % 2 * 16}u")
    return decode(name, f"w{k}_0", f"{lane * 8}u")


def element(name: str, k: int, place: str) -> str:
    """Return element number `place` of an operand loaded word by word."""
    dtype = DTYPES[name]
    at = f"in{k}.at"
    if dtype.itemsize == 8:
        return decode(name, f"uvec2({at}[2u * {place}], {at}[2u * {place} + 1u])", "0u")
    if dtype.itemsize == 4:
        return decode(name, f"{at}[{place}]", "0u")
    if dtype.itemsize == 2:
        return decode(name, f"{at}[{place} >> 1]", f"16u * ({place} & 1u)")
    return decode(name, f"{at}[{place} >> 2]", f"8u * ({place} & 3u)")


def decode(name: str, word: str, shift: str = "0u") -> str:
    """Decode a word, or a pair of words, to the value that starts `shift` bits in."""
    dtype = DTYPES[name]
    whole = {
        "float32": "uintBitsToFloat({})",
        "int32": "int({})",
        "uint32": "{}",
        "float64": "packDouble2x32({})",
        "int64": "int64_t(packUint2x32({}))",
        "uint64": "packUint2x32({})",
        "complex64": "uintBitsToFloat({})",
    }
    if name in whole:
        return whole[name].format(word)
    if dtype.itemsize == 2 and dtype.is_float and shift == "16u":
        upper = f"unpackHalf2x16({word}).y", f"uintBitsToFloat({word} & 0xffff0000u)"
        return upper[name == "bfloat16"]
    shifted = word if shift == "0u" else f"({word} >> ({shift}))"
    if name == "bfloat16":
        return f"uintBitsToFloat({shifted} << 16)"
    if name == "float16":
        return f"unpackHalf2x16({shifted}).x"
    if name in FORMATS:
        return f"from_{name}(bitfieldExtract({shifted}, 0, 8))"
    field = f"bitfieldExtract({{}}({shifted}), 0, {8 * dtype.itemsize})"
    if name == "bool":
        return f"({field.format('uint')} != 0u)"
    return field.format(dtype.glsl)


def store_vec4(k: int, name: str, wide: bool, rounded: bool = False) -> list[str]:
    """Store the four results y{k}_0 to y{k}_3; see `vec4_words`."""
    values = vec4_words(k, name, rounded)
    if wide and DTYPES[name].itemsize > 1:
        return _store_wide(k, DTYPES[name].itemsize, values)
    if DTYPES[name].itemsize > 1:
        values = [f"({value})" for value in values]
    if len(values) == 1:
        return [f"out{k}.at[i] = {values[0]};"]
    return [f"out{k}.at[2u * i + {part}u] = {values[part]};" for part in (0, 1)]


def _store_wide(k: int, itemsize: int, values: list[str]) -> list[str]:
    """Store words as single words of 64 bits, each at an address of its own.

    Lavapipe stores lane by lane, and spills all lanes of a value and of an address for
    each of them: little where both are made of 32 bits, which it extracts first.
    """
    words, count = VEC4_WORDS[itemsize][0], max(1, itemsize // 2)
    halves = ("xy", "zw") if words == "uvec4" else ("xy",)
    lines = [f"{words} packed{k}_{n} = {value};" for n, value in enumerate(values)]
    joined = [
        f"join(packed{k}_{n}.{half})" for n in range(len(values)) for half in halves
    ]
    places = [f"{count}u * i + {n}u" for n in range(count)] if count > 1 else ["i"]
    lines += [f"out{k}.at[{at}] = {word};" for at, word in zip(places, joined)]
    return lines


def vec4_words(k: int, name: str, rounded: bool = False) -> list[str]:
    """Return the words of the four results y{k}_0 to y{k}_3.

    Results of `ROUNDED` dtypes are rounded here, unless they already are.
    """
    size = DTYPES[name].itemsize
    encoded = [encode(name, f"y{k}_{lane}") for lane in LANES]
    if name == "bfloat16" and rounded:
        words = [f"floatBitsToUint(y{k}_{lane})" for lane in LANES]
        pairs = [f"{words[j]} >> 16 | {words[j + 1]} & 0xffff0000u" for j in (0, 2)]
        return [f"uvec2({', '.join(pairs)})"]
    if name in ROUNDED:
        pairs = [f"pack_{name}(y{k}_{j}, y{k}_{j + 1})" for j in (0, 2)]
        return [f"uvec2({', '.join(pairs)})"]
    if size == 8:
        return [f"uvec4({encoded[j]}, {encoded[j + 1]})" for j in (0, 2)]
    if size == 4:
        return [f"uvec4({', '.join(encoded)})"]
    if size == 2:
        pairs = [f"{encoded[j]} | ({encoded[j + 1]} << 16)" for j in (0, 2)]
        return [f"uvec2({pairs[0]}, {pairs[1]})"]
    return [" | ".join(f"({word} << {8 * lane})" for lane, word in enumerate(encoded))]


def store_element(k: int, name: str, value: str, place: str) -> str:
    """Store one result alone, which for narrow types needs a device feature."""
    word = SINGLE_WORD[DTYPES[name].itemsize]
    return f"out{k}.at[{place}] = {word}({encode(name, value)});"


def encode(name: str, value: str) -> str:
    """Encode a value as its word, a pair of words, or the low bits of a word.

    Values are rounded to their dtype already.
    """
    dtype = DTYPES[name]
    whole = {
        "float32": "floatBitsToUint({})",
        "int32": "uint({})",
        "uint32": "{}",
        "float64": "unpackDouble2x32({})",
        "int64": "unpackUint2x32(uint64_t({}))",
        "uint64": "unpackUint2x32({})",
        "complex64": "floatBitsToUint({})",
        "float16": "to_float16({})",
        "bfloat16": "(floatBitsToUint({}) >> 16)",
    }
    if name in whole:
        return whole[name].format(value)
    if name in FORMATS:
        return f"to_{name}({value})"
    return f"(uint({value}) & {hex((1 << 8 * dtype.itemsize) - 1)}u)"
