"""Where in a document a hit stands, on the command line."""

import subprocess
import sys

from tests.cli.program import evervec, surroundings
from tests.cli.test_commands import FOLLOW

from evervec.testing import documents


def test_a_hit_tells_its_page_and_doctor_how_parsers_are_kept_in(tmp_path):
    notes = tmp_path / "notes"
    notes.mkdir()
    slides = [("First", ["nothing"], ""), ("Second", ["zebras"], "")]
    (notes / "talk.pptx").write_bytes(documents.pptx(slides))
    (notes / "plain.md").write_text("zebras")
    subprocess.run(
        [sys.executable, "-c", FOLLOW], cwd=tmp_path, env=surroundings(), check=True, timeout=50
    )
    assert evervec(tmp_path, "sync").code == 0

    told = evervec(tmp_path, "search", "zebras", "--mode", "lexical", "--json").json["hits"]
    shown = evervec(tmp_path, "search", "zebras", "--mode", "lexical").out
    looked = evervec(tmp_path, "doctor", "--no-model").out

    assert {hit["id"]: hit["page"] for hit in told} == {"talk.pptx": 2, "plain.md": None}
    assert "talk.pptx, page 2  Second" in shown
    assert "parsers: in a process of their own, network " in looked
