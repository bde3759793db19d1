def timed(func=None, **named):
    """TorchServe's decorator; the server measures by itself."""
    return func if func is not None else timed
