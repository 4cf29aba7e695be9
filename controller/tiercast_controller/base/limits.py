"""What a group's address has room for: 15 bits of session and 3 of rank (docs/wire-format.md)."""

MAX_LAYERS = 8
MAX_SESSION = (1 << 15) - 1
