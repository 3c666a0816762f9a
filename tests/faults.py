# SPDX-License-Identifier: Apache-2.0
"""The faults that tests/mutate plants: a table of operators over C source.

A fault is one small change of one line in the body of a function or in a table. Comments, strings and the
preprocessor's lines are left alone. Most faults of some operators do not compile or change nothing; the run
finds that out and does not count them."""
import collections
import re

Fault = collections.namedtuple("Fault", "path line column old new operator")

COMPARISONS = {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="}
ARITHMETIC = {"+": "-", "-": "+", "*": "/", "/": "*", "|": "&", "&": "|", "<<": ">>", ">>": "<<"}
# Names that stand side by side and are of one type: the wrong one is what a tired hand writes.
TWINS = [("begin", "end"), ("first", "last"), ("head", "tail"), ("min", "max"), ("read", "write"), ("grid", "block"),
         ("x", "y"), ("y", "z"), ("uid", "gid"), ("uid", "pid"), ("device", "context"), ("context", "stream"),
         ("sent", "received"), ("seen", "measured"), ("dropped", "lost"), ("start", "end"), ("out", "err"),
         ("registers", "shared"), ("category", "color"), ("sum", "avg"), ("n", "size"), ("next", "prev"), ("old", "new")]
TWIN = collections.defaultdict(set)
for a, b in TWINS:
    TWIN[a].add(b)
    TWIN[b].add(a)


def masked(text):
    """The text with comments and the inside of strings blanked, so that columns stay."""
    def blank(match):
        return re.sub(r"[^\n\"']", " ", match[0])
    return re.sub(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])'", blank, text, flags=re.S)


def enums_of(texts):
    """Each enumerator with the others of its enum."""
    siblings = {}
    for text in texts:
        for body in re.findall(r"\benum(?: \w+)? \{(.*?)\}", masked(text), re.S):
            names = re.findall(r"^\s*([A-Z][A-Z0-9_]+)\b", body.replace(",", ",\n"), re.M)
            for name in names:
                siblings.setdefault(name, [n for n in names if n != name])
    return siblings


def by_pattern(pattern, replace):
    """An operator that replaces group 1 of the pattern, wherever it is found in a line of a body."""
    def find(line, original, _):
        for match in re.finditer(pattern, line):
            new = replace(match)
            if new is not None and new != match[1]:
                yield match.start(1), original[match.start(1):match.end(1)], new
    return find


def other_constant(line, _, enums):
    for match in re.finditer(r"\b[A-Z][A-Z0-9_]+\b", line):
        siblings = enums.get(match[0])
        if siblings:
            yield match.start(), match[0], siblings[sum(map(ord, line)) % len(siblings)]


def closing(line, i):
    """Where the bracket that is open at i closes; None: on another line."""
    depth = 1
    while i < len(line):
        depth += (line[i] in "([{") - (line[i] in ")]}")
        if depth == 0:
            return i
        i += 1
    return None


def arguments(line, begin, end):
    """(begin, end) of each argument between two brackets."""
    depth, at, found = 0, begin, []
    for i in range(begin, end + 1):
        if i == end or (line[i] == "," and depth == 0):
            found.append((at, i))
            at = i + 1
        elif line[i] in "([{":
            depth += 1
        elif line[i] in ")]}":
            depth -= 1
    return found


def swapped_arguments(line, original, _):
    for match in re.finditer(r"\b(?!if\b|while\b|for\b|switch\b|sizeof\b|return\b)\w+\(", line):
        end = closing(line, match.end())
        parts = arguments(line, match.end(), end) if end else []
        for (b1, e1), (b2, e2) in zip(parts, parts[1:]):
            first, second = original[b1:e1].strip(), original[b2:e2].strip()
            if first != second:
                yield b1, original[b1:e2], f"{second}, {first}"


def negated_condition(line, original, _):
    for match in re.finditer(r"\b(?:if|while) \(", line):
        end = closing(line, match.end())
        if end:
            condition = original[match.end():end]
            yield match.end(), condition, f"!({condition})"


def twin(match):
    twins = sorted(TWIN.get(match[1], ()))
    return twins[match.start() % len(twins)] if twins else None


OPERATORS = {
    "border": by_pattern(r" (<=?|>=?|==|!=) ", lambda m: COMPARISONS[m[1]]),
    "logic": by_pattern(r"(&&|\|\|)", lambda m: "||" if m[1] == "&&" else "&&"),
    "arithmetic": by_pattern(r" (\+|-|\*|/|\||&|<<|>>) ", lambda m: ARITHMETIC[m[1]]),
    "off by one": by_pattern(r"(?<![\w.])(\d{1,6})(?![\w.])", lambda m: str(int(m[1]) + 1)),
    "no negation": by_pattern(r"(!(?=[\w(]))", lambda m: ""),
    "negated": negated_condition,
    "dropped call": by_pattern(r"^\t+(?!return\b)(\w+\(.*\));$", lambda m: "(void)0"),
    "dropped assignment": by_pattern(r"^\t+([\w.\[\]>*-]+ [+|&-]?= [^;{]*);$", lambda m: "(void)0"),
    "other result": by_pattern(r"\breturn ([^;]+);", lambda m: "0" if m[1] != "0" else "1"),
    "no jump": by_pattern(r"^\t+(break|continue|return);$", lambda m: "(void)0"),
    "early return": by_pattern(r"^\t((?=[a-z_]+[(-])(?!return\b))\w.*;$", lambda m: "return; "),
    "other constant": other_constant,
    "swapped arguments": swapped_arguments,
    "twin": by_pattern(r"(?:->|\.)([a-z]+)\b", twin),
    "no else": by_pattern(r"(else )if \(", lambda m: ""),
}


def lines_of(text):
    """(number, line) of what stands in a function or a table, blanked."""
    for number, line in enumerate(masked(text).split("\n"), 1):
        if line.startswith("\t") and not re.match(r"\s*(static_assert|assert)\b", line):
            yield number, line


def faults_of(path, text, enums):
    """All faults of a file, by operator."""
    found, lines = collections.defaultdict(list), text.split("\n")
    for number, line in lines_of(text):
        for name, find in OPERATORS.items():
            for column, old, new in find(line, lines[number - 1], enums):
                found[name].append(Fault(path, number, column, old, new, name))
    return found


def planted(text, fault):
    """The text with the fault in it."""
    lines = text.split("\n")
    line = lines[fault.line - 1]
    lines[fault.line - 1] = line[:fault.column] + fault.new + line[fault.column + len(fault.old):]
    return "\n".join(lines)
