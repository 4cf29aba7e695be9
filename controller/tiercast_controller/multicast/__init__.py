"""From IGMP reports to what each switch copies where."""
