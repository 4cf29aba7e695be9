"""The limits set by a group address: 15 bits for the session and 3 for the rank
(docs/wire-format.md)."""

MAX_LAYERS = 8
MAX_SESSION = (1 << 15) - 1
