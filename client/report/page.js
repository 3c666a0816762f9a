/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
/* The script shows all texts of a capture as text and never as markup. */
window.onerror = (message) => { document.documentElement.dataset.error = String(message); };
const data = JSON.parse(document.getElementById("data").textContent);
const views = { kernel: data.kernel, op: data.op, by: data.by };
const $ = (id) => document.getElementById(id);

/* --- numbers --- */
const known = (value) => value !== null && value !== undefined;
const count = d3.format(",d"), three = d3.format(".3s"), brief = d3.format(".3~s"), plain = d3.format("~r");
/* For each unit with a symbol: the factor to the symbol's unit, and the symbol, which takes prefixes (k, M, ...). A unit may have
   any name, "constructor" too, so these inherit nothing. */
const UNITS = { __proto__: null, byte: [1, "B"], nanosecond: [1e-9, "s"], ns: [1e-9, "s"], "byte/second": [1, "B/s"], "FLOP/second": [1, "FLOP/s"],
	"FLOP/byte": [1, "FLOP/byte"] };
const SMALL = ["s", "FLOP/byte"];
/* Units in words. Figures in units with a symbol have the symbol instead. */
const SAID = { __proto__: null, byte: "bytes", nanosecond: "nanoseconds", ns: "nanoseconds", sector: "sectors", l2_sector: "sectors", request: "requests", l2_request: "requests", inst: "instructions",
	instruction: "instructions", cycle: "cycles", warp: "warps" };
const said = (unit) => unit === "percent" || UNITS[unit] ? "" : SAID[unit] || unit;
function show(value, unit, format = three) {
	if (!known(value) || !isFinite(value)) return "na";
	if (unit === "percent") return value.toPrecision(3) + " %";
	const [factor, symbol] = UNITS[unit] || [1, ""], v = value * factor, size = Math.abs(v);
	if (symbol === "s" && size >= 1000) return count(v) + " s";
	const whole = Number.isInteger(v) && size < 1000, small = size < 1 && !SMALL.includes(symbol);
	const [, number, prefix] = /^(.*?)([a-zµ]?)$/i.exec(whole ? String(v) : small ? v.toPrecision(3) : format(v));
	return [number, prefix + symbol].filter(Boolean).join("\u00a0") + (said(unit) && " " + said(unit));
}
const partOf = (value, all) => all > 0 ? (value / all * 100).toPrecision(3) + " %" : "na";

/* --- rows --- */
const columnsOf = (view) => view.columns.filter((c) => !c.derived);
const derivedOf = (view) => view.columns.filter((c) => c.derived && view.rows.some((row) => known(row.derived[c.name])));
const sumOf = (row, name) => { const m = row.measures[name]; return m ? (m.sum !== undefined ? m.sum : m.mean) : null; };
const longName = (row) => Object.values(row.key).map((v) => v || "na").join(", ");
const rowsOf = (view) => view.rows.map((row, i) => ({ row, short: view.names[i], name: longName(row), time: sumOf(row, "time") }));
/* What people call the usual columns. */
const WORDS = { time: "Kernel time", "gpu__time_duration.sum": "GPU time",
	"dram__bytes.sum": "DRAM traffic", "dram__bytes_read.sum": "DRAM read", "dram__bytes_write.sum": "DRAM written",
	"lts__t_sectors.sum": "L2 sectors", "lts__t_sectors_op_read.sum": "L2 sectors read", "lts__t_sectors_op_write.sum": "L2 sectors written",
	"lts__t_requests.sum": "L2 requests", "lts__t_sector_hit_rate.pct": "L2 hit rate", "l1tex__t_sector_hit_rate.pct": "L1 hit rate",
	"sm__warps_active.avg.pct_of_peak_sustained_active": "Achieved occupancy",
	"sm__inst_executed.sum": "Instructions", "sm__inst_executed_pipe_tensor.sum": "Tensor instructions", kineto__tensor_core_insts: "Tensor instructions",
	"sm__cycles_active.avg": "Active SM cycles", "sm__cycles_elapsed.max": "Elapsed SM cycles", kineto__cuda_core_flops: "CUDA core FLOP",
	dram_bandwidth: "DRAM bandwidth", dram_read_bandwidth: "DRAM read bandwidth", dram_write_bandwidth: "DRAM write bandwidth",
	l1_hit_rate: "L1 hit rate", l2_hit_rate: "L2 hit rate", of_peak: "% of DRAM peak", flop: "FLOP", flop_rate: "FLOP rate", of_flop_peak: "% of FLOP peak", intensity: "FLOP per DRAM byte" };
/* As a metric, time is that of the range around a kernel. */
function titleOf({ name, of_range }) {
	if (of_range && name.startsWith("gpu__time_duration")) return "Range time";
	const [, precision] = /^sm__ops_path_tensor.*_src_([a-z0-9]+).*\.sum$/.exec(name) || [];
	return precision ? "Tensor operations, " + precision : Object.hasOwn(WORDS, name) ? WORDS[name] : name;
}
/* The name of the metric, if the title is another one; "" for derived columns. */
const metricOf = (c) => c.derived || c.name === "time" || titleOf(c) === c.name ? "" : c.name;
const fullTitle = (c) => titleOf(c) + (metricOf(c) && ` (${metricOf(c)})`);
/* Does a sum lack launches whose value is not known? It has a star, as in the table of a terminal. */
const lacks = (m, launches) => known(m.sum) && m.n > 0 && (m.unknown ?? launches - m.n) > 0;
const unsampled = (row, { name }) => known(row.derived[name]) && row.derived[name + ":unsampled"] > 0;
const star = (incomplete) => incomplete ? "*" : "";
/* The standard error of samples in percent. */
function errorOf({ error }, value) {
	const percent = 100 * error / Math.abs(value);
	return known(error) && value ? ` ±${percent === 0 ? 0 : percent < 100 ? percent.toPrecision(2) : count(percent)} %` : "";
}
const hasTime = data.kernel.all.measures.time.n > 0;
const isKnown = ({ name }) => data.kernel.all.measures[name].n > 0;
const NESTING = ["op", "nvtx", "layer"];
const labels = { kernel: "kernels", op: "operators", by: data.by && "rows by " + data.by.by.join(", ") };
/* Allows line breaks within a long name. */
const breakable = (name) => name.replace(/_+|::|[.,<]+/g, "$&\u200b");
const nests = (view) => view.by.some((key) => NESTING.includes(key));

function options(id, pairs, changed) {
	d3.select(id).on("change", changed).selectAll("option").data(pairs).join("option").attr("value", (p) => p[0]).text((p) => p[1]);
}

/* --- summary --- */
function heading() {
	const { command, runs } = data.meta, title = command || "GPU counters";
	const lines = runs.map((r) => [runs.length > 1 ? r.path : "", r.user && r.host ? `${r.user} on ${r.host}` : r.user || r.host, r.gpus.join(", "),
		new Date(r.created_ns / 1e6).toISOString().slice(0, 16).replace("T", " ") + " UTC"].filter(Boolean).join(" · "));
	$("title").textContent = title.length > 200 ? title.slice(0, 199) + "…" : title;
	$("title").title = title;
	const more = lines.length > 8 ? [`and ${count(lines.length - 8)} more captures`] : [];
	d3.select("#runs").selectAll("li").data([...lines.slice(0, 8), ...more]).join("li").text((line) => line);
	document.title = [title, lines[0]].join(" · ");
}
function figures() {
	const { all, records } = data.kernel, meta = data.meta;
	const measured = columnsOf(data.kernel).map((c) => {
		const m = all.measures[c.name], sum = known(m.sum);
		return { name: sum ? c.name : c.name + " (mean)", title: titleOf(c) + (sum ? "" : " (mean)"), metric: metricOf(c), unit: c.unit,
			value: sum ? m.sum : m.mean, error: star(lacks(m, all.launches)) + errorOf(m, sum ? m.sum : m.mean) };
	});
	const derived = derivedOf(data.kernel).map((c) => ({ name: c.name, title: titleOf(c), metric: "", unit: c.unit, value: all.derived[c.name],
		error: star(unsampled(all, c)) }));
	const counts = [{ name: "kernels measured", title: "Kernels measured", metric: "", unit: "count", value: records, error: "" }];
	const told = meta.nothing ? counts : [...counts, ...measured, ...derived].filter((f) => known(f.value));
	const boxes = d3.select("#figures").selectAll("div").data(told).join("div");
	boxes.append("dt").text((f) => f.title).filter((f) => f.metric).append("small").text((f) => breakable(f.metric));
	boxes.append("dd").attr("data-name", (f) => f.name).attr("data-value", (f) => f.value)
		.text((f) => f.unit === "count" ? count(f.value) : show(f.value, f.unit)).append("span").attr("class", "error").text((f) => f.error);
	$("nothing").textContent = meta.nothing;
	$("nothing").hidden = !meta.nothing;
	const alarms = /^(NOT COMPLETE|RECORDED)|\bSAMPLED\b/m;
	const notes = d3.select("#notes").selectAll("p").data([meta.hardware, meta.notes.trim()]).join("p");
	notes.classed("dim", (text, i) => i === 0).classed("warn", (text, i) => i > 0 && alarms.test(text)).text((text) => text);
}

/* --- hints --- */
function hints() {
	const item = d3.select("#hints").selectAll("li").data(data.hints).join("li");
	item.append("span").attr("class", "name").attr("title", (h) => h.name).text((h) => h.short);
	item.append("span").text((h) => ": " + h.text);
	$("hints-section").hidden = data.hints.length === 0;
}

/* --- charts --- */
/* A drawing is W units wide, and W is set to its width in pixels, so that its text has the size of other text. */
let W = 900;
const L = 84, R = 30, T = 26, B = 42;
function drawing(id, height, role, label) {
	return d3.select(id).text("").append("svg").attr("viewBox", `0 0 ${W} ${height}`).attr("role", role).attr("aria-label", label);
}
/* x and y: { scale, unit, text }. A unit without a symbol is long, so it stands in the axis title. On a logarithmic scale, lines
   between powers of ten have numbers only if there is room. */
function chart(id, height, role, label, x, y) {
	const svg = drawing(id, height, role, label);
	x.scale.range([L, W - R]);
	y.scale.range([height - B, T]);
	const draw = (axis, { scale, unit }, ticks, size, dx, dy) => {
		const text = (v) => UNITS[unit] && unit !== "FLOP/byte" ? show(v, unit, brief) : v < 1 ? plain(v) : show(v, "", brief);
		axis.ticks(ticks).tickFormat(scale.base ? scale.tickFormat(ticks / 2.5, text) : text).tickSize(-size).tickPadding(8);
		svg.append("g").attr("transform", `translate(${dx} ${dy})`).attr("aria-hidden", true).call(axis)
			.selectAll(".tick").classed("told", function () { return this.textContent !== ""; });
	};
	draw(d3.axisBottom(x.scale), x, (W - L - R) / 70, height - T - B, 0, height - B);
	draw(d3.axisLeft(y.scale), y, (height - T - B) / 40, W - L - R, L, 0);
	svg.append("text").attr("x", (L + W - R) / 2).attr("y", height - 4).attr("text-anchor", "middle").text(x.text);
	svg.append("text").attr("x", 4).attr("y", 12).text(UNITS[y.unit] || !y.unit ? y.text : `${y.text}, ${y.unit}`);
	return svg;
}
/* Spans whole powers of ten around the values, at least one. */
function logScale(values) {
	const [low, high] = d3.extent(values);
	return d3.scaleLog().domain([low, Math.max(high, low * 1.001)]).nice();
}

/* --- roofline --- */
function roofline() {
	const by = $("roofline-by").value, view = views[by], rows = rowsOf(view), meta = data.meta;
	const has = (name) => view.columns.some((c) => c.name === name);
	const ready = has("intensity") && meta.flops !== "", bandwidth = ["dram_bandwidth", "dram_read_bandwidth", "dram_write_bandwidth"].find(has);
	const points = rows.filter(({ row }) => row.launches > 0).map((r) => ({ ...r, x: ready ? r.row.derived.intensity : r.time,
		y: r.row.derived[ready ? "flop_rate" : bandwidth] })).filter((p) => p.x > 0 && p.y > 0).sort((a, b) => b.time - a.time);
	$("roofline-point").textContent = "";
	$("roofline-point").hidden = points.length === 0;
	$("roofline-by").parentNode.hidden = !hasTime || !(ready || bandwidth);
	if (points.length === 0) {
		$("roofline").replaceChildren();
		$("roofline-note").textContent = bandwidth && rows.length && !hasTime
			? "No kernel has a time, so bandwidth is unknown. Add gpu__time_duration.sum to --metrics."
			: "DRAM bytes and kernel times were not measured together. Capture with --metrics roofline or --metrics memory.";
		return;
	}
	const peak = meta.peak_bytes_per_second > 0 ? meta.peak_bytes_per_second : d3.max(rows, ({ row }) => row.derived[bandwidth]);
	const from = meta.peak_bytes_per_second > 0 ? `the DRAM peak of ${meta.peak_of} at its highest clock, ${show(peak, "byte/second")}`
		: `the highest bandwidth measured, ${show(peak, "byte/second")}, because the DRAM peak of the device is unknown`;
	const highest = d3.max(points, (p) => p.y), known = ready && meta.flop_peaks.length > 0;
	const roofs = !ready ? [{}] : known ? meta.flop_peaks.map((p) => ({ of: p.of, top: p.flop_per_second })) : [{ top: highest }];
	const around = roofs.map(({ top }) => ready ? { x: top / peak, y: top } : { x: points[0].x, y: peak });
	const x = ready ? { unit: "FLOP/byte", text: "FLOP per DRAM byte" } : { unit: "nanosecond", text: "total time" };
	const y = ready ? { unit: "FLOP/second", text: "FLOP rate" } : { unit: "byte/second", text: WORDS[bandwidth] };
	x.scale = logScale([...points, ...around].map((p) => p.x));
	y.scale = logScale([...points, ...around].map((p) => p.y));
	const svg = chart("#roofline", 420, "group", ready ? "Roofline" : "Bandwidth against time: arrow keys move between points", x, y);
	const [left, right] = x.scale.domain(), start = Math.max(left, y.scale.domain()[0] / peak);
	const line = ({ top }) => ready ? [[start, start * peak], [top / peak, top], [right, top]] : [[left, peak], [right, peak]];
	svg.selectAll("path.roof").data(roofs).join("path").attr("class", "roof").attr("data-peak", peak).attr("data-top", (r) => r.top)
		.attr("d", (r) => "M" + line(r).map(([a, b]) => [x.scale(a), y.scale(b)]).join("L"));
	svg.selectAll("text.roof-of").data(known ? roofs : []).join("text").attr("class", "roof-of").attr("text-anchor", "end")
		.attr("x", x.scale(right)).attr("y", (r) => y.scale(r.top) - 4).text((r) => r.of);
	const text = (p) => `${p.name}: ${show(p.y, y.unit)}, ${show(p.x, x.unit)}` + (ready ? ", " + show(p.time, "nanosecond") : "");
	const radius = d3.scaleSqrt().domain([0, Math.max(points[0].time, 1)]).range([3, W < 600 ? 10 : 18]);
	svg.selectAll("circle").data(points).join("circle").attr("class", "dot").attr("tabindex", (p, i) => i === 0 ? 0 : -1).attr("role", "img").attr("aria-label", text)
		.attr("cx", (p) => x.scale(p.x)).attr("cy", (p) => y.scale(p.y)).attr("r", (p) => radius(p.time || 0))
		.attr("data-x", (p) => p.x).attr("data-y", (p) => p.y)
		.on("focus pointerenter", (p) => { $("roofline-point").textContent = text(p); })
		.on("keydown", (p, i, dots) => {
			const to = dots[i + ({ ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[d3.event.key] || NaN)];
			if (!to) return;
			dots[i].setAttribute("tabindex", -1);
			to.setAttribute("tabindex", 0);
			to.focus();
			d3.event.preventDefault();
		})
		.append("title").text(text);
	label(svg, points.slice(0, 5).map((p) => ({ text: p.short, x: x.scale(p.x), y: y.scale(p.y), r: radius(p.time || 0) })));
	$("h-roofline").textContent = ready ? "Roofline" : "Bandwidth against time";
	$("roofline-note").textContent = (ready ? `The slope is ${from}. ` + (known
		? `The flat lines are the peaks of its tensor cores at their highest clock: ${roofs.map((r) => `${r.of} ${show(r.top, y.unit)}`).join(", ")}.`
		: `The flat line is the highest rate measured here, ${show(highest, y.unit)}, not the device's peak.`)
		+ ` Only counted operations are included: ${meta.flops}.`
		: `The line is ${from}. For a roofline, capture floating-point operations with --metrics roofline.`)
		+ ` Each point is one of the ${labels[by]}; a larger point took more time, and the five largest have their names.`;
}
/* Writes names beside points: each at the nearest place around its point without another text, and without a point if there is
   such a place. A name that is not next to its point gets a line to it. */
function label(svg, points) {
	const overlap = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y < b.y + b.height && b.y < a.y + a.height;
	const taken = svg.selectAll("text").nodes().map((node) => node.getBBox()), [top, bottom] = [T, svg.attr("viewBox").split(" ")[3] - B];
	const dots = svg.selectAll("circle").nodes().map((node) => node.getBBox());
	const letters = W < 600 ? 18 : 36;
	for (const { text, x, y, r } of points) {
		const leader = svg.append("line").attr("class", "leader");
		const node = svg.append("text").attr("class", "label").text(text.length > letters ? text.slice(0, letters - 1) + "…" : text);
		const { width, height } = node.node().getBBox();
		const places = d3.range(4, 400, 12).flatMap((d) => d3.range(0, 2 * Math.PI, Math.PI / 4).map((angle) => {
			const [dx, dy] = [Math.cos(angle), Math.sin(angle)];
			return { d, width, height, x: x + dx * (r + d) + width * (dx - 1) / 2, y: y + dy * (r + d) + height * (dy - 1) / 2 };
		}));
		const free = (p) => p.x >= L && p.x + width <= W - R && p.y >= top && p.y + height <= bottom && !taken.some((t) => overlap(p, t));
		const place = places.find((p) => free(p) && !dots.some((d) => overlap(p, d))) || places.find(free) || places[0];
		taken.push(place);
		node.attr("x", place.x).attr("y", place.y + height * 0.8);
		if (place.d > 4) leader.attr("x1", x).attr("y1", y).attr("x2", place.x + width / 2).attr("y2", place.y + height / 2);
	}
}

/* --- top rows --- */
function topRows() {
	const by = $("top-by").value, view = views[by], name = $("top-measure").value, { unit } = view.columns.find((c) => c.name === name);
	const value = (r) => sumOf(r.row, name), share = (v) => partOf(v, view.all.measures[name].sum);
	const error = (r) => star(lacks(r.row.measures[name], r.row.launches)) + (nests(view) ? "" : errorOf(r.row.measures[name], value(r)));
	const all = rowsOf(view).filter((r) => r.row.launches > 0 && value(r) > 0).sort((a, b) => value(b) - value(a)), rows = all.slice(0, 12);
	const width = d3.scaleLinear().domain([0, d3.max(rows, value)]).range([0, 100]);
	const line = d3.select("#top").text("").selectAll("div").data(rows).join("div").attr("class", "row").attr("role", "listitem");
	line.append("div").attr("class", "name").attr("title", (r) => r.name).text((r) => breakable(r.short));
	line.append("div").attr("class", "track").append("div").attr("class", "bar").style("width", (r) => width(value(r)) + "%");
	line.append("div").attr("class", "value").attr("data-value", value).text((r) => show(value(r), unit) + error(r));
	line.append("div").attr("class", "share").text((r) => share(value(r)));
	$("h-top").textContent = "Top " + labels[by];
	$("top-note").textContent = rows.length === 0 ? "This metric is 0 or unknown in each row." : `${rows.length} of ${view.rows.length + view.rows_left_out} ${labels[by]}, with `
		+ `${share(d3.sum(rows, value))} of the total.` + (nests(view) ? " A row has what runs directly in it, without what runs in rows within it." : "");
}

/* --- flame graph --- */
/* The children of a frame that the page leaves out are drawn as one frame, the rest. */
const ROW = 20, LETTER = 6.7, flame = {};
function prepareFlame() {
	const { frames, names, short } = data.flame;
	const tree = d3.stratify().id((f) => f.id).parentId((f) => f.parent < 0 ? null : f.parent);
	const own = frames.map(([parent, name, kernel, left, launches, ...sums], id) => ({ id, parent, left, launches, sums, kernel: kernel > 0,
		name: names[name] || "(no name)", short: short[name] || names[name] || "(no name)" }));
	const rests = tree(own).descendants().filter((n) => n.data.left > 0).map(({ data: f, children = [] }, i) => {
		const rest = (of) => of(f) - d3.sum(children, (k) => of(k.data)), name = `${count(f.left)} smaller`;
		return { id: own.length + i, parent: f.id, launches: rest((k) => k.launches), sums: f.sums.map((_, v) => rest((k) => k.sums[v])),
			rest: true, name, short: name };
	});
	flame.root = flame.zoom = flame.focus = tree(own.concat(rests));
}
function hue({ kernel, name }) {
	let h = 7;
	for (let i = 0; i < name.length; i++) h = (h * 31 + name.charCodeAt(i)) % 9973;
	return kernel ? 15 + h % 40 : 190 + h % 80;
}
const frameOf = (n) => d3.selectAll("#flame .frame").filter((k) => k === n).node();
function flameKey(n) {
	const { key } = d3.event, { shown, root, zoom } = flame, row = shown.filter((k) => k.depth === n.depth);
	const to = { ArrowUp: n.parent, ArrowDown: shown.find((k) => k.parent === n), ArrowLeft: row[row.indexOf(n) - 1],
		ArrowRight: row[row.indexOf(n) + 1], Home: root };
	if (key === "Enter" || key === " ") zoomFlame(n);
	else if (key === "Escape") zoomFlame(zoom.parent || root);
	else if (!(key in to)) return;
	else if (to[key]) frameOf(to[key]).focus();
	d3.event.preventDefault();
}
function zoomFlame(n) {
	flame.zoom = flame.focus = n.children ? n : n.parent || n;
	drawFlame();
	frameOf(flame.focus).focus({ preventScroll: true });
}
/* The frame that is zoomed in and all frames around it are as wide as the drawing. */
function drawFlame() {
	const measure = Number($("flame-measure").value), { unit } = data.timeline.measures[measure], part = $("flame-find").value.toLowerCase();
	const { root } = flame, sum = (n) => n.data.sums[measure];
	root.each((n) => { n.value = Math.max(sum(n) || 0, 0); n.hit = part !== "" && n.data.name.toLowerCase().includes(part); });
	root.sort((a, b) => Boolean(a.data.rest) - Boolean(b.data.rest) || b.value - a.value || a.data.id - b.data.id);
	d3.partition()(root);
	if (!(flame.zoom.value > 0)) flame.zoom = root;
	const { zoom } = flame, x = d3.scaleLinear().domain([zoom.x0, zoom.x1]).range([0, W]).clamp(true), width = (n) => x(n.x1) - x(n.x0);
	const shown = flame.shown = [];
	root.eachBefore((n) => { if (n === root || n === zoom || width(n) >= 0.3) shown.push(n); });
	if (!shown.includes(flame.focus)) flame.focus = zoom;
	const text = (n) => `${n.data.name}: ${show(sum(n), unit)} (${Number.isInteger(sum(n)) ? count(sum(n)) : known(sum(n)) ? sum(n) : "na"} ${SAID[unit] || unit}), `
		+ `${partOf(sum(n), sum(root))} of all, ${count(n.data.launches)} launches`;
	const svg = drawing("#flame", ROW * (1 + d3.max(shown, (n) => n.depth)), "group", "Flame graph: arrow keys move, Enter zooms in, Escape zooms out");
	const frame = svg.selectAll("g").data(shown).join("g").attr("class", "frame")
		.classed("around", (n) => n.depth < zoom.depth).classed("rest", (n) => n.data.rest).classed("hit", (n) => n.hit)
		.style("--hue", (n) => hue(n.data)).attr("tabindex", (n) => n === flame.focus ? 0 : -1).attr("role", "button").attr("aria-label", text)
		.attr("data-frame", (n) => n.id).attr("data-value", sum).attr("data-launches", (n) => n.data.launches)
		.on("click", zoomFlame).on("keydown", flameKey)
		.on("focus", (n) => { flame.focus = n; frame.attr("tabindex", (k) => k === n ? 0 : -1); })
		.on("focus.tell pointerenter.tell", (n) => {
			$("flame-point").textContent = [...n.ancestors().slice(1).reverse().map((k) => k.data.short), text(n)].join(" / ");
		});
	frame.append("rect").attr("x", (n) => x(n.x0)).attr("y", (n) => n.depth * ROW).attr("width", width).attr("height", ROW - 1);
	const letters = (n) => Math.floor((width(n) - 6) / LETTER);
	frame.filter((n) => letters(n) >= 3).append("text").attr("x", (n) => x(n.x0) + 3).attr("y", (n) => n.depth * ROW + 14)
		.text((n) => n.data.short.length > letters(n) ? n.data.short.slice(0, letters(n) - 1) + "…" : n.data.short);
	frame.append("title").text(text);
	/* A found frame in another found frame must not be counted twice. */
	const hits = root.descendants().filter((n) => n.hit);
	const found = d3.sum(hits.filter((n) => !n.ancestors().slice(1).some((k) => k.hit)), sum);
	$("flame-note").textContent = (part === "" ? "" : `${count(hits.length)} frames found, with ${show(found, unit)} or ${partOf(found, sum(root))}. `)
		+ (root.descendants().some((n) => n !== root && !n.data.kernel && !n.data.rest)
			? "Blue frames are NVTX ranges, the outermost at the top; the others are kernels. All steps share one frame. Click a frame to zoom in."
			: "No kernel ran in an NVTX range, so each frame is a kernel. Capture a PyTorch program with --torch, or mark a program's parts with NVTX.");
	$("flame-note").dataset.found = found;
}

/* --- timeline --- */
/* What samples counted, as steps from 0 to end, in the bars' unit: per width of a bar. Where a part of a step was sampled, all of it is
   taken to be alike; where nothing was, there is none. */
function sampledLine(measure, end) {
	const { bin_ns: width, after_ns: after, sums, parts } = data.sampled || { sums: [] };
	return (sums[measure] || []).map((sum, i) => ({ part: parts[measure][i], sum: sum / parts[measure][i] * data.timeline.bin_ns / width, at: after + i * width }))
		.filter((b) => b.part > 0 && b.at >= 0 && b.at + width <= end);
}
/* Steps that follow each other are joined. */
function sampledPath(line, x, y) {
	const width = (data.sampled || {}).bin_ns, at = (time, sum) => `${x(time)},${y(Math.min(sum, y.domain()[1]))}`;
	return line.map((b, i) => (i > 0 && line[i - 1].at + width === b.at ? "L" : "M") + at(b.at, b.sum) + "L" + at(b.at + width, b.sum)).join("");
}

function timeline() {
	const { bin_ns: width, measures } = data.timeline, { name, unit, sums } = measures[Number($("timeline-measure").value)], title = titleOf(kernelColumn({ name }));
	$("timeline").replaceChildren();
	if (sums.length === 0) return;
	const most = Math.max(d3.max(sums), 0), label = `${title} over time, at most ${show(most, unit)} in ${show(width, "nanosecond")}`;
	const x = d3.scaleLinear().domain([0, sums.length * width]), y = d3.scaleLinear().domain([0, most || 1]).nice(4);
	const svg = chart("#timeline", 240, "img", label, { scale: x, unit: "nanosecond", text: "time since the first kernel" },
		{ scale: y, unit, text: `${title} per ${show(width, "nanosecond")}` });
	const bins = sums.map((sum, i) => ({ sum, at: i * width })).filter((b) => b.sum > 0);
	svg.selectAll("rect").data(bins).join("rect").attr("class", "bin").attr("width", Math.max(x(width) - x(0) - 0.2, 0.5))
		.attr("x", (b) => x(b.at)).attr("y", (b) => y(b.sum)).attr("height", (b) => y(0) - y(b.sum))
		.append("title").text((b) => `${show(b.at, "nanosecond")}: ${show(b.sum, unit)}`);
	svg.attr("data-sum", d3.sum(sums));
	const line = sampledLine(Number($("timeline-measure").value), x.domain()[1]);
	if (line.length > 0) svg.append("path").attr("class", "sampled").attr("d", sampledPath(line, x, y));
	$("timeline-note").textContent = `Each bar is the sum of the kernels that began within ${show(width, "nanosecond")}. ` + (data.kernel.turns
		? "The bars are scaled from the kernels that had the metric so that they add up to all." : "Only measured kernels are included.")
		+ (line.length > 0 ? ` The line is what the whole GPU counted in that time, by samples, up to ${show(d3.max(line, (b) => b.sum), unit)}.` : "");
}

/* --- all rows --- */
const order = { id: hasTime ? "time" : (columnsOf(data.kernel).find((c) => c.adds_up && isKnown(c)) || { name: "name" }).name, down: true };
/* A group of columns for each metric: its total and its mean, or one alone. */
function tableGroups(view) {
	const measured = columnsOf(view).filter(isKnown).map((c) => {
		const { name, unit, adds_up } = c, mean = { title: "mean", id: name + ":mean", value: (r) => r.measures[name].mean };
		const error = nests(view) ? undefined : (r) => errorOf(r.measures[name], r.measures[name].sum);
		const total = { title: "total", id: name, value: (r) => r.measures[name].sum, error, incomplete: (r) => lacks(r.measures[name], r.launches) };
		return { title: titleOf(c), metric: metricOf(c), unit, columns: adds_up ? [total, mean] : [mean] };
	});
	const derived = derivedOf(view).map((c) => ({ title: titleOf(c), metric: "", unit: c.unit, columns: [{ title: "", id: c.name, value: (r) => r.derived[c.name], incomplete: (r) => unsampled(r, c) }] }));
	return measured.concat(derived);
}
/* The groups from firstGroup on that fit beside names and launches, so that the table is never wider than the page. before has the
   firstGroups of the pages before. */
const NAME = 180, LAUNCHES = 72, CELL = 57, ALONE = 86;
let firstGroup = 0;
const before = [];
function fitting(groups, width) {
	let left = width - Math.min(NAME, width / 3) - LAUNCHES, n = 0;
	for (const { columns } of groups.slice(firstGroup)) {
		left -= columns.length > 1 ? CELL * columns.length : ALONE;
		if (left < 0 && n > 0) break;
		n++;
	}
	return groups.slice(firstGroup, firstGroup + n);
}
function tableHead(view, groups) {
	const alone = (g) => g.columns.length === 1, cells = groups.flatMap((g) => g.columns.map(() => alone(g) ? ALONE : null));
	const widths = [Math.min(NAME, $("table").parentNode.clientWidth / 3), LAUNCHES, ...cells];
	d3.select("#table").text("").selectAll("col").data(widths).join("col").style("width", (w) => w && w + "px");
	const head = d3.select("#table").append("thead"), [upper, lower] = [head.append("tr"), head.append("tr")];
	const single = [{ columns: [{ title: view.by.map((key) => key === "op" ? "operator" : key).join(", "), id: "name" }] }, { columns: [{ title: "launches", id: "launches" }] }, ...groups];
	const button = (cell) => cell.attr("aria-sort", (c) => c.id !== order.id ? "none" : order.down ? "descending" : "ascending")
		.append("button").attr("type", "button").attr("data-id", (c) => c.id)
		.text((c) => c.title + (c.id !== order.id ? "" : order.down ? " ↓" : " ↑"))
		.on("click", (c) => {
			order.down = order.id === c.id ? !order.down : c.id !== "name";
			order.id = c.id;
			table();
			d3.selectAll("#table button").filter((k) => k.id === c.id).node().focus();
		});
	const over = upper.selectAll("th").data(single).join("th").attr("title", (g) => g.metric || null);
	over.filter(alone).attr("rowspan", 2).attr("scope", "col").classed("begins", (g) => g.title).each(function ({ title, columns: [c] }) {
		button(d3.select(this).datum({ ...c, title: [title, c.title].filter(Boolean).join(" ") }));
	});
	over.filter((g) => g.columns && g.columns.length > 1).attr("colspan", (g) => g.columns.length).attr("scope", "colgroup").text((g) => g.title)
		.append("small").text((g) => [breakable(g.metric), said(g.unit)].filter(Boolean).join(", "));
	button(lower.selectAll("th").data(groups.filter((g) => !alone(g)).flatMap((g) => g.columns)).join("th").attr("scope", "col"));
}
function table() {
	const by = $("table-by").value, view = views[by], part = $("table-filter").value.toLowerCase(), every = tableGroups(view);
	if (firstGroup >= every.length) firstGroup = before.length = 0;
	const groups = fitting(every, $("table").parentNode.clientWidth), first = { id: "launches", value: (r) => r.launches, unit: "count" };
	const columns = [first, ...every.flatMap((g) => g.columns)], column = columns.find((c) => c.id === order.id);
	const least = (v) => known(v) ? v : -Infinity, key = (r) => column ? least(column.value(r.row)) : r.name, ways = order.down ? d3.descending : d3.ascending;
	const rows = rowsOf(view).filter((r) => r.name.toLowerCase().includes(part)).sort((a, b) => ways(key(a), key(b)));
	tableHead(view, groups);
	const line = d3.select("#table").append("tbody").selectAll("tr").data(rows).join("tr");
	line.append("th").attr("scope", "row").attr("title", (r) => r.name).text((r) => breakable(r.short));
	const shown = [first, ...groups.flatMap((g) => g.columns.map((c, i) => ({ ...c, unit: g.unit, begins: i === 0 })))];
	const cell = line.selectAll("td").data(({ row }) => shown.map((c) => ({ ...c, v: c.value(row), error: c.error ? c.error(row) : "", incomplete: known(c.value(row)) && c.incomplete?.(row) }))).join("td")
		.attr("data-id", (c) => c.id).attr("data-value", (c) => c.v).classed("begins", (c) => c.begins).classed("incomplete", (c) => c.incomplete)
		.text(({ v, unit, incomplete }) => (unit === "count" && known(v) ? count(v) : show(v, said(unit) ? "" : unit)) + star(incomplete));
	cell.filter((c) => c.error).append("span").attr("class", "error").text((c) => c.error);
	$("h-table").textContent = "All " + labels[by];
	$("pages").hidden = groups.length === every.length;
	$("table-previous").disabled = firstGroup === 0;
	$("table-next").disabled = firstGroup + groups.length >= every.length;
	$("table-metrics").textContent = `Metrics ${firstGroup + 1} to ${firstGroup + groups.length} of ${every.length}`;
	const inner = derivedOf(view).map(titleOf).join(", ");
	$("table-note").textContent = `${rows.length} of ${view.rows.length} rows.` + (view.rows_left_out ? ` ${count(view.rows_left_out)} rows with less time are not in this page.` : "")
		+ (nests(view) ? " A row has what runs directly in it, without what runs in rows within it" + (inner && `; ${inner} include that`) + "." : "");
}

/* --- theme --- */
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
root.dataset.theme = dark.matches ? "dark" : "light";
dark.addEventListener("change", () => { root.dataset.theme = dark.matches ? "dark" : "light"; });
$("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });

/* Metrics without a known value are not offered, unless all are. */
const drawn = (of) => of.some(isKnown) ? of.filter(isKnown) : of;
const kernelColumn = ({ name }) => columnsOf(data.kernel).find((c) => c.name === name);
const measured = drawn(data.timeline.measures).map((m) => [data.timeline.measures.indexOf(m), fullTitle(kernelColumn(m))]);
const hasRows = { kernel: true, op: data.op.rows.some((r) => r.key.op), by: data.by };
const which = ["by", "op", "kernel"].filter((by) => hasRows[by]).map((by) => [by, labels[by]]);
options("#roofline-by", which, roofline);
options("#top-by", which, topRows);
options("#table-by", which, table);
options("#top-measure", drawn(columnsOf(data.kernel).filter((c) => c.adds_up)).map((c) => [c.name, fullTitle(c)]), topRows);
prepareFlame();
options("#flame-measure", measured, drawFlame);
$("flame-find").addEventListener("input", drawFlame);
$("flame-reset").addEventListener("click", () => { flame.zoom = flame.focus = flame.root; $("flame-find").value = ""; drawFlame(); });
options("#timeline-measure", measured, timeline);
$("table-filter").addEventListener("input", table);
$("table-previous").addEventListener("click", () => { firstGroup = before.pop() || 0; table(); });
$("table-next").addEventListener("click", () => {
	before.push(firstGroup);
	firstGroup += fitting(tableGroups(views[$("table-by").value]), $("table").parentNode.clientWidth).length;
	table();
});
function charts() {
	W = Math.max(300, Math.min(1100, $("timeline").clientWidth || 900));
	roofline();
	drawFlame();
	timeline();
	table();
}
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(charts, 150); });
heading();
figures();
hints();
/* Without rows there are no charts: the summary says why. */
for (const id of data.meta.nothing ? ["top", "roofline", "flame", "timeline", "table"] : []) $("h-" + id).parentNode.hidden = true;
charts();
topRows();
root.dataset.ready = "yes";
