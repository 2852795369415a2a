"""docs/OPTIONS.md holds the table that the option table in the code makes."""

from pathlib import Path

from spark_kcoord.options.table import describe_options

PAGE = Path(__file__).parents[4] / "docs" / "OPTIONS.md"


def test_the_page_has_the_table_of_the_code() -> None:
    page = PAGE.read_text(encoding="utf-8")
    table = page[page.index("| option |") :].rstrip("\n")
    assert table == describe_options()
