"""Generates the Python modules of P4Runtime and tiercast.v1 (build/python, which comes first on
PYTHONPATH). With --types it generates their types instead, for mypy and editors; that needs
mypy-protobuf.

usage: generate_python.py [--types] OUT_DIR
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

HERE = Path(__file__).resolve().parent
# grpc_tools has google/protobuf/*.proto beside its compiler; status comes with the descriptors.
P4RUNTIME = (
    "p4/config/v1/p4types.proto",
    "p4/config/v1/p4info.proto",
    "p4/v1/p4data.proto",
    "p4/v1/p4runtime.proto",
)
TIERCAST = tuple(
    f"tiercast/v1/{name}.proto"
    for name in ("lab", "marking", "queue", "sender", "session", "simulation", "trace")
)


def run_protoc(*arguments: str) -> None:
    if protoc.main(["protoc", *arguments]) != 0:
        sys.exit(f"generate_python.py: protoc failed: {' '.join(arguments)}")


def main(out: Path, *plugins: str) -> None:
    out.mkdir(parents=True, exist_ok=True)
    outputs = tuple(f"--{plugin}:{out}" for plugin in plugins)
    with tempfile.TemporaryDirectory() as scratch:
        descriptors = Path(scratch) / "p4runtime.desc"
        # In another process, because it needs the pure-Python protobuf runtime (see
        # export_descriptors.py).
        subprocess.run([sys.executable, HERE / "export_descriptors.py", descriptors], check=True)
        run_protoc(f"--descriptor_set_in={descriptors}", *outputs, *P4RUNTIME)
    include = Path(grpc_tools.__file__).parent / "_proto"
    run_protoc(f"--proto_path={HERE}", f"--proto_path={include}", *outputs, *TIERCAST)
    # Regular packages, so that they win over the PyPI package `p4`, whose modules are outdated.
    for folder in {p.parent for p in out.rglob("*_pb2.py*")}:
        while folder != out:
            (folder / "__init__.py").touch()
            folder = folder.parent


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["--types", out]:
            # protoc looks for its plugins in PATH. They are beside the interpreter.
            os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
            main(Path(out), "mypy_out=quiet", "mypy_grpc_out=quiet")
        case [out] if not out.startswith("-"):
            main(Path(out), "python_out=", "grpc_python_out=")
        case _:
            sys.exit(__doc__)
