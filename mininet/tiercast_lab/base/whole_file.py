"""Files that are whole at any time, also while they are written."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: str | bytes) -> None:
    """Replaces the file in one step. After an OSError, after Ctrl-C, or if this process is killed,
    the old file is still whole; only a killed process leaves a part of the new one, in
    `.NAME-PID`."""
    scratch = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        scratch.write_bytes(content.encode() if isinstance(content, str) else content)
        scratch.replace(path)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
