"""verl's load balancer for a single server: nothing to choose.

verl starts a balancer process for any number of servers, and the stock one imports all of verl (21 s of a laptop's
core). This one imports only what the server's handle drags in, half of that; `DirectClient` never asks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class OnlyServer:
    """verl's `RequestLoadBalancer` protocol over one server; `servers` maps its address to its handle."""

    def __init__(self, servers: Mapping[str, Any], _settings: Mapping[str, Any]) -> None:
        if len(servers) != 1:
            raise ValueError(f"made for one server, not for {len(servers)}")
        self._server = next(iter(servers.items()))

    def require_acquire_fields(self) -> list[str]:
        return []

    def require_release_fields(self) -> list[str]:
        return []

    def acquire_server(self, request_id: str, **_extra: Any) -> tuple[str, Any]:
        return self._server

    def release_server(self, server_id: str, **_extra: Any) -> None:
        return None
