-- SPDX-License-Identifier: Apache-2.0
-- The i-th launch of a name in the trace and the i-th of that name in the capture. Names that
-- differ in spaces alone are one name.
CREATE TABLE pair(kernel INTEGER PRIMARY KEY, record INTEGER);
INSERT INTO pair
	WITH queue AS MATERIALIZED (
		SELECT id, plain, row_number() OVER (PARTITION BY plain ORDER BY correlation, args_at) AS i FROM kernel),
	named AS (
		SELECT id, replace(name, ' ', '') AS plain, replace(mangled, ' ', '') AS mangled FROM record),
	chosen AS (
		SELECT id, CASE WHEN plain IN (SELECT plain FROM queue) THEN plain ELSE mangled END AS plain FROM named),
	taken AS MATERIALIZED (
		SELECT id, plain, row_number() OVER (PARTITION BY plain ORDER BY id) AS i FROM chosen)
	SELECT queue.id, taken.id FROM queue JOIN taken USING (plain, i);

-- Launches in the order of time. The kernel of each is the first that has its correlation id.
-- Operators of a thread nest or do not overlap, so a launch is within one if the latest end of the
-- operators that have begun is after it. Times are rounded up to whole microseconds, as HTA does
-- it, and made to differ.
CREATE INDEX kernel_of ON event(correlation, args_at) WHERE category = 1;
CREATE TABLE launched(i INTEGER PRIMARY KEY, at INTEGER, thread TEXT, start REAL, us REAL, in_op INTEGER,
	kernel INTEGER, ceiling INTEGER, whole INTEGER);
INSERT INTO launched
	WITH covered AS (
		SELECT category, at, thread, start, us, correlation, max(CASE category WHEN 2 THEN start + us END)
			OVER (PARTITION BY thread ORDER BY start, category) AS until
		FROM event WHERE category IN (2, 3)),
	launch AS (
		SELECT row_number() OVER (ORDER BY start, at) AS i, *,
			iif(abs(start) < 9e18, CAST(start AS INTEGER) + (start > CAST(start AS INTEGER)), 0) AS ceiling
		FROM covered WHERE category = 3)
	SELECT i, at, thread, start, us, coalesce(until >= start + us, 0),
		(SELECT k.rowid FROM event k WHERE k.category = 1 AND k.correlation = launch.correlation
			ORDER BY k.args_at LIMIT 1),
		ceiling, i + max(ceiling - i) OVER (ORDER BY i)
	FROM launch;

CREATE TABLE counts AS SELECT
	(SELECT count(*) FROM record) AS records,
	(SELECT count(*) FROM kernel) AS kernels,
	(SELECT count(*) FROM pair) AS joined,
	(SELECT count(*) FROM pair JOIN record ON id = record WHERE plain <> '') AS valued,
	(SELECT count(*) FROM range) AS ranges,
	count(*) AS launches,
	count(*) FILTER (WHERE plain <> '') AS launches_valued,
	count(*) - count(DISTINCT ceiling) AS together,
	count(*) FILTER (WHERE NOT in_op) AS bare
	FROM launched LEFT JOIN pair USING (kernel) LEFT JOIN record r ON r.id = record;

-- What is put in, in the order of the text (merge.c has the numbers). Ranges that the trace has,
-- one for each launch, are filled; if it has none, new ones come at the end of the events.
CREATE TABLE insertion(at INTEGER, whole INTEGER, what INTEGER, first INTEGER, launch INTEGER, kernel INTEGER);
INSERT INTO insertion
	SELECT args_at, 0, 0, empty, NULL, id FROM pair JOIN kernel ON id = kernel
	UNION ALL
	SELECT launched.at, 0, 2, 1, i, NULL FROM launched JOIN counts WHERE NOT in_op AND ranges IN (0, launches)
	UNION ALL
	SELECT (SELECT max(at) FROM event WHERE category = 5), whole, 3, 1, i, kernel FROM launched JOIN counts
		WHERE ranges = 0
	UNION ALL
	SELECT range.args_at, 0, 1, range.empty, i, kernel
		FROM (SELECT *, row_number() OVER (ORDER BY start, args_at) AS i FROM range) AS range
		JOIN launched USING (i) JOIN counts WHERE ranges = launches
	ORDER BY 1, 2;
CREATE VIEW merged AS
	SELECT insertion.at, what,
		CASE WHEN first OR plain = '' THEN '' ELSE ',' END || CASE what WHEN 0 THEN args ELSE plain END, k.name, coalesce(k.device, 0), insertion.whole,
		max(1, CAST(min(coalesce(k.us, 1), 1e15) AS INTEGER)), l.thread, l.start, l.us
	FROM insertion LEFT JOIN pair USING (kernel) LEFT JOIN record r ON r.id = record
		LEFT JOIN event k ON k.rowid = insertion.kernel LEFT JOIN launched l ON l.i = insertion.launch
	ORDER BY insertion.rowid;
