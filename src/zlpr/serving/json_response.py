"""JSON as every route sends it."""

import json
from typing import Any

from starlette.responses import Response


class JsonResponse(Response):
    """JSON in UTF-8; half of a surrogate pair, which a label's name may hold, is spelled out."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """The body."""
        text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")
