"""The page in a headless Chromium: what it shows, what the form sends, and that nothing leaks in.

With ESTIMAND_SCREENSHOTS=DIRECTORY the pictures are kept there, to be looked at.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.serving import making
from tests.serving.page.browser import Browser, find_browser
from tests.serving.running import Server, config_text

HOSTILE = "<img src=x onerror=hacked=1>&\\\"'"


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Browser, Server]]:
    program = find_browser()
    if program is None:
        pytest.skip("no Chromium or Chrome is installed (Debian: apt-get install chromium)")
    folder = tmp_path_factory.mktemp("page")
    making.write_half_plus(folder / "half" / "1", 2.0)
    making.write_half_plus(folder / "half" / "2", 3.0)
    (folder / "<b>1" / "7").mkdir(parents=True)
    (folder / "<b>1" / "7" / "saved_model.pb").write_bytes(b"no model")
    escaped = HOSTILE.replace("\\", "\\\\").replace('"', '\\"')
    config = folder / "models.config"
    config.write_text(
        config_text(
            {"half": str(folder / "half"), escaped: str(folder / "<b>1")},
            "model_version_policy { all {} }",
        )
    )
    server = Server(folder / "log", f"--model_config_file={config}", "--max_num_load_retries=0")
    browser = None
    try:
        server.wait_for_version("half", 2)
        server.wait_for_version("half", 1)
        browser = Browser(program, folder / "profile")
        browser.size(1280, 900)
        browser.open(server.url("/"))
        browser.wait_for("document.querySelectorAll('article').length == 2")
        yield browser, server
    finally:
        if browser is not None:
            browser.close()
        server.stop()


def value(name: str) -> str:
    return f"document.getElementById('{name}').value"


def text(name: str) -> str:
    return f"document.getElementById('{name}').textContent"


def send(browser: Browser) -> str:
    browser.run("document.getElementById('outcome').textContent = ''")
    browser.run("document.getElementById('send').click()")
    return browser.wait_for(text("outcome"))


def test_models_versions_and_load_errors_are_shown_as_text(shown) -> None:
    browser, _ = shown
    browser.wait_for("document.body.innerText.includes('FAILED')")
    page = browser.text()
    assert HOSTILE in page
    assert "<b>1" in page  # in the path of the load error
    assert page.count("AVAILABLE") == 2
    assert browser.run("document.querySelectorAll('main img, main b b').length") == 0
    assert browser.run("typeof hacked") == "undefined"


def test_the_form_sends_what_the_signature_takes_and_shows_the_answer(shown) -> None:
    browser, server = shown
    browser.wait_for(f"{value('signature')} == 'serving_default'")
    assert browser.run(value("body")) == '{"instances": [[1.0]]}'
    assert browser.run(text("contract")) == "NameTypeShapeinxfloat32[?, 1]outyfloat32[?, 1]"
    assert send(browser) == "200 OK"
    assert browser.run(text("text")) == '{"predictions": [[3.5]]}'  # of version 2
    address = server.url("/v1/models/half:predict")
    assert browser.run(text("curl")) == f"curl -d '{{\"instances\": [[1.0]]}}' {address}"


def test_a_value_is_changed_and_the_other_answer_is_seen(shown) -> None:
    browser, _ = shown
    assert send(browser) == "200 OK"
    assert browser.run(text("tried")) == ""
    browser.run("document.getElementById('what-if').open = true")
    browser.wait_for(f"{text('tried')} == 'as it is[3.5]'")
    field = "document.querySelector('#row input')"
    assert browser.run(f"{field}.value") == "[1]"
    browser.run(f"{field}.value = '[3]'; {field}.dispatchEvent(new Event('change'))")
    browser.wait_for(f"{text('tried')}.startsWith('value: [3][4.5]')")
    assert browser.run("firstRow('{\"instances\": [12345678901234567890]}')") is None
    named = 'firstRow(\'{"examples": [{"x": 1}]}\')'
    assert browser.run(f"JSON.stringify({named}.request({{x: 2}}))") == '{"examples":[{"x":2}]}'


def test_another_version_and_another_signature(shown) -> None:
    browser, _ = shown
    browser.run(f"{value('version')} = '1'")
    browser.run("document.getElementById('version').dispatchEvent(new Event('change'))")
    browser.wait_for("described.version == '1'")
    browser.run(f"{value('signature')} = 'regress_x_to_y'")
    browser.run("document.getElementById('signature').dispatchEvent(new Event('change'))")
    assert "examples" in browser.run(value("body"))
    assert send(browser) == "200 OK"
    assert browser.run(text("text")).split() == ['{"results":', "[2.5]}"]


def test_errors_of_the_server_are_shown_and_numbers_are_not_rounded(shown) -> None:
    browser, _ = shown
    browser.run(f"{value('body')} = '{{'")
    assert send(browser).startswith("400")
    assert "error" in browser.run(text("text"))
    long = '{"a": [12345678901234567890, NaN, 1.0], "b": {"c": "x,[]"}}'
    assert browser.run(f"readable({long!r})") == long


def test_rates_and_latencies_move(shown) -> None:
    browser, server = shown
    for _ in range(20):
        server.post("/v1/models/half:predict", {"instances": [1.0]})
    browser.wait_for("document.querySelectorAll('article .bar').length > 0")
    browser.wait_for("document.querySelectorAll('article .path').length > 0")
    figures = browser.run("document.querySelector('article .figures').innerText")
    assert "requests/s" in figures
    assert "µs" in figures or "ms" in figures


def test_what_is_being_written_survives_the_next_poll(shown) -> None:
    browser, _ = shown
    browser.run(f"{value('body')} = 'half a request'")
    polls = browser.run("histories.get('half').at(-1).at")
    browser.wait_for(f"histories.get('half').at(-1).at > {polls}")
    assert browser.run(value("body")) == "half a request"


def test_it_fits_a_phone_and_follows_the_colours_of_the_system(shown, tmp_path: Path) -> None:
    browser, _ = shown
    folder = Path(os.environ.get("ESTIMAND_SCREENSHOTS", tmp_path))
    backs = set()
    for name, (width, height, dark) in {
        "light": (1280, 900, False),
        "dark": (1280, 900, True),
        "phone": (390, 844, False),
    }.items():
        browser.size(width, height, dark)
        browser.screenshot(folder / f"{name}.png", whole=True)
        assert browser.run("document.documentElement.scrollWidth") <= width
        backs.add(browser.run("getComputedStyle(document.body).backgroundColor"))
    assert len(backs) == 2
    assert (folder / "phone.png").stat().st_size > 10_000


def test_the_browser_found_nothing_to_complain_of_and_asked_nobody_else(shown) -> None:
    browser, server = shown
    assert browser.problems == []
    assert browser.asked
    assert {url for url in browser.asked if not url.startswith((server.url("/"), "data:"))} == set()


def test_a_server_that_has_gone_is_told(shown) -> None:
    browser, server = shown
    server.stop()
    browser.wait_for("!document.getElementById('away').hidden")
    assert "does not answer" in browser.run(text("away"))
