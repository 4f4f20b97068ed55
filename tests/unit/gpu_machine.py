# SPDX-License-Identifier: Apache-2.0
"""A machine with simulated GPUs below a directory: its state, its /dev and /proc, and the programs on it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bedplate_lab import gpusim, gpustate
from bedplate_lab.gpustate import GpuState

VERSION = gpusim.driver_versions()[0]


class GpuMachine:
    """What tests ask of it: `smi` runs nvidia-smi, `nvml` is the library, `change` alters the state as a fault does."""

    def __init__(self, programs: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.programs, self.root = programs, root
        self.state = root / "state"
        for directory in ("dev", "run", "proc/driver", "usr/share/gpu-sim"):
            (root / directory).mkdir(parents=True)
        monkeypatch.setenv("GPU_SIM_ROOT", str(root))
        monkeypatch.setenv("GPU_SIM_STATE", str(self.state))
        libraries = root / "libraries"
        libraries.mkdir()
        (libraries / "libnvidia-ml.so.1").symlink_to(programs / "libnvidia-ml.so")
        monkeypatch.setenv("LD_LIBRARY_PATH", str(libraries))
        self.plug("h100-80gb")
        self.boot()

    def plug(self, *profiles: str) -> None:
        """Give it GPUs of these profiles, as a fresh machine."""
        self.state.write_text(gpustate.new("w1", *((profile, None) for profile in profiles)).text())

    def boot(self, version: str = VERSION, modules: str = "open") -> subprocess.CompletedProcess[str]:
        """Start it with kernel modules of a version installed."""
        (self.root / "usr/share/gpu-sim/module").write_text(f"{version} {modules}\n")
        for directory in ("run/gpu-sim", "dev", "proc/driver"):
            shutil.rmtree(self.root / directory, ignore_errors=True)
        for directory in ("dev", "proc/driver"):
            (self.root / directory).mkdir()
        return self.load()

    def load(self) -> subprocess.CompletedProcess[str]:
        """What the unit does that loads the driver."""
        return self.run("gpu-sim", "load")

    def run(self, program: str, *arguments: str, timeout: float = 10, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run one of the simulator's programs."""
        argv = [str(self.programs / program), *arguments]
        return subprocess.run(
            argv, capture_output=True, text=True, timeout=timeout, check=False, env={**os.environ, **environment}
        )

    def smi(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run nvidia-smi."""
        return self.run("nvidia-smi", *arguments)

    def rows(self, fields: str) -> list[list[str]]:
        """What nvidia-smi --query-gpu answers, without units."""
        result = self.smi(f"--query-gpu={fields}", "--format=csv,noheader,nounits")
        return [[part.strip() for part in line.split(",")] for line in result.stdout.splitlines()]

    def read(self) -> GpuState:
        """The state."""
        return gpustate.parse(self.state.read_text())

    def change(self, work: Callable[[GpuState], object]) -> None:
        """Alter the state, as `scripts/lab gpu` does."""
        state = self.read()
        work(state)
        state.generation += 1
        self.state.write_text(state.text())

    def nvml(self) -> Nvml:
        """The library, initialized."""
        library = Nvml(self.programs)
        library("nvmlInit_v2")
        return library


class NvmlError(Exception):
    """An answer other than success; `code` is NVML's."""

    def __init__(self, function: str, code: int) -> None:
        super().__init__(f"{function}: {code}")
        self.code = code


class Nvml:
    """The library's functions by name, through ctypes."""

    def __init__(self, programs: Path) -> None:
        self.library = ctypes.CDLL(str(programs / "libnvidia-ml.so"))

    def __call__(self, function: str, *arguments: Any) -> None:
        """Call a function. Raises NvmlError."""
        code = getattr(self.library, function)(*arguments)
        if code != 0:
            raise NvmlError(function, code)

    def code(self, function: str, *arguments: Any) -> int:
        """Call a function; its answer."""
        answer: int = getattr(self.library, function)(*arguments)
        return answer

    def device(self, index: int) -> ctypes.c_void_p:
        """The handle of a GPU."""
        handle = ctypes.c_void_p()
        self("nvmlDeviceGetHandleByIndex_v2", index, ctypes.byref(handle))
        return handle

    def number(self, function: str, *arguments: Any) -> int:
        """Call a function that gives an unsigned int as its last argument."""
        value = ctypes.c_uint()
        self(function, *arguments, ctypes.byref(value))
        return value.value

    def text(self, function: str, *arguments: Any) -> str:
        """Call a function that writes a text into its last two arguments."""
        buffer = ctypes.create_string_buffer(128)
        self(function, *arguments, buffer, len(buffer))
        return buffer.value.decode()
