"""A model served over HTTP on this machine only, for as long as an evaluation takes: vLLM's own server, a process."""

from __future__ import annotations

import ctypes
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from selfplay.engine.config import ClusterConfig
from selfplay.engine.environment import variables
from selfplay.engine.episode import Sample, seed_of
from selfplay.engine.errors import EngineError
from selfplay.engine.processes import new_token
from selfplay.engine.sampling import Texts

HOST = "127.0.0.1"
_DIRECT = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # a proxy has no business with this machine
_PR_SET_PDEATHSIG = 1


def _end_with_parent() -> None:
    """In the child: a killed parent leaves no server behind."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


def server_command(model: str, cluster: ClusterConfig, port: int, longest: int, trust_remote_code: bool) -> list[str]:
    """vLLM's OpenAI-compatible server for `model`, with at most `longest` tokens a request."""
    rollout = cluster.rollout
    # -P: a file of the current folder that is named like a module would be imported instead of it.
    command = [sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server", "--model", model, "--host", HOST]
    command += ["--port", str(port), "--dtype", rollout.dtype, "--max-num-seqs", str(rollout.max_num_seqs)]
    command += ["--max-model-len", str(longest), "--generation-config", "vllm", "--disable-uvicorn-access-log"]
    command += ["--max-num-batched-tokens", str(max(rollout.max_num_batched_tokens, longest))]
    command += ["--middleware", "selfplay.engine.key_guard.RequireKey"]
    command += ["--enforce-eager"] if rollout.enforce_eager else []
    command += ["--trust-remote-code"] if trust_remote_code else []
    if cluster.device == "cpu":
        # A request's generator cannot be rewound on a CPU, which chunks of prompts need (vLLM 0.28).
        return [
            *command,
            "--kv-cache-memory-bytes",
            str(rollout.kv_cache_mib * 2**20),
            "--no-enable-chunked-prefill",
            "--no-enable-prefix-caching",
        ]
    replicas = max(1, cluster.ranks_per_node // rollout.tensor_parallel)
    command += ["--tensor-parallel-size", str(rollout.tensor_parallel), "--data-parallel-size", str(replicas)]
    return [*command, "--gpu-memory-utilization", str(rollout.gpu_memory_utilization)]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


class ModelServer:
    """Starts with the `with` block and ends with it. `url` and `key` are for an OpenAI client."""

    def __init__(
        self, model: str | Path, cluster: ClusterConfig, longest: int, log: Path, trust_remote_code: bool = False
    ) -> None:
        self.model, self.cluster, self.log_path = str(model), cluster, log
        self.key = secrets.token_urlsafe(24)  # other users of the machine get no answer
        port = free_port()
        self.url = f"http://{HOST}:{port}"
        self._command = server_command(self.model, cluster, port, longest, trust_remote_code)
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None

    def __enter__(self) -> ModelServer:
        environment = {**os.environ, **variables(self.cluster, new_token()), "VLLM_API_KEY": self.key}
        self._log = self.log_path.open("ab")
        self._process = subprocess.Popen(
            self._command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            preexec_fn=_end_with_parent,
        )
        return self

    def wait(self, beat: Callable[[float], None]) -> None:
        """Until it serves; `beat` hears the seconds that have passed.

        Raises:
            EngineError: it ended, or did not serve within `cluster.watchdog.startup_s`; says where its log is.
        """
        started = time.monotonic()
        while not self._serves():
            waited = time.monotonic() - started
            code = self._process.poll() if self._process else 0
            if code is not None:
                raise EngineError(f"the server ended with code {code}: {self._last_words()} (log: {self.log_path})")
            if waited > self.cluster.watchdog.startup_s:
                raise EngineError(f"the server does not serve after {waited:.0f} s (log: {self.log_path})")
            beat(waited)
            time.sleep(0.5)

    def check_alive(self) -> None:
        """Raise EngineError if it has ended."""
        code = self._process.poll() if self._process else None
        if code is not None:
            raise EngineError(f"the server ended with code {code}: {self._last_words()} (log: {self.log_path})")

    def _serves(self) -> bool:
        try:
            with _DIRECT.open(f"{self.url}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def _last_words(self) -> str:
        lines = self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()
        errors = [line for line in lines if "Error" in line or "Value error" in line]
        said = next((line for line in reversed(errors) if "Value error" in line), (errors or lines or ["nothing"])[-1])
        return said.partition(") ")[2].strip()[:300] or said.strip()[-300:]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(timeout=10)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        if self._log is not None:
            self._log.close()


class ServedSampler(Texts):
    """`selfplay.engine.episode.Sampler` over a `ModelServer`. The draws follow from `seed_key` and each call's key."""

    def __init__(
        self, client: Any, model: str, tokenizer: Any, defaults: Mapping[str, float], seed_key: Sequence[Any]
    ) -> None:
        self.client, self.model, self.tokenizer = client, model, tokenizer
        self.defaults, self.seed_key = dict(defaults), tuple(seed_key)

    async def sample(
        self,
        prompt_ids: list[int],
        *,
        max_tokens: int,
        key: Sequence[Any],
        stop: Sequence[str] = (),
        temperature: float | None = None,
        frozen: bool = False,
    ) -> Sample:
        """Raises openai.APIError where the server does not answer."""
        params: dict[str, Any] = dict(self.defaults) | ({} if temperature is None else {"temperature": temperature})
        answer = await self.client.completions.create(
            model=self.model,
            prompt=prompt_ids,
            max_tokens=max_tokens,
            seed=seed_of(*self.seed_key, *key),
            stop=list(stop) or None,
            extra_body={"return_token_ids": True, "include_stop_str_in_output": True},
            **params,
        )
        choice = answer.choices[0]
        ids = list(choice.model_extra["token_ids"])
        return Sample(ids, [0.0] * len(ids), self.decode(ids), finished=choice.finish_reason != "length")
