"""The documentation site: built strictly, opened from the file system at three widths in both themes, and searched."""

import re
import subprocess
import sys

import pytest
from browser import chromium, complaints, open_page
from conftest import ROOT

pytestmark = pytest.mark.slow
PAGES = sorted(
    {path.stem for path in (ROOT / "docs").glob("*.md")}
    | {"changelog", "channel_models", "contributing", "numbers", "security"}
)
# words of a page that begin on one line and end on another, outside of blocks of code
BROKEN_WORDS = """
    const words = [];
    const texts = document.createTreeWalker(document.querySelector('.md-content'), NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
        const text = texts.currentNode;
        if (text.parentElement.closest('pre, script, style')) continue;
        for (const word of text.textContent.matchAll(/[A-Za-z0-9_.]{4,}/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            const boxes = [...range.getClientRects()].filter((box) => box.width > 0);
            if (boxes.some((box) => box.top > boxes[0].bottom - 1)) words.push(word[0]);
        }
    }
    return words;
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site; skipped where MkDocs is not installed (`make docs` installs it)."""
    for module in ("mkdocs", "material", "mkdocstrings"):
        pytest.importorskip(module, reason="the extra `docs` is not installed; `make docs` installs it")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def browser():
    with chromium() as running:
        yield running


def test_pages_name_nothing_to_fetch_from_elsewhere(site):
    fetched = re.compile(
        r'<(?:script|img|iframe|source)[^>]*\ssrc="?(?:https?:)?//|<link(?![^>]*canonical)[^>]*href="?(?:https?:)?//'
    )
    for page in site.rglob("*.html"):
        assert not fetched.search(page.read_text(encoding="utf-8")), page.name
    for sheet in site.rglob("*.css"):
        assert not re.search(r"url\(\s*['\"]?(?:https?:)?//", sheet.read_text(encoding="utf-8")), sheet.name


def test_generated_pages_have_their_content(site):
    text = {name: (site / f"{name}.html").read_text(encoding="utf-8") for name in ("api", "cli", "scenarios", "traces")}
    assert "load_scenario" in text["api"]
    assert "should_stop" in text["api"]
    assert "wirelessdl sweep" in text["cli"]
    assert "--resume" in text["cli"]
    assert "epsilon_max" in text["scenarios"]
    assert "accuracy_mean" in text["traces"]


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("width", [1400, 800, 390])
@pytest.mark.parametrize("name", PAGES)
def test_a_page_opens_without_a_complaint(name, width, dark, site, browser):
    open_page(browser, site / f"{name}.html", width=width, dark=dark)
    assert [one for one in complaints(browser) if not one.startswith(site.as_uri())] == []
    # nothing sticks out but what scrolls by itself
    overflow = browser.execute_script(
        "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )
    assert overflow <= 1
    scheme = browser.execute_script("return document.body.getAttribute('data-md-color-scheme')")
    assert scheme == ("slate" if dark else "default")
    assert browser.execute_script(BROKEN_WORDS) == []
    broken = "return [...document.images].filter((one) => one.complete && !one.naturalWidth).map((one) => one.src)"
    assert browser.execute_script(broken) == []


def test_the_theme_is_the_systems_until_a_reader_chooses_one(site, browser):
    def scheme(*, dark):
        open_page(browser, site / "index.html", width=1400, dark=dark)
        return browser.execute_script("return document.body.getAttribute('data-md-color-scheme')")

    try:
        assert [scheme(dark=False), scheme(dark=True), scheme(dark=False)] == ["default", "slate", "default"]
        for _ in range(2):  # to light, to dark
            browser.find_element("css selector", "[data-md-component=palette] label:not([hidden])").click()
        assert [scheme(dark=False), scheme(dark=True)] == ["slate", "slate"]
    finally:
        browser.execute_script("localStorage.clear()")


def test_search_finds_a_key_without_a_network(site, browser):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support.ui import WebDriverWait

    open_page(browser, site / "index.html", width=1400)
    box = browser.find_element(By.CSS_SELECTOR, "input.md-search__input")
    browser.execute_script("arguments[0].focus()", box)
    box.send_keys("mixing_passes")
    found = WebDriverWait(browser, 120).until(
        lambda page: page.find_elements(By.CSS_SELECTOR, ".md-search-result__item a[href*='scenarios.html']")
    )
    assert found
    assert [one for one in complaints(browser) if not one.startswith(site.as_uri())] == []
