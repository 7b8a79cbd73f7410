"""Hooks of the site (mkdocs.yml): pages outside of docs/, links to files of the repository, the table of numbers.

A link in a page is one that a code host follows: relative to the page's place in the repository. Here it becomes a link
within the site. A file that is no page, such as a scenario, is copied into the site where a page links to it.
"""

import re
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parent.parent
# page of the site: its file in the repository
OUTSIDE = {
    "changelog.md": "CHANGELOG.md",
    "channel_models.md": "channel_models/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "security.md": "SECURITY.md",
}
PAGES = {path: page for page, path in OUTSIDE.items()} | {"README.md": "index.md"}
LINK = re.compile(r"(\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"(?<!</span>)<code>([^<\s]{1,40}|[^<]{1,24})</code>")  # not that of a block
LONG_CODE = re.compile(r"(?<!</span>)<code>([^<\s][^<\n]{24,})</code>")
BREAKS = re.compile(r"(?<=[\w\]])[|/,(=:](?=\S)")
CELL = re.compile(r"<td([^>]*)>([^<]{3,9})</td>")
FIGURE = re.compile(r'<p>(<img [^>]*src="([^"]+)"[^>]*>)</p>')
COMMANDS = re.compile(r'<div class="language-(?:sh|bash) highlight">.*?</div>', re.DOTALL)
HYPHENATED = re.compile(r"(?<![\w./-])[\w./]*(?:-+[\w./]+)+")
LIST = re.compile(r"^(#+ .*)\n(?=- )", re.MULTILINE)


def on_files(files: Files, config: Any) -> Files:
    """Add pages from outside docs/, the table of numbers, and the files that pages link to."""
    texts = {file.src_uri: file.content_string for file in files.documentation_pages()}
    for page, path in OUTSIDE.items():
        texts[page] = (ROOT / path).read_text(encoding="utf-8")
        files.append(File.generated(config, page, content=texts[page]))
    files.append(File.generated(config, "numbers.md", content=_numbers_page()))
    for page, text in texts.items():
        for _, target, _, _ in LINK.findall(FENCE.sub("", text)):
            path = _in_repository(page, target)
            if path is not None and path not in PAGES and not path.startswith("docs/"):
                uri = f"files/{path}"
                if uri not in files.src_uris:
                    files.append(File.generated(config, uri, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Make links to the repository links within the site; a list may follow its heading at once."""

    def moved(match: re.Match[str]) -> str:
        before, target, anchor, after = match.groups()
        path = _in_repository(page.file.src_uri, target)
        if path is None:
            return match[0]
        uri = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else f"files/{path}")
        return f"{before}{uri}{anchor or ''}{after}"

    return LIST.sub(r"\1\n\n", LINK.sub(moved, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Mark names and short code, which do not break: a browser would break --rounds after its hyphens.

    Longer code breaks after bars, slashes, colons, commas and parentheses before it breaks within a name. A bar in the
    code of a table has a backslash in Markdown, which Python-Markdown leaves there. A short cell, such as a number with
    its unit, is one line. A figure leads to its file: on a phone it is small.
    """
    html = CELL.sub(lambda cell: f"<td{cell[1]}>{cell[2].replace(' ', chr(0xA0))}</td>", html.replace("\\|", "|"))
    html = FIGURE.sub(r'<p><a href="\2">\1</a></p>', html)
    html = COMMANDS.sub(lambda block: re.sub(r">[^<]+", _whole_words, block[0]), html)
    html = CODE.sub(r'<code class="short">\1</code>', html)
    return LONG_CODE.sub(lambda code: "<code>" + BREAKS.sub(r"\g<0><wbr>", code[1]) + "</code>", html)


def _whole_words(text: re.Match[str]) -> str:
    return HYPHENATED.sub(r'<span class="short">\g<0></span>', text[0])


def _in_repository(page: str, target: str) -> str | None:
    """Path from the root of the repository of what a page links to; None where it is no file of it."""
    if "://" in target or target.startswith("mailto:"):
        return None
    home = ROOT / PurePosixPath(OUTSIDE.get(page, f"docs/{page}")).parent
    path = (home / target).resolve()
    return path.relative_to(ROOT).as_posix() if path.is_file() and path.is_relative_to(ROOT) else None


def _numbers_page() -> str:
    sys.path.insert(0, str(ROOT / "docs"))
    try:
        from numbers_page import page
    finally:
        sys.path.pop(0)
    return page()
