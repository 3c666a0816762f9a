/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
/* Everything that comes from the capture is put into the page as text and never as markup. */
window.onerror = (message) => { document.documentElement.dataset.error = String(message); };
const data = JSON.parse(document.getElementById("data").textContent);
const views = { kernel: data.kernel, op: data.op, by: data.by };
const $ = (id) => document.getElementById(id);

/* --- numbers --- */
const known = (value) => value !== null && value !== undefined;
const count = d3.format(",d"), three = d3.format(".3s"), brief = d3.format(".3~s"), plain = d3.format("~r");
/* What a number of the unit is multiplied by, and its symbol, which takes prefixes. */
const UNITS = { byte: [1, "B"], nanosecond: [1e-9, "s"], ns: [1e-9, "s"], "byte/second": [1, "B/s"], "FLOP/second": [1, "FLOP/s"],
	"FLOP/byte": [1, "FLOP/byte"] };
const SMALL = ["s", "FLOP/byte"];
function show(value, unit, format = three) {
	if (!known(value) || !isFinite(value)) return "na";
	if (unit === "percent") return value.toPrecision(3) + " %";
	const [factor, symbol] = UNITS[unit] || [1, ""], v = value * factor, size = Math.abs(v);
	if (symbol === "s" && size >= 1000) return count(v) + " s";
	const whole = Number.isInteger(v) && size < 1000, small = size < 1 && !SMALL.includes(symbol);
	const [, number, prefix] = /^(.*?)([a-zµ]?)$/i.exec(whole ? String(v) : small ? v.toPrecision(3) : format(v));
	return [number, prefix.replace("µ", "u") + symbol, symbol ? "" : unit].filter(Boolean).join(" ");
}
const partOf = (value, all) => all > 0 ? (value / all * 100).toPrecision(3) + " %" : "na";

/* --- rows --- */
const columnsOf = (view) => view.columns.filter((c) => !c.derived);
const derivedOf = (view) => view.columns.filter((c) => c.derived);
const sumOf = (row, name) => { const m = row.measures[name]; return m ? (m.sum !== undefined ? m.sum : m.mean) : null; };
const longName = (row) => Object.values(row.key).map((v) => v || "na").join(", ");
const rowsOf = (view) => view.rows.map((row, i) => ({ row, short: view.names[i], name: longName(row), time: sumOf(row, "time") }));
/* A time that is a metric is that of the range around a kernel. */
const titleOf = ({ name, of_range }) => of_range && name.startsWith("gpu__time_duration") ? name + " (range)" : name;
/* What the table has behind an estimate: its standard error in percent, or why there is none. */
function errorOf({ kind, error, unknown }, value) {
	const percent = 100 * error / Math.abs(value);
	if (unknown > 0) return " (part)";
	if (kind === "once") return " (once)";
	return kind === "estimate" && known(error) && value ? ` ±${percent < 100 ? percent.toPrecision(2) : count(percent)} %` : "";
}
const hasTime = data.kernel.all.measures.time.n > 0;
const isKnown = ({ name }) => data.kernel.all.measures[name].n > 0;
const NESTING = ["op", "nvtx", "layer"];
const labels = { kernel: "kernels", op: "operators", by: data.by && data.by.by.join(", ") };

function options(id, pairs, changed) {
	d3.select(id).on("change", changed).selectAll("option").data(pairs).join("option").attr("value", (p) => p[0]).text((p) => p[1]);
}

/* --- in short --- */
function figures() {
	const { all, records } = data.kernel, meta = data.meta;
	$("title").textContent = meta.command || "GPU counters";
	document.title = "GPU counters: " + (meta.command || meta.captures.join(", "));
	const measured = columnsOf(data.kernel).map((c) => {
		const { name, unit } = c, m = all.measures[name], value = known(m.sum) ? m.sum : m.mean;
		return { name: known(m.sum) ? name : name + " (mean)", title: known(m.sum) ? titleOf(c) : titleOf(c) + " (mean)", unit, value, error: errorOf(m, value) };
	});
	const derived = derivedOf(data.kernel).map(({ name, unit }) => ({ name, title: name, unit, value: all.derived[name], error: "" }));
	const boxes = d3.select("#figures").selectAll("div").data([...measured, ...derived].filter((f) => known(f.value))).join("div");
	boxes.append("dt").text((f) => f.title);
	boxes.append("dd").attr("data-name", (f) => f.name).attr("data-value", (f) => f.value).text((f) => show(f.value, f.unit) + f.error);
	const first = d3.select("#figures").insert("div", "div");
	first.append("dt").text("kernels measured");
	first.append("dd").attr("data-name", "kernels measured").attr("data-value", records).text(count(records));
	if (data.kernel.estimated) {
		const whole = d3.select("#figures").insert("div", "div");
		whole.append("dt").text("launches");
		whole.append("dd").attr("data-name", "launches").attr("data-value", all.launches).text(count(all.launches));
	}
	const notes = d3.select("#notes");
	notes.append("p").attr("class", "warn").text(meta.notes);
	notes.append("p").attr("class", "dim").text(meta.hardware);
}

/* --- hints --- */
function hints() {
	const item = d3.select("#hints").selectAll("li").data(data.hints).join("li");
	item.append("span").attr("class", "name").attr("title", (h) => h.name).text((h) => h.short);
	item.append("span").text((h) => ": " + h.text);
	$("hints-section").hidden = data.hints.length === 0;
}

/* --- charts --- */
/* As wide as the page, so that text has one size on a phone and on a screen. */
let W = 900;
const L = 84, R = 30, T = 26, B = 42;
function drawing(id, height, role, label) {
	return d3.select(id).text("").append("svg").attr("viewBox", `0 0 ${W} ${height}`).attr("role", role).attr("aria-label", label);
}
/* x and y: { scale, unit, text }. Units without a symbol are long, and stand with the text. On logarithmic scales, lines
   between powers have a number only if there is much room. */
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
/* Whole powers of ten around the values, and one at least. */
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
	if (points.length === 0) {
		$("roofline").replaceChildren();
		$("roofline-note").textContent = bandwidth && rows.length && !hasTime
			? "No kernel has a time, without which there is no rate: capture with gpu__time_duration.sum among the --metrics as well."
			: "No row has bytes and a time: capture with --metrics roofline, or memory.";
		return;
	}
	const peak = meta.peak_bytes_per_second > 0 ? meta.peak_bytes_per_second : d3.max(rows, ({ row }) => row.derived[bandwidth]);
	const from = meta.peak_bytes_per_second > 0 ? `the memory's peak (${show(peak, "byte/second")}) is that of ${meta.peak_of} at its highest clock`
		: `the peak of the memory is not known: the line is the highest measured (${show(peak, "byte/second")})`;
	const highest = d3.max(points, (p) => p.y), known = ready && meta.flop_peaks.length > 0;
	const roofs = !ready ? [{}] : known ? meta.flop_peaks.map((p) => ({ of: p.of, top: p.flop_per_second })) : [{ top: highest }];
	const around = roofs.map(({ top }) => ready ? { x: top / peak, y: top } : { x: points[0].x, y: peak });
	const x = ready ? { unit: "FLOP/byte", text: "operations a byte (FLOP/byte)" } : { unit: "nanosecond", text: "time in all" };
	const y = ready ? { unit: "FLOP/second", text: "operations a second" } : { unit: "byte/second", text: bandwidth };
	x.scale = logScale([...points, ...around].map((p) => p.x));
	y.scale = logScale([...points, ...around].map((p) => p.y));
	const svg = chart("#roofline", 420, "group", ready ? "roofline" : "bandwidth by time", x, y);
	const [left, right] = x.scale.domain(), start = Math.max(left, y.scale.domain()[0] / peak);
	const line = ({ top }) => ready ? [[start, start * peak], [top / peak, top], [right, top]] : [[left, peak], [right, peak]];
	svg.selectAll("path.roof").data(roofs).join("path").attr("class", "roof").attr("data-peak", peak).attr("data-top", (r) => r.top)
		.attr("d", (r) => "M" + line(r).map(([a, b]) => [x.scale(a), y.scale(b)]).join("L"));
	svg.selectAll("text.roof-of").data(known ? roofs : []).join("text").attr("class", "roof-of").attr("text-anchor", "end")
		.attr("x", x.scale(right)).attr("y", (r) => y.scale(r.top) - 4).text((r) => r.of);
	const text = (p) => `${p.name}: ${show(p.y, y.unit)}, ${show(p.x, x.unit)}` + (ready ? ", " + show(p.time, "nanosecond") : "");
	const radius = d3.scaleSqrt().domain([0, Math.max(points[0].time, 1)]).range([3, W < 600 ? 10 : 18]);
	svg.selectAll("circle").data(points).join("circle").attr("class", "dot").attr("tabindex", 0).attr("role", "img").attr("aria-label", text)
		.attr("cx", (p) => x.scale(p.x)).attr("cy", (p) => y.scale(p.y)).attr("r", (p) => radius(p.time || 0))
		.attr("data-x", (p) => p.x).attr("data-y", (p) => p.y)
		.on("focus pointerenter", (p) => { $("roofline-point").textContent = text(p); })
		.append("title").text(text);
	$("h-roofline").textContent = ready ? "Roofline" : "Bandwidth by time";
	$("roofline-note").textContent = (ready ? `The slope: ${from}. ` + (known
		? `The flat parts: what its tensor cores can do at their highest clock, ${roofs.map((r) => `${r.of} ${show(r.top, y.unit)}`).join(", ")}.`
		: `The flat part is the highest rate measured here (${show(highest, y.unit)}), not the device's peak.`)
		+ ` Only operations that were counted are in it: ${meta.flops}.`
		: `No floating-point operations were measured (--metrics roofline does), so this is bandwidth by time; ${from}.`)
		+ ` Points: ${labels[by]}, sized by time.`;
}

/* --- most of it --- */
function topRows() {
	const view = views[$("top-by").value], name = $("top-measure").value, { unit } = view.columns.find((c) => c.name === name);
	const nests = view.by.some((key) => NESTING.includes(key)), error = (r) => nests ? "" : errorOf(r.row.measures[name], value(r));
	const value = (r) => sumOf(r.row, name);
	const rows = rowsOf(view).filter((r) => r.row.launches > 0 && value(r) > 0).sort((a, b) => value(b) - value(a)).slice(0, 12);
	const width = d3.scaleLinear().domain([0, d3.max(rows, value)]).range([0, 100]);
	const line = d3.select("#top").text(rows.length ? "" : "Nothing to show.").selectAll("div").data(rows).join("div").attr("class", "row");
	line.append("div").attr("class", "name").attr("title", (r) => r.name).text((r) => r.short);
	line.append("div").attr("class", "track").append("div").attr("class", "bar").style("width", (r) => width(value(r)) + "%");
	line.append("div").attr("class", "value").attr("data-value", value).text((r) => show(value(r), unit) + error(r));
}

/* --- where it went --- */
/* What a frame has beyond those in it that are here is one more, its rest. */
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
/* Those around the frame that is looked at are as wide as it. */
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
	const text = (n) => `${n.data.name}: ${show(sum(n), unit)} (${Number.isInteger(sum(n)) ? count(sum(n)) : known(sum(n)) ? sum(n) : "na"} ${unit}), `
		+ `${partOf(sum(n), sum(root))} of all, ${count(n.data.launches)} launches`;
	const svg = drawing("#flame", ROW * (1 + d3.max(shown, (n) => n.depth)), "group", "flame graph: arrows move, Enter looks closer, Escape goes back");
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
		.text((n) => n.data.short.length > letters(n) ? n.data.short.slice(0, letters(n) - 2) + ".." : n.data.short);
	frame.append("title").text(text);
	/* What is found within something that is found is in it already. */
	const hits = root.descendants().filter((n) => n.hit);
	const found = d3.sum(hits.filter((n) => !n.ancestors().slice(1).some((k) => k.hit)), sum);
	$("flame-note").textContent = (part === "" ? "" : `${count(hits.length)} frames found, with ${show(found, unit)} or ${partOf(found, sum(root))}. `)
		+ "Blue frames are NVTX ranges, the outermost on top; the others are kernels. Steps are one frame, whatever their number. A click looks closer.";
	$("flame-note").dataset.found = found;
}

/* --- over time --- */
function timeline() {
	const { bin_ns: width, measures } = data.timeline, { name, unit, sums } = measures[Number($("timeline-measure").value)];
	$("timeline").replaceChildren();
	if (sums.length === 0) return;
	const most = Math.max(d3.max(sums), 0), label = `${name} over time, at most ${show(most, unit)} in ${show(width, "nanosecond")}`;
	const x = d3.scaleLinear().domain([0, sums.length * width]), y = d3.scaleLinear().domain([0, most || 1]).nice(4);
	const svg = chart("#timeline", 240, "img", label, { scale: x, unit: "nanosecond", text: "time since the first kernel" },
		{ scale: y, unit, text: name });
	const bins = sums.map((sum, i) => ({ sum, at: i * width })).filter((b) => b.sum > 0);
	svg.selectAll("rect").data(bins).join("rect").attr("class", "bin").attr("width", Math.max(x(width) - x(0) - 0.2, 0.5))
		.attr("x", (b) => x(b.at)).attr("y", (b) => y(b.sum)).attr("height", (b) => y(0) - y(b.sum))
		.append("title").text((b) => `${show(b.at, "nanosecond")}: ${show(b.sum, unit)}`);
	svg.attr("data-sum", d3.sum(sums));
	$("timeline-note").textContent = `Sums of ${show(width, "nanosecond")} each, by the begin of the kernels; ` + (data.kernel.estimated
		? "they are shared out by those that were measured, and add up to what is estimated of all." : "only measured kernels are in it.");
}

/* --- all rows --- */
const order = { id: hasTime ? "time" : (columnsOf(data.kernel).find((c) => c.adds_up && isKnown(c)) || { name: "name" }).name, down: true };
function tableColumns(view) {
	const columns = [{ title: "launches", id: "launches", value: (r) => r.launches, unit: "count" }];
	const nests = view.by.some((key) => NESTING.includes(key));
	for (const c of columnsOf(view).filter((c) => isKnown(c))) {
		const { name, unit, adds_up } = c, title = titleOf(c);
		if (adds_up) columns.push({ title: title + "\nsum", id: name, value: (r) => r.measures[name].sum, unit, error: nests ? undefined : (r) => errorOf(r.measures[name], r.measures[name].sum) });
		columns.push({ title: title + "\nmean", id: name + ":mean", value: (r) => r.measures[name].mean, unit });
	}
	return columns.concat(derivedOf(view).map(({ name, unit }) => ({ title: name, id: name, value: (r) => r.derived[name], unit })));
}
function table() {
	const by = $("table-by").value, view = views[by], columns = tableColumns(view), part = $("table-filter").value.toLowerCase();
	const column = columns.find((c) => c.id === order.id), least = (v) => known(v) ? v : -Infinity;
	const key = (r) => column ? least(column.value(r.row)) : r.name, ways = order.down ? d3.descending : d3.ascending;
	const rows = rowsOf(view).filter((r) => r.name.toLowerCase().includes(part)).sort((a, b) => ways(key(a), key(b)));
	const nests = view.by.some((key) => NESTING.includes(key)), derived = derivedOf(view).map((c) => c.name).join(", ");
	const head = d3.select("#table").text("").append("thead").append("tr");
	head.selectAll("th").data([{ title: view.by.join(", "), id: "name" }, ...columns]).join("th").attr("scope", "col")
		.attr("aria-sort", (c) => c.id !== order.id ? "none" : order.down ? "descending" : "ascending")
		.append("button").attr("type", "button").attr("data-id", (c) => c.id)
		.text((c) => c.title + (c.id !== order.id ? "" : order.down ? " ↓" : " ↑"))
		.on("click", (c) => {
			order.down = order.id === c.id ? !order.down : c.id !== "name";
			order.id = c.id;
			table();
			d3.selectAll("#table button").filter((k) => k.id === c.id).node().focus();
		});
	const line = d3.select("#table").append("tbody").selectAll("tr").data(rows).join("tr");
	line.append("td").attr("title", (r) => r.name).text((r) => r.short);
	line.selectAll("td.of").data(({ row }) => columns.map(({ id, unit, value, error }) => ({ id, unit, v: value(row), error: error ? error(row) : "" }))).join("td")
		.attr("data-id", (c) => c.id).attr("data-value", (c) => c.v)
		.text(({ v, unit, error }) => unit === "count" && known(v) ? count(v) : show(v, unit) + error);
	$("table-note").textContent = `${rows.length} of ${view.rows.length} rows` + (view.rows_left_out ? `; ${count(view.rows_left_out)} rows with less time are not in this page` : "")
		+ (nests ? `; a row is what runs directly in ${by === "op" ? "an operator" : "it"}` + (derived && `, but ${derived} are of all that runs within`) : "");
}

/* --- theme --- */
const dark = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;
root.dataset.theme = dark.matches ? "dark" : "light";
dark.addEventListener("change", () => { root.dataset.theme = dark.matches ? "dark" : "light"; });
$("theme").addEventListener("click", () => { root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark"; });

/* What nothing is known of draws nothing. */
const drawn = (of) => of.some(isKnown) ? of.filter(isKnown) : of;
const kernelColumn = ({ name }) => columnsOf(data.kernel).find((c) => c.name === name);
const measured = drawn(data.timeline.measures).map((m) => [data.timeline.measures.indexOf(m), titleOf(kernelColumn(m))]);
const hasRows = { kernel: true, op: data.op.rows.some((r) => r.key.op), by: data.by };
const which = ["by", "kernel", "op"].filter((by) => hasRows[by]).map((by) => [by, labels[by]]);
options("#roofline-by", which, roofline);
options("#top-by", which, topRows);
options("#table-by", which, table);
options("#top-measure", drawn(columnsOf(data.kernel).filter((c) => c.adds_up)).map((c) => [c.name, titleOf(c)]), topRows);
prepareFlame();
options("#flame-measure", measured, drawFlame);
$("flame-find").addEventListener("input", drawFlame);
$("flame-whole").addEventListener("click", () => { flame.zoom = flame.focus = flame.root; $("flame-find").value = ""; drawFlame(); });
options("#timeline-measure", measured, timeline);
$("table-filter").addEventListener("input", table);
function charts() {
	W = Math.max(300, Math.min(1100, $("timeline").clientWidth || 900));
	roofline();
	drawFlame();
	timeline();
}
let resized = 0;
addEventListener("resize", () => { clearTimeout(resized); resized = setTimeout(charts, 150); });
figures();
hints();
charts();
topRows();
table();
root.dataset.ready = "yes";
