"""bmv2 as tests start it. It is optional, so tests that need it say so."""

from __future__ import annotations

import shutil

import pytest
from tiercast_controller.p4runtime.manifest import CPU_PORT

SWITCH, CLI = "simple_switch_grpc", "simple_switch_CLI"
PSA_SWITCH, PSA_CLI = "psa_switch", "psa_switch_CLI"

HAS_SWITCH = shutil.which(SWITCH) is not None
HAS_BMV2 = HAS_SWITCH and shutil.which(CLI) is not None  # what the lab needs
needs_switch = pytest.mark.skipif(not HAS_SWITCH, reason="bmv2 is not installed")
needs_bmv2 = pytest.mark.skipif(not HAS_BMV2, reason="bmv2 is not installed")


def bmv2_command(device_id: int, address: str, *arguments: str) -> list[str]:
    """`address` is gRPC's; `arguments` are those of bmv2 itself, such as its ports."""
    return [SWITCH, "--no-p4", "--device-id", str(device_id), "--thrift-port", "0", *arguments,
            "--", "--grpc-server-addr", address, "--cpu-port", str(CPU_PORT)]  # fmt: skip
