"""verl's load balancer for a single server: nothing to choose.

verl starts a balancer process for any number of servers. The stock one imports all of verl (21 s of a laptop's core),
and a server's handle drags in vLLM, half of that; this one imports neither and knows the server by name.
`DirectClient` never asks it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class OnlyServer:
    """verl's `RequestLoadBalancer` protocol over one server; `servers` maps its address to its handle or its name."""

    def __init__(self, servers: Mapping[str, Any], _settings: Mapping[str, Any]) -> None:
        if len(servers) != 1:
            raise ValueError(f"made for one server, not for {len(servers)}")
        self._server = next(iter(servers.items()))

    def require_acquire_fields(self) -> list[str]:
        return []

    def require_release_fields(self) -> list[str]:
        return []

    def acquire_server(self, request_id: str, **_extra: Any) -> tuple[str, Any]:
        address, server = self._server
        if isinstance(server, str):
            import ray

            server = ray.get_actor(server)
        return address, server

    def release_server(self, server_id: str, **_extra: Any) -> None:
        return None
