"""Program of the rendering process: read conversions from stdin, write their results to stdout until stdin ends.

A request is one line of JSON: the name of a function of vl_convert, its text argument and its options. A reply is a
flag (whether the conversion succeeded), the number of bytes, and the bytes of the image or of the error message.
"""

import json
import struct
import sys

HEADER = ">?Q"


def main() -> None:
    """Convert until stdin ends."""
    import vl_convert  # only in the rendering process

    for line in sys.stdin.buffer:
        name, text, options = json.loads(line)
        try:
            is_done, result = True, getattr(vl_convert, name)(text, **options)
        except Exception as error:
            is_done, result = False, str(error)
        content = result.encode() if isinstance(result, str) else result
        sys.stdout.buffer.write(struct.pack(HEADER, is_done, len(content)) + content)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
