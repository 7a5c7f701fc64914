"""Table of what training steps choose on AMD GPU families, as their compiler sees it.

    python -m vkbackend.tools.spirv.family_table           write FAMILIES.md anew
    python -m vkbackend.tools.spirv.family_table --print   show it instead

Each family has its own process, for kernels are chosen once in a process.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from vkbackend import config

from .offline import device_info

TABLE = Path(__file__).with_name("FAMILIES.md")
SHOWN = ("polaris10", "vega10", "navi10", "navi21", "navi31", "gfx1201")
DTYPES = ("float32", "float16")

_HEAD = """# What training steps choose on AMD GPUs

Written by `python -m vkbackend.tools.spirv.family_table`. Kernels are those that a step
of a small language model and of a small convolutional network
(`tools/spirv/training_steps.py`) chooses on each GPU family in float32, and in float16
under autocast; the compiler of {driver} says what they take. None was run:
there was no such GPU. A cell gives the most vector registers and the fewest subgroups
that a SIMD unit holds at once, over the variants of a kernel.

"""


class Figures(NamedTuple):
    """What a kernel's variants take: the worst of each."""

    registers: int
    occupancy: int
    spills: int


def chosen(family: str, dtype: str) -> list[dict[str, Any]]:
    """Return what `vkspirv` says of the kernels that the steps choose."""
    command = [sys.executable, "-m", "vkbackend.tools.spirv", "--target", family]
    command += ["--json", "--script", "vkbackend.tools.spirv.training_steps", dtype]
    # Nothing is run that the layer could look at.
    settings = {**os.environ, config.VALIDATION.name: "0"}
    done = subprocess.run(
        command, env=settings, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{family}, {dtype}: {done.stderr.strip()}")
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def figures(rows: Iterable[Mapping[str, Any]]) -> dict[str, Figures]:
    """Return the figures of each kernel; generated ones are one row."""
    found: dict[str, list[Figures]] = defaultdict(list)
    for row in rows:
        said = {each["name"]: each["value"] for each in row["executable"]["statistics"]}
        spills = said["Spilled VGPRs"] + said["Spilled SGPRs"]
        name = row["name"].split()[0].split("+")[0]
        name = "generated" if name.startswith("fused/") else name
        taken = Figures(said["VGPRs"], said["Subgroups per SIMD"], spills)
        found[name].append(taken)
    return {
        name: Figures(
            max(each.registers for each in variants),
            min(each.occupancy for each in variants),
            sum(each.spills for each in variants),
        )
        for name, variants in sorted(found.items())
    }


def render(found: Mapping[tuple[str, str], Mapping[str, Figures]], driver: str) -> str:
    """Return the page: a table for each dtype, figures by family and dtype."""
    lines = [_HEAD.format(driver=driver).rstrip()]
    for dtype in DTYPES:
        families = [family for family, of in found if of == dtype]
        names = sorted({name for family in families for name in found[family, dtype]})
        lines += ["", f"## {dtype}", ""]
        lines.append(f"| kernel | {' | '.join(families)} |")
        lines.append(f"| --- |{' --- |' * len(families)}")
        for name in names:
            cells = [_cell(found[family, dtype].get(name)) for family in families]
            lines.append(f"| `{name}` | {' | '.join(cells)} |")
    spilled = {
        f"{name} on {family} in {dtype}"
        for (family, dtype), rows in found.items()
        for name, row in rows.items()
        if row.spills
    }
    lines += ["", f"Spilled registers: {', '.join(sorted(spilled)) or 'none'}."]
    return "\n".join(lines) + "\n"


def _cell(row: Figures | None) -> str:
    return "" if row is None else f"{row.registers}, {row.occupancy}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the table or print it."""
    parser = argparse.ArgumentParser(
        prog="family_table", description="What training steps choose on AMD GPUs."
    )
    parser.add_argument("--print", action="store_true", help="print, write nothing")
    options = parser.parse_args(arguments)
    pairs = [(family, dtype) for dtype in DTYPES for family in SHOWN]
    found = {pair: figures(chosen(*pair)) for pair in pairs}
    text = render(found, device_info(SHOWN[0]).driver_info)
    if options.print:
        print(text, end="")
    else:
        TABLE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
