"""What a model becomes, as files: docs/debugging.md."""

import os
import shutil

_STARTS = ("graph.", "generated.", "plan.", "loops.txt", "timings.txt", "options.txt")
_OPTIONS = {"backend": "backend", "disabled_passes": "disable-passes", "isa": "isa", "math": "math", "precision": "precision", "seed": "seed",
            "specialise": "specialise", "state": "state", "inject": "inject"}


def _remove_old(folder):
    """Files of a model that was here before, and of its variants."""
    for name in os.listdir(folder):
        path = os.path.join(folder, name)
        if name.startswith(_STARTS) and os.path.isfile(path):
            os.unlink(path)
        elif "=" in name and os.path.isdir(path) and all(n.startswith(_STARTS) for n in os.listdir(path)):
            shutil.rmtree(path)


def dump_into(folder, name, options):
    """Takes what the library tells, into files of `folder`, as --debug-dir of the command writes them."""
    folder = os.path.abspath(os.fspath(folder))
    os.makedirs(folder, exist_ok=True)
    _remove_old(folder)
    with open(os.path.join(folder, "options.txt"), "w", encoding="utf-8") as file:
        file.write(f"model {name}\n")
        file.writelines(f"{word} {options[key]}\n" for key, word in _OPTIONS.items() if options.get(key) not in (None, 0))
        if options.get("cc") is None:
            file.write("cc none\n")

    def dump(name, data):
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "ab") as file:
            file.write(data)

    return dump
