"""Messages of worker processes: the sizes of a JSON document and of the bytes after it, the document, the bytes."""

import json
import struct
from collections.abc import Mapping
from typing import Any

FRAME = struct.Struct(">QQ")


def pack(document: Mapping[str, Any], content: bytes = b"") -> bytes:
    """Return a message."""
    text = json.dumps(document, separators=(",", ":")).encode()
    return FRAME.pack(len(text), len(content)) + text + content
