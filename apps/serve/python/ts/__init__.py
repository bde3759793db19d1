"""What TorchServe's handlers import of it, as far as they need no more than Python: `treadle serve` has this stand in."""
__version__ = "0.12.0"
