"""A door for vLLM's server: without the key nothing is answered but whether it is up.

vLLM 0.28 asks for its key below /v1 and a few other paths only; /tokenize and /invocations answer anybody.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
App = Callable[[Scope, Any, Any], Awaitable[None]]
KEY_VARIABLE = "VLLM_API_KEY"


class RequireKey:
    """ASGI middleware. The key is the one that the environment gives vLLM."""

    def __init__(self, app: App) -> None:
        self.app, self.wanted = app, f"Bearer {os.environ[KEY_VARIABLE]}".encode()

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers") or []).get(b"authorization", b"")
        if scope["type"] != "http" or scope["path"] == "/health" or hmac.compare_digest(given, self.wanted):
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b""})
