-- SPDX-License-Identifier: Apache-2.0
-- What merge.c writes: the events of a trace (trace.h has the numbers of categories) and the
-- records of a capture, each in its order. args is for a kernel's arguments, with a prefix and with
-- errors; plain for a range's, of which HTA makes columns, the values alone.
CREATE TABLE event(category INTEGER, name TEXT, thread TEXT, start REAL, us REAL, at INTEGER,
	args_at INTEGER, empty INTEGER, correlation INTEGER, device INTEGER);
CREATE TABLE record(id INTEGER PRIMARY KEY, name TEXT, mangled TEXT, args TEXT, plain TEXT);
CREATE VIEW kernel AS SELECT rowid AS id, replace(name, ' ', '') AS plain, * FROM event WHERE category = 1;
CREATE VIEW range AS SELECT rowid AS id, * FROM event WHERE category = 4;
