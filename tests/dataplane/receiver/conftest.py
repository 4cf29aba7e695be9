from ...agent.network import link

__all__ = ["link"]
