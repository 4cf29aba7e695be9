"""The pages of `tiercast watch` in a real browser: what they show of runs whose rows are known, and
how they react."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver import ActionChains, Chrome, ChromeOptions, ChromeService, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.webelement import WebElement

from ..patience import PATIENCE_S, wait_until
from .watched_runs import KnownRun, serving

PROGRAMS = ("chromium", "chromedriver")  # of the Debian packages chromium and chromium-driver

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    paths = [shutil.which(program) for program in PROGRAMS]
    if None in paths:
        pytest.skip(f"{' or '.join(PROGRAMS)} is not installed (make setup-dev)")
    options = ChromeOptions()
    options.binary_location = str(paths[0])
    profile = tmp_path_factory.mktemp("profile")
    for argument in (
        "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        "--window-size=1400,1600", f"--user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options, ChromeService(str(paths[1])))
    browser.set_page_load_timeout(PATIENCE_S)
    yield browser
    browser.quit()


class Page:
    def __init__(self, browser: Chrome) -> None:
        self.browser = browser

    def one(self, selector: str) -> WebElement:
        return self.browser.find_element(By.CSS_SELECTOR, selector)

    def text(self, selector: str) -> str:
        return str(self.browser.execute_script(
            "return document.querySelector(arguments[0])?.textContent ?? ''", selector
        ))  # fmt: skip

    def classes(self, selector: str) -> set[str]:
        return set((self.one(selector).get_attribute("class") or "").split())

    def lane(self, direction: str) -> set[str]:
        """What is said of a direction by its classes."""
        return self.classes(f'.lane[data-direction="{direction}"]') - {"lane"}

    def said_of(self, direction: str) -> str:
        return self.text(f'.lane[data-direction="{direction}"] title')

    @property
    def time_s(self) -> float:
        return float(self.text("#clock").removesuffix(" s").replace("–", "-1"))

    def open(self, address: str) -> None:
        self.browser.get(address)

    def press(self, *keys: str) -> None:
        ActionChains(self.browser).send_keys(*keys).perform()

    def wait_for_time(self, time_s: float) -> None:
        wait_until(lambda: self.time_s == time_s, f"the page shows {time_s:g} s")


@pytest.fixture
def page(driver: Chrome) -> Iterator[Page]:
    driver.get_log("browser")  # of the test before
    yield Page(driver)
    errors = [entry for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert errors == []


@pytest.fixture
def known(load, tmp_path: Path) -> KnownRun:
    return KnownRun(tmp_path / "results", load())


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path / "results") as found:
        yield found


@pytest.fixture
def ended(known: KnownRun) -> KnownRun:
    with known.going_on():
        known.seconds(1, 20)
    return known


def test_the_link_that_limits_stands_out(page: Page, ended: KnownRun, address: str) -> None:
    page.open(f"{address}/runs/{ended.name}")
    page.wait_for_time(20)
    assert page.text("#state") == "met"
    assert page.lane("1>3") == {"limits", "worst"}
    for other in ("0>1", "1>4", "0>2"):
        assert page.lane(other) == set()
    # 1 Mbit/s of 1 Mbit/s; the longest queue of the twentieth second is of 40 packets.
    assert page.said_of("1>3").startswith(
        "1>3: 1.00 Mbit/s of 1.00 Mbit/s (100 %), queue at most 40 of 50p, 7 marked, 3 dropped"
    )
    assert page.text("#network .labels") == "100 % ◆7 ✕3"
    assert page.text("#busiest tr").startswith("1>3")
    assert "2.00 Mbit/s4 of 4" not in page.text("#layers")  # only h4 has a second layer
    assert page.text("#layers tr:nth-child(2)") == "22.00 Mbit/s1 of 4"


def test_time_can_be_dragged_back(page: Page, ended: KnownRun, address: str) -> None:
    page.open(f"{address}/runs/{ended.name}")
    page.wait_for_time(20)
    slider = page.one("#time")
    reach = slider.size["width"]
    drag = ActionChains(page.browser).move_to_element_with_offset(slider, reach // 2 - 9, 0)
    drag.click_and_hold().move_by_offset(-reach // 2, 0).release().perform()
    wait_until(lambda: 5 < page.time_s < 15, "the page shows a time in the middle")
    there = page.time_s
    assert f"queue at most {20 + there:g} of 50p" in page.said_of("1>3")
    assert page.browser.current_url.endswith(f"#t={there:g}")
    page.press(Keys.ARROW_LEFT)
    page.wait_for_time(there - 1)
    assert f"queue at most {19 + there:g} of 50p" in page.said_of("1>3")
    ten = ActionChains(page.browser).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT)
    ten.key_up(Keys.SHIFT).perform()
    page.wait_for_time(min(20, there + 9))
    page.press(Keys.HOME)
    page.wait_for_time(1)
    assert page.text("#layers tr:nth-child(2)") == "22.00 Mbit/s0 of 4"
    page.press(Keys.ARROW_LEFT)
    page.wait_for_time(1)
    # The address leads there again.
    page.press(*[Keys.ARROW_RIGHT] * 6)
    page.wait_for_time(7)
    page.browser.refresh()
    page.wait_for_time(7)
    chart = page.one(".chart > svg")
    ActionChains(page.browser).move_to_element(chart).click().perform()
    wait_until(lambda: 8 <= page.time_s <= 13, "a click at a chart's middle shows that time")


@pytest.mark.parametrize("way", ["picture", "table", "keyboard"])
def test_a_receiver_opens_its_page(page: Page, ended: KnownRun, address: str, way: str) -> None:
    page.open(f"{address}/runs/{ended.name}#t=12")
    page.wait_for_time(12)
    if way == "picture":
        page.one('.node[data-receiver="h3"] text').click()
    elif way == "table":
        page.one('#receivers a[data-receiver="h3"]').click()
    else:
        node = page.one('.node[data-receiver="h3"]')
        page.browser.execute_script("arguments[0].focus()", node)
        page.press(Keys.ENTER)
    wait_until(lambda: "/receivers/h3" in page.browser.current_url, "the receiver's page is open")
    page.wait_for_time(12)
    said = '#explanation[data-at="12"]'
    wait_until(lambda: page.text(said) != "", "it says why")
    assert "1.00 Mbit/s in the last 2 s; its path has room for 1.00 Mbit/s" in page.text(said)
    assert "to 1 of 2 layers since 0.1 s" in page.text(said)
    assert page.lane("1>3") == {"limits", "worst"}
    assert page.lane("1>4") == {"aside"}  # not on its path
    page.press(Keys.ARROW_RIGHT)
    wait_until(lambda: page.text('#explanation[data-at="13"]') != "", "it says why at 13 s")
    page.one("#to-run").click()
    wait_until(lambda: page.text("#title") == "A small tree", "the run's page is open again")


def test_a_run_under_way_is_followed_until_one_goes_back(
    page: Page, known: KnownRun, address: str
) -> None:
    with known.going_on():
        known.seconds(1, 4)
        page.open(f"{address}/runs/{known.name}")
        wait_until(lambda: page.time_s == 2, "the page shows 2 s")
        assert page.text("#state") == "live"
        known.seconds(5, 8)
        page.wait_for_time(6)
        assert "queue at most 26 of 50p" in page.said_of("1>3")
        page.press(Keys.ARROW_LEFT, Keys.ARROW_LEFT)
        page.wait_for_time(4)
        known.seconds(9, 12)
        wait_until(lambda: page.one("#time").get_attribute("max") == "9", "ten steps are there")
        assert page.time_s == 4  # the page stays where it was put
        page.press(Keys.END)
        page.wait_for_time(10)
        known.seconds(13, 16)
        page.wait_for_time(14)
        known.seconds(17, 20)
    wait_until(lambda: page.text("#state") == "met", "the page says that the run has ended")
    page.wait_for_time(20)


def test_a_receivers_page_follows_the_run(page: Page, known: KnownRun, address: str) -> None:
    with known.going_on():
        known.seconds(1, 4)
        page.open(f"{address}/runs/{known.name}/receivers/h4")
        wait_until(lambda: "1 of 2" in page.text('#explanation[data-at="2"]'), "one layer at 2 s")
        known.seconds(5, 9)
        wait_until(lambda: "2 of 2" in page.text('#explanation[data-at="7"]'), "two layers at 7 s")
    wait_until(lambda: page.text("#state") == "met", "the page says that the run has ended")


def test_the_list_shows_runs_under_way_first(
    page: Page, load, ended: KnownRun, tmp_path: Path, address: str
) -> None:
    other = KnownRun(tmp_path / "results", load())
    with other.going_on():
        other.seconds(1, 5)
        page.open(address)
        first = "#runs tr:first-child"
        wait_until(lambda: "5 of 20 s" in page.text(first), "the list shows how far the run is")
        assert page.text(f"{first} .verdict") == "live"
        assert other.name in page.text(first)
        assert page.text("#count") == "2 runs, 1 of them under way"
        page.one("#find").send_keys("met")
        wait_until(lambda: ended.name in page.text(first), "only the run that met is listed")
        page.one("#find").clear()
    wait_until(lambda: "0 of them under way" in page.text("#count"), "the list says it has ended")
    page.one(f'#runs a[href="/runs/{ended.name}"]').click()
    wait_until(lambda: page.text("#title") == "A small tree", "the run's page is open")


def test_names_from_an_experiment_are_text(page: Page, load, tmp_path: Path, address: str) -> None:
    run = KnownRun(tmp_path / "results", load())
    run.summary["title"] = "<img src=x onerror=alert(1)>"
    with run.going_on():
        run.seconds(1, 20)
    page.open(f"{address}/runs/{run.name}")
    wait_until(lambda: page.text("#title") == run.summary["title"], "the title is shown as it is")
    assert page.browser.find_elements(By.TAG_NAME, "img") == []
