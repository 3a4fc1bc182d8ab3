"""The balancer of a single server."""

import pytest

from selfplay.engine.router import OnlyServer


def test_every_request_goes_to_the_one_server() -> None:
    handle = object()
    router = OnlyServer({"127.0.0.1:1": handle}, {})
    assert router.require_acquire_fields() == router.require_release_fields() == []
    assert {router.acquire_server(request_id=str(i)) for i in range(5)} == {("127.0.0.1:1", handle)}
    router.release_server(server_id="127.0.0.1:1")


@pytest.mark.parametrize("servers", [{}, {"a": 1, "b": 2}])
def test_another_number_of_servers_is_refused(servers: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="one server"):
        OnlyServer(servers, {})
