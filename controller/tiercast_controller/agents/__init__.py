"""Senders and receivers: their connections, their records, and a sender's sessions."""
