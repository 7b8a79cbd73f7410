"""Headless Chromium for tests that open a page as its reader would."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser; the test is skipped, saying so, where there is none."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    binary = next((path for name in names if (path := shutil.which(name))), None)
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip("no Chromium with chromedriver here; `make browser` installs them where it can")
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking"):
        options.add_argument(flag)
    options.add_argument("--disable-dev-shm-usage")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    running = webdriver.Chrome(options=options, service=Service(driver))
    running.command_executor.client_config.timeout = 900  # a busy machine is slow to answer
    try:
        yield running
    finally:
        running.quit()


def open_page(browser: Any, path: Path, *, width: int = 1280, dark: bool = False) -> None:
    """Load a file at a width, in a theme, and wait until everything is drawn."""
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    browser.get_log("browser")
    browser.get(path.resolve().as_uri())
    browser.set_script_timeout(300)
    browser.execute_async_script("const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 50));")


def choose(browser: Any, selector: str, value: Any, event: str = "change") -> None:
    """Give a control of a page a value, as a reader does."""
    browser.execute_script(
        "const s = document.querySelector(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event(arguments[2]))",
        *(selector, value, event),
    )


def marks(browser: Any) -> dict[str, int]:
    """How many marks each figure that is shown has: lines, points, bars, cells."""
    return browser.execute_script(
        """
        const drawn = (figure) => [...figure.querySelectorAll(
            '.scatterlayer path.js-line, .scatterlayer path.point, .barlayer path, .heatmaplayer image, .hm image'
        )].filter((mark) => mark.tagName === 'image' ? mark.getBoundingClientRect().width > 1
                                                     : (mark.getAttribute('d') || '').length > 3).length;
        const figures = [...document.querySelectorAll('.figure:not(.hidden)')];
        return Object.fromEntries(figures.map((figure) => [figure.id, drawn(figure)]));
        """
    )


def complaints(browser: Any) -> list[str]:
    """What the page wrote to the console, and what it asked the network for."""
    fetched = browser.execute_script("return performance.getEntriesByType('resource').map((entry) => entry.name)")
    return [entry["message"] for entry in browser.get_log("browser")] + fetched
