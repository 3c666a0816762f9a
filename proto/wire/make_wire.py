#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_wire.py HEADER SOURCE PROTO...: generates the plain structs of wire.h and the tables of wire_layout.h.

The .proto files describe each message once. protoc reads the fields; this script reads, in comments, what
protobuf cannot express:

    message Name { // frame 12, struct gpuctr_name, checked by wire_check_name()
        string text = 1; // [LIMIT_TEXT_BYTES] ...

A message with "frame N" or "payload N" is a member of struct wire_message; its type is N. "struct" names a
public struct for the message, instead of a struct wire_name. "checked by" names a function that checks
relations between fields.

[limit] is a C expression: the longest string or bytes, the most elements, the largest number. Numbers need
none; a string without one has LIMIT_NAME_BYTES. An [optional] message is a pointer, NULL when it is absent.
"""

import pathlib
import re
import sys

MESSAGE = re.compile(r"message (\w+) \{(?: // (.*))?$")
FIELD = re.compile(r"\t(repeated )?(\w+) (\w+) = (\d+);(?:\s*// (?:\[([^]]+)\])?.*)?$")
NOT_OURS = re.compile(r"\s*(//.*|syntax .*|package .*|import .*|option .*)?$")

# of protobuf: in C, an array of them in C, the kind in wire_layout.h
SCALARS = {
    "uint32": ("uint32_t ", "u32s", "U32"),
    "uint64": ("uint64_t ", "u64s", "U64"),
    "fixed64": ("uint64_t ", "u64s", "U64"),
    "sint64": ("int64_t ", "i64s", "U64"),
    "double": ("double ", "doubles", "U64"),
    "bool": ("bool ", None, "BOOL"),
    "string": ("const char *", "strings", "STRING"),
    "bytes": ("struct wire_bytes ", None, "BYTES"),
}


def snake(name):
    return re.sub(r"(?<!^)([A-Z])", r"_\1", name).lower()


def plural(name):
    return name + ("es" if name.endswith("s") else "s")


class Message:
    def __init__(self, name, notes):
        self.name = snake(name)
        self.fields = []
        self.type = self.check = None
        self.public = False
        self.struct = "wire_" + self.name
        for note in notes.split(", ") if notes else []:
            word, value = note.rsplit(" ", 1)
            if word in ("frame", "payload"):
                self.type = int(value)
            elif word == "struct":
                self.struct, self.public = value, True
            elif word == "checked by":
                self.check = value.removesuffix("()")
            else:
                sys.exit(f"message {name}: {note}?")


def read(paths):
    messages = {}
    for path in paths:
        message = None
        for number, line in enumerate(path.read_text().splitlines(), 1):
            begin, field = MESSAGE.match(line), FIELD.match(line)
            if begin:
                message = messages[begin[1]] = Message(begin[1], begin[2])
            elif field and message:
                repeated, kind, name, tag, limit = field.groups()
                message.fields.append((repeated, kind, name, tag, limit))
            elif line == "}":
                message = None
            elif not NOT_OURS.match(line):
                sys.exit(f"{path}:{number}: not understood: {line}")
    return messages


def member(messages, repeated, kind, name, optional):
    if kind in SCALARS:
        single, many, _ = SCALARS[kind]
        return f"\tstruct wire_{many} {name};" if repeated else f"\t{single}{name};"
    m = messages[kind]
    if optional:
        return f"\tconst struct {m.struct} *{name};"
    return f"\tstruct wire_{plural(m.name)} {name};" if repeated else f"\tstruct {m.struct} {name};"


def row(messages, message, repeated, kind, name, number, limit):
    sub = "NULL" if kind in SCALARS else f"&layout_{messages[kind].name}"
    if kind in SCALARS:
        wire_kind = SCALARS[kind][2]
        if repeated:
            wire_kind = "STRINGS" if kind == "string" else "NUMBERS"
        elif kind == "string":
            limit = limit or "LIMIT_NAME_BYTES"
    else:
        wire_kind = "MESSAGES" if repeated else "MESSAGE"
        if limit == "optional":
            wire_kind, limit = "OPTIONAL", None
    if not limit and (repeated or kind == "bytes"):
        sys.exit(f"{message.name}.{name}: no limit")
    place = f"offsetof(struct {message.struct}, {name})"
    count = "0"
    if repeated and message.public:
        count = f"offsetof(struct {message.struct}, n_{name})"
    elif repeated:
        place, count = place[:-1] + ".v)", place[:-1] + ".n)"
    return f"\t{{ {number}, WIRE_KIND_{wire_kind}, {place}, {count}, {limit or 0}, {sub} }},"


def check(message, repeated, kind, name, number, limit):
    """That a member which gpuctr.h declares takes what is written there."""
    if repeated or kind not in SCALARS:
        return []
    member = f"((struct {message.struct} *)NULL)->{name}"
    return [f'_Static_assert(sizeof({member}) == sizeof({SCALARS[kind][0].strip()}), "{name}");']


def in_order(messages):
    """Those that a message holds come before it."""
    done = {}

    def add(name):
        if name not in done:
            for field in messages[name].fields:
                if field[1] in messages:
                    add(field[1])
            done[name] = messages[name]

    for name in messages:
        add(name)
    return done


def make_header(messages):
    lists = {field[1] for m in messages.values() for field in m.fields if field[0]} - set(SCALARS)
    ordered = in_order(messages)
    types = sorted((m for m in ordered.values() if m.type), key=lambda m: m.type)
    out = ["/* Made of the .proto files by make_wire.py; see wire.h. */", "", "enum wire_type {"]
    out += [f"\tWIRE_{m.name.upper()} = {m.type}," for m in types] + ["};", ""]
    for name, m in ordered.items():
        if not m.public:
            fields = [member(messages, *field[:3], field[4] == "optional") for field in m.fields]
            out += [f"struct {m.struct} {{", *fields, "};", ""]
        if name in lists:
            out += [f"struct wire_{plural(m.name)} {{", "\tsize_t n;", f"\tconst struct {m.struct} *v;", "};", ""]
    out += ["struct wire_message {", "\tenum wire_type type;", "\tunion {"]
    return out + [f"\t\tstruct {m.struct} {m.name};" for m in types] + ["\t};", "};"]


def make_source(messages, paths):
    ordered = in_order(messages).values()
    out = ["/* Made of the .proto files by make_wire.py; see wire_layout.h. */", ""]
    out += ['#include "proto/wire/wire_layout.h"', "", '#include "proto/wire/limits.h"']
    out += [f'#include "{path.stem}.pb-c.h"' for path in paths]
    for m in ordered:
        out += ["", f"static const struct wire_field fields_{m.name}[] = {{"]
        out += [row(messages, m, *field) for field in m.fields]
        out += ["};"] + [line for field in m.fields if m.public for line in check(m, *field)]
        out += [f"static const struct wire_layout layout_{m.name} = {{"]
        out += [f'\t"{m.name}", &gpuctr__{m.name}__descriptor, sizeof(struct {m.struct}), fields_{m.name},']
        out += [f"\tsizeof(fields_{m.name}) / sizeof(fields_{m.name}[0]), {m.check or 'NULL'},", "};"]
    out += ["", "const struct wire_layout *wire_layout_find(unsigned type)", "{", "\tswitch (type) {"]
    for m in ordered:
        if m.type:
            out += [f"\tcase {m.type}:", f"\t\treturn &layout_{m.name};"]
    return out + ["\tdefault:", "\t\treturn NULL;", "\t}", "}"]


def main():
    header, source, *protos = map(pathlib.Path, sys.argv[1:])
    messages = read(protos)

    header.write_text("\n".join(make_header(messages)) + "\n")
    source.write_text("\n".join(make_source(messages, protos)) + "\n")


main()
