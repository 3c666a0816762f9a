#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""page CLIENT RECORDING [--browser]: the page that gpuctr-client report --html writes.

Alone, what stands in the file. With --browser, what a headless Chromium makes of it: the elements are there, their
numbers are those of the capture, nothing is said on the console, and names do nothing."""

import collections
import html.parser
import json
import os
import pathlib
import re
import select
import shutil
import sqlite3
import subprocess
import sys
import time

sys.dont_write_bytecode = True
from checks import NO_SITES, OWN_LAUNCHES, change, check, in_turns, run_tests  # noqa: E402

CLIENT, RECORDING = (pathlib.Path(a).resolve() for a in sys.argv[1:3])
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
COLUMNS = ("dram__bytes_read.sum", "dram__bytes_write.sum", "gpu__time_duration.sum", "lts__t_sectors.sum",
           "lts__t_requests.sum")
TRAFFIC = "traffic[byte]=dram__bytes_read + dram__bytes_write"
BEGIN_NS = 1795396518950148788
EVIL = ("</script><script>document.documentElement.dataset.evil='yes'</script><img src=x onerror="
        "\"document.documentElement.dataset.evil='yes'\"><!--\u2028]]>&lt;\x1b[31m'\"\\")


def write(*arguments, status=0, says=b""):
    r = subprocess.run([CLIENT, "report", *map(str, arguments)], capture_output=True, timeout=100, check=False)
    check(r.returncode == status and says in r.stderr and bool(r.stderr) == bool(says) and r.stdout == b"",
          f"{arguments}: {r.returncode} {r.stderr!r}")


def data_of(page):
    text = pathlib.Path(page).read_text()
    return json.loads(re.search(r'<script type="application/json" id="data">\n(.*?)</script>', text, re.DOTALL)[1])


def sums(path="run.gpuctr"):
    db = sqlite3.connect(path)
    found = {c: db.execute(f'SELECT sum("{c}") FROM record').fetchone()[0] for c in COLUMNS}
    found["time"] = db.execute("SELECT sum(duration_ns) FROM record").fetchone()[0]
    db.close()
    return found


# --- the file ---------------------------------------------------------------------------------------


def numbers_are_the_captures():
    write("run.gpuctr", "--html", "run.html")
    data = data_of("run.html")
    for by in ("kernel", "op"):
        for name, value in sums().items():
            check(sum(r["measures"][name]["sum"] for r in data[by]["rows"]) == value, f"{by}: {name}")
        check(len(data[by]["names"]) == len(set(data[by]["names"])) == len(data[by]["rows"]), f"{by}: short names")
    for series in data["timeline"]["measures"]:
        check(sum(series["sums"]) == sums()[series["name"]] and len(series["sums"]) <= 512, f"over time: {series['name']}")
    check(data["meta"]["peak_of"] == "NVIDIA H200", "peak")
    check("716 measured, 2,524 " in data["meta"]["notes"], "what was not measured")


def hints_are_the_reports():
    """What the terminal suggests, the page does."""
    hints = data_of("run.html")["hints"]
    r = subprocess.run([CLIENT, "report", "run.gpuctr", "--by", "op", "--limit", "0", "--width", "2000"], capture_output=True, timeout=100, check=True)
    told = [line for line in r.stdout.decode().splitlines() if line.startswith("hint: ")]
    check(told == [f"hint: {h['short']}: {h['text']}" for h in hints] and hints, f"other hints: {hints}")
    check(len({(h["name"], h["text"]) for h in hints}) == len(hints), "a hint twice")


def same(a, b):
    """But for what sums in another order round to."""
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or isinstance(a, float) and isinstance(b, float) and abs(a - b) <= 1e-9 * max(abs(a), abs(b))


def some_launches():
    """The page of some is all of these, and nothing else."""
    write("run.gpuctr", "-f", "--html", "some.html", "--where", "dir=bprop", "--where", "kernel=batch_norm")
    r = subprocess.run([CLIENT, "report", "run.gpuctr", "--json", "--sort", "time", "--where", "dir=bprop", "--where", "kernel=batch_norm"], capture_output=True,
                       timeout=100, check=True)
    data, want = data_of("some.html"), json.loads(r.stdout)
    n = want["all"]["launches"]
    check(same(data["kernel"]["rows"], want["rows"]) and 0 < n < 716, "rows")
    check(flame_of("some.html")[()]["launches"] == n and sum(data["timeline"]["measures"][0]["sums"]) == want["all"]["measures"]["time"]["sum"], "charts")
    check(f"{n} of 716 measured launches are included: where dir=bprop and kernel=batch_norm\n" in data["meta"]["notes"], data["meta"]["notes"])


def turns_are_the_reports():
    """Where metrics take turns, each part of the page says what the table says of all launches."""
    in_turns("turns.gpuctr")
    write("turns.gpuctr", "-f", "--html", "turns.html")
    data = data_of("turns.html")
    for by in ("kernel", "op"):
        r = subprocess.run([CLIENT, "report", "turns.gpuctr", "--by", by, "--json", "--sort", "time"], capture_output=True, timeout=100, check=True)
        told = json.loads(r.stdout)
        check(same(data[by]["all"], told["all"]) and same(data[by]["rows"], told["rows"]) and told["turns"], f"rows by {by} are not the report's")
    total, flame, got = data["kernel"]["all"], flame_of("turns.html"), collections.Counter()
    for path, frame in flame.items():
        if path and path[-1][1]:
            got.update({n: v for n, v in frame.items() if n != "left"})
    check(got["launches"] == 716 and got["time"] == sums()["time"], f"what took no turns: {got}")
    for name, value in sums("turns.gpuctr").items():
        want = total["measures"][name]["sum"]
        check(name == "time" or abs(want / value - 2) < 0.5, f"of all launches: {name}: {want}")
        check(abs(got[name] / want - 1) < 0.05, f"flame graph: {name}: {got[name]}, not {want}")
    for series in data["timeline"]["measures"]:
        want = total["measures"][series["name"]]["sum"]
        check(abs(sum(series["sums"]) / want - 1) < 1e-9, f"over time: {series['name']}: {sum(series['sums'])}, not {want}")
    r = subprocess.run([CLIENT, "report", "turns.gpuctr", "-v", "--width", "2000"], capture_output=True, timeout=100, check=True)
    check(r.stdout.decode().endswith("\n" + data["meta"]["notes"]) and "took turns" in data["meta"]["notes"], "other notes than the report's")
    write("run.gpuctr", "turns.gpuctr", "-f", "--html", "both.html")
    check(flame_of("both.html")[()]["launches"] == 2 * 716, "beside a capture without turns")


def flame_of(page):
    """The flame graph by path: names of ranges and the kernel, what is left out, launches and sums by the value's name."""
    data = data_of(page)
    flame, values = data["flame"], [m["name"] for m in data["timeline"]["measures"]]
    paths, found = [], {}
    for i, (parent, name, kernel, left, launches, *numbers) in enumerate(flame["frames"]):
        check(parent < i and len(numbers) == len(values), f"{page}: frame {i}")
        paths.append(() if parent < 0 else paths[parent] + ((flame["names"][name], kernel),))
        check(paths[i] not in found, f"{page}: twice: {paths[i]}")
        found[paths[i]] = {"left": left, "launches": launches, **dict(zip(values, numbers))}
    return found


def frames_by_sql(path):
    """The same by the sites' names, with all that is in a frame."""
    want = collections.defaultdict(collections.Counter)
    db = sqlite3.connect(path)
    ranges = {i: (parent, name) for i, parent, name in db.execute("SELECT id, parent, name FROM site")}
    query = f"""SELECT site, name, duration_ns, "{'", "'.join(COLUMNS)}" FROM record r JOIN launch l ON l.id = r.launch JOIN kernel ON kernel = kernel.id"""
    for at, kernel, *numbers in db.execute(query):
        stack = [(kernel, 1)]
        while at:
            at, name = ranges[at]
            stack.insert(0, (name, 0))
        for depth in range(len(stack) + 1):
            want[tuple(stack[:depth])].update({"launches": 1, "left": 0, **dict(zip(("time", *COLUMNS), numbers))})
    db.close()
    return {k: dict(v) for k, v in want.items()}


def flame_is_the_captures():
    got, want = flame_of("run.html"), frames_by_sql("run.gpuctr")
    check(got == want and len(got) > 100, f"flame graph: {len(got)} frames, {set(got.items()) ^ set(want.items())}"
          if got.keys() != want.keys() else "flame graph: other sums than SQL's")
    write(change("flat.gpuctr", *NO_SITES), "--html", "flat.html")
    check(all(len(p) < 2 for p in flame_of("flat.html")) and len(flame_of("flat.html")) == 59, "without ranges")


def columns_differ():
    """What a capture does not have is nothing of what another one has, wherever it stands there."""
    db = sqlite3.connect(change("less.gpuctr"))
    declared = db.execute("SELECT sql FROM sqlite_schema WHERE name = 'record'").fetchone()[0]
    db.execute("DROP VIEW records")
    db.execute("ALTER TABLE record RENAME TO old")
    db.execute(re.sub(r', "dram__bytes_read.sum" REAL, "dram__bytes_write.sum" REAL', "", declared))
    names = [r[1] for r in db.execute("PRAGMA table_info(record)")]
    names = ", ".join(f'"{n}"' for n in names)
    db.execute(f"INSERT INTO record({names}) SELECT {names} FROM old")
    db.execute("DROP TABLE old")
    db.execute("DELETE FROM column_def WHERE idx < 2")
    db.execute("UPDATE column_def SET idx = idx - 2")
    db.commit()
    db.close()
    write("run.gpuctr", "less.gpuctr", "--html", "less.html")
    line = {m["name"]: sum(m["sums"]) for m in data_of("less.html")["timeline"]["measures"]}
    for name, value in sums().items():
        want = value * (1 if name in COLUMNS[:2] else 2)
        check(line[name] == want, f"over time, of two: {name}: {line[name]}")
        check(flame_of("less.html")[()][name] == want, f"flame graph, of two: {name}")


def timeline_is_where_kernels_are():
    """Each bin against SQL, and with times that go back."""
    change("back.gpuctr", f"UPDATE record SET start_ns = {BEGIN_NS} - idx * 777777")
    for path in ("run.gpuctr", "back.gpuctr"):
        write(path, "-f", "--html", "t.html")
        line = data_of("t.html")["timeline"]
        db = sqlite3.connect(path)
        want = collections.Counter()
        for start, duration in db.execute("SELECT start_ns, duration_ns FROM record"):
            want[(start - line["begin_ns"]) // line["bin_ns"]] += duration
        db.close()
        got = {i: v for i, v in enumerate(line["measures"][0]["sums"]) if v}
        check(got == dict(want), f"{path}: bins")
        check(max(want) >= 255, f"{path}: half of the bins are used")


def rows_and_columns_of_the_users_own():
    """Those of the report's JSON, beside kernels and operators; what is no definition leaves no page."""
    for by in ("layer,dir", "shape,stream,thread,host", "nvtx:2", "op,kernel"):
        more = ("--by", by, "--define", TRAFFIC)
        write("run.gpuctr", "-f", "--html", "own.html", *more)
        r = subprocess.run([CLIENT, "report", "run.gpuctr", "--json", "--sort", "time", *more], capture_output=True, timeout=100, check=True)
        data, want = data_of("own.html"), json.loads(r.stdout)
        got = data["by"]
        check(got["by"] == want["by"] and got["columns"] == want["columns"] and got["rows"] == want["rows"][:len(got["rows"])]
              and len(got["rows"]) + got["rows_left_out"] == len(want["rows"]), f"--by {by}: other rows than the report's")
        check(len(got["names"]) == len(set(got["names"])) == len(got["rows"]), f"--by {by}: short names")
        for view in ("kernel", "op", "by"):
            check(data[view]["all"]["derived"]["traffic"] == sums()[COLUMNS[0]] + sums()[COLUMNS[1]], f"--by {by}: defined, in {view}")
    for by in ("kernel", "op"):
        write("run.gpuctr", "-f", "--html", "usual.html", "--by", by)
        check("by" not in data_of("usual.html"), f"--by {by} is there anyway")
    write("run.gpuctr", "--html", "bad.html", "--define", "traffic=dram__bytes_read.sum +", status=2, says=b"column 'traffic'")
    check(not pathlib.Path("bad.html").exists(), "a page without the columns that were asked for")


def nothing_from_outside():
    text = pathlib.Path("run.html").read_text()
    check("default-src 'none'" in text, "the page may load something")
    check(not re.search(r"(src|href)\s*=|url\(|@import", text.split('id="data"')[0]), "the page loads something")
    check(len(text) < 1 << 20, "the page is large")
    check(len(re.findall(r"^// https://d3js.org/d3-[a-z-]+/ v", text, re.MULTILINE)) == 11 and "Redistributions in binary form must reproduce" in text,
          "d3 is not in the page, or without its notice")


def hostile_names():
    change("evil.gpuctr", ("UPDATE kernel SET name = ? || id", (EVIL,)), ("UPDATE site SET name = ? || id % 50", (EVIL,)),
           ("UPDATE process SET program = ?, recorded_from = ?", (EVIL, EVIL)), ("UPDATE device SET name = ?", (EVIL,)),
           ("UPDATE meta SET value = ? WHERE key IN ('command', 'host', 'user', 'driver')", (EVIL,)))
    write("evil.gpuctr", "--html", "evil.html")

    class Scripts(html.parser.HTMLParser):
        found = []

        def handle_starttag(self, tag, attributes):
            if tag in ("script", "img"):
                self.found.append((tag, dict(attributes).get("type")))

    parser = Scripts()
    parser.feed(pathlib.Path("evil.html").read_text())
    check(parser.found == [("script", "application/json"), ("script", None), ("script", None)], f"elements of names: {parser.found}")
    check("<" not in re.search(r'id="data">\n(.*?)</script>', pathlib.Path("evil.html").read_text(), re.DOTALL)[1],
          "a < in the data")
    check(any(EVIL in r["key"]["kernel"] for r in data_of("evil.html")["kernel"]["rows"]), "the name is another one")


def many_rows():
    """As many kernels as there are records, with long names: the page stays small and says what it leaves out."""
    change("many.gpuctr", "INSERT INTO kernel SELECT 1, 1000 + idx, idx || printf('%.*c', 9000, 'k'), 'm', 0, 0 FROM record",
           *OWN_LAUNCHES, "UPDATE launch SET kernel = id - 999000")
    write("many.gpuctr", "--html", "many.html")
    data = data_of("many.html")
    check(pathlib.Path("many.html").stat().st_size < 5000000, "5 MB")
    check(data["kernel"]["rows_left_out"] + len(data["kernel"]["rows"]) == 716 and data["kernel"]["rows_left_out"] > 0,
          "rows that are left out are not counted")
    flame = flame_of("many.html")
    inside = collections.Counter(p[:-1] for p in flame if p)
    check(sum(f["left"] for f in flame.values()) > 0 and len(flame) > 4, "no frame is left out")
    check(flame[()]["launches"] == 716 and all(flame[()][n] == v for n, v in sums().items()), "all frames")
    for path, frame in flame.items():
        rest = frame["launches"] - sum(f["launches"] for p, f in flame.items() if p and p[:-1] == path)
        check(path and path[-1][1] or rest >= frame["left"] >= 0 and (rest > 0) == (frame["left"] > 0)
              and inside[path] + frame["left"] > 0, f"what is left out of {path}: {frame}")


def files():
    write("run.gpuctr", "--html", "run.html", status=2, says=b"-f replaces it")
    write("run.gpuctr", "--html", "x.html", "--sort", "time", status=2, says=b"has all rows and figures")
    write("run.gpuctr", "--force", status=2, says=b"add --html FILE")
    write("run.gpuctr", "--html", "/nowhere/x.html", status=2, says=b"No such file")
    pathlib.Path("text.gpuctr").write_text("nothing")
    write("text.gpuctr", "-f", "--html", "run.html", status=1, says=b"remedy")
    check(data_of("run.html")["kernel"]["records"] == 716, "the page before is gone")
    shutil.copy("run.gpuctr", "again.gpuctr")
    write("run.gpuctr", "again.gpuctr", "--html", "two.html")
    check(data_of("two.html")["kernel"]["records"] == 2 * 716, "two captures")
    change("growing.gpuctr", "UPDATE meta SET value = 0 WHERE key = 'complete'")
    write("growing.gpuctr", "--html", "growing.html")
    check("NOT COMPLETE" in data_of("growing.html")["meta"]["notes"], "not complete")


# --- in a browser -----------------------------------------------------------------------------------

BY_KERNEL = """for (const id of ["roofline-by", "top-by", "table-by"]) {
    $(id).value = "kernel";
    $(id).dispatchEvent(new Event("change"));
}"""


class Elements(html.parser.HTMLParser):
    """Start tags with their attributes, and the text of each element that has an id."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.inside = [], collections.defaultdict(str), None
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = dict(attributes).get("id", self.inside)

    def handle_data(self, data):
        self.text[self.inside] += data.replace("\u00a0", " ").replace("\u200b", "")

    def all(self, tag, **attributes):
        return [a for t, a in self.tags if t == tag and all(a.get(k.replace("_", "-")) == v for k, v in attributes.items())]


class Browser:
    """One Chromium for all pages, which takes as long to start as they do together: commands and events go over pipes
    (--remote-debugging-pipe: its descriptors 3 and 4), each of them JSON with a zero behind it."""

    def __init__(self):
        (theirs, self.commands), (self.events, their_events) = os.pipe(), os.pipe()
        self.process = subprocess.Popen(["sh", "-c", f'exec "$@" 3<&{theirs} 4>&{their_events}', "sh", BROWSER, "--headless", "--no-sandbox",
                                         "--disable-gpu", "--window-size=1200,900", "--remote-debugging-pipe",
                                         "--user-data-dir=" + str(pathlib.Path("profile").resolve()), "about:blank"],
                                        pass_fds=(theirs, their_events), stderr=subprocess.DEVNULL)
        os.close(theirs)
        os.close(their_events)
        self.unread, self.last_id, self.seen = b"", 0, []

    def receive(self, by):
        """The next answer or event, until then."""
        while b"\0" not in self.unread:
            if not select.select([self.events], [], [], max(0, by - time.monotonic()))[0]:
                raise TimeoutError("the browser says nothing")
            more = os.read(self.events, 1 << 20)
            if not more:
                raise EOFError("the browser has ended")
            self.unread += more
        message, self.unread = self.unread.split(b"\0", 1)
        return json.loads(message)

    def ask(self, method, session=None, **parameters):
        """The answer; events that come before it are seen."""
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters, **({"sessionId": session} if session else {})}
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        by = time.monotonic() + 120
        while (answer := self.receive(by)).get("id") != self.last_id:
            self.seen.append(answer)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def load(self, uri):
        """The elements of a page once it is loaded, and what was said on its console."""
        self.seen = []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(domain + ".enable", session)
        self.seen = []
        self.ask("Page.navigate", session, url=uri)
        by = time.monotonic() + 120
        while not any(e.get("method") == "Page.loadEventFired" for e in self.seen):
            self.seen.append(self.receive(by))
        text = self.ask("Runtime.evaluate", session, expression="document.documentElement.outerHTML", returnByValue=True)["result"]["value"]
        said = [e["params"] for e in self.seen if e.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")]
        self.ask("Target.closeTarget", targetId=target)
        return text, said

    def end(self):
        self.ask("Browser.close")
        return self.process.wait(timeout=120)


def the_console_is_heard():
    """Else what pages say there would be missed, and what is forbidden to them."""
    for script, says in (("console.log('here')", "here"), ("nowhere()", "nowhere"), ("setTimeout(() => later_nowhere())", "later_nowhere"),
                         ("document.head.innerHTML += '<meta http-equiv=\"Content-Security-Policy\" content=\"img-src \\'none\\'\">';"
                          "new Image().src = 'data:image/gif;base64,R0lGODlhAQABAAAAACw='", "img-src")):
        path = pathlib.Path("console.html").resolve()
        path.write_text(f"<!DOCTYPE html><html><head></head><body><script>{script}</script></body></html>")
        check(says in str(browser.load(path.as_uri())[1]), f"nothing on the console: {script}")


def the_browser_ends():
    check(browser.end() == 0, "the browser's exit status")


def start_browser():
    global browser
    browser = Browser()


def browse(page, script=""):
    """The page's elements after its script and this one have run."""
    path = pathlib.Path("browse.html").resolve()
    path.write_text(pathlib.Path(page).read_text() + (f"<script>{script}</script>" if script else ""))
    text, console = browser.load(path.as_uri())
    check(not console, f"{page}: on the console: {console}")
    elements = Elements(text)
    root = elements.all("html")[0]
    check(root.get("data-ready") == "yes" and "data-error" not in root, f"{page}: {root}")
    check("data-evil" not in root, f"{page}: a name was run")
    return elements


def shows_the_capture():
    write("run.gpuctr", "-f", "--html", "run.html")
    e = browse("run.html", BY_KERNEL)
    check(e.text["title"].startswith("python3 ") and e.text["runs"].strip() == "ubuntu on vm · NVIDIA H200 · 2026-11-23 01:15 UTC", f"title: {e.text['runs']}")
    for name, value in sums().items():
        figure = e.all("dd", data_name=name)
        check(len(figure) == 1 and float(figure[0]["data-value"]) == value, f"figure {name}: {figure}")
        cells = [float(a["data-value"]) for a in e.all("td", data_id=name)]
        check(len(cells) == 58 and sum(cells) == value, f"table: {name}")
        check(name != "time" or cells == sorted(cells, reverse=True), "most time first")
    check(float(e.all("dd", data_name="kernels measured")[0]["data-value"]) == 716, "kernels")
    check(len(e.all("div", **{"class": "bar"})) == 12, "bars")
    check(len(e.all("circle", **{"class": "dot"})) == 58, f"points: {len(e.all('circle'))}")
    check(len(e.all("path", **{"class": "roof"})) == 1 and "NVIDIA H200" in e.text["roofline-note"], "roof")
    check(len(e.all("rect", **{"class": "bin"})) > 40, "over time")
    hints = data_of("run.html")["hints"]
    check(hints and len(e.all("span", **{"class": "name"})) == len(hints) and "hidden" not in e.all("section", id="hints-section")[0], "hints")
    check(all(a["aria-label"] for a in e.all("circle")) and [a["tabindex"] for a in e.all("circle")].count("0") == 1, "points by keyboard")
    check(len(e.all("text", **{"class": "label"})) == 5, "names of points")


def begins_with_operators():
    """Under headings that name them, with figures before notes, and each bar with its share of all."""
    write("run.gpuctr", "-f", "--html", "run.html")
    e, op = browse("run.html"), data_of("run.html")["op"]
    heads = [e.text[a["id"]].split("\n")[0] for a in e.all("h2")]
    check(heads == ["Summary", "Hints", "Top operators", "Bandwidth against time", "Flame graph", "Timeline", "All operators"], f"headings: {heads}")
    tags = [(tag, a.get("id")) for tag, a in e.tags]
    check(tags.index(("dl", "figures")) < tags.index(("div", "notes")), "figures come first")
    check("DRAM read" in e.text["figures"] and "% of DRAM peak" in e.text["figures"] and "sectors" in e.text["figures"], f"words: {e.text['figures']}")
    bars = [float(a["data-value"]) for a in e.all("div", **{"class": "value"})]
    shares = [float(v) for v in re.findall(r"([0-9.]+) %", e.text["top"])]
    check(len(bars) == len(shares) == 12 and all(abs(s - 100 * v / sums()["time"]) < 0.06 for s, v in zip(shares, bars)), f"shares: {shares}")
    check(len(e.all("td", data_id="launches")) == len(op["rows"]) and len(e.all("th", scope="colgroup")) == len(COLUMNS) + 1, "columns of a metric are a group")
    e = browse("run.html", """
        const dots = document.querySelectorAll("circle.dot");
        dots[0].focus(); dots[0].dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" }));
        root.dataset.moved = document.activeElement === dots[1] && dots[1].getAttribute("tabindex") === "0";""")
    check(e.all("html")[0]["data-moved"] == "true", "from point to point by keys")


def is_used():
    """Sorting, choosing, filtering, the other theme: as a user does it."""
    e = browse("run.html", """
        const pick = (id, value) => { $(id).value = value; $(id).dispatchEvent(new Event("change")); };
        pick("table-by", "op"); pick("top-by", "op"); pick("roofline-by", "op"); pick("timeline-measure", "1");
        pick("top-measure", "dram__bytes_write.sum");
        document.querySelector('th button[data-id="launches"]').click();
        document.querySelector('th button[data-id="launches"]').click();
        root.dataset.was = root.dataset.theme; $("theme").click();""")
    launches = [float(a["data-value"]) for a in e.all("td", data_id="launches")]
    check(launches == sorted(launches) and sum(launches) == 716, "operators by launches, least first")
    check(len(e.all("th", aria_sort="ascending")) == 1, "the order is told")
    root = e.all("html")[0]
    check({root["data-was"], root["data-theme"]} == {"light", "dark"}, "theme")
    check(float(e.all("svg", role="img")[0]["data-sum"]) == sums()[COLUMNS[0]], "another counter over time")
    e = browse("run.html", BY_KERNEL + '$("table-filter").value = "MAX_POOL"; $("table-filter").dispatchEvent(new Event("input"));')
    check(len(e.all("td", data_id="launches")) == 2 and e.text["table-note"].startswith("2 of 58"), "filter")


def each_capture_has_a_line():
    """Up to eight below the title, and the number of the others."""
    files = [shutil.copy("run.gpuctr", f"run{i}.gpuctr") for i in range(10)]
    write(*files, "-f", "--html", "ten.html")
    lines = browse("ten.html").text["runs"].split("UTC")
    check(len(lines) == 9 and lines[0].startswith("run0.gpuctr · ubuntu on vm") and lines[8].startswith("and 2 more captures"), f"captures: {lines}")


def own_rows_are_shown():
    """What --by names comes first, and what --define makes is a figure and a column."""
    write("run.gpuctr", "-f", "--html", "own.html", "--by", "layer,dir", "--define", TRAFFIC)
    e, rows = browse("own.html", 'while (!$("table-next").disabled) $("table-next").click();'), data_of("own.html")["by"]["rows"]
    total = sums()[COLUMNS[0]] + sums()[COLUMNS[1]]
    check(float(e.all("dd", data_name="traffic")[0]["data-value"]) == total, "figure")
    cells = [float(a["data-value"]) for a in e.all("td", data_id="traffic")]
    check(len(cells) == len(rows) > 10 and sorted(cells) == sorted(r["derived"]["traffic"] for r in rows), f"table: {len(cells)} of {len(rows)}")
    check(e.text["table-by"].startswith("rows by layer, dir") and e.text["h-top"].startswith("Top rows by layer, dir"), "what rows are")
    check(len(e.all("circle", **{"class": "dot"})) > 10 and len(e.all("div", **{"class": "bar"})) == 12, "charts")


def flame_graph():
    """Drawn as wide as the sums are, looked at more closely by keys and by mouse, searched."""
    want = frames_by_sql("run.gpuctr")
    e = browse("run.html")
    frames = e.all("g", role="button")
    widths = {a["data-frame"]: 0 for a in frames}
    check(frames[0]["data-value"] == str(sums()["time"]) and frames[0]["data-launches"] == "716", f"whole: {frames[0]}")
    check(len(frames) > 80 and all(a["aria-label"] for a in frames), f"frames: {len(frames)}")
    check([a["tabindex"] for a in frames].count("0") == 1 and len(widths) == len(frames), "one frame is by keyboard at first")
    rects = [a for t, a in e.tags if t == "rect" and a.get("class") != "bin"]
    whole = float(rects[0]["width"])
    for a, r in zip(frames, rects):
        check(abs(float(r["width"]) - whole * float(a["data-value"]) / sums()["time"]) < 0.01, f"width of {a['aria-label']}")
        check(float(r["x"]) >= 0 and float(r["x"]) + float(r["width"]) <= whole + 0.01, f"place of {a['aria-label']}")
    e = browse("run.html", f"""
        $("flame-measure").value = "1"; $("flame-measure").dispatchEvent(new Event("change"));
        const key = (k) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {{ key: k }}));
        document.querySelector('[data-frame="0"]').focus();
        key("ArrowDown"); key("ArrowRight"); key("ArrowLeft"); key("Enter");
        root.dataset.at = document.activeElement.getAttribute("aria-label"); root.dataset.zoom = flame.zoom.id;
        $("flame-find").value = "CONV2D"; $("flame-find").dispatchEvent(new Event("input"));""")
    root = e.all("html")[0]
    most = max((v[COLUMNS[0]], p[0][0]) for p, v in want.items() if len(p) == 1)
    check(root["data-zoom"] != "0" and root["data-at"].startswith(most[1] + ": "), f"by keys: {root}")
    check(f"({int(most[0]):,} bytes)" in root["data-at"], f"exact value: {root['data-at']}")
    check(e.text["flame-point"].startswith("all / " + most[1]), f"told: {e.text['flame-point']}")
    shown = e.all("g", role="button")
    check(len(shown) < len(frames) and "around" in shown[0]["class"], "closer")
    outer = [p for p in want if p and "conv2d" in p[-1][0].lower() and not any("conv2d" in n.lower() for n, _ in p[:-1])]
    found = sum(want[p][COLUMNS[0]] for p in outer)
    check(float(e.all("p", id="flame-note")[0]["data-found"]) == found > 0, f"found: {e.text['flame-note']}")
    check(len([a for a in shown if " hit" in a["class"]]) > 0, "what is found is marked")
    e = browse("run.html", """
        document.querySelector('[data-frame="2"]').dispatchEvent(new Event("click"));
        root.dataset.zoom = flame.zoom.id;
        const key = (k) => document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key: k }));
        key("ArrowUp"); root.dataset.up = flame.focus === flame.zoom.parent;
        key("Escape"); root.dataset.back = flame.zoom.id;
        document.querySelector('[data-frame="2"]').focus(); key("Home"); root.dataset.home = document.activeElement.dataset.frame;
        $("flame-reset").click();""")
    root = e.all("html")[0]
    parent = str(data_of("run.html")["flame"]["frames"][2][0])
    check(root["data-zoom"] == "2" and len(e.all("g", role="button")) == len(frames), "by mouse, and back")
    check(root["data-up"] == "true" and root["data-back"] == parent and root["data-home"] == "0", f"up, out, home: {root}")
    write("many.gpuctr", "-f", "--html", "many.html")
    e = browse("many.html")
    rest = [a for a in e.all("g", role="button") if "rest" in a["class"]]
    check(rest and all("smaller" in a["aria-label"] for a in rest), "what is left out")


def roofline():
    """With operations: a slope from the device's peak, or from what was measured where that is not known."""
    name = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
    flops = (f"UPDATE column_def SET name = '{name}', unit = '' WHERE idx = 2",
             "DROP VIEW records", f'ALTER TABLE record RENAME COLUMN "{COLUMNS[2]}" TO "{name}"',
             f'UPDATE record SET "{name}" = 1000 * duration_ns')
    for path, more, says in (("flops.gpuctr", (), "the DRAM peak of NVIDIA H200"),
                             ("board.gpuctr", ("UPDATE device SET name = 'GPU X'",), "the highest bandwidth measured")):
        write(change(path, *flops, *more), "-f", "--html", "flops.html")
        e = browse("flops.html")
        roof = e.all("path", **{"class": "roof"})[0]
        check("operations (flop_rate, of_flop_peak, intensity) are those that were counted" in e.text["notes"],
              f"{path}: {e.text['notes']}")
        check(e.text["h-roofline"].startswith("Roofline") and says in e.text["roofline-note"], f"{path}: {e.text['roofline-note']}")
        known = path == "flops.gpuctr"
        check(abs(float(roof["data-top"]) / (4096 * 132 * 1980e6 if known else 1e12) - 1) < 1e-3, f"{path}: {roof}")
        check(("bf16 and fp16 1.07 PFLOP/s" in e.text["roofline-note"]) == known, f"{path}: {e.text['roofline-note']}")
        check(len(e.all("text", **{"class": "roof-of"})) == known, f"{path}: names of roofs")
        check(all(float(a["data-y"]) <= float(a["data-x"]) * float(roof["data-peak"]) * 1.0001 for a in e.all("circle")),
              f"{path}: points above the roof")


def charts_without_times():
    """Where no kernel has a time of its own, charts begin with the first counter; a roofline needs a time, and says so."""
    write(change("timeless.gpuctr", "UPDATE record SET duration_ns = -1, clock = 0"), "-f", "--html", "timeless.html")
    e = browse("timeless.html", BY_KERNEL)
    check(len(e.all("div", **{"class": "bar"})) == 12 and len(e.all("rect", **{"class": "bin"})) > 40 and len(e.all("g", role="button")) > 80,
          f"blank: {len(e.all('div', **{'class': 'bar'}))} bars, {len(e.all('rect', **{'class': 'bin'}))} bins, {len(e.all('g', role='button'))} frames")
    check(float(e.all("g", role="button")[0]["data-value"]) == sums()[COLUMNS[0]], "the first counter")
    check("so bandwidth is unknown" in e.text["roofline-note"] and not e.all("td", data_id="time"), "a column of nothing")
    cells = [float(a["data-value"]) for a in e.all("td", data_id=COLUMNS[0])]
    check(cells == sorted(cells, reverse=True) and len(cells) == 58, "most of it first")


def turns_are_shown():
    """What a sum lacks is told, where rows do not nest."""
    write(in_turns("turns.gpuctr", 2, 200), "-f", "--html", "turns.html")
    e, data = browse("turns.html", BY_KERNEL + "firstGroup = 0; fitting = (groups) => groups; table();"), data_of("turns.html")["kernel"]
    cells = [a.get("data-value") for a in e.all("td", data_id=COLUMNS[0])]
    check(sum(map(float, filter(None, cells))) > 1.2 * sums("turns.gpuctr")[COLUMNS[0]], "what the table sums up to")
    check(data["all"]["measures"][COLUMNS[0]]["unknown"] > 0 and "*" in e.text["figures"] and "took turns" in e.text["notes"], f"{e.text['figures']}")


def incomplete_sums_have_a_star():
    """As in the table: the sums of samples that lack launches, and what is derived from them."""
    shutil.copy(RECORDING.parent / "transformer-h200.gpuctr", "transformer.gpuctr")
    write("transformer.gpuctr", "-f", "--html", "transformer.html")
    e = browse("transformer.html", BY_KERNEL + "firstGroup = 0; fitting = (groups) => groups; table(); topRows();")
    view = data_of("transformer.html")["kernel"]
    for name in ("dram__bytes_read.sum", "dram__bytes_write.sum"):
        want = {str(r["measures"][name]["sum"]) for r in view["rows"] if 0 < r["measures"][name]["n"] < r["launches"]}
        got = {a["data-value"] for a in e.all("td", data_id=name) if "incomplete" in a.get("class", "").split()}
        check(want and {float(v) for v in got} == {float(v) for v in want}, f"{name}: {len(got)} of {len(want)} rows")
    derived = [a for a in e.all("td", data_id="dram_bandwidth") if "incomplete" in a.get("class", "").split()]
    want = [r for r in view["rows"] if r["derived"]["dram_bandwidth"] is not None and r["derived"]["dram_bandwidth:unsampled"] > 0]
    check(len(derived) == len(want) > 0, f"derived: {len(derived)} of {len(want)}")
    check("648 GB*" in e.text["figures"] and "20.0 GB*" in e.text["table"], f"stars: {e.text['figures']}")


def errors_of_samples_are_shown():
    """And a card without a drawing is one sentence."""
    errors = ", ".join(f'"{c}" REAL' for c in COLUMNS)
    write(change("sampled.gpuctr", "INSERT INTO meta VALUES('sampled', 1)",
                 f"CREATE TABLE sampled(record INTEGER PRIMARY KEY, alike INTEGER NOT NULL, {errors})",
                 f"INSERT INTO sampled SELECT r.id, kernel, {', '.join(f'abs({chr(34)}{c}{chr(34)}) / 50' for c in COLUMNS)} FROM record r JOIN launch l ON l.id = r.launch",
                 "UPDATE record SET duration_ns = -1, clock = 0"), "-f", "--html", "sampled.html")
    e = browse("sampled.html", BY_KERNEL + "firstGroup = 0; fitting = (groups) => groups; table();")
    check(e.text["table"].count("±") > 40 and "±" in e.text["figures"], f"errors: {e.text['figures']}")
    check("SAMPLED" in e.text["notes"] and any(a.get("class") == "warn" for a in e.all("p")), f"what the values are: {e.text['notes']}")
    check("roofline-note" in e.text and "hidden" in e.all("p", id="roofline-point")[0], "an empty card has a gap")


def texts_fit():
    """On a phone and on a wide screen: no text of a chart is cut, and none lies on another."""
    name = "sm__ops_path_tensor_src_bf16_dst_fp32.sum"
    change("ops.gpuctr", f"UPDATE column_def SET name = '{name}', unit = '' WHERE idx = 2", "DROP VIEW records",
           f'ALTER TABLE record RENAME COLUMN "{COLUMNS[2]}" TO "{name}"',
           f'UPDATE record SET "{name}" = duration_ns * (1 + idx % 13 * idx * idx)')
    for path, width in (("run.gpuctr", 390), ("run.gpuctr", 1200), ("ops.gpuctr", 390), ("ops.gpuctr", 1200)):
        write(path, "-f", "--html", "fit.html")
        e = browse("fit.html", f"document.body.style.width = '{width}px'; const measures = {len(COLUMNS) + 1};" + """
            const faults = [];
            let texts = 0;
            for (let m = 0; m < measures; m++) {
                $("timeline-measure").value = m;
                charts();
                for (const svg of document.querySelectorAll("#roofline svg, #timeline svg")) {
                    const all = [...svg.querySelectorAll("text")].filter((t) => t.textContent), edge = svg.getBoundingClientRect();
                    texts += all.length;
                    const boxes = all.map((t) => t.getBoundingClientRect());
                    boxes.forEach((a, i) => {
                        if (a.left < edge.left || a.right > edge.right || a.top < edge.top || a.bottom > edge.bottom) faults.push(all[i].textContent + " is cut");
                        boxes.slice(0, i).forEach((b, k) => {
                            if (a.left < b.right && b.left < a.right && a.top < b.bottom - 2 && b.top < a.bottom - 2)
                                faults.push(all[k].textContent + " lies on " + all[i].textContent);
                        });
                    });
                }
            }
            root.dataset.texts = texts; root.dataset.faults = faults.join("; ");""")
        root = e.all("html")[0]
        check(int(root["data-texts"]) > 6 * 12 and root["data-faults"] == "", f"{path}, {width} pixels: {root}")


def page_is_never_wider():
    """Not even the table, whatever columns and names it has: metrics that do not fit come after a click, each of them once."""
    more = [f"sm__inst_executed_pipe_tensor_with_a_name_as_long_as_that_of_any_other_metric_{i}.sum" for i in range(9)]
    names = [f'ALTER TABLE record ADD COLUMN "{name}" REAL' for name in more]
    values = ["UPDATE record SET " + ", ".join(f'"{name}" = 123456 * idx' for name in more)]
    columns = [("INSERT INTO column_def VALUES(?, ?, 'inst', 0)", (len(COLUMNS) + i, name)) for i, name in enumerate(more)]
    change("wide.gpuctr", "DROP VIEW records", *names, *columns, *values, ("UPDATE kernel SET name = ? || id WHERE id % 2", ("kernel" * 40,)))
    write("wide.gpuctr", "-f", "--html", "wide.html")
    e = browse("wide.html", """
        const seen = {}, faults = [], wide = (node) => node.scrollWidth > node.clientWidth + 1;
        const nodes = () => document.querySelectorAll("body, section, .scroll, th, td, dt, dd");
        for (const width of [390, 1000, 1200, 1600]) {
            document.body.style.width = width + "px";
            charts();
            for (const by of ["op", "kernel"]) {
                const metrics = seen[width + by] = [];
                $("table-by").value = by;
                $("table-by").dispatchEvent(new Event("change"));
                for (let end = false; !end; end = $("table-next").disabled, $("table-next").click()) {
                    metrics.push(...[...document.querySelector("tbody tr").querySelectorAll("td.begins")].map((c) => c.dataset.id));
                    for (const node of nodes()) if (wide(node)) faults.push(width + " pixels: " + node.outerHTML.slice(0, 200));
                }
                while (!$("table-previous").disabled) $("table-previous").click();
                if (document.querySelector("td.begins").dataset.id !== "time") faults.push(width + " pixels: previous metrics");
            }
        }
        root.dataset.seen = JSON.stringify(seen); root.dataset.faults = faults.slice(0, 3).join("; ");""")
    root = e.all("html")[0]
    seen, want = json.loads(root["data-seen"]), ["time", *COLUMNS, *more, "dram_bandwidth", "of_peak"]
    check(len(seen) == 8 and all(metrics == want for metrics in seen.values()), f"metrics: {root['data-seen']}")
    check(root["data-faults"] == "", root["data-faults"])


def hostile_names_do_nothing():
    browse("evil.html")


def names_are_not_the_languages():
    """Units and metrics may be called as what each object of JavaScript has: they are shown, and mean nothing."""
    members = ("constructor", "__proto__", "toString", "hasOwnProperty", "valueOf")
    renames = [f'ALTER TABLE record RENAME COLUMN "{c}" TO "{m}"' for c, m in zip(COLUMNS, members)]
    change("members.gpuctr", "DROP VIEW records", *renames,
           *[("UPDATE column_def SET name = ?, unit = ? WHERE idx = ?", (members[i], members[-1 - i], i)) for i in range(len(members))])
    write("members.gpuctr", "-f", "--html", "members.html")
    e = browse("members.html", BY_KERNEL + """
        const texts = [];
        for (let m = 0; m < data.timeline.measures.length; m++) {
            $("timeline-measure").value = $("flame-measure").value = m;
            charts();
            texts.push($("timeline").textContent + $("flame").textContent);
        }
        root.dataset.texts = texts.join("; ");""")
    for i, name in enumerate(members):
        figure = e.all("dd", data_name=name)
        check(len(figure) == 1 and float(figure[0]["data-value"]) == sums()[COLUMNS[i]], f"figure {name}: {figure}")
        check(sum(float(a["data-value"]) for a in e.all("td", data_id=name)) == sums()[COLUMNS[i]], f"table: {name}")
        check(" " + name in e.text["figures"] and f"{name} per" in e.all("html")[0]["data-texts"], f"unit or title {name}")


def empty_captures():
    write(change("none.gpuctr", "DELETE FROM record", "DELETE FROM image"), "-f", "--html", "none.html")
    e = browse("none.html")
    check("No record of the kernels that were measured was kept" in e.text["nothing"] and not e.all("circle"), "no kernels")
    hidden = [a["aria-labelledby"] for a in e.all("section") if "hidden" in a]
    check(hidden == ["h-hints", "h-top", "h-roofline", "h-flame", "h-timeline", "h-table"], f"a card of nothing: {hidden}")
    write("run.gpuctr", "-f", "--html", "none.html", "--where", "kernel=no kernel's name")
    check("None of the 716 measured launches matches" in browse("none.html").text["nothing"], "why nothing is there")
    write(change("bare.gpuctr", *NO_SITES, "UPDATE record SET duration_ns = -1, clock = 0"), "-f", "--html", "bare.html")
    e = browse("bare.html")
    check(float(e.all("dd", data_name=COLUMNS[0])[0]["data-value"]) == sums()[COLUMNS[0]], "no times")
    check("Add gpu__time_duration.sum" in e.text["roofline-note"], "what to do for times")
    check("hidden" in e.all("section", id="hints-section")[0], "no hints without times")
    check("No kernel ran in an NVTX range" in e.text["flame-note"] and "--torch" in e.text["flame-note"], "no ranges")


def main():
    tests = [numbers_are_the_captures, hints_are_the_reports, flame_is_the_captures, some_launches, turns_are_the_reports, columns_differ, timeline_is_where_kernels_are, rows_and_columns_of_the_users_own,
             nothing_from_outside, hostile_names, many_rows,
             files]
    if "--browser" in sys.argv:
        if not BROWSER:
            print("SKIP: no Chromium is installed (Debian's package chromium)")
            return 77
        tests = [the_console_is_heard, hostile_names, many_rows, shows_the_capture, begins_with_operators, each_capture_has_a_line, is_used, own_rows_are_shown, flame_graph, roofline, charts_without_times, turns_are_shown, incomplete_sums_have_a_star, errors_of_samples_are_shown, texts_fit, page_is_never_wider, hostile_names_do_nothing, names_are_not_the_languages, empty_captures, the_browser_ends]
        return run_tests(tests, RECORDING, start_browser)
    return run_tests(tests, RECORDING)


sys.exit(main())
