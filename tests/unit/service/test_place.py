"""The place of a directory is its own as long as its machine runs, and no copy's."""

import shutil
from pathlib import Path

from coordinator.service.place import place_of


def test_a_directory_keeps_its_place_whatever_is_written_into_it_and_a_copy_has_another(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    place = place_of(here)
    (here / "meta.json").write_text("{}")
    assert place_of(here) == place
    shutil.copytree(here, tmp_path / "copy")
    assert place_of(tmp_path / "copy") != place
    here.rename(tmp_path / "moved")
    assert place_of(tmp_path / "moved") == place
