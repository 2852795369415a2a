"""docs/OPTIONS.md holds the table that the option table in the code makes."""

from pathlib import Path

from spark_kcoord.option_table import NOT_YET, describe_options

PAGE = Path(__file__).parents[3] / "docs" / "OPTIONS.md"


def test_the_page_has_the_table_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("| option |") :].rstrip("\n")
    assert table == describe_options()


def test_the_page_promises_no_option_that_is_not_built() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in NOT_YET if f"`{name}`" in page] == []
