"""Ray's workers: tasks on this machine or on a cluster that is already running (docs/sweeps.md).

Ray is imported only here, and only if there is something to run.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import signal
import socket
from functools import cache
from pathlib import Path
from typing import Any

from tiercast_lab.base.errors import InputError, Interrupted
from tiercast_lab.base.interrupt import SIGNALS
from tiercast_lab.base.scratch import scratch_folder
from tiercast_lab.study.workers import Job, JobResult, make

# Results take a few MB; whatever does not fit goes to the session's folder.
OBJECT_STORE_BYTES = 200 * 2**20
# Jobs handed over per CPU: one runs while the next waits, so that no CPU waits for the driver.
AHEAD = 2

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_DEDUP_LOGS_SKIP_REGEX": ".",  # otherwise workers' failures go to standard output
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # the new default, without its warning
}
# On one machine Ray uses only the loopback, as it does on systems other than Linux.
LOOPBACK = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}


@cache  # Ray reads it once
def _own_token() -> dict[str, str]:
    """A token that lets only this process give work to this machine's Ray. Without one, Ray would
    write a token into the home directory and leave it there."""
    return {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}


CONNECT_TIMEOUT_S = 10


class RayWorkers:
    """`address` is that of a cluster, as for ray.init. With None, Ray's processes are started here
    with `jobs` CPUs and end with this process."""

    def __init__(self, jobs: int, address: str | None) -> None:
        self._jobs, self._address = jobs, address
        self._jobs_of: dict[Any, Job] = {}
        self._scratch: Path | None = None
        self._open = contextlib.ExitStack()

    def __enter__(self) -> RayWorkers:
        os.environ.update(QUIET if self._address else QUIET | LOOPBACK | _own_token())
        # Ray installs its own handler for SIGTERM.
        before = {number: signal.getsignal(number) for number in SIGNALS}
        try:
            import ray

            self._ray = ray
            self._open.callback(ray.shutdown)
            if self._address is None:
                folder = self._scratch = self._open.enter_context(scratch_folder())
                self._open.callback(ray.shutdown)  # before its folder is removed
                ray.init(
                    "local",
                    num_cpus=self._jobs,
                    object_store_memory=OBJECT_STORE_BYTES,
                    include_dashboard=False,
                    _temp_dir=str(folder),
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            else:
                self._connect(self._address)
        except BaseException:
            self._open.close()
            raise
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        # The type is Any because Ray's types do not allow arguments with defaults.
        self._make: Any = ray.remote(make)
        return self

    def _connect(self, address: str) -> None:
        try:
            host, _, port = address.removeprefix("ray://").rpartition(":")
            if host and port.isdigit():  # Ray itself keeps trying for minutes
                socket.create_connection((host, int(port)), CONNECT_TIMEOUT_S).close()
            self._ray.init(address, log_to_driver=False, logging_level=logging.ERROR)
        except (OSError, ValueError, RuntimeError, TimeoutError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise InputError(
                f"--address {address}: {reason}; valid: auto, HOST:PORT of `ray start "
                "--head`, or ray://HOST:10001, with its RAY_AUTH_MODE and token (docs/sweeps.md)"
            ) from None

    def __exit__(self, *error: object) -> None:
        for reference in self._jobs_of:
            with contextlib.suppress(Exception):
                self._ray.cancel(reference, force=True)
        self._jobs_of.clear()
        self._open.close()

    @property
    def elsewhere(self) -> bool:
        return self._address is not None

    @property
    def room(self) -> int:
        # The number changes as nodes come and go.
        cpus = self._ray.cluster_resources().get("CPU", 0) if self._address else self._jobs
        return max(1, int(AHEAD * cpus))

    @property
    def cores(self) -> float:
        return float(sum(self._node_cores()))

    @property
    def largest(self) -> float:
        return float(max(self._node_cores()))

    def _node_cores(self) -> list[float]:
        """The CPUs of each node that is there; those of a single core if none is."""
        nodes = [one for one in self._ray.nodes() if one["Alive"]]
        return [one["Resources"].get("CPU", 0.0) for one in nodes] or [1.0]

    def submit(self, job: Job) -> None:
        # Ray gives out parts of one CPU, and whole CPUs.
        cpus = math.ceil(10 * job.cores) / 10 if job.cores < 1 else math.ceil(job.cores)
        # Ray must not retry: the caller counts a worker's death and submits the job again.
        make = self._make.options(num_cpus=cpus, max_retries=0, scheduling_strategy="SPREAD")
        self._jobs_of[make.remote(job, self._scratch)] = job

    def ended(self, timeout_s: float) -> list[tuple[Job, JobResult | None]]:
        ready, _ = self._ray.wait(list(self._jobs_of), num_returns=1, timeout=timeout_s)
        return [(self._jobs_of.pop(reference), self._get(reference)) for reference in ready]

    def _get(self, reference: Any) -> JobResult | None:
        lost = self._ray.exceptions
        try:
            result: JobResult = self._ray.get(reference)
            return result
        except (lost.WorkerCrashedError, lost.NodeDiedError, lost.ObjectLostError,
                lost.OutOfMemoryError):  # fmt: skip
            return None
        except lost.RayTaskError as error:
            if isinstance(error.cause, Interrupted):
                return None
            return JobResult(failure=str(error.cause or error))
        except lost.RayError as error:
            return JobResult(failure=str(error))
