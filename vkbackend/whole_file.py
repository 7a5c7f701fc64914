"""Writing a file of a cache so that nobody ever sees half of it."""

from pathlib import Path

UNFINISHED = ".new-"
"""What the names of unfinished files begin with."""


def write_whole(path: Path, content: bytes) -> None:
    """Replace a file; a reader sees the old one or the whole new one.

    Its folder is made if it must be. Of several processes that write at once, one has
    the last word.

    Raises
    ------
    OSError
        If the folder cannot be written; the old file is then as it was.
    """
    # Few processes write anything.
    import tempfile

    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=UNFINISHED) as private:
        temporary = Path(private) / path.name
        temporary.write_bytes(content)
        temporary.replace(path)
