#!/usr/bin/env python3
"""Opens profile pages in a headless Chromium: check_page.py PAGE.html... [--shots FOLDER] [--chromium PATH]

A page must be drawn within 2 s of being asked for, without an error of its script. With --shots, pictures of each in light and
dark, at the width of a desk and of a phone, to be looked at."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

LIMIT_MS = 2000
WIDTHS = {"desk": (1280, 1800), "phone": (390, 2200)}
SCHEMES = {"light": 1, "dark": 0}  # Blink's numbers


def chromium(options, *arguments):
    command = [options.chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120)


def problems_of(options, page):
    """The page leaves the time when it was drawn in its root; an error before that leaves none."""
    done = chromium(options, "--enable-logging=stderr", "--dump-dom", page.resolve().as_uri())
    drawn = re.search(r'data-drawn="(\d+)"', done.stdout)
    errors = re.findall(r"CONSOLE.*?(Uncaught[^\"]*)", done.stderr)
    if errors or not drawn:
        return [f"{page}: {errors[0] if errors else 'was never drawn'}"]
    print(f"{page}: drawn after {drawn[1]} ms")
    return [] if int(drawn[1]) < LIMIT_MS else [f"{page}: drawn after {drawn[1]} ms, not {LIMIT_MS}"]


def take_shots(options, page):
    for place, (width, height) in WIDTHS.items():
        for scheme, number in SCHEMES.items():
            to = pathlib.Path(options.shots) / f"{page.stem}-{place}-{scheme}.png"
            chromium(options, f"--window-size={width},{height}", f"--blink-settings=preferredColorScheme={number}",
                     f"--screenshot={to}", page.resolve().as_uri())


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pages", nargs="+", type=pathlib.Path)
    parser.add_argument("--shots")
    parser.add_argument("--chromium", default=shutil.which("chromium"))
    options = parser.parse_args()
    if not options.chromium:
        sys.exit("check_page.py: there is no chromium")
    problems = [p for page in options.pages for p in problems_of(options, page)]
    for page in options.pages if options.shots else []:
        take_shots(options, page)
    for problem in problems:
        print("FAILED", problem)
    print(f"{len(options.pages) - len(problems)} passed, {len(problems)} failed")
    return bool(problems)


sys.exit(main())
