"""`querier` in an experiment's YAML: the switches ask hosts for their groups, as IGMP's queriers
do."""

from __future__ import annotations

import re
from functools import cached_property
from typing import Annotated

from pydantic import Field, model_validator
from tiercast_controller.base.errors import ConfigurationError
from tiercast_controller.base.strict import Strict
from tiercast_controller.multicast.querier import Querier

from tiercast_lab.experiment.quantities import RunTime


class QuerierModel(Strict):
    """The names are those of RFC 3376, 8; defaults and ranges are those of Querier."""

    version: Annotated[int, Field(ge=2, le=3)] = Querier.version
    interval: RunTime = round(Querier.interval_s * 1e9)
    max_response: RunTime = round(Querier.max_response_s * 1e9)
    robustness: int = Querier.robustness
    startup_interval: RunTime | None = None
    last_member_interval: RunTime = round(Querier.last_member_interval_s * 1e9)
    last_member_count: int | None = None

    @model_validator(mode="after")
    def _is_one(self) -> QuerierModel:
        try:
            _ = self.querier
        except ConfigurationError as error:
            # In seconds, but our keys do not say so.
            raise ValueError(re.sub(r"_s\b", "", str(error).removeprefix("querier: "))) from None
        return self

    @cached_property
    def querier(self) -> Querier:
        startup = self.startup_interval
        return Querier(
            interval_s=self.interval / 1e9,
            max_response_s=self.max_response / 1e9,
            version=self.version,
            robustness=self.robustness,
            startup_interval_s=None if startup is None else startup / 1e9,
            last_member_interval_s=self.last_member_interval / 1e9,
            last_member_count=self.last_member_count,
        )
