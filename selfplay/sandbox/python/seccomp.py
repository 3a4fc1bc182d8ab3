"""The system calls that model-written code may not make, as a BPF program. Standard library only.

A deny-list over a process that has no files, no network and no capabilities already: no new programs or processes, no
sockets, nothing of other processes, nothing that survives it, none of the kernel's little-used doors. Calls newer than
this list do not exist for it, and those of a foreign architecture end it.
"""

from __future__ import annotations

import errno
import struct

LAST_KNOWN = 462  # mseal; whatever came later answers ENOSYS

ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}  # AUDIT_ARCH_*

CLONE = {"x86_64": 56, "aarch64": 220}
CLONE3 = 435
CLONE_THREAD = 0x00010000
X32 = 0x40000000  # the bit that marks x86's second table of calls

# name: (x86_64, aarch64); None where the architecture has no such call
DENIED: dict[str, tuple[int | None, int | None]] = {
    # programs and processes (threads are `clone` with CLONE_THREAD, below)
    "execve": (59, 221), "execveat": (322, 281), "fork": (57, None), "vfork": (58, None),
    # the network and everything else with a socket
    "socket": (41, 198), "socketpair": (53, 199),
    # other processes
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "kcmp": (312, 272),
    "process_madvise": (440, 440), "pidfd_open": (434, 434), "pidfd_getfd": (438, 438),
    "pidfd_send_signal": (424, 424), "kill": (62, 129), "tkill": (200, 130), "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    # mounts and namespaces
    "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41), "chroot": (161, 51), "move_mount": (429, 429),
    "open_tree": (428, 428), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432), "fspick": (433, 433),
    "mount_setattr": (442, 442), "unshare": (272, 97), "setns": (308, 268), "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264), "fanotify_init": (300, 262),
    # what outlives a process
    "shmget": (29, 194), "shmat": (30, 196), "shmctl": (31, 195), "msgget": (68, 186), "msgsnd": (69, 189),
    "msgrcv": (70, 188), "semget": (64, 190), "semop": (65, 193), "semctl": (66, 191), "semtimedop": (220, 192),
    "mq_open": (240, 180), "mq_unlink": (241, 181), "add_key": (248, 217), "request_key": (249, 218),
    "keyctl": (250, 219),
    # memory that RLIMIT_AS does not see
    "memfd_create": (319, 279), "memfd_secret": (447, 447),
    # the kernel's own business, and doors with a history
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282), "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "sethostname": (170, 161),
    "setdomainname": (171, 162), "iopl": (172, None), "ioperm": (173, None), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "acct": (163, 89), "settimeofday": (164, 170), "clock_settime": (227, 112),
    "adjtimex": (159, 171), "clock_adjtime": (305, 266), "personality": (135, 92), "vhangup": (153, 58),
    "syslog": (103, 116), "modify_ldt": (154, None), "uselib": (134, None), "sysfs": (139, None),
    "lookup_dcookie": (212, 18), "migrate_pages": (256, 238), "move_pages": (279, 239), "mbind": (237, 235),
}  # fmt: skip

_LOAD, _EQUAL, _GREATER, _SET, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x06  # BPF: LD|W|ABS, JMP|JEQ, JGT, JSET, RET
_KILL, _ERRNO, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # seccomp's answers
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16  # offsets in struct seccomp_data


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("<HBBI", code, yes, no, value)


def deny_filter(machine: str) -> bytes:
    """The filter for a machine (`os.uname().machine`). Raises KeyError for one that has none here."""
    column = list(ARCHITECTURES).index(machine)
    ret = {what: _instruction(_RETURN, what) for what in (_KILL, _ALLOW)}
    not_there, refused = (_instruction(_RETURN, _ERRNO | number) for number in (errno.ENOSYS, errno.EPERM))
    program = [
        _instruction(_LOAD, _ARCHITECTURE),
        _instruction(_EQUAL, ARCHITECTURES[machine], yes=1),
        ret[_KILL],
        _instruction(_LOAD, _NUMBER),
        _instruction(_SET, X32, no=1),
        ret[_KILL],
        _instruction(_GREATER, LAST_KNOWN, no=1),
        not_there,
        _instruction(_EQUAL, CLONE3, no=1),  # flags in memory: no filter can read them; libc uses clone
        not_there,
    ]
    for numbers in DENIED.values():
        number = numbers[column]
        if number is not None:
            program += [_instruction(_EQUAL, number, no=1), refused]
    program += [
        _instruction(_EQUAL, CLONE[machine], yes=1),
        ret[_ALLOW],
        _instruction(_LOAD, _FIRST_ARGUMENT),
        _instruction(_SET, CLONE_THREAD, no=1),
        ret[_ALLOW],
        refused,
    ]
    return b"".join(program)
