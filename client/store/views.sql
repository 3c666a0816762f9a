-- SPDX-License-Identifier: Apache-2.0
-- The views of a capture file, for queries by hand; our programs never read them. schema_views.c replaces each line that
-- begins with @ by columns of metrics, or by what captures with graphs need.
--
-- Each view adds up records by launch before it joins names. So it passes over the records once, and the rest of its work
-- grows with the launches, not with the records.

-- The NVTX path of each site, and the path in two parts, head and tail, between which the number of the innermost step
-- belongs. The plus keeps SQLite from using the primary key as index, by which it would read all sites of a process for
-- each site.
CREATE VIEW site_path(process, id, path, head, tail) AS WITH RECURSIVE path(process, id, text, head, tail) AS (
	SELECT process, id, name, CASE number WHEN 1 THEN substr(name, 1, length(name) - 1) END, '' FROM site WHERE parent = 0
	UNION ALL SELECT s.process, s.id, p.text || '/' || s.name,
		CASE s.number WHEN 1 THEN p.text || '/' || substr(s.name, 1, length(s.name) - 1) ELSE p.head END,
		CASE s.number WHEN 1 THEN '' ELSE p.tail || '/' || s.name END
	FROM path p JOIN site s ON s.parent = p.id AND +s.process = p.process)
SELECT process, id, text, head, tail FROM path;

CREATE VIEW records AS WITH path AS MATERIALIZED (SELECT * FROM site_path)
SELECT r.process, p.pid, p.program, r.idx, l.kind, k.name AS kernel, k.mangled,
	l.grid_x, l.grid_y, l.grid_z, l.block_x, l.block_y, l.block_z,
	nullif(k.static_shared_bytes, -1) AS static_shared_bytes, l.dynamic_shared_bytes,
	nullif(k.registers, -1) AS registers, l.device, d.name AS device_name, d.uuid, l.context, l.stream,
	r.correlation, l.thread, r.start_ns, nullif(r.duration_ns, -1) AS duration_ns,
	CASE r.clock WHEN 2 THEN 'gpu' WHEN 1 THEN 'range' ELSE 'none' END AS clock,
	coalesce(n.head || r.step || n.tail, n.path) AS nvtx, o.op, r.seq, o.sizes, o.dir, o.layer, r.step
@graphs , h.graph, h.node AS graph_node
@values
FROM record r
	LEFT JOIN launch l ON l.id = r.launch
	LEFT JOIN process p ON p.id = r.process
	LEFT JOIN kernel k ON k.process = l.process AND k.id = l.kernel
	LEFT JOIN device d ON d.process = l.process AND d.idx = l.device
	LEFT JOIN path n ON n.process = l.process AND n.id = l.site
	LEFT JOIN place o ON o.id = l.place
@graphs LEFT JOIN graph_kernel h ON h.record = r.id
;

CREATE VIEW by_kernel AS WITH own AS MATERIALIZED (
	SELECT r.launch, count(*) AS launches, sum(nullif(r.duration_ns, -1)) AS duration_ns
@parts
	FROM record r GROUP BY r.launch)
SELECT k.name AS kernel, sum(s.launches) AS launches, sum(s.duration_ns) AS duration_ns
@sums
FROM own s JOIN launch l ON l.id = s.launch LEFT JOIN kernel k ON k.process = l.process AND k.id = l.kernel GROUP BY 1;

CREATE VIEW by_op AS WITH own AS MATERIALIZED (
	SELECT r.launch, count(*) AS launches, sum(nullif(r.duration_ns, -1)) AS duration_ns
@parts
	FROM record r GROUP BY r.launch)
SELECT o.op AS op, sum(s.launches) AS launches, sum(s.duration_ns) AS duration_ns
@sums
FROM own s JOIN launch l ON l.id = s.launch LEFT JOIN place o ON o.id = l.place GROUP BY 1;

-- A row for each path, with all launches within it, in all steps.
CREATE VIEW by_nvtx AS WITH RECURSIVE own AS MATERIALIZED (
	SELECT r.launch, count(*) AS launches, sum(nullif(r.duration_ns, -1)) AS duration_ns,
		min(CASE WHEN r.duration_ns >= 0 THEN r.start_ns END) AS begin_ns,
		max(r.start_ns + nullif(r.duration_ns, -1)) AS end_ns
@parts
	FROM record r GROUP BY r.launch),
within(process, site, enclosing) AS (
	SELECT DISTINCT process, site, site FROM launch WHERE site > 0
	UNION ALL SELECT w.process, w.site, g.parent
	FROM within w JOIN site g ON g.process = w.process AND g.id = w.enclosing WHERE g.parent > 0),
path(process, id, depth, text) AS (
	SELECT process, id, depth, CASE g.domain WHEN '' THEN '' ELSE g.domain || ':' END || g.name FROM site g WHERE parent = 0
	UNION ALL SELECT g.process, g.id, g.depth,
		p.text || '/' || CASE g.domain WHEN '' THEN '' ELSE g.domain || ':' END || g.name
	FROM path p JOIN site g ON g.parent = p.id AND +g.process = p.process)
SELECT p.text AS nvtx, min(p.depth) AS depth, sum(s.launches) AS launches, sum(s.duration_ns) AS duration_ns,
	min(s.begin_ns) AS begin_ns, max(s.end_ns) AS end_ns
@sums
FROM own s JOIN launch l ON l.id = s.launch
	JOIN within w ON w.process = l.process AND w.site = l.site
	JOIN path p ON p.process = w.process AND p.id = w.enclosing GROUP BY 1;

-- The file does not say when a range was opened and closed, so occurrences are found from launches. The first launch in an
-- occurrence shows that the range was not open at the thread's launch before.
CREATE VIEW nvtx_spans AS WITH RECURSIVE within(process, site, enclosing) AS (
	SELECT DISTINCT process, site, site FROM launch WHERE site > 0
	UNION ALL SELECT w.process, w.site, g.parent
	FROM within w JOIN site g ON g.process = w.process AND g.id = w.enclosing WHERE g.parent > 0),
inside AS (
	SELECT r.process, l.thread, r.idx, r.start_ns, r.duration_ns, r.step, w.enclosing,
		sum(r.opened <= g.depth) OVER (PARTITION BY r.process, l.thread, w.enclosing ORDER BY r.idx) AS occurrence
	FROM record r JOIN launch l ON l.id = r.launch
		JOIN within w ON w.process = l.process AND w.site = l.site
		JOIN site g ON g.process = w.process AND g.id = w.enclosing)
SELECT r.process, r.thread, r.enclosing AS site, g.depth, g.domain, g.name,
	CASE WHEN min(r.step) = max(r.step) THEN min(r.step) END AS step,
	min(r.idx) AS first_idx, max(r.idx) AS last_idx, count(*) AS launches,
	min(CASE WHEN r.duration_ns >= 0 THEN r.start_ns END) AS begin_ns, max(r.start_ns + nullif(r.duration_ns, -1)) AS end_ns
FROM inside r JOIN site g ON g.process = r.process AND g.id = r.enclosing
GROUP BY r.process, r.thread, r.enclosing, r.occurrence;
