#!/usr/bin/python3
"""Uses the page of a running server in Chromium.

usage: browser_check.py KVSHIFT RUNS [--screenshots DIR]

RUNS has the run folders 'shifted', with checkpoints, and 'plain'.
"""
import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from server import Server

command, runs = sys.argv[1:3]
pictures = sys.argv[4] if len(sys.argv) > 4 else None
VIEWS = ["playground", "map", "attention", "sliders", "compare", "training"]
TEXT = "line 3: the cat sat on the mat, the cat sat"
downloads = tempfile.mkdtemp()


def check(holds, what):
    if not holds:
        raise AssertionError(str(what)[:1500])


def start_browser():
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                     "--hide-scrollbars", "--window-size=1280,1000"]:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    browser.execute_cdp_cmd("Browser.setDownloadBehavior",
                            {"behavior": "allow", "downloadPath": downloads})
    return browser


class Page:
    """The page of a server, with waits."""

    def __init__(self, browser, server):
        self.browser = browser
        self.url = f"http://127.0.0.1:{server.port}/"

    def open(self, view, state=None):
        address = f"#{view}"
        if state is not None:
            address += "/" + urllib.parse.quote(json.dumps(state))
        self.browser.get("about:blank")  # so that the same address loads anew
        self.browser.get(self.url + address)
        self.wait(lambda: self.all("[role=tab][aria-selected=true]"), f"the view {view}")

    def all(self, selector):
        return self.browser.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        self.wait(lambda: self.all(selector), selector)
        return self.all(selector)[0]

    def run(self, script, *arguments):
        return self.browser.execute_script(script, *arguments)

    def texts(self, selector):
        return self.run("return [...document.querySelectorAll(arguments[0])]"
                        ".map((node) => node.textContent)", selector)

    def button(self, text):
        return next(b for b in self.all("main button") if b.text == text)

    def wait(self, condition, what, seconds=60):
        end = time.time() + seconds
        while True:
            try:
                result = condition()
            except Exception:  # an element was replaced meanwhile
                result = None
            if result:
                return result
            check(time.time() < end, f"waited for: {what}; notice: {self.texts('#notice')}")
            time.sleep(0.03)

    def expect_quiet(self):
        log = [entry for entry in self.browser.get_log("browser") if entry["level"] != "INFO"]
        check(not log, f"console: {log}")
        check(self.texts("#notice") == [""], self.texts("#notice"))


def number(text):
    return float(text.replace("−", "-"))


# ---- the files of the page over HTTP ----

def files(server):
    status, headers, body = server.request("GET", "/")
    check(status == 200 and headers["Content-Type"] == "text/html", headers)
    policy = headers["Content-Security-Policy"]
    check("default-src 'none'" in policy and "script-src 'self'" in policy and
          "unsafe" not in policy, policy)
    check(b"<script>" not in body and b"style=" not in body, "code within the page")
    tag = headers["ETag"]
    status, headers, body = server.request("GET", "/", headers={"If-None-Match": tag})
    check(status == 304 and body == b"" and headers["ETag"] == tag, (status, headers))
    check(server.request("GET", "/", headers={"If-None-Match": '"other"'})[0] == 200, "another tag")
    check(server.request("GET", "/page/main.js")[1]["Content-Type"] == "text/javascript", "scripts")
    for path in ["/page/", "/page/other.js", "/page/..%2flens.c"]:
        check(server.request("GET", path)[0] == 404, path)
    check(server.request("POST", "/lens/other", {})[0] == 404, "an unknown request")
    check(server.request("GET", "/lens/model")[0] == 405, "GET of a request")
    check(server.request("POST", "/lens/model", {}, {"Origin": "http://other.example"})[0] == 403,
          "a request of another page")


def scripts(server):
    """Texts only become text nodes: no module has a call that parses markup or code."""
    found, waiting = set(), {"main.js"}
    while waiting:
        name = waiting.pop()
        found.add(name)
        status, _, body = server.request("GET", f"/page/{name}")
        text = body.decode()
        check(status == 200, name)
        for call in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "DOMParser",
                     "eval(", "new Function", "setAttribute(\"style\"", "://"]:
            check(call not in text.replace("http://www.w3.org/2000/svg", ""), f"{name} has {call}")
        waiting |= set(re.findall(r'from "\./([a-z]+\.js)"', text)) - found
    check(len(found) >= 10, found)


def keys(browser):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("secret-key-1\n")
        file.flush()
        with Server(command, f"{runs}/plain", "--template", "raw", "--api-key-file",
                    file.name) as server:
            check(server.request("GET", "/")[0] == 200, "the page needs no key")
            check(server.request("POST", "/lens/model", {})[0] == 401, "requests need one")
            page = Page(browser, server)
            browser.get(page.url)
            page.one("#notice input").send_keys("secret-key-1", Keys.ENTER)
            page.wait(lambda: page.all("#generate"), "the page after the key")
            check([t.text for t in page.all("[role=tab]")] == ["Playground", "Attention"],
                  "a plain model has no shift to show")
            browser.get_log("browser")  # has the refused request


# ---- views ----

def playground(page, server):
    page.open("playground")
    page.run("localStorage.clear()")
    hostile = "<img src=x onerror=\"document.title='bad'\">"
    page.one("#prompt").send_keys(hostile + TEXT)
    for label, value in [("Temperature", "0"), ("Tokens", "60")]:
        field = page.run("return [...document.querySelectorAll('label')]"
                         ".find((l) => l.textContent === arguments[0]).querySelector('input')", label)
        field.clear()
        field.send_keys(value)
    page.run("window.seen = new Set(); new MutationObserver(() => seen.add("
             "document.querySelectorAll('.token').length))"
             ".observe(document.querySelector('.tokens'), {childList: true})")
    page.one("#generate").click()
    given = len((hostile + TEXT).encode())
    page.wait(lambda: len(page.all(".token")) == given + 60 and page.one("#generate").is_enabled(),
              "60 tokens")
    check(page.run("return seen.size") > 10, "tokens arrive one by one")
    check(page.run("return document.querySelectorAll('main img').length") == 0 and
          page.run("return document.title") == "kvshift", "markup of a text is text")
    check("".join(page.texts(".token")).replace("⏎", "").startswith(hostile), "the prompt is shown")

    # Colours and alternatives are those of the log-probabilities.
    ids = server.post("/lens/tokens", text=hostile + TEXT)[1]["ids"]
    greedy = server.complete(prompt=ids, max_tokens=60, temperature=0, return_token_ids=True)
    ids += greedy["choices"][0]["token_ids"]
    run = server.post("/lens/run", ids=ids, top=10)[1]
    colours = page.run("return [...document.querySelectorAll('.token')]"
                       ".map((t) => t.style.background)")
    shares = [float(c.split("/")[1].strip(" )")) if "/" in c else 0 for c in colours]
    for i, logprob in enumerate(run["logprobs"][1:], 1):
        expected = 0.62 * min(1, logprob / -6.907755)
        check(abs(shares[i] - expected) < 2e-3, f"token {i}: {colours[i]}, {logprob}")
    at = given + 5
    time.sleep(0.2)
    token = page.all(".token")[at]
    ActionChains(page.browser).move_to_element(token).perform()
    page.wait(lambda: len(page.all(".choice")) == 10, "ten alternatives")
    shown = page.texts(".choice .text")
    expected = [c["text"].replace("\n", "⏎").replace(" ", "·").replace("\t", "⇥") or f"‹{c['id']}›"
                for c in run["next"][at - 1]]
    check(shown == expected, (shown, expected))

    # A branch keeps the tokens before, has the alternative, and goes on; Back undoes it.
    before = page.texts(".token")
    token.click()
    page.all(".choice")[1].click()
    page.wait(lambda: len(page.all(".token")) == at + 61 and page.one("#generate").is_enabled(),
              "the branch")
    after = page.texts(".token")
    check(after[:at] == before[:at] and after[at] != before[at], "what a branch keeps")
    alternative = run["next"][at - 1][1]["id"]
    branch = server.complete(prompt=ids[:at] + [alternative], max_tokens=60, temperature=0)
    check("".join(after[at + 1:]).replace("⏎", "") ==
          branch["choices"][0]["text"].replace("⏎", ""), "the branch is what the model says")
    page.button("Back").click()
    page.wait(lambda: page.texts(".token") == before, "the text before the branch")

    # The keyboard reaches tokens and alternatives.
    page.run("document.querySelector('.token').focus()")
    ActionChains(page.browser).send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT, Keys.ENTER).perform()
    page.wait(lambda: page.run("return document.activeElement.className") == "choice", "a choice")
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    page.wait(lambda: page.run("return document.querySelector('.card').hidden") and
              page.run("return document.activeElement.classList.contains('token')"), "Escape")


def chat(page):
    page.open("playground")
    page.button("Chat").click()
    field = page.run("return [...document.querySelectorAll('label')]"
                     ".find((l) => l.textContent === 'Tokens').querySelector('input')")
    field.clear()
    field.send_keys("8")
    for i in [1, 2]:
        page.one("#message").send_keys("the <b>cat</b>", Keys.ENTER)
        page.wait(lambda: len(page.all(".message")) == 2 * i and page.button("Send").is_enabled() and
                  len([t for t in page.all(".message")[-1].find_elements(By.CSS_SELECTOR, ".token")
                       if t.is_displayed()]) == 8, "an answer of 8 tokens")
    check(page.run("return document.querySelectorAll('main b').length") == 0, "text is text")
    page.one(".message.assistant")
    first = page.all(".message.assistant")[0].find_elements(By.CSS_SELECTOR, ".token:not(.given)")
    time.sleep(0.3)
    ActionChains(page.browser).move_to_element(first[3]).perform()
    page.wait(lambda: len(page.all(".choice")) == 10, "alternatives in an answer")
    first[3].click()
    page.all(".choice")[2].click()
    page.wait(lambda: len(page.all(".message")) == 2 and page.button("Send").is_enabled(),
              "a branch of an earlier answer removes what follows")


def analysis():
    printed = subprocess.run(
        [command, "analyze", f"{runs}/shifted", "--json", "--exact", "--length", "24",
         "--sequences", "1", "--seed", "1"], capture_output=True, check=True, text=True)
    return json.loads(printed.stdout)


def shift_map(page):
    page.open("map")
    rows = page.wait(lambda: [r.text.split() for r in page.all("tbody tr")], "the numbers")
    coefficients = analysis()["coefficients"]
    check(len(rows) == len(coefficients["kv_heads"]) == 4, rows)
    for row, head in zip(rows, coefficients["kv_heads"]):
        a, b = head["alpha"], head["beta"]
        expected = [head["layer"], head["head"], a[1], a[0], head["alpha_sum"], b[1], b[0],
                    head["beta_sum"]]
        check(all(abs(number(r) - e) <= 0.5001e-4 for r, e in zip(row, expected)), (row, head))
        check(row[8] == head["kind"], (row, head))
    counts = {node.get_attribute("data-kind"): int(node.text) for node in page.all("[data-kind]")}
    check(counts == coefficients["kinds"], (counts, coefficients["kinds"]))
    slider = page.one("#checkpoint")
    steps = sorted(int(name[5:]) for name in os.listdir(f"{runs}/shifted/ckpt")
                   if name.startswith("step-"))
    check(len(steps) >= 4 and slider.get_attribute("max") == str(len(steps)), steps)
    before = page.texts("tbody td")
    slider.send_keys(Keys.HOME)
    page.wait(lambda: page.texts("tbody td") != before, "the first checkpoint")
    check(f"step {steps[0]}" in page.one("main").text, "its step")
    slider.send_keys(Keys.END)
    page.wait(lambda: page.texts("tbody td") == before, "the model itself")
    head = page.one("[data-head='1.1']")
    ActionChains(page.browser).move_to_element(head).perform()
    page.wait(lambda: "layer 1, head 1" in page.one("#map-about").text, "a head's numbers")


def attention(page, server):
    page.open("attention", {"text": TEXT})
    page.wait(lambda: len(page.all("[data-head]")) == 8, "eight heads")
    page.one("#repeat-random").click()
    page.wait(lambda: len(page.all(".token")) == 48, "the repeated sequence")
    page.wait(lambda: "24 of 48" in page.one("main").text, "scores")
    for side, button in [("by_place", "A"), ("by_content", "A_V")]:
        page.button(button).click()
        for score in ["induction", "duplicate", "previous"]:
            page.button(score.capitalize()).click()
            labels = {n.get_attribute("data-head"): n.get_attribute("aria-label")
                      for n in page.all("[data-head]")}
            for head in analysis_heads:
                shown = number(labels[f"{head['layer']}.{head['head']}"].split(": ")[1])
                check(abs(shown - head[side][score]) <= 0.501e-3, (shown, side, score, head))

    # A square of a head: the readout has the values of the library.
    page.open("attention", {"text": TEXT, "layer": 1, "head": 2})
    count = len(TEXT)
    canvas = page.all("canvas")[0]
    page.wait(lambda: canvas.get_attribute("data-tokens") == str(count), "the squares")
    size = canvas.size["width"]
    page.run("arguments[0].scrollIntoView({block: 'center'})", canvas)
    query, key = 30, 20
    offset = lambda i: int((i + 0.5) * size / count - size / 2)
    ActionChains(page.browser).move_to_element_with_offset(canvas, offset(key),
                                                           offset(query)).perform()
    readout = page.wait(lambda: "From token" in page.one("#attention-readout").text and
                        page.one("#attention-readout").text, "the readout")
    ids = server.post("/lens/tokens", text=TEXT)[1]["ids"]
    _, _, body = server.request("POST", "/lens/attention", {"ids": ids, "layer": 1, "head": 2})
    values = memoryview(body).cast("f")
    check(len(values) == 2 * count * count and
          abs(sum(values[query * count:(query + 1) * count]) - 1) < 1e-5, "rows of A sum to 1")
    check(f"From token {query} " in readout and f"to {key} " in readout, readout)
    a = number(readout.split(": A ")[1].split(", A_V")[0])
    check(abs(a - values[query * count + key]) <= 1e-3 * max(abs(a), 1e-6), (readout, a))
    canvas.click()
    check(len(page.all(".token.marked")) == 1, "a click keeps the token")
    ActionChains(page.browser).send_keys(Keys.ESCAPE).perform()
    page.wait(lambda: not page.all(".token.marked"), "Escape lets go")


def sliders(page, server):
    page.open("sliders", {"text": TEXT, "layer": 0, "head": 1})
    page.wait(lambda: page.all("#loss-before"), "the loss of the model")
    page.wait(lambda: page.one("#loss-after").text == "–", "no changes")
    ids = server.post("/lens/tokens", text=TEXT)[1]["ids"]
    own = server.post("/lens/run", ids=ids)[1]["logprobs"]
    mean = lambda logprobs: -sum(logprobs[1:]) / (len(ids) - 1)
    check(abs(number(page.one("#loss-before").text) - mean(own)) < 1e-4, "the loss of the model")
    tap = page.one("[data-tap=k1]")
    for _ in range(12):
        tap.send_keys(Keys.ARROW_RIGHT)
    value = float(tap.get_attribute("value"))
    shift = server.post("/lens/model")[1]["models"][0]["shift"]
    edits = [{"layer": 0, "target": "k", "head": 1, "taps": [shift["k"][0][1][0], value]}]
    changed = server.post("/lens/run", ids=ids, edits=edits)[1]["logprobs"]
    check(changed != own, "the taps have an effect")
    page.wait(lambda: abs(number(page.one("#loss-after").text) - mean(changed)) < 1e-4,
              "the loss with the slider's taps")
    check(any(page.run("return [...document.querySelectorAll('.token')]"
                       ".map((t) => t.style.background)")), "tokens have colours")
    check(len(page.all(".edits li")) == 1, "one change")
    page.button("Model without shift").click()
    page.wait(lambda: len(page.all(".edits li")) == 8, "keys and values of four heads")
    without = [{"layer": l, "target": t, "head": h, "taps": [0, 1]}
               for l in range(2) for t in "kv" for h in range(2)]
    removed = server.post("/lens/run", ids=ids, edits=without)[1]["logprobs"]
    page.wait(lambda: abs(number(page.one("#loss-after").text) - mean(removed)) < 1e-4,
              "the loss without a shift")
    address = page.browser.current_url
    page.one("#undo").click()
    page.wait(lambda: len(page.all(".edits li")) == 1, "undo")
    while page.one("#undo").is_enabled():
        page.one("#undo").click()
    page.wait(lambda: page.one("#loss-after").text == "–", "all undone")
    page.browser.get("about:blank")
    page.browser.get(address)
    page.wait(lambda: len(page.all(".edits li")) == 8 and
              abs(number(page.one("#loss-after").text) - mean(removed)) < 1e-4, "the link")


def compare(page, server):
    page.open("compare", {"text": TEXT})
    ids = server.post("/lens/tokens", text=TEXT)[1]["ids"]
    losses = [-sum(server.post("/lens/run", ids=ids, model=m)[1]["logprobs"][1:]) / (len(ids) - 1)
              for m in ["shifted", "plain"]]
    page.wait(lambda: [abs(number(b.text) - l) < 1e-4
                       for b, l in zip(page.all(".figures b"), losses)] == [True, True],
              "the losses of both models")
    check(len(page.all(".token")) == 3 * len(ids), "the difference and both texts")


def training(page):
    page.open("training")
    page.wait(lambda: len(page.all("polyline")) >= 6, "curves")
    check("Samples" in page.one("main").text, "samples")
    page.button("CSV").click()
    rows = page.wait(lambda: read_csv("loss.csv"), "the numbers of the curves")
    log = [json.loads(line) for line in open(f"{runs}/shifted/train.jsonl")][1:]
    shown = {int(step): float(value) for line, step, value in rows[1:]
             if line == "shifted: loss"}
    check(shown == {r["step"]: r["loss"] for r in log}, "the CSV has the losses of the log")
    os.remove(f"{downloads}/loss.csv")

    # A run that goes on: the next record appears.
    def drawn():
        return page.run("return [...document.querySelectorAll('polyline')]"
                        ".map((line) => line.getAttribute('points')).join()")

    before = drawn()
    with open(f"{runs}/shifted/train.jsonl", "a") as file:
        file.write(json.dumps(dict(log[-1], step=41, loss=1.25)) + "\n")
    page.wait(lambda: drawn() != before, "curves with a new record")
    page.button("CSV").click()
    rows = page.wait(lambda: read_csv("loss.csv"), "the numbers of the new curves")
    check(["shifted: loss", "41", "1.25"] in rows, "the CSV has the new record")


def read_csv(name):
    path = f"{downloads}/{name}"
    if not os.path.exists(path):
        return None
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def exports(page):
    page.open("map")
    page.wait(lambda: page.all("[data-head]"), "heads")
    page.button("SVG").click()
    path = f"{downloads}/shift-map.svg"
    page.wait(lambda: os.path.exists(path) and os.path.getsize(path) > 0, "a drawing")
    text = open(path, encoding="utf-8").read()
    check(text.startswith("<svg") and "var(" not in text and "layer 1" in text, text[:300])
    # Every panel that shows something can be saved.
    for view, without in [("playground", ["Prompt"]), ("map", []), ("attention", ["Text"]),
                          ("sliders", ["Text"]), ("compare", ["Text", "Taps of plain"]),
                          ("training", ["Runs"])]:
        page.open(view, LOOKS.get(view))
        page.wait(lambda: len(page.all("main .panel h2")) > 1, view)
        page.wait(lambda: page.all("polyline") or view != "training", "curves")
        missing = page.run(
            "return [...document.querySelectorAll('main .panel')].filter((p) => p.offsetHeight > 0 &&"
            " p.querySelector('h2') && !p.querySelector('button[title^=Save]'))"
            ".map((p) => p.querySelector('h2').textContent)")
        check([m for m in missing if not m.startswith("Taps of layer")] == without, (view, missing))
    page.open("sliders", LOOKS["sliders"])
    page.wait(lambda: len(page.all(".edits li")) == 2, "two changes")
    page.all(".edits")[0].find_element(By.XPATH, "..").find_elements(
        By.CSS_SELECTOR, "button[title^='Save the numbers']")[0].click()
    rows = page.wait(lambda: read_csv("taps.csv"), "the changes")
    check(rows[0] == ["layer", "head", "tap", "model", "changed"] and len(rows) == 5 and
          [row[4] for row in rows[1:]] == ["1", "0", "0.5", "0.5"], rows)


def keyboard(page):
    page.open("playground")
    page.run("document.querySelector('[role=tab]').focus()")
    ActionChains(page.browser).send_keys(Keys.ARROW_RIGHT).perform()
    page.wait(lambda: page.one("[aria-selected=true]").text == "Shift map", "the next tab")


# ---- widths and pictures ----

LOOKS = {"playground": {"text": TEXT}, "attention": {"text": TEXT, "layer": 1, "head": 2},
         "compare": {"text": TEXT},
         "sliders": {"text": TEXT, "layer": 1, "head": 1, "edits": [
             {"layer": 1, "target": "k", "head": 1, "taps": [0, 1]},
             {"layer": 1, "target": "v", "head": 1, "taps": [0.5, 0.5]}]}}


def generate_for_picture(page):
    """A text, and the alternatives of a token."""
    page.one("#generate").click()
    page.wait(lambda: len(page.all(".token")) > 80 and page.one("#generate").is_enabled(), "a text")
    time.sleep(0.3)
    page.all(".token")[len(TEXT) + 3].click()
    page.wait(lambda: len(page.all(".choice")) == 10, "ten alternatives")


def looks(page):
    for name, width, scheme in [("light", 1280, "light"), ("dark", 1280, "dark"),
                                ("narrow", 400, "light")]:
        page.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": scheme}]})
        for view in VIEWS:
            set_size(page, width, 1000)
            page.open(view, LOOKS.get(view))
            page.wait(lambda: page.all("main .panel"), view)
            if view == "playground":
                generate_for_picture(page)
            time.sleep(0.5)
            check(page.run("return document.documentElement.dataset.theme") == scheme, scheme)
            check(page.run("return document.documentElement.scrollWidth") <= width,
                  f"{view} is wider than {width} pixels")
            check(page.run("const bar = document.getElementById('tabs');"
                           "return bar.scrollWidth <= bar.clientWidth"), "all tabs are visible")
            if pictures:
                set_size(page, width, page.run("return document.documentElement.scrollHeight"))
                page.browser.save_screenshot(f"{pictures}/{view}-{name}.png")
    set_size(page, 1280, 1000)


def set_size(page, width, height):
    page.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})


if pictures:
    os.makedirs(pictures, exist_ok=True)
analysis_heads = analysis()["heads"]
browser = start_browser()
try:
    with Server(command, f"{runs}/shifted", "--template", "raw", "--compare", f"{runs}/plain",
                "--runs", runs) as server:
        page = Page(browser, server)
        files(server)
        scripts(server)
        for test in [lambda: playground(page, server), lambda: chat(page), lambda: shift_map(page),
                     lambda: attention(page, server), lambda: sliders(page, server),
                     lambda: compare(page, server), lambda: training(page), lambda: exports(page),
                     lambda: keyboard(page), lambda: looks(page)]:
            test()
            page.expect_quiet()
        check(server.stop() == 0, "the server ends with 0")
    keys(browser)
finally:
    browser.quit()
    shutil.rmtree(downloads)
print("the page works")
