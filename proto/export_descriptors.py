"""Writes P4Runtime's FileDescriptorSet, from which all of this project's stubs are generated.

The PyPI package `p4runtime` is the only packaged source of P4Runtime's contract. Its generated
modules are too old for today's protobuf, but each contains its serialised descriptor, from which
protoc makes fresh C++ and Python stubs (--descriptor_set_in).

usage: export_descriptors.py OUT.desc
"""

import os
import sys
from pathlib import Path

# Only the pure-Python runtime can import modules that an old protoc generated.
os.environ["PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION"] = "python"

from google.protobuf import any_pb2, descriptor_pb2  # noqa: E402
from google.rpc import status_pb2  # noqa: E402
from p4.config.v1 import p4info_pb2, p4types_pb2  # noqa: E402
from p4.v1 import p4data_pb2, p4runtime_pb2  # noqa: E402

# In the order of their imports: protoc needs a file's dependencies before it.
MODULES = (any_pb2, status_pb2, p4types_pb2, p4info_pb2, p4data_pb2, p4runtime_pb2)


def descriptor_set() -> descriptor_pb2.FileDescriptorSet:
    files = descriptor_pb2.FileDescriptorSet()
    for module in MODULES:
        files.file.add().ParseFromString(module.DESCRIPTOR.serialized_pb)
    return files


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    Path(sys.argv[1]).write_bytes(descriptor_set().SerializeToString(deterministic=True))
