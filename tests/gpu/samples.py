# SPDX-License-Identifier: Apache-2.0
"""Reads what gpuctr-sampler writes (client/sampler/stream.h)."""
import dataclasses
import struct

BEGIN, SAMPLES, END, SET = 1, 2, 3, 4
SETS_MAX = 16


@dataclasses.dataclass
class Stream:
    metrics: list = dataclasses.field(default_factory=list)
    sums: list = dataclasses.field(default_factory=list)
    sets: list = dataclasses.field(default_factory=lambda: [0])  # of each metric
    intervals_ns: list = dataclasses.field(default_factory=list)  # of each set, the last ones
    turns: list = dataclasses.field(default_factory=list)  # (set, how long nothing was sampled for it)
    set: int = 0
    counts: dict = dataclasses.field(default_factory=dict)  # samples of each set
    n: int = 0
    start_ns: int = 0
    reason: int = -1  # no last word
    samples: int = 0
    lost: int = 0
    dropped: int = 0  # of lost: the reader was too slow
    overflows: int = 0
    cpu_s: float = 0
    end_ns: int = 0
    message: str = ""

    def seconds(self):
        return (self.end_ns - self.start_ns) / 1e9 if self.n else 0


def add_samples(s, data):
    _, _, start, n, _ = struct.unpack_from("=QQqII", data)
    its = [k for k, n in enumerate(s.sets) if n == s.set]
    s.start_ns = s.start_ns or start
    s.n += n
    s.counts[s.set] = s.counts.get(s.set, 0) + n
    for _, *values in struct.iter_unpack(f"=Q{len(its)}d", data[32:]):
        for k, value in zip(its, values):
            s.sums[k] += value


def read(path, sums=True):
    """sums: adds the values up."""
    data, at, s = path.read_bytes(), 0, Stream()
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("=II", data, at)
        body = data[at + 8:at + 8 + size]
        at += 8 + size
        if kind == BEGIN:
            n, = struct.unpack_from("=4xI", body)
            s.intervals_ns = [i for i in struct.unpack_from(f"={SETS_MAX}Q", body, 8) if i]
            s.metrics = [m.decode() for m in body[8 + 8 * SETS_MAX:-n].split(b"\0")[1:-1]]
            s.sums, s.sets = [0] * n, list(body[-n:])
        elif kind == SET:
            s.set, interval, change = struct.unpack_from("=I4xQQ", body)
            s.intervals_ns[s.set] = interval
            s.turns.append((s.set, change))
        elif kind == SAMPLES and sums:
            add_samples(s, body)
        elif kind == SAMPLES:
            _, _, start, n, _ = struct.unpack_from("=QQqII", body)
            s.start_ns = s.start_ns or start
            s.n += n
        elif kind == END:
            s.reason, _, _, s.end_ns, s.samples, s.lost, s.dropped, s.overflows, cpu_ns = struct.unpack_from("=IIQqQQQQQ", body)
            s.cpu_s = cpu_ns / 1e9
            s.message = body[64:].split(b"\0")[0].decode(errors="replace")
    return s
