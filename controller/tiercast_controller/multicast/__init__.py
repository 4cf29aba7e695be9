"""From IGMP reports to the copies that each switch makes."""
