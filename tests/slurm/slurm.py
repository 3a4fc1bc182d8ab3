"""A real SLURM on this machine for a test: munge, a controller and two nodes, all on loopback and in one folder."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

NEEDED = ("munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue")
CTLD_PORT, NODE_PORT = 27817, 27818  # of the second node: one above

CONF = """\
ClusterName=test
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort={ctld}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MpiDefault=none
ReturnToService=2
KillWait=60
InactiveLimit=0
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node} CPUs=4 RealMemory=8000
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={node2} CPUs=4 RealMemory=8000
PartitionName=low Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=120
PartitionName=high Nodes=n1,n2 MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing() -> str:
    """What a test has to be skipped for; empty: nothing."""
    if os.geteuid() != 0:
        return "SLURM's daemons need root"
    found = [name for name in NEEDED if shutil.which(name, path=_path()) is None]
    return f"not installed: {', '.join(found)} (Debian: slurm-wlm, munge)" if found else ""


class Slurm:
    """The daemons, between `start` and `stop`; `environment` is what SLURM's commands need."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf"), "PATH": _path()}
        self._daemons: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        for name in ("state", "spool-n1", "spool-n2"):
            (self.folder / name).mkdir()
        user = getpass.getuser()
        text = CONF.format(folder=self.folder, user=user, ctld=CTLD_PORT, node=NODE_PORT, node2=NODE_PORT + 1)
        (self.folder / "slurm.conf").write_text(text)
        self._start_munge()
        self._run_daemon(["slurmctld", "-D", "-c"])
        for node in ("n1", "n2"):
            self._run_daemon(["slurmd", "-D", "-N", node])
        self.wait(lambda: self.command("sinfo", "-h", "-N", "-p", "low", "-o", "%T").split() == ["idle"] * 2, 60)

    def _start_munge(self) -> None:
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self.folder.chmod(0o755)
        files = [
            f"--{kind}={self.folder}/munge.{kind.split('-')[0]}"
            for kind in ("socket", "pid-file", "log-file", "seed-file")
        ]
        self._run_daemon(["munged", "--foreground", "--force", f"--key-file={key}", *files])
        self.wait(lambda: (self.folder / "munge.socket").exists(), 20)

    def _run_daemon(self, command: Sequence[str]) -> None:
        log = (self.folder / f"{command[0]}-{len(self._daemons)}.out").open("wb")
        self._daemons.append(
            subprocess.Popen(
                command, env=self.environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            )
        )

    def stop(self) -> None:
        self.command("scancel", "--full", "--signal=KILL", "--user", getpass.getuser(), check=False)
        time.sleep(2)
        for daemon in reversed(self._daemons):
            daemon.terminate()
        for daemon in self._daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def command(self, *command: str, check: bool = True) -> str:
        """A command of SLURM's; what it prints."""
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True, timeout=60, check=False)
        assert not check or done.returncode == 0, f"{' '.join(command)}: {done.stdout}{done.stderr}"
        return done.stdout

    def job(self, number: str) -> dict[str, str]:
        """What SLURM knows about a job."""
        words = self.command("scontrol", "show", "job", "-o", number).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, number: str) -> str:
        return self.job(number)["JobState"]

    def wait(self, condition: Callable[[], bool], seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < deadline, (
                f"still waiting after {seconds} s\n{self.command('squeue', check=False)}"
            )
            time.sleep(0.5)

    def wait_for_end(self, number: str, seconds: float) -> dict[str, str]:
        self.wait(lambda: self.state(number) in ENDED, seconds)
        return self.job(number)

    def start_again(self, number: str, seconds: float = 60) -> None:
        """A job that is back in the queue starts now, not after SLURM's two minutes."""
        self.wait(lambda: self.state(number) == "PENDING", seconds)
        self.command("scontrol", "update", f"JobId={number}", "StartTime=now")


ENDED = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")


def _path() -> str:
    return f"{os.environ['PATH']}:/usr/sbin:/sbin"
