"""Generator of vkbackend/vk/generated.py from a registry, or its check (--check)."""

import argparse
import sys
from pathlib import Path

import vkbackend.vk

from . import ManifestError, RegistryError, generate

TARGET = Path(vkbackend.vk.__file__).with_name("generated.py")


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="vkbackend.tools.bindings", description="Generate the Vulkan bindings."
    )
    parser.add_argument("registry", type=Path, help="vk.xml or vk.xml.gz")
    parser.add_argument("--check", action="store_true", help="compare, do not write")
    parser.add_argument("--output", type=Path, default=TARGET, help="file to write")
    options = parser.parse_args(arguments)
    try:
        text = generate(options.registry)
    except (ManifestError, RegistryError, OSError) as error:
        print(error, file=sys.stderr)
        return 2
    if not options.check:
        options.output.write_text(text, encoding="utf-8", newline="\n")
        print(f"{options.output}: {text.count(chr(10))} lines")
        return 0
    if options.output.read_bytes() != text.encode():
        print(f"{options.output}: differs from what {options.registry} gives")
        return 1
    print(f"{options.output}: up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
