"""Profiles under the names that users of torch.profiler know.

    with treadle.profile(session, schedule=treadle.schedule(wait=1, warmup=1, active=3)) as prof:
        for x in batches:
            session(x)
            prof.step()
    print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=10))
    prof.export_chrome_trace("trace.json")

A step is a call of the session. Times are microseconds."""

import collections
import gzip
import json
import os
import sys

from . import _core
from ._errors import BadArgument
from ._model import Model, Session

Schedule = collections.namedtuple("Schedule", "wait warmup active repeat skip_first")


def schedule(*, wait, warmup, active, repeat=0, skip_first=0):
    """After `skip_first` calls come cycles: `wait` calls that are not watched, `warmup` that are forgotten, `active` that
    are recorded; `repeat` of them, 0: without end."""
    if active < 1 or min(wait, warmup, repeat, skip_first) < 0:
        raise BadArgument("a schedule needs active >= 1, and no negative number")
    return Schedule(wait, warmup, active, repeat, skip_first)


class Average:
    """A row: all executions of what has the key in common."""

    def __init__(self, row):
        self.key = row["name"]
        self.kernel = row["kernel"]
        self.nodes = row["nodes"]
        self.count = row["calls"]
        self.cpu_time_total = row["ns"] / 1e3
        self.self_cpu_time_total = row["self_ns"] / 1e3
        self.cpu_time = self.cpu_time_total / max(1, self.count)
        self.flops = row["flop"]
        self.bytes = row["bytes"]

    def _add(self, other):
        """The row of another graph."""
        self.nodes = self.nodes + other.nodes
        for name in ("count", "cpu_time_total", "self_cpu_time_total", "flops", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.cpu_time = self.cpu_time_total / max(1, self.count)

    def __repr__(self):
        return f"<Average {self.key}: {self.count} calls, {_time(self.cpu_time_total)}>"


class Averages(list):
    """Rows of Average; `table` prints them as torch.profiler does."""

    def __init__(self, rows, run_us):
        super().__init__(rows)
        self.self_cpu_time_total = run_us

    def table(self, sort_by=None, row_limit=100, max_name_column_width=55, header=None):
        """`sort_by`: a numeric field of Average, descending; None: as they are. `row_limit` -1: all."""
        rows = list(self)
        if sort_by is not None:
            if not rows or not isinstance(getattr(rows[0], sort_by, None), (int, float)):
                if rows:
                    raise BadArgument(f"rows cannot be sorted by {sort_by}; there are cpu_time, cpu_time_total, "
                                      "self_cpu_time_total, count, flops and bytes", "sort_by")
            rows.sort(key=lambda row: getattr(row, sort_by), reverse=True)
        if row_limit >= 0:
            rows = rows[:row_limit]
        titles = ["Name", "Self CPU %", "Self CPU", "CPU total %", "CPU total", "CPU time avg", "# of Calls", "Total MFLOPs"]
        whole = max(self.self_cpu_time_total, 1e-9)
        cells = [[_cut(r.key, max_name_column_width), f"{100 * r.self_cpu_time_total / whole:.2f}%",
                  _time(r.self_cpu_time_total), f"{100 * r.cpu_time_total / whole:.2f}%", _time(r.cpu_time_total),
                  _time(r.cpu_time), str(r.count), f"{r.flops / 1e6:.3f}" if r.flops else "--"] for r in rows]
        widths = [max(len(line[i]) for line in [titles] + cells) for i in range(len(titles))]
        rule = "  ".join("-" * w for w in widths)

        def line(texts):
            return "  ".join(t.rjust(w) if i else t.ljust(w) for i, (t, w) in enumerate(zip(texts, widths)))

        lines = ([header] if header else []) + [rule, line(titles), rule] + [line(c) for c in cells] + [rule]
        return "\n".join(lines + [f"Self CPU time total: {_time(self.self_cpu_time_total)}", ""])

    def __str__(self):
        return self.table()


def _cut(text, width):
    return text if len(text) <= width else text[:width - 3] + "..."


def _time(us):
    return f"{us / 1e6:.3f}s" if us >= 1e6 else f"{us / 1e3:.3f}ms" if us >= 1e3 else f"{us:.3f}us"


def _cores_of(target):
    """The core's sessions that the target's calls take."""
    if isinstance(target, Session):
        return [target._core]
    if isinstance(target, Model):
        return [target._idle_session()]
    torch = sys.modules.get("treadle._torch")
    graphs = torch._graphs_of(target) if torch else None
    if graphs is None:
        raise BadArgument("profile needs a treadle.Session, a treadle.Model, or what torch.compile or treadle.optimize gave", "target")
    found = [graph.model._idle_session() for graph in graphs if graph.model is not None]
    if not found:
        raise BadArgument("no graph of it runs on Treadle yet: call it once before (treadle.fallbacks() says what PyTorch runs)", "target")
    return found


class profile:
    """Records the calls of a Session while the block runs; of a Model, or of what torch.compile or optimize gave, those that
    are not made side by side. `schedule` says which calls, None all; each cycle has its own figures, and those of the last
    one stay. `on_trace_ready` is called with the profile after the last call of a cycle, by step(), or at the end where there
    is no schedule. `records`: parts of steps kept for traces on each thread, the newest."""

    def __init__(self, target, *, schedule=None, on_trace_ready=None, records=0):
        _cores_of(target)  # an error now, not in start
        self._target = target
        self._schedule = schedule
        self._ready = on_trace_ready
        self._records = records
        self._cores = self._last = []  # of this cycle, and of the one before
        self.step_num = 0

    def start(self):
        s = self._schedule or Schedule(0, 0, 0, 0, 0)
        self._watch(s)
        self.step_num = 0

    def _watch(self, s):
        self._last, self._cores = self._cores, []
        for core in _cores_of(self._target):
            self._cores.append(_core.Profile(core, self._records, s.skip_first, s.wait, s.warmup, s.active, int(s.active > 0)))

    def stop(self):
        for core in self._cores:
            core.stop()
        if self._schedule is None and self._ready:
            self._ready(self)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, value, trace):
        self.stop()

    def step(self):
        """Call it after each call of the session."""
        self.step_num += 1
        s = self._schedule
        if s is None:
            return
        cycle, passed = s.wait + s.warmup + s.active, self.step_num - s.skip_first
        if passed <= 0 or (s.repeat and passed > cycle * s.repeat):
            return
        if passed % cycle == 0 and self._ready:
            self._ready(self)
        if passed % cycle == s.wait and passed > cycle:  # the next one begins to count
            self._watch(s._replace(skip_first=0, wait=0))

    def _written(self):
        if not self._cores:
            raise BadArgument("nothing was recorded: use `with treadle.profile(...)`, or start()")
        empty = self._last and all(core.totals()["runs"] == 0 for core in self._cores)
        return self._last if empty else self._cores  # until the next cycle has recorded something

    def key_averages(self, group_by="op"):
        """Rows by "op", "node", "kernel", "class", "module" or "origin" (the user's nodes)."""
        rows, run_ms = {}, 0.0
        for core in self._written():
            data = json.loads(core.write("json", group_by, "order"))
            run_ms += data["run_ms"]
            for row in map(Average, data["rows"]):
                mine = rows.setdefault((row.key, row.kernel), row)
                if mine is not row:
                    mine._add(row)
        return Averages(rows.values(), 1e3 * run_ms)

    @property
    def totals(self):
        """Runs, threads, and where the time went, in ms: run = self + wait + between. Of several graphs, all together."""
        first, *rest = (core.totals() for core in self._written())
        for more in rest:
            first = {key: max(value, more[key]) if key == "threads" else value + more[key] for key, value in first.items()}
        return first

    def export_chrome_trace(self, path):
        """For ui.perfetto.dev and chrome://tracing; a path that ends in .gz is compressed."""
        texts = [core.write("trace") for core in self._written()]
        if len(texts) > 1:  # graphs of one program: events of all, on one clock
            first, *rest = map(json.loads, texts)
            first["traceEvents"] += [event for more in rest for event in more["traceEvents"]]
            texts = [json.dumps(first)]
        self._export(path, texts[0])

    def export_stacks(self, path, metric="self_cpu_time_total"):
        """Folded stacks by module, for flame graphs."""
        if metric != "self_cpu_time_total":
            raise BadArgument("stacks have self_cpu_time_total alone", "metric")
        self._export(path, "".join(core.write("stacks") for core in self._written()))

    def export_html(self, path):
        """One page that needs no network; of several graphs one each, path.html, path.1.html, ..."""
        for i, core in enumerate(self._written()):
            stem, end = os.path.splitext(os.fspath(path))
            self._export(f"{stem}.{i}{end}" if i else path, core.write("html"))

    def _export(self, path, text):
        path = os.fspath(path)
        open_file = gzip.open if str(path).endswith(".gz") else open
        with open_file(path, "wt", encoding="utf-8") as file:
            file.write(text)
