"""Component messages, read as the browser reads them."""

import json
import zlib
from typing import Any


def unpack(message: bytes) -> tuple[dict[str, Any], bytes]:
    end = 4 + int.from_bytes(message[:4], "little")
    return json.loads(message[4:end]), message[end:]


def inflate(deflated: bytes) -> tuple[dict[str, Any], bytes]:
    return unpack(zlib.decompress(deflated, wbits=-15))
