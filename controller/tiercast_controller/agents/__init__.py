"""Senders and receivers: their connections, their records, a sender's sessions."""
