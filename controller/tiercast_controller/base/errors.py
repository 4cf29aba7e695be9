"""The errors that this package raises. Each text names the place, the value and the valid
choices."""


class ControllerError(Exception):
    """The base of all errors of this package."""


class ConfigurationError(ControllerError):
    """Topology, sessions and program do not fit together. Nothing was sent to a switch."""


class ParameterError(ConfigurationError):
    """Parameters of a policy are out of range or do not fit together. `parameters` holds their
    names."""

    def __init__(self, text: str, *parameters: str) -> None:
        super().__init__(text)
        self.parameters = parameters


class SwitchError(ControllerError):
    """A switch refused a request or cannot be reached."""


class UnreachableError(SwitchError):
    """A switch does not answer, or its stream has ended. It may return."""


class NotPrimaryError(SwitchError):
    """Another controller with a higher election id holds this switch."""


class UnsupportedError(SwitchError):
    """The switch does not offer this service (bmv2 has no tiercast.v1; PI reads no registers)."""


class AgentError(ControllerError):
    """An agent did not attach in time, or the connection to it was lost."""


class RefusedError(AgentError):
    """An agent refused a request and gave its reason."""
