"""A browser without a window."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from places import need, need_package


@contextmanager
def chromium() -> Iterator[Any]:
    """Chromium, driven by selenium, with everything that its console says."""
    webdriver = need_package("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = need("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(options=options, service=Service(need("chromedriver")))
    try:
        yield browser
    finally:
        browser.quit()
