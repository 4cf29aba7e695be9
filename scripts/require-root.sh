#!/usr/bin/env bash
# Says in its first line what a run needs and this machine lacks: root, and network namespaces.
if [ "$(id -u)" != 0 ]; then
  echo "root is missing: network namespaces and packet sockets need it; run: sudo make ${1:-}" >&2
  exit 2
fi
if ! unshare --net true 2>/dev/null; then
  echo "network namespaces are missing (CONFIG_NET_NS, or CAP_SYS_ADMIN in this container):" \
       "run on the host or in a privileged container" >&2
  exit 2
fi
