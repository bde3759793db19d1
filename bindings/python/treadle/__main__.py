"""python -m treadle, and the command `treadle` of the wheel: the program that lies beside the package."""

import os
import sys

from ._errors import NoResource


def command():
    """Where the program is: in the package, or in the build folder around it."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in (os.path.join(here, "bin", "treadle"), os.path.join(here, "..", "..", "treadle")):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.normpath(path)
    raise NoResource("this installation of the package has no command; build one: pip install ./bindings/python", here)


def main():
    path = command()
    os.execv(path, ["treadle", *sys.argv[1:]])


if __name__ == "__main__":
    main()
