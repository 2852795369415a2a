"""All cases of the comparison, by subject."""

from tests.compare_consumer import cases_of_groups, cases_of_listeners, cases_of_positions, cases_of_reading
from tests.compare_consumer.case import Case

__all__ = ["CASES", "Case"]

CASES: list[Case] = [
    *cases_of_reading.CASES,
    *cases_of_positions.CASES,
    *cases_of_groups.CASES,
    *cases_of_listeners.CASES,
]
