"""Exceptions, one for each status of the library."""


class Error(Exception):
    """What went wrong (`text`), and with what (`name`: a file, node, input ...; `offset`: bytes into the file, or -1)."""

    def __init__(self, text, name="", offset=-1):
        super().__init__(text if not name or name in text else f"{name}: {text}")
        self.text = text
        self.name = name
        self.offset = offset

    def __reduce__(self):
        return type(self), (self.text, self.name, self.offset)


class BadArgument(Error, ValueError):
    """The caller's mistake: an unknown name, a shape that does not fit."""


class BadFile(Error):
    """The file is missing, damaged, or not what it claims to be."""


class Unsupported(Error, NotImplementedError):
    """Valid, but needs something Treadle does not have."""


class NoResource(Error, MemoryError):
    """Out of memory, address space, descriptors."""


class Internal(Error, RuntimeError):
    """A defect of Treadle."""


class Cancelled(Error):
    """The run was ended before it was through."""


class TimedOut(Error, TimeoutError):
    """The run's deadline has passed."""


_BY_STATUS = {2: BadArgument, 3: BadFile, 4: Unsupported, 5: NoResource, 6: Internal, 7: Cancelled, 8: TimedOut}


def raise_error(status, name, text, offset):
    raise _BY_STATUS.get(status, Internal)(text, name, offset)
