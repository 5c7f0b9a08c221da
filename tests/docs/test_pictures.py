"""The pictures of the documents: those that are referred to are there, and show nothing that should not be seen."""

import importlib.util
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest

from .blocks import DOCUMENTS, ROOT, Block
from .sessions import check_call

PICTURES = sorted((ROOT / "docs" / "pictures").glob("*.svg"))
SVG = "http://www.w3.org/2000/svg"
MOST_BYTES = 150_000

_REFERENCE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)|<img[^>]*?src=\"([^\"]+)\"")
_NOT_TO_BE_SEEN = re.compile(r"https?:|/(home|root|tmp|Users|var|private)\b|\b\d{4}-\d\d-\d\d\b|@font-face")


def pictures_of(path: Path) -> list[str]:
    """The local pictures that a document refers to, as it names them."""
    found = (markdown or image for _, markdown, image in _REFERENCE.findall(path.read_text(encoding="utf-8")))
    return [name for name in found if "://" not in name]


def title_of(picture: Path) -> str:
    root = ElementTree.fromstring(picture.read_text(encoding="utf-8"))
    titles = [each for each in root.iter(f"{{{SVG}}}text") if each.get("class", "").endswith("-title")]
    return (titles[0].text or "").replace("\xa0", " ")


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_every_picture_that_a_document_refers_to_is_there(path: Path) -> None:
    assert [name for name in pictures_of(path) if not (path.parent / name).is_file()] == []


def test_pictures_of_markdown_and_html_are_found(tmp_path: Path) -> None:
    path = tmp_path / "made.md"
    path.write_text('![a](docs/a.svg) [no](b.svg) <img width="700" alt="c" src="c.svg"> ![](https://example.org/d.svg)')
    assert pictures_of(path) == ["docs/a.svg", "c.svg"]


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_refers_to_nothing_outside_and_shows_no_path_and_no_date(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8").replace(SVG, "")
    assert len(text.encode()) < MOST_BYTES
    assert set(re.findall(r"url\(#([^)]+)\)", text)) <= set(re.findall(r' id="([^"]+)"', text))
    assert not (found := _NOT_TO_BE_SEEN.search(text.replace("&#160;", " "))), found


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_the_command_that_a_picture_shows_exists(picture: Path) -> None:
    assert picture.read_text(encoding="utf-8").startswith("<svg "), "not a picture"
    check_call(Block(picture.name, 1, "sh", ""), shlex.split(title_of(picture)))


def test_there_are_pictures_and_all_are_made_by_the_script() -> None:
    script = (ROOT / "docs" / "pictures.py").read_text(encoding="utf-8")
    assert [path.stem for path in PICTURES] == sorted(re.findall(r'write\("(\w+)"', script))


def _script():
    pytest.importorskip("termios")
    spec = importlib.util.spec_from_file_location("docs_pictures", ROOT / "docs" / "pictures.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_progress_bar_leaves_nothing_behind() -> None:
    drawn = "\x1b[?25l\r\x1b[2Kcalls 1\r\x1b[2Kfirst line\r\ncalls 2\r\x1b[2Kcalls 3\r\n"
    assert _script().settled(f"{drawn}\x1b[?25h\r\x1b[1A\x1b[2Ka table\r\n") == ["first line", "a table", ""]


def test_wide_characters_are_as_long_as_two_and_long_lines_are_folded() -> None:
    drawn = _script().picture("lgm threads", ["a 周三 b", "x" * 130], "p")
    texts = ElementTree.fromstring(drawn).iter(f"{{{SVG}}}text")
    placed = [(each.text, each.get("x"), each.get("textLength")) for each in texts if each.get("textLength")]
    assert placed == [
        ("a\xa0", "0", "24.4"),
        ("周三", "24.4", "48.8"),
        ("\xa0b", "73.2", "24.4"),
        ("x" * 100, "0", "1220"),
        ("x" * 30, "0", "366"),
    ]
