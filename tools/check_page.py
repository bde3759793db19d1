#!/usr/bin/env python3
"""Opens profile pages in a headless Chromium: check_page.py PAGE.html... [--shots FOLDER] [--chromium PATH]

A page must be drawn within 2 s of being asked for, without an error of its script, fit the width of a phone, and be used by
keyboard: Tab reaches everything, with a ring around it, and leads on; in each picture arrows choose, Enter looks closer, Escape goes back to
where it was; what is chosen is shown and told to screen readers. Keys are pressed as a keyboard does. With --shots, pictures of each in
light and dark, at the width of a desk and of a phone, and of what was chosen by keyboard, to be looked at."""
import argparse
import pathlib
import shutil
import sys
import tempfile

import browser as browsing

LIMIT_MS = 2000
WIDTHS = {"desk": (1280, 1800), "phone": (390, 2200)}
SCHEMES = ["light", "dark"]
# Pictures: how many things there are to choose from, and whether what `TO_LOOK_AT` leads to can be looked at closer.
PICTURES = {"timeline": ("slices.flat().length", "slices.flat().length > 1"),
            "modules": ("modules.boxes.length", "modules.pick.kids.size > 0 && modules.pick !== modules.root"),
            "memory": ("blocks.length", "stepCount > 4"), "roof": ("roof.dots.length", "false")}  # there Enter leads to the table
TO_LOOK_AT = {"timeline": ["Home"], "modules": ["ArrowUp"] * 9 + ["ArrowDown"], "memory": ["End"], "roof": ["Home"]}
CONTROLS = ["group", "filter", "wide", "scroll"]

# What can be seen and heard now. A picture is its pixels, or its elements.
STATE = """(() => {
  const at = document.activeElement, ring = getComputedStyle(at);
  return {id: at.id, tag: at.tagName, text: at.textContent.slice(0, 20), ring: ring.outlineStyle !== "none" && parseFloat(ring.outlineWidth) >= 2,
    role: at.getAttribute("role"), label: at.getAttribute("aria-label"), told: document.getElementById("told").textContent,
    tip: getComputedStyle(document.getElementById("tip")).display !== "none",
    picture: at.toDataURL ? at.toDataURL() : at.tagName === "svg" ? at.innerHTML : ""};
})()"""


def press(browser, key, shift=False):
    browser.press(key, shift)
    return browser.value(STATE)


def drawn_problems(browser, page):
    """The page leaves the time when it was drawn in its root; an error before that leaves none."""
    browser.open(page.resolve().as_uri(), *WIDTHS["desk"], "light")
    drawn = browser.value("document.documentElement.dataset.drawn")
    if browser.errors or not drawn:
        return [f"{page}: {browser.errors[0] if browser.errors else 'was never drawn'}"]
    print(f"{page}: drawn after {drawn} ms")
    return [] if int(drawn) < LIMIT_MS else [f"{page}: drawn after {drawn} ms, not {LIMIT_MS}"]


def phone_problems(browser, page):
    browser.open(page.resolve().as_uri(), *WIDTHS["phone"], "dark")
    wide = browser.value("document.documentElement.scrollWidth")
    return [f"{page}: is {wide} wide on a phone of {WIDTHS['phone'][0]}"] if wide > WIDTHS["phone"][0] else []


def tab_to(browser, wanted):
    """Presses Tab until the element has the focus."""
    for _ in range(60):
        state = press(browser, "Tab")
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
    first = press(browser, "ArrowRight")
    if not first["tip"] or len(first["told"]) < 5 or first["picture"] == start["picture"]:
        yield "an arrow chooses nothing that is seen and told"
    seen = [first] + [press(browser, key) for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowRight", "ArrowUp", "End")]
    things, can_look = PICTURES[name]
    if min(len({state[what] for state in seen}) for what in ("told", "picture")) < min(3, browser.value(things)):
        yield "arrows do not lead from one to another"
    again = press(browser, "Home")
    if press(browser, "Home")["told"] != again["told"]:
        yield "Home leads to different places"
    before = [press(browser, key) for key in TO_LOOK_AT[name]][-1]
    if browser.value(can_look):
        closer = press(browser, "Enter")
        if closer["picture"] == before["picture"] or not closer["tip"]:
            yield "Enter does not look closer"
        if press(browser, "Escape")["picture"] != before["picture"]:
            yield "Escape does not go back"
    free = press(browser, "Escape")
    if free["tip"] or free["picture"] != start["picture"]:
        yield "Escape does not let go"
    if press(browser, "Escape")["id"] != name or press(browser, "Tab")["id"] == name:
        yield "holds the focus, or loses it"
    if press(browser, "Tab", shift=True)["id"] != name:
        yield "Shift and Tab do not lead back"


def zoom_problems(browser, name):
    start = tab_to(browser, name)
    if not start or browser.value(PICTURES[name][0]) <= 4:
        return
    seen = [press(browser, key)["picture"] for key in ("+", "+", "-", "0")]
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
    header = press(browser, "Tab")
    before = browser.value(sorts)
    after = press(browser, "Enter")
    if header["tag"] != "BUTTON" or browser.value(sorts) == before:
        yield "Enter on a header does not sort"
    if after["tag"] != "BUTTON" or after["text"].split()[0] != header["text"].split()[0]:
        yield "sorting loses the focus"
    if shown_parts(browser, ["more"]):
        count = browser.value("document.querySelectorAll('#table tbody tr').length")
        tab_to(browser, "more")
        state = press(browser, "Enter")
        if browser.value("document.querySelectorAll('#table tbody tr').length") <= count or state["id"] != "scroll":
            yield "the button does not show all rows, or loses the focus"
    if shown_parts(browser, ["roof"]):
        tab_to(browser, "roof")
        press(browser, "ArrowRight")
        found = press(browser, "Enter")
        if found["id"] != "filter" or not browser.value("document.getElementById('filter').value && document.querySelectorAll('#table tbody tr').length"):
            yield "Enter on a dot of the roofline does not look it up in the table"


def keyboard_problems(browser, page):
    browser.open(page.resolve().as_uri(), *WIDTHS["desk"], "light")
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
            browser.open(page.resolve().as_uri(), width, height, scheme)
            browser.shot(f"{folder}/{page.stem}-{place}-{scheme}.png")
            for name in ("modules", "memory"):
                if shown_parts(browser, [name]) and tab_to(browser, name):
                    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
                        press(browser, key)
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
        browser = browsing.Browser(options.chromium, folder)
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
