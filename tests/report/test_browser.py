"""The HTML report in headless Chromium: by keyboard, by screen readers' rules, on a phone, in
print, in the dark.

Needs Debian's chromium and chromium-driver, or the like, and dpverify[browser]. One browser
serves all tests.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from dpverify.report.page import page
from tests.report.cases import everything

webdriver = pytest.importorskip("selenium.webdriver", reason="dpverify[browser] is not installed")
AXE = files(pytest.importorskip("axe_core_python")).joinpath("axe.min.js")
_CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
_DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not (_CHROMIUM and _DRIVER), reason="no Chromium with its driver")

ENTER, SPACE, TAB = "\ue007", " ", "\ue004"
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}


class Browser:
    """A page in a browser, with what the tests ask of it."""

    def __init__(self, driver: Any, path: Path) -> None:
        self.driver, self._path = driver, path

    def open(self, *, dark: bool = False, media: str = "screen", phone: bool = False) -> None:
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self._command("Emulation.setEmulatedMedia", media=media, features=features)
        size = PHONE if phone else {**PHONE, "width": 1280, "mobile": False}
        self._command("Emulation.setDeviceMetricsOverride", **size)
        self.driver.get(self._path.as_uri())

    def ask(self, expression: str, *arguments: Any) -> Any:
        return self.driver.execute_script(f"return {expression}", *arguments)

    def focus(self, selector: str) -> Any:
        self.driver.execute_script("document.querySelector(arguments[0]).focus()", selector)
        return self.driver.switch_to.active_element

    def violations(self, *, without: str = "") -> list[str]:
        """List axe-core's objections, rule by rule. without: elements to spoil first, for a
        false twin."""
        if without:
            self.driver.execute_script(without)
        self.driver.execute_script(AXE.read_text(encoding="utf-8"))
        told = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(r => done(JSON.stringify("
            "[r.passes.length, r.violations.map(v => v.id + ' ' + v.nodes[0].html)])))"
        )
        passed, violations = json.loads(told)
        assert passed > 15  # the rules that had something to look at
        return list(violations)

    def _command(self, name: str, **given: Any) -> None:
        self.driver.execute_cdp_cmd(name, given)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    options = webdriver.ChromeOptions()
    options.binary_location = _CHROMIUM
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(_DRIVER))
    path = tmp_path_factory.mktemp("report") / "report.html"
    path.write_text(page(everything()), encoding="utf-8")
    yield Browser(driver, path)
    driver.quit()


def test_nothing_is_requested_nothing_is_run_and_nothing_is_logged(browser: Browser) -> None:
    """Though a unit's name is a script, and an image that fails to load."""
    browser.driver.get_log("performance")
    browser.open()
    logged = [json.loads(e["message"])["message"] for e in browser.driver.get_log("performance")]
    asked = [
        e["params"]["request"]["url"] for e in logged if e["method"] == "Network.requestWillBeSent"
    ]
    assert [url.partition(":")[0] for url in asked if not url.startswith("data:")] == ["file"]
    assert browser.driver.get_log("browser") == []
    assert browser.ask("window.hacked") is None
    assert "window.hacked" in browser.ask("document.querySelector('main').innerText")


def test_a_script_that_is_smuggled_in_is_refused(browser: Browser) -> None:
    """The policy of the page, where escaping failed."""
    browser.open()
    browser.driver.execute_script(
        "const s = document.createElement('div'); s.innerHTML = '<img src=\"data:,\" "
        'onerror="window.hacked = 3">\';'
        "document.body.append(s)"
    )
    browser.driver.execute_async_script("setTimeout(arguments[0], 200)")
    assert browser.ask("window.hacked") is None
    assert "Content Security Policy" in browser.driver.get_log("browser")[0]["message"]


@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, True)])
def test_axe_has_no_objection(browser: Browser, dark: bool, phone: bool) -> None:
    browser.open(dark=dark, phone=phone)
    browser.driver.execute_script(
        "for (const e of document.querySelectorAll('details')) e.open = true"
    )
    light, dim = "rgb(255, 255, 255)", "rgb(20, 24, 30)"
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == (
        dim if dark else light
    )
    assert browser.violations() == []


def test_axe_objects_to_a_figure_without_its_text_and_to_pale_letters(browser: Browser) -> None:
    browser.open()
    spoil = (
        "for (const e of document.querySelectorAll('svg')) { e.removeAttribute('aria-labelledby');"
        "e.querySelector('title').remove() } document.querySelector('h3').style.color = '#eee'"
    )
    violations = {line.split()[0] for line in browser.violations(without=spoil)}
    assert violations == {"color-contrast", "svg-img-alt"}


@pytest.mark.parametrize("key", [ENTER, SPACE])
def test_the_derivation_unfolds_by_keyboard(browser: Browser, key: str) -> None:
    browser.open()
    derivation = "details:has(> .tree)"
    visible = f"document.querySelector('{derivation} li').checkVisibility()"
    assert browser.ask(visible) is False
    browser.focus(f"{derivation} > summary").send_keys(key)
    assert browser.ask(visible) is True
    inner = f"{derivation} li details"
    browser.focus(f"{inner} > summary").send_keys(key)
    assert browser.ask(f"document.querySelector('{inner}').open") is False
    browser.focus(f"{derivation} > summary").send_keys(key)
    assert browser.ask(visible) is False


def test_the_table_is_searched_filtered_and_sorted_by_keyboard(browser: Browser) -> None:
    browser.open()
    names = (
        "[...document.querySelectorAll('#verdicts tbody tr:not([hidden]) th')].map(e => "
        "e.firstChild.textContent)"
    )
    everyone = browser.ask(names)
    browser.focus("input[type=search]").send_keys("NOISY_")
    assert browser.ask(names) == [name for name in everyone if "noisy_" in name] != []
    assert browser.ask("document.querySelector('output').textContent").startswith("2 of 9 ")
    browser.open()
    browser.focus("select").send_keys("refuted")
    assert len(browser.ask(names)) == 2
    browser.open()
    button = browser.focus("#verdicts th:nth-child(2) button")
    button.send_keys(ENTER)
    once = browser.ask(names)
    button.send_keys(SPACE)
    assert browser.ask(names) == once[::-1] != once
    assert browser.ask("document.querySelectorAll('[aria-sort]').length") == 1


def test_every_control_is_reached_by_tab_in_the_order_of_the_page(browser: Browser) -> None:
    browser.open()
    browser.focus("summary")
    reached = []
    for _ in range(6):
        browser.driver.switch_to.active_element.send_keys(TAB)
        reached.append(browser.ask("document.activeElement.tagName"))
    assert reached == ["INPUT", "SELECT", "BUTTON", "BUTTON", "BUTTON", "BUTTON"]


def test_a_phone_scrolls_down_only(browser: Browser) -> None:
    browser.open(phone=True)
    browser.driver.execute_script(
        "for (const e of document.querySelectorAll('details')) e.open = true"
    )
    assert browser.ask("innerWidth") == 390
    assert browser.ask("document.documentElement.scrollWidth") == 390
    small = "[...document.querySelectorAll('svg text')].map(e => e.getBoundingClientRect().height)"
    assert min(h for h in browser.ask(small) if h > 0) >= 10


def test_print_is_unfolded_and_light_even_where_the_screen_is_dark(browser: Browser) -> None:
    browser.open(dark=True, media="print")
    assert browser.ask("document.querySelector('.tree li').checkVisibility()") is True
    assert browser.ask("document.querySelector('.tree li').getBoundingClientRect().height") > 0
    for hidden in ("form", ".numbers"):  # of figures the numbers would take most of the paper
        assert browser.ask(f"document.querySelector('{hidden}').checkVisibility()") is False
    assert browser.ask("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert browser.ask("document.querySelectorAll('details[open]').length") < browser.ask(
        "document.querySelectorAll('details').length"
    )
    browser.driver.execute_script("dispatchEvent(new Event('beforeprint'))")
    assert browser.ask("document.querySelectorAll('details:not([open], .numbers)').length") == 0
    browser.driver.execute_script("dispatchEvent(new Event('afterprint'))")
    assert browser.ask("document.querySelectorAll('details:not([open], .numbers)').length") > 0


def test_without_scripts_everything_is_there(browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        browser.open()
        assert browser.ask("document.querySelectorAll('#verdicts tbody tr').length") == 9
        assert browser.ask("document.querySelector('form').checkVisibility()") is False
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
