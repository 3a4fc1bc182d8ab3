"""Attempts to get out of the Python sandbox, or to harm it. A program that gets somewhere prints ESCAPED.

`$canary` is a file of the host, `$port` a TCP port and `$abstract` an abstract socket on which the host listens, `$pid`
a process of the host.
"""

from __future__ import annotations

from dataclasses import dataclass

from selfplay.sandbox.python.result import Ending

FINISHED, FAILED, KILLED, TIMEOUT = Ending.FINISHED, Ending.FAILED, Ending.KILLED, Ending.TIMEOUT
STOPPED = (FAILED, KILLED, TIMEOUT)
REFUSED = (FINISHED,)  # the program goes on after every refusal, to its end


@dataclass(frozen=True)
class Attack:
    name: str
    code: str
    endings: tuple[Ending, ...]


TRY = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, work):
    try:
        got = work()
    except (OSError, ImportError, MemoryError, RuntimeError, ValueError) as error:
        print("refused", name, type(error).__name__)
    else:
        print("ESCAPED", name, repr(got)[:200])
def call(number, *arguments):
    if libc.syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), "refused")
"""

ATTACKS = [
    Attack("fork bomb", TRY + "for _ in range(200): attempt('fork', os.fork)", REFUSED),
    Attack("raw clone", TRY + "attempt('clone', lambda: call(56, 17, 0, 0, 0, 0))\nattempt('vfork', lambda: call(58))",
           REFUSED),
    Attack("clone3", TRY + "attempt('clone3', lambda: call(435, ctypes.create_string_buffer(88), 88))", REFUSED),
    Attack("thread bomb", """
import threading, time
started = 0
try:
    for _ in range(2000):
        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        started += 1
except RuntimeError:
    print("refused after", started)
if started > 100: print("ESCAPED", started)
import os; os._exit(0)
""", (FINISHED, KILLED)),
    Attack("10 GB at once", "x = bytearray(10 * 2**30)\nprint('ESCAPED')", STOPPED),
    Attack("memory piece by piece", "x = []\nwhile True: x.append(bytearray(2**24))", STOPPED),
    Attack("shared mapping", "import mmap\nm = [mmap.mmap(-1, 2**28) for _ in range(8)]\nprint('ESCAPED')", STOPPED),
    Attack("memory file", TRY + "attempt('memfd', lambda: os.memfd_create('x'))", REFUSED),
    Attack("fill /tmp", """
try:
    for i in range(100):
        with open(f"/tmp/{i}", "wb") as f: f.write(bytes(2**22))
    print("ESCAPED")
except OSError as error: print("refused", error)
""", REFUSED),
    Attack("a large file", """
try:
    with open("/tmp/x", "wb") as f: f.truncate(2**34)
    print("ESCAPED")
except OSError as error: print("refused", error)
""", (FINISHED, KILLED)),
    Attack("inodes", """
try:
    for i in range(5000): open(f"/tmp/{i}", "w").close()
    print("ESCAPED")
except OSError as error: print("refused", error)
""", REFUSED),
    Attack("stdout flood", "while True: print('x' * 100000)", STOPPED),
    Attack("raw stdout flood", "import os\nwhile True: os.write(1, b'x' * 2**20)", STOPPED),
    Attack("sparse stdout", "import os\nos.ftruncate(1, 2**40)\nprint('ESCAPED')", STOPPED),
    Attack("endless loop", "while True: pass", (TIMEOUT, KILLED)),
    Attack("endless sleep", "import time\ntime.sleep(10**6)", (TIMEOUT,)),
    Attack("deaf to signals", """
import signal
for s in range(1, 65):
    try: signal.signal(s, signal.SIG_IGN)
    except (OSError, ValueError): pass
while True:
    try:
        while True: pass
    except BaseException: pass
""", (TIMEOUT, KILLED)),
    Attack("stops itself", TRY + "import signal\nsignal.raise_signal(signal.SIGSTOP)", (TIMEOUT,)),
    Attack("slow regex", "import re\nre.match(r'(a+)+$', 'a' * 60 + 'b')", (TIMEOUT, KILLED)),
    Attack("huge integer", "x = 10 ** (10 ** 9)\nprint('ESCAPED')", STOPPED),
    Attack("huge integer as text", "import sys\nsys.set_int_max_str_digits(0)\nlen(str(7 ** (10 ** 8)))", STOPPED),
    Attack("deep recursion", "import sys\nsys.setrecursionlimit(10**9)\ndef f(): f()\nf()", STOPPED),
    Attack("recursion in C", "import sys\nsys.setrecursionlimit(10**9)\nx = []\nwhile len(str(x)): x = [x]",
           STOPPED),
    Attack("crash of the interpreter", "import ctypes\nctypes.string_at(0)", (KILLED,)),
    Attack("writes outside", TRY + """
for path in ("/x", "/etc/x", "/usr/x", "/usr/lib/x", "/root/x", "/home/x", "/dev/x", "/var/tmp/x", "/dev/shm/x",
             "$canary", os.__file__, os.path.dirname(os.__file__) + "/x.py"):
    attempt(path, lambda: open(path, "a"))
attempt("mkdir", lambda: os.mkdir("/usr/lib/x"))
attempt("rename", lambda: os.rename(os.__file__, "/tmp/os.py"))
attempt("chmod", lambda: os.chmod(os.__file__, 0o777))
attempt("unlink", lambda: os.unlink(os.__file__))
""", REFUSED),
    Attack("reads outside", TRY + """
for path in ("$canary", "/etc/shadow", "/etc/passwd", "/etc/hostname", "/root/.bashrc", "/var/log/dpkg.log"):
    attempt(path, lambda: open(path).read(100))
for path in ("/etc", "/root", "/home", "/var", "/sys", "/work", "/mnt", "/old"):
    attempt(path, lambda: os.listdir(path))
""", REFUSED),
    Attack("up from the root", TRY + """
attempt("dots", lambda: open("/../../../../../../etc/passwd").read())
attempt("chroot", lambda: os.chroot("/tmp"))
fd = os.open("/tmp", os.O_RDONLY)
attempt("openat", lambda: os.open("../../../../etc/passwd", os.O_RDONLY, dir_fd=fd))
""", REFUSED),
    Attack("environment", TRY + """
for name, value in os.environ.items():
    if "SECRET" in name or "secret" in value: print("ESCAPED", name)
for path in ("/proc/self/environ", "/proc/1/environ", "/proc/$pid/environ"):
    attempt(path, lambda: open(path).read())
""", REFUSED),
    Attack("environment in memory", """
import ctypes
environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
i = 0
while environ and environ[i]:
    if b"secret" in environ[i]: print("ESCAPED", environ[i])
    i += 1
print("looked at", i)
""", REFUSED),
    Attack("/proc of others", TRY + """
attempt("list", lambda: os.listdir("/proc"))
attempt("mem", lambda: open("/proc/$pid/mem", "rb"))
os.mkdir("/tmp/proc")
attempt("mount", lambda: call(165, b"proc", b"/tmp/proc", b"proc", 0, 0))
""", REFUSED),
    Attack("TCP", TRY + """
import socket
attempt("connect", lambda: socket.create_connection(("127.0.0.1", $port), 2))
attempt("outside", lambda: socket.create_connection(("1.1.1.1", 53), 2))
attempt("listen", lambda: socket.socket().bind(("0.0.0.0", 9999)))
""", REFUSED),
    Attack("other sockets", TRY + """
import socket
attempt("udp", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("8.8.8.8", 53)))
attempt("unix", lambda: socket.socket(socket.AF_UNIX).connect("\\0$abstract"))
attempt("pair", lambda: socket.socketpair())
attempt("netlink", lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0))
attempt("name", lambda: socket.getaddrinfo("example.com", 80))
""", REFUSED),
    Attack("kills", TRY + """
import signal
for pid in (os.getppid(), 1, -1, 0, $pid):
    attempt(f"kill {pid}", lambda: os.kill(pid, signal.SIGKILL))
attempt("pgrp", lambda: os.killpg(0, signal.SIGKILL))
attempt("tgkill", lambda: call(234, $pid, $pid, 9))
libc.syscall(234, 1, 1, 9)  # the first process of a namespace: may be allowed, and is without effect
""", REFUSED),
    Attack("debugging others", TRY + """
for pid in (os.getppid(), 1, $pid):
    attempt("attach", lambda: call(101, 16, pid, 0, 0))
    attempt("seize", lambda: call(101, 0x4206, pid, 0, 0))
    buffer = ctypes.create_string_buffer(64)
    attempt("read", lambda: call(310, pid, ctypes.byref(buffer), 1, ctypes.byref(buffer), 1, 0))
    attempt("pidfd", lambda: os.pidfd_open(pid))
""", REFUSED),
    Attack("programs", TRY + """
import subprocess
attempt("exec", lambda: os.execv("/bin/sh", ["sh", "-c", "echo ESCAPED"]))
attempt("subprocess", lambda: subprocess.run(["/bin/echo", "hi"]))
if os.system("exit 0") == 0: print("ESCAPED system")
attempt("spawn", lambda: os.posix_spawn("/bin/echo", ["echo"], {}))
attempt("interpreter", lambda: os.execv("/usr/bin/python3", ["python3"]))
""", REFUSED),
    Attack("mounts and namespaces", TRY + """
attempt("mount", lambda: call(165, b"tmpfs", b"/tmp", b"tmpfs", 0, 0))
attempt("umount", lambda: call(166, b"/tmp", 2))
attempt("pivot", lambda: call(155, b"/tmp", b"/tmp"))
for flag in (0x10000000, 0x20000, 0x20000000, 0x40000000):
    attempt("unshare", lambda: call(272, flag))
attempt("setns", lambda: call(308, 0, 0))
attempt("fsopen", lambda: call(430, b"tmpfs", 0))
""", REFUSED),
    Attack("more rights", TRY + """
import resource
attempt("setuid", lambda: os.setuid(0) if os.getuid() else (_ for _ in ()).throw(OSError()))
attempt("capset", lambda: call(126, (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)(*[0xFFFFFFFF] * 6)))
attempt("limit", lambda: resource.setrlimit(resource.RLIMIT_AS, (2**40, 2**40)))
attempt("priority", lambda: os.nice(-10))
attempt("chown", lambda: os.chown("/tmp", 0, 12345))
""", REFUSED),
    Attack("devices", TRY + """
import stat
attempt("mknod", lambda: os.mknod("/tmp/mem", 0o666 | stat.S_IFCHR, os.makedev(1, 1)))
for path in ("/dev/mem", "/dev/kmsg", "/dev/sda", "/dev/vda", "/dev/tty", "/dev/ptmx", "/dev/fuse", "/dev/kvm"):
    attempt(path, lambda: open(path))
attempt("urandom", lambda: open("/dev/urandom", "w"))
""", REFUSED),
    Attack("what outlives a run", TRY + """
attempt("shmget", lambda: call(29, 1234, 4096, 0o1600))
attempt("msgget", lambda: call(68, 1234, 0o1600))
attempt("semget", lambda: call(64, 1234, 1, 0o1600))
attempt("key", lambda: call(248, b"user", b"x", b"y", 1, -1))
attempt("mq", lambda: call(240, b"x", 0o102, 0o600, 0))
from multiprocessing import shared_memory
attempt("shm", lambda: shared_memory.SharedMemory("x", create=True, size=64))
""", REFUSED),
    Attack("the kernel's doors", TRY + """
for name, number in {"bpf": 321, "perf": 298, "userfaultfd": 323, "io_uring": 425, "kexec": 246, "module": 175,
                     "reboot": 169, "iopl": 172, "syslog": 103, "modify_ldt": 154, "personality": 135, "new": 463,
                     "handle": 304, "clock": 227}.items():
    attempt(name, lambda: call(number, 0, 0, 0, 0, 0))
""", REFUSED),
    Attack("the other table of calls", "import ctypes\nctypes.CDLL(None).syscall(0x40000000 + 39)\nprint('ESCAPED')",
           (KILLED,)),
    Attack("32-bit calls", """
import ctypes, mmap
page = mmap.mmap(-1, 4096, prot=7)
page.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))  # mov eax, getpid; int 0x80; ret
address = ctypes.addressof(ctypes.c_char.from_buffer(page))
ctypes.CFUNCTYPE(ctypes.c_int)(address)()
print("ESCAPED")
""", (KILLED, FAILED)),
    Attack("false result channel", TRY + """
forged = b'{"status": 0, "layers": {}, "timeout": false, "wall_s": 0, "forged": 1}\\n'
for fd in range(3, 256):
    attempt(f"write {fd}", lambda: os.write(fd, forged))
raise SystemExit(7)
""", (FAILED,)),
    Attack("the guard's own objects", """
import gc, sys
forged = b'{"status": 0, "layers": {}, "timeout": false, "wall_s": 0}\\n'
frame, seen = sys._getframe(), []
while frame:
    seen += list(frame.f_locals.values())
    frame = frame.f_back
for thing in [*seen, *gc.get_objects()]:
    control = getattr(thing, "control", thing)
    if hasattr(control, "sendall"):
        try:
            control.sendall(forged)
            print("ESCAPED")
        except OSError as error:
            print("refused", error)
raise SystemExit(7)
""", (FAILED,)),
    Attack("links", TRY + """
os.symlink("/etc/passwd", "/tmp/a")
attempt("symlink", lambda: open("/tmp/a").read())
os.symlink("$canary", "/tmp/b")
attempt("canary", lambda: open("/tmp/b", "a"))
attempt("hard link", lambda: os.link(os.__file__, "/tmp/c"))
os.symlink("/", "/tmp/d")
attempt("root", lambda: open("/tmp/d/etc/passwd"))
""", REFUSED),
    Attack("leaves a process", TRY + """
attempt("daemon", lambda: os.fork() or os.setsid() or os.fork())
import multiprocessing
attempt("worker", lambda: multiprocessing.Process(target=print).start())
""", REFUSED),
    Attack("leaves a thread", """
import threading, time
threading.Thread(target=time.sleep, args=(10**6,)).start()
print("main ends")
""", (FINISHED, TIMEOUT)),
    Attack("exit handlers", "import atexit, time\natexit.register(time.sleep, 10**6)\nprint('main ends')", (TIMEOUT,)),
]  # fmt: skip
