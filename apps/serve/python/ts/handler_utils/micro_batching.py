"""MicroBatching: a batch in parts that go through a handler's steps as through a pipe, each step with threads of its own."""
import concurrent.futures
import threading
import time

HANDLER_METHODS = ["preprocess", "inference", "postprocess"]


class MicroBatching:
    """Takes the place of a handler's `handle`."""

    def __init__(self, parent_handler, micro_batch_size=1, parallelism=None):
        self.handler = parent_handler
        self.micro_batch_size = micro_batch_size
        self._parallelism = {}
        self._pools = {}
        self._local = threading.local()
        self.parallelism = parallelism or {}

    @property
    def parallelism(self):
        return dict(self._parallelism)

    @parallelism.setter
    def parallelism(self, parallelism):
        """Threads of each step that is named; the others keep theirs."""
        unknown = set(parallelism) - set(HANDLER_METHODS)
        if unknown or any(count < 1 for count in parallelism.values()):
            raise ValueError(f"parallelism: threads, at least one, of {HANDLER_METHODS}")
        self.shutdown()
        self._parallelism.update(parallelism)
        for step in HANDLER_METHODS:
            self._pools[step] = concurrent.futures.ThreadPoolExecutor(self._parallelism.get(step, 1))

    def shutdown(self):
        for pool in self._pools.values():
            pool.shutdown()

    def get_micro_batch_idx(self):
        """Of the part that the calling thread has; None: it has none."""
        return getattr(self._local, "index", None)

    def _step(self, name, index, given):
        self._local.index = index
        return getattr(self.handler, name)(given)

    def _pass_on(self, index, rows):
        """A future of the part's last step: each step is begun where the one before it is over."""
        last = concurrent.futures.Future()

        def begin(name, given):
            self._pools[name].submit(self._step, name, index, given).add_done_callback(lambda done: over(name, done))

        def over(name, done):
            error = done.exception()
            rest = HANDLER_METHODS[HANDLER_METHODS.index(name) + 1:]
            if error:
                last.set_exception(error)
            elif rest:
                begin(rest[0], done.result())
            else:
                last.set_result(done.result())

        begin(HANDLER_METHODS[0], rows)
        return last

    def handle(self, data):
        starts = range(0, len(data), self.micro_batch_size)
        parts = [self._pass_on(i, data[at:at + self.micro_batch_size]) for i, at in enumerate(starts)]
        return [reply for part in parts for reply in part.result()]

    def __call__(self, data, context):
        start = time.time()
        self.handler.context = context
        if self.handler._is_explain():
            output = self.handler.explain_handle(self.handler.preprocess(data), data)
        else:
            output = self.handle(data)
        context.metrics.add_time("HandlerTime", round((time.time() - start) * 1000, 2), None, "ms")
        return output
