"""What the commands that build data share: files whose sha256 is known."""

import hashlib
from pathlib import Path

from glauber.runtime.files import write


def require(content: bytes, sha256: str, what: str, remedy: str) -> bytes:
    """The content, if it is what it should be."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise SystemExit(f"{what} has sha256 {found[:12]}... and not {sha256[:12]}...; {remedy}")
    return content


def keep(path: Path, content: bytes, sha256: str, remedy: str) -> None:
    """Write the content, if it is what it should be and no other file is in its place."""
    require(content, sha256, f"what would be {path.name}", remedy)
    if path.exists():
        require(path.read_bytes(), sha256, str(path), "it is another file; remove it, or name another folder")
    else:
        path.parent.mkdir(parents=True, exist_ok=True)
        write(path, content)
    print(f"{path}: {len(content):,} bytes, sha256 {sha256}")
