"""Two Ray nodes on this machine: what a test of several machines has where there is one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager

import psutil
from ray._private import ray_constants
from ray.cluster_utils import Cluster

NODE = {"num_cpus": 16, "num_gpus": 1, "object_store_memory": 150_000_000}  # a logical GPU for each node's rank


class TwoNodes:
    """A head and a second node; the driver may join them by `address`."""

    def __init__(self) -> None:
        head = NODE | {"include_dashboard": False}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        self.second = self.cluster.add_node(**NODE)
        self.address = str(self.cluster.address)

    def raylets(self) -> list[psutil.Process]:
        """The raylets of the head and of the second node."""
        kind = ray_constants.PROCESS_TYPE_RAYLET
        return [psutil.Process(n.all_processes[kind][0].process.pid) for n in (self.cluster.head_node, self.second)]

    def workers(self) -> list[list[str]]:
        """The titles of each node's Ray workers that do something."""
        found = []
        for raylet in self.raylets():
            titles = [" ".join(child.cmdline()).strip() for child in raylet.children(recursive=True)]
            found.append(sorted(title for title in titles if title.startswith("ray::") and "IDLE" not in title))
        return found

    def lose_second(self, whole: bool) -> None:
        """Kill the second node's raylet; with `whole`, its workers and their children too, as when power fails."""
        raylet = self.raylets()[1]
        victims = [raylet, *(raylet.children(recursive=True) if whole else [])]
        for victim in victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.kill()


@contextmanager
def two_nodes() -> Iterator[TwoNodes]:
    nodes = TwoNodes()
    try:
        yield nodes
    finally:
        nodes.cluster.shutdown()
