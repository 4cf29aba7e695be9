"""The errors this package raises; each text names the place, the value and the valid choices."""


class ControllerError(Exception):
    """Base of every error of this package."""


class ConfigurationError(ControllerError):
    """Topology, sessions or program do not fit together. Nothing was sent to a switch."""


class ParameterError(ConfigurationError):
    """A policy's parameters are out of range, or do not fit together: `parameters` are their
    names, as the policy has them."""

    def __init__(self, text: str, *parameters: str) -> None:
        super().__init__(text)
        self.parameters = parameters


class SwitchError(ControllerError):
    """A switch refused a request, or cannot be reached."""


class NotPrimaryError(SwitchError):
    """Another controller holds this switch with a higher election id."""


class UnsupportedError(SwitchError):
    """The switch does not offer this service (bmv2 has no tiercast.v1, PI reads no registers)."""


class AgentError(ControllerError):
    """An agent did not attach in time, or was lost."""


class RefusedError(AgentError):
    """An agent refused a request, and says why."""
