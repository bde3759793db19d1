#!/usr/bin/env python3
"""Opens profile pages in a headless Chromium: check_page.py PAGE.html... [--shots FOLDER] [--chromium PATH]

A page must be drawn within 2 s of being asked for, without an error of its script, fit the width of a phone, and be used by
keyboard: Tab reaches everything, with a ring around it, and leads on; in each picture arrows choose, Enter looks closer, Escape goes back to
where it was; what is chosen is shown and told to screen readers. Keys are pressed as a keyboard does. With --shots, pictures of each in
light and dark, at the width of a desk and of a phone, and of what was chosen by keyboard, to be looked at."""
import argparse
import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

LIMIT_MS = 2000
WIDTHS = {"desk": (1280, 1800), "phone": (390, 2200)}
SCHEMES = ["light", "dark"]
# Pictures: how many things there are to choose from, and whether what `TO_LOOK_AT` leads to can be looked at closer.
PICTURES = {"timeline": ("slices.flat().length", "slices.flat().length > 1"),
            "modules": ("modules.boxes.length", "modules.pick.kids.size > 0 && modules.pick !== modules.root"),
            "memory": ("blocks.length", "stepCount > 4"), "roof": ("roof.dots.length", "false")}  # there Enter leads to the table
TO_LOOK_AT = {"timeline": ["Home"], "modules": ["ArrowUp"] * 9 + ["ArrowDown"], "memory": ["End"], "roof": ["Home"]}
CONTROLS = ["group", "filter", "wide", "scroll"]
CODES = {"Tab": 9, "Enter": 13, "Escape": 27, "PageUp": 33, "PageDown": 34, "End": 35, "Home": 36,
         "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40, "+": 187, "-": 189, "0": 48}

# What can be seen and heard now. A picture is its pixels, or its elements.
STATE = """(() => {
  const at = document.activeElement, ring = getComputedStyle(at);
  return {id: at.id, tag: at.tagName, text: at.textContent.slice(0, 20), ring: ring.outlineStyle !== "none" && parseFloat(ring.outlineWidth) >= 2,
    role: at.getAttribute("role"), label: at.getAttribute("aria-label"), told: document.getElementById("told").textContent,
    tip: getComputedStyle(document.getElementById("tip")).display !== "none",
    picture: at.toDataURL ? at.toDataURL() : at.tagName === "svg" ? at.innerHTML : ""};
})()"""


class Browser:
    """A page in Chromium, spoken to in its debugging protocol over a pipe: messages end with a zero byte."""

    def __init__(self, program, folder):
        to_read, self.output = os.pipe()
        self.input, to_write = os.pipe()

        def place():  # the protocol's pipes are the descriptors 3 and 4
            kept = os.dup(to_read), os.dup(to_write)
            os.dup2(kept[0], 3)
            os.dup2(kept[1], 4)

        command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
                   f"--user-data-dir={folder}", "about:blank"]
        self.process = subprocess.Popen(command, preexec_fn=place, pass_fds=(3, 4), stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.buffer, self.count, self.session, self.errors = b"", 0, None, []
        target = next(t for t in self.call("Target.getTargets")["targetInfos"] if t["type"] == "page")
        self.session = self.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Runtime"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            part = os.read(self.input, 1 << 20)
            if not part:
                raise RuntimeError("Chromium has ended")
            self.buffer += part
        message, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(message)
        if message.get("method") == "Runtime.exceptionThrown":
            details = message["params"]["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        return message

    def call(self, method, **params):
        self.count += 1
        message = {"id": self.count, "method": method, "params": params, **({"sessionId": self.session} if self.session else {})}
        os.write(self.output, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.count:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def value(self, script):
        return self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"].get("value")

    def open(self, page, width, height, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.errors = []
        self.call("Page.navigate", url=page.resolve().as_uri())
        while self.receive().get("method") != "Page.loadEventFired":
            pass

    def press(self, key, shift=False):
        one = {"key": key, "code": key, "windowsVirtualKeyCode": CODES[key], "modifiers": 8 if shift else 0}
        text = {"Enter": "\r"}.get(key, key if len(key) == 1 else "")
        self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", **one, **({"text": text} if text else {}))
        self.call("Input.dispatchKeyEvent", type="keyUp", **one)
        return self.value(STATE)

    def shot(self, to):
        pathlib.Path(to).write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def close(self):
        self.session = None
        self.call("Browser.close")
        self.process.wait(timeout=30)


def drawn_problems(browser, page):
    """The page leaves the time when it was drawn in its root; an error before that leaves none."""
    browser.open(page, *WIDTHS["desk"], "light")
    drawn = browser.value("document.documentElement.dataset.drawn")
    if browser.errors or not drawn:
        return [f"{page}: {browser.errors[0] if browser.errors else 'was never drawn'}"]
    print(f"{page}: drawn after {drawn} ms")
    return [] if int(drawn) < LIMIT_MS else [f"{page}: drawn after {drawn} ms, not {LIMIT_MS}"]


def phone_problems(browser, page):
    browser.open(page, *WIDTHS["phone"], "dark")
    wide = browser.value("document.documentElement.scrollWidth")
    return [f"{page}: is {wide} wide on a phone of {WIDTHS['phone'][0]}"] if wide > WIDTHS["phone"][0] else []


def tab_to(browser, wanted):
    """Presses Tab until the element has the focus."""
    for _ in range(60):
        state = browser.press("Tab")
        if state["id"] == wanted:
            return state
    return None


def picture_problems(browser, name):
    """One picture, reached by Tab: choose, go on, look closer, back, let go, and leave."""
    start = tab_to(browser, name)
    if not start:
        yield "Tab does not reach it"
        return
    if not (start["ring"] and start["role"] and start["label"]):
        yield f"has no ring, role or label when it has the focus: {start['ring']}, {start['role']}, {start['label']}"
    first = browser.press("ArrowRight")
    if not first["tip"] or len(first["told"]) < 5 or first["picture"] == start["picture"]:
        yield "an arrow chooses nothing that is seen and told"
    seen = [first] + [browser.press(key) for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "End")]
    things, can_look = PICTURES[name]
    if min(len({state[what] for state in seen}) for what in ("told", "picture")) < min(3, browser.value(things)):
        yield "arrows do not lead from one to another"
    again = browser.press("Home")
    if browser.press("Home")["told"] != again["told"]:
        yield "Home leads to different places"
    before = [browser.press(key) for key in TO_LOOK_AT[name]][-1]
    if browser.value(can_look):
        closer = browser.press("Enter")
        if closer["picture"] == before["picture"] or not closer["tip"]:
            yield "Enter does not look closer"
        if browser.press("Escape")["picture"] != before["picture"]:
            yield "Escape does not go back"
    free = browser.press("Escape")
    if free["tip"] or free["picture"] != start["picture"]:
        yield "Escape does not let go"
    if browser.press("Escape")["id"] != name or browser.press("Tab")["id"] == name:
        yield "holds the focus, or loses it"
    if browser.press("Tab", shift=True)["id"] != name:
        yield "Shift and Tab do not lead back"


def zoom_problems(browser, name):
    start = tab_to(browser, name)
    if not start or browser.value(PICTURES[name][0]) <= 4:
        return
    seen = [browser.press(key)["picture"] for key in ("+", "+", "-", "0")]
    if start["picture"] in seen[:3] or seen[3] != start["picture"]:
        yield "+ and - do not zoom, or 0 does not show all"


def shown_parts(browser, names):
    return [name for name in names if browser.value(f"document.getElementById('{name}').getClientRects().length > 0")]


def table_problems(browser):
    """Headers sort and keep the focus; a dot of the roofline is looked up; rows scroll; more of them are shown."""
    for name in CONTROLS:
        state = tab_to(browser, name)
        if not state or not state["ring"]:
            yield f"Tab does not reach {name}, or no ring shows it"
    sorts = "[...document.querySelectorAll('th')].map(h => h.ariaSort).join()"
    header = browser.press("Tab")
    before = browser.value(sorts)
    after = browser.press("Enter")
    if header["tag"] != "BUTTON" or browser.value(sorts) == before:
        yield "Enter on a header does not sort"
    if after["tag"] != "BUTTON" or after["text"].split()[0] != header["text"].split()[0]:
        yield "sorting loses the focus"
    if shown_parts(browser, ["more"]):
        count = browser.value("document.querySelectorAll('#table tbody tr').length")
        tab_to(browser, "more")
        state = browser.press("Enter")
        if browser.value("document.querySelectorAll('#table tbody tr').length") <= count or state["id"] != "scroll":
            yield "the button does not show all rows, or loses the focus"
    if shown_parts(browser, ["roof"]):
        tab_to(browser, "roof")
        browser.press("ArrowRight")
        found = browser.press("Enter")
        if found["id"] != "filter" or not browser.value("document.getElementById('filter').value && document.querySelectorAll('#table tbody tr').length"):
            yield "Enter on a dot of the roofline does not look it up in the table"


def keyboard_problems(browser, page):
    browser.open(page, *WIDTHS["desk"], "light")
    shown = shown_parts(browser, PICTURES)
    problems = [f"{name} by keyboard: {problem}" for name in shown for problem in picture_problems(browser, name)]
    problems += [f"{name} by keyboard: {problem}" for name in shown if name in ("timeline", "memory")
                 for problem in zoom_problems(browser, name)]
    if shown_parts(browser, ["table"]):  # a page of a plan has none
        problems += [f"table by keyboard: {problem}" for problem in table_problems(browser)]
    return [f"{page}: {problem}" for problem in problems + browser.errors] or ([] if shown else [f"{page}: shows no picture"])


def take_shots(browser, page, folder):
    for place, (width, height) in WIDTHS.items():
        for scheme in SCHEMES:
            browser.open(page, width, height, scheme)
            browser.shot(f"{folder}/{page.stem}-{place}-{scheme}.png")
            for name in ("modules", "memory"):
                if shown_parts(browser, [name]) and tab_to(browser, name):
                    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
                        browser.press(key)
                    browser.shot(f"{folder}/{page.stem}-{place}-{scheme}-{name}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--shots")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("check_page.py: there is no chromium")
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(options.chromium, folder)
        for page in options.pages:
            for check in (drawn_problems, phone_problems, keyboard_problems):
                problems = check(browser, page)
                for problem in problems:
                    print("FAILED", problem)
                passed, failed = passed + (not problems), failed + bool(problems)
            if options.shots:
                take_shots(browser, page, options.shots)
        browser.close()
    print(f"{passed} passed, {failed} failed")
    return failed != 0


sys.exit(main())
