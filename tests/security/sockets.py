"""Which sockets the processes of a run listen on, and at which addresses."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

import psutil


@dataclass(frozen=True)
class Door:
    """A listening TCP socket: the title of the process that holds it, and its address."""

    process: str
    address: str

    @property
    def loopback(self) -> bool:
        address = ipaddress.ip_address(self.address)
        mapped = getattr(address, "ipv4_mapped", None)  # Ray listens at ::ffff:127.0.0.1
        return bool((mapped or address).is_loopback)


def title(process: psutil.Process) -> str:
    """The first words of a command line, enough to tell Ray's programs and actors apart."""
    words = process.cmdline()
    shown = [word.rpartition("/")[2] for word in words[:3]] if words else [process.name()]
    return " ".join(shown)[:80]


def doors(root: int) -> set[Door]:
    """Those of the process `root` and of all below it; processes that end meanwhile are left out."""
    found = set()
    try:
        family = [psutil.Process(root), *psutil.Process(root).children(recursive=True)]
    except psutil.NoSuchProcess:
        return set()
    for process in family:
        try:
            name = title(process)
            for connection in process.net_connections(kind="tcp"):
                if connection.status == psutil.CONN_LISTEN:
                    found.add(Door(name, connection.laddr.ip))
        except psutil.Error:
            continue
    return found
