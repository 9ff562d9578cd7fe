"""A process that appends to a file what it is told to: one line of hexadecimal per write."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PROGRAM = """
import os, sys
file = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for line in sys.stdin:
    os.write(file, bytes.fromhex(line))
"""


class Child:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def write(self, *chunks: bytes) -> None:
        """Have each chunk written by a write of its own. Returns before it is."""
        assert self._process.stdin is not None
        for chunk in chunks:
            self._process.stdin.write(chunk.hex() + "\n")
        self._process.stdin.flush()


@contextmanager
def child_writing(path: Path) -> Iterator[Child]:
    process = subprocess.Popen([sys.executable, "-c", _PROGRAM, str(path)], stdin=subprocess.PIPE, text=True)
    with process:  # closes its input, at whose end it ends
        yield Child(process)
    assert process.returncode == 0
