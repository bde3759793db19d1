#!/usr/bin/env python3
"""A server that gets twice what it can do: check_overload.py BUILD [SECONDS]. Sends requests for SECONDS (60), whether replies
come or not, at a rate that goes up until half of them are refused; beside them sequences, each of which sends its next
request when the one before is answered. No request may be lost, answered wrongly, or refused but by 503 with Retry-After
or 504; each sequence's sum has to be that of its requests that got 200; nearly as much is answered as for clients who
wait; memory stays flat within 1 % from a third of the time on. Only loopback. ./dev test-overload runs it; ends with a
count of checks."""
import asyncio
import collections
import json
import pathlib
import resource
import sys
import tempfile
import time

import check_grpc
from check_soak import memory_of

COUNT, STEPS, INPUTS, SEQUENCES, CLIENTS, MIB = 65536, 60, 16, 20, 8, 1 << 20
FLAT, MOST_RATE = 0.01, 4000
# Some milliseconds of cosines, of one number; what comes of it is known by asking alone.
WORK = f"""tdir 1
const %1: bool[] = {{1}}
const %2: i64[] = {{{STEPS}}}
const %3: f32[{COUNT}] = {{{", ".join(["0"] * COUNT)}}}
input %0 "x": f32[1]
%4 = aten::add(%0, %3): f32[{COUNT}]
%5 = prim::Loop(%2, %1, %4): f32[{COUNT}] {{
  block(%6: i64[], %7: f32[{COUNT}]) {{
    %8 = aten::cos(%7): f32[{COUNT}]
    yield %1, %8
  }}
}}
%9 = aten::amax(%5) {{dim = [0], keepdim = true}}: f32[1]
%10 = aten::add(%9, %0): f32[1]
output "y" %10
"""
SUM = """tdir 1
const %5: f32[1] = {0}
input %0 "x": f32[1]
state %1 "sum": f32[1] = %5
%2 = aten::add(%1, %0): f32[1]
output "y" %2
store %1 = %2
"""


class Client:
    """Connections that are kept alive, as many as are needed at a time; but for those that the server may be about to
    close, as it does when they have been idle for 75 s."""
    idle = 30

    def __init__(self, port):
        self.port, self.free = port, []  # with the time of their last reply, the latest at the end

    async def connection(self):
        while self.free and self.free[0][2] < time.monotonic() - self.idle:
            self.free.pop(0)[1].close()
        return self.free.pop()[:2] if self.free else await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, model, value, **parameters):
        """(status, the output or what is wrong, Retry-After)."""
        body = json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [value]}], "parameters": parameters}).encode()
        reader, writer = await self.connection()
        writer.write(b"POST /v2/models/%s/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s" % (model.encode(), len(body), body))
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        fields = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        said = json.loads(await reader.readexactly(int(fields["content-length"])))
        if fields.get("connection") == "close":
            writer.close()
        else:
            self.free.append((reader, writer, time.monotonic()))
        status = int(head.split()[1])
        return status, said["outputs"][0]["data"][0] if status == 200 else said["error"], fields.get("retry-after")


async def find_rate(client, seconds):
    """Requests a second that CLIENTS get who wait for their replies."""
    end, count = time.monotonic() + seconds, 0

    async def turn():
        nonlocal count
        while time.monotonic() < end:
            status = (await client.ask("work", 0.5))[0]
            count += status == 200
    await asyncio.gather(*(turn() for _ in range(CLIENTS)))
    return count / seconds


class Overload:
    def __init__(self, client, wanted):
        self.client, self.wanted = client, wanted
        self.codes, self.wrong, self.lost, self.sums, self.before = collections.Counter(), [], 0, [], collections.Counter()

    def note(self, who, status, said, retry):
        self.codes[who, status] += 1
        if status not in (200, 503, 504) or (status == 503 and retry != "1"):
            self.wrong.append((who, status, said, retry))

    async def request(self, i):
        try:
            status, said, retry = await self.client.ask("work", i % INPUTS / 8)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.lost += 1
            self.wrong.append(repr(error))
            return
        self.note("work", status, said, retry)
        if status == 200 and said != self.wanted[i % INPUTS]:
            self.wrong.append((i, said))

    async def sequence(self, name, end):
        """It takes its state from the answers: 1, 2, 3, ..."""
        reached = 0
        while time.monotonic() < end:
            try:
                status, said, retry = await self.client.ask("sum", 1, sequence_id=name, sequence_start=reached == 0)
            except (OSError, asyncio.IncompleteReadError) as error:
                self.lost += 1
                self.wrong.append(repr(error))
                break
            self.note("sum", status, said, retry)
            if status == 200:
                reached += 1
                if said != reached:
                    self.wrong.append((name, reached, said))
            await asyncio.sleep(0.05)
        self.sums.append(reached)

    def next_rate(self, rate, later):
        """By what became of the requests of the last second."""
        now = collections.Counter({status: count for (who, status), count in self.codes.items() if who == "work"})
        second, self.before = now - self.before, now
        if later:
            self.later += second
        refused = second[503] / max(second.total(), 1)
        return min(rate * 1.25, MOST_RATE) if refused < 0.45 else rate / 1.1 if refused > 0.55 else rate

    async def run(self, rate, seconds, pid):
        """Gives what memory there was, by the second."""
        begun, sent, tasks, seen, due = time.monotonic(), 0, set(), [], 0.0
        self.later = collections.Counter()  # of the time that memory is compared over
        sequences = [asyncio.create_task(self.sequence(f"s{i}", begun + seconds)) for i in range(SEQUENCES)]
        last = 0.0
        while (now := time.monotonic() - begun) < seconds:
            due, last = due + (now - last) * rate, now
            while sent < due:
                task = asyncio.create_task(self.request(sent))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
                sent += 1
            if len(seen) < int(now):
                seen.append(memory_of(pid))
                rate = self.next_rate(rate, now > seconds / 3)
            await asyncio.sleep(0.002)
        await asyncio.gather(*tasks, *sequences)
        self.sent = sent
        return seen


async def overload(checks, port, pid, seconds):
    client = Client(port)
    wanted = [(await client.ask("work", i / 8))[1] for i in range(INPUTS)]
    rate, before = await find_rate(client, 2), 0
    while rate > before * 1.1:  # until its code is made
        before, rate = rate, await find_rate(client, 4)
    o = Overload(client, wanted)
    seen = await o.run(2 * rate, seconds, pid)
    answered = o.later[200] / (seconds * 2 / 3)
    steady = seen[len(seen) // 3:]
    checks.expect("inputs have outputs of their own", len(set(wanted)), INPUTS)
    checks.expect("wrong replies", o.wrong[:5], [])
    checks.expect("each request has one reply", (o.lost, sum(count for (who, _), count in o.codes.items() if who == "work")), (0, o.sent))
    checks.expect("what cannot be done is refused", o.later[503] / o.later.total(), lambda share: 0.3 < share < 0.7)
    checks.expect("what can be done is answered", answered / rate, lambda share: share > 0.5)
    checks.expect("sequences went on", min(o.sums), lambda count: count > seconds)
    checks.expect("memory", (min(steady), max(steady)), lambda got: got[1] - steady[0] <= FLAT * steady[0])
    after = await find_rate(client, 2)
    checks.expect("as before, when it is over", after / rate, lambda share: share > 0.7)
    for key, count in sorted(o.codes.items()):
        print(f"{key[0]:6} {key[1]} {count:8}")
    print(f"{seconds:.0f} s, {rate:.0f} requests/s of clients who wait; {o.later.total() / (seconds * 2 / 3):.0f} sent, {answered:.0f} answered; memory {steady[0] / MIB:.2f} to "
          f"{max(steady) / MIB:.2f} MiB, at a third of the time {steady[0] / MIB:.2f}, at the end {steady[-1] / MIB:.2f}")


def main():
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 60.0
    program = pathlib.Path(sys.argv[1]).resolve() / "treadle-serve"
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "work.tdir").write_text(WORK)
        pathlib.Path(folder, "sum.tdir").write_text(SUM)
        with check_grpc.serving([program, "--port", "0", "--workers", "2", "work.tdir", "sum.tdir"], folder) as server:
            port = int(server.stdout.readline().rsplit(":", 1)[1])
            checks = check_grpc.Checks(port)
            asyncio.run(overload(checks, port, server.pid, seconds))
            server.terminate()
            checks.expect("the end", server.wait(40), 0)
    print(f"{checks.passed} passed, {checks.failed} failed")
    return checks.failed > 0


if __name__ == "__main__":
    sys.exit(main())
