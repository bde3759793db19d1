"""suite.skips: what of the long suite does not pass yet, and why. A failure that is not in it fails the part, and so does an
entry that passes after all: the list can only be true."""

import fnmatch
import pathlib

PAGE = pathlib.Path(__file__).with_name("suite.skips")


def read(part):
    """(glob, reason) of each entry of a part."""
    lines = [line for line in PAGE.read_text().splitlines() if line and not line.startswith("#")]
    entries = [[word.strip() for word in line.split("|")] for line in lines]
    return [(name.partition("/")[2], reason) for name, reason, _ in entries if name.partition("/")[0] == part]


def judge(part, failed, passed, say):
    """How many of the names that failed have no entry, or passed and have one."""
    entries = read(part)
    listed = {name: next((reason for glob, reason in entries if fnmatch.fnmatchcase(name, glob)), None) for name in (*failed, *passed)}
    wrong = 0
    for name in failed:
        if listed[name] is None:
            say(f"  FAILED {name}: not in suite.skips")
            wrong += 1
    for name in passed:
        if listed[name] is not None:
            say(f"  FAILED {name}: passes, but is in suite.skips ({listed[name]})")
            wrong += 1
    return wrong
