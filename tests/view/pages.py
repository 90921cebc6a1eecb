"""The parts of a page."""

from __future__ import annotations

import base64
import gzip
import json
import re
from typing import Any


def data_in(page: str) -> dict[str, Any]:
    """The data of a page, as a browser reads it."""
    packed = re.search(r'id="regraft-data">([^<]*)<', page)
    assert packed is not None
    return json.loads(gzip.decompress(base64.b64decode(packed[1])))
