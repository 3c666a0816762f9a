/* SPDX-License-Identifier: Apache-2.0 */

/* A trace is its packets one after the other, so each is packed as a trace of one packet. All are
 * of one sequence, whose state (the names of notes) comes first and again whenever names are
 * forgotten. Numbers of names are never given to others, as the format demands. */

#include "client/report/packets.h"

#include <stdlib.h>
#include <string.h>

#include "client/cli/text.h"
#include "client/report/perfetto.pb-c.h"
#include "client/report/texts.h"

enum { SEQUENCE = 1, CLEARED = 1, NEEDS_STATE = 2 };
enum { NAMES_MAX = 4096, NAMES_MAX_BYTES = 1 << 20, NAME_SLOTS = 2 * NAMES_MAX };

typedef Perfetto__Protos__TracePacket Packet;
typedef Perfetto__Protos__DebugAnnotation Note;

struct packets {
	struct texts names;
	struct {
		const char *name;
		uint64_t iid;
	} slots[NAME_SLOTS]; /* open addressing, at most half full */
	size_t n_names, name_bytes;
	uint64_t last_iid;
	bool has_state;

	Perfetto__Protos__DebugAnnotationName *note_names, **note_name_items;
	size_t max_notes; /* each is told once with an event */
	Note *notes, **note_items;
	struct buf *texts; /* of notes, used again */
	size_t n_notes;
};

/* --- life ------------------------------------------------------------------------------------ */

static const char *note_name(const struct gpuctr_plan *plan, size_t note)
{
	static const char *const names[NOTE_COUNTERS] = {
		[NOTE_INDEX] = "index",
		[NOTE_KIND] = "kind",
		[NOTE_GRID] = "grid",
		[NOTE_BLOCK] = "block",
		[NOTE_SHARED] = "dynamic_shared_bytes",
		[NOTE_DEVICE] = "device",
		[NOTE_CONTEXT] = "context",
		[NOTE_STREAM] = "stream",
		[NOTE_CORRELATION] = "correlation",
		[NOTE_THREAD] = "thread",
		[NOTE_CLOCK] = "clock",
		[NOTE_ACTIVE] = "active",
		[NOTE_CHANCE] = "chance",
		[NOTE_SEQ] = "Sequence number",
		[NOTE_OP_ID] = "External id",
		[NOTE_SIZES] = "sizes",
	};

	return note < NOTE_COUNTERS ? names[note] : plan->columns[note - NOTE_COUNTERS].name;
}

static void name_notes(struct packets *p, const struct gpuctr_plan *plan)
{
	for (size_t i = 0; i < p->max_notes; i++) {
		perfetto__protos__debug_annotation_name__init(&p->note_names[i]);
		p->note_names[i].has_iid = true;
		p->note_names[i].iid = i + 1;
		p->note_names[i].name = (char *)note_name(plan, i);
		p->note_name_items[i] = &p->note_names[i];
		p->note_items[i] = &p->notes[i];
	}
}

struct packets *packets_new(const struct gpuctr_plan *plan)
{
	struct packets *p = calloc(1, sizeof(*p));
	size_t n = NOTE_COUNTERS + plan->n_columns;

	if (!p) {
		return NULL;
	}
	p->note_names = calloc(n, sizeof(*p->note_names));
	p->note_name_items = calloc(n, sizeof(*p->note_name_items));
	p->notes = calloc(n, sizeof(*p->notes));
	p->note_items = calloc(n, sizeof(*p->note_items));
	p->texts = calloc(n, sizeof(*p->texts));
	if (!p->note_names || !p->note_name_items || !p->notes || !p->note_items || !p->texts) {
		return packets_free(p);
	}
	p->max_notes = n;
	name_notes(p, plan);
	return p;
}

struct packets *packets_free(struct packets *p)
{
	if (!p) {
		return NULL;
	}
	for (size_t i = 0; i < p->max_notes; i++) {
		buf_deinit(&p->texts[i]);
	}
	texts_deinit(&p->names);
	free(p->note_names);
	free(p->note_name_items);
	free(p->notes);
	free(p->note_items);
	free(p->texts);
	free(p);
	return NULL;
}

/* --- packets --------------------------------------------------------------------------------- */

static void add_packet(struct buf *b, Packet *packet)
{
	Perfetto__Protos__Trace trace = PERFETTO__PROTOS__TRACE__INIT;
	size_t n;

	packet->has_trusted_packet_sequence_id = true;
	packet->trusted_packet_sequence_id = SEQUENCE;
	trace.n_packet = 1;
	trace.packet = &packet;
	n = perfetto__protos__trace__get_packed_size(&trace);
	if (buf_reserve(b, n)) {
		b->n += perfetto__protos__trace__pack(&trace, (uint8_t *)b->data + b->n);
	}
}

static void write_state(struct packets *p, struct buf *b)
{
	Perfetto__Protos__InternedData data = PERFETTO__PROTOS__INTERNED_DATA__INIT;
	Packet packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	data.n_debug_annotation_names = p->max_notes;
	data.debug_annotation_names = p->note_name_items;
	packet.interned_data = &data;
	packet.has_sequence_flags = true;
	packet.sequence_flags = CLEARED;
	add_packet(b, &packet);
	p->has_state = true;
}

/* --- tracks ---------------------------------------------------------------------------------- */

typedef Perfetto__Protos__TrackDescriptor Track;

static void write_track(struct buf *b, Track *track, uint64_t id, uint64_t parent)
{
	Packet packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	track->has_uuid = true;
	track->uuid = id;
	track->has_parent_uuid = parent != 0;
	track->parent_uuid = parent;
	packet.track_descriptor = track;
	add_packet(b, &packet);
}

static char *safe_text(struct buf *safe, const char *text)
{
	text_terminal(safe, text);
	return (char *)buf_string(safe);
}

void packets_process(struct buf *b, uint64_t track, unsigned pid, const char *name)
{
	Perfetto__Protos__ProcessDescriptor process = PERFETTO__PROTOS__PROCESS_DESCRIPTOR__INIT;
	Track t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	struct buf safe = { 0 };

	process.has_pid = true;
	process.pid = (int32_t)pid;
	process.process_name = safe_text(&safe, name);
	t.process = &process;
	write_track(b, &t, track, 0);
	b->failed |= safe.failed;
	buf_deinit(&safe);
}

void packets_thread(struct buf *b, uint64_t track, unsigned pid, unsigned tid)
{
	Perfetto__Protos__ThreadDescriptor thread = PERFETTO__PROTOS__THREAD_DESCRIPTOR__INIT;
	Track t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	struct buf name = { 0 };

	buf_printf(&name, "thread %u", tid);
	thread.has_pid = thread.has_tid = true;
	thread.pid = (int32_t)pid;
	thread.tid = (int32_t)tid;
	thread.thread_name = (char *)buf_string(&name);
	t.thread = &thread;
	write_track(b, &t, track, 0);
	b->failed |= name.failed;
	buf_deinit(&name);
}

static void write_named(struct buf *b, Track *t, uint64_t track, uint64_t parent, const char *name)
{
	struct buf safe = { 0 };

	t->name = safe_text(&safe, name);
	write_track(b, t, track, parent);
	b->failed |= safe.failed;
	buf_deinit(&safe);
}

void packets_track(struct buf *b, uint64_t track, uint64_t parent, const char *name)
{
	Track t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;

	write_named(b, &t, track, parent, name);
}

void packets_counter_track(struct buf *b, uint64_t track, uint64_t parent, const char *name,
			   const char *unit)
{
	Perfetto__Protos__CounterDescriptor counter = PERFETTO__PROTOS__COUNTER_DESCRIPTOR__INIT;
	Track t = PERFETTO__PROTOS__TRACK_DESCRIPTOR__INIT;
	struct buf safe = { 0 };

	counter.unit_name = safe_text(&safe, unit);
	t.counter = &counter;
	write_named(b, &t, track, parent, name);
	b->failed |= safe.failed;
	buf_deinit(&safe);
}

/* --- names ----------------------------------------------------------------------------------- */

static void forget_names(struct packets *p)
{
	texts_deinit(&p->names);
	memset(p->slots, 0, sizeof(p->slots));
	p->n_names = p->name_bytes = 0;
	p->has_state = false;
}

/* The number of a name, which *ret_fresh says is to be written; 0: out of memory. */
static uint64_t find_name(struct packets *p, const char *name, bool *ret_fresh)
{
	const char *text = texts_add_string(&p->names, name);
	size_t i = map_mix(1, (uintptr_t)text) % NAME_SLOTS;

	*ret_fresh = false;
	if (!text) {
		return 0;
	}
	while (p->slots[i].name && p->slots[i].name != text) {
		i = (i + 1) % NAME_SLOTS;
	}
	if (!p->slots[i].name) {
		p->slots[i].name = text;
		p->slots[i].iid = ++p->last_iid;
		p->n_names++;
		p->name_bytes += strlen(text);
		*ret_fresh = true;
	}
	return p->slots[i].iid;
}

/* --- notes ----------------------------------------------------------------------------------- */

static Note *new_note(struct packets *p, unsigned note)
{
	Note *n = &p->notes[p->n_notes++];

	perfetto__protos__debug_annotation__init(n);
	n->has_name_iid = true;
	n->name_iid = note + 1;
	return n;
}

void packets_note(struct packets *p, unsigned note, uint64_t value)
{
	Note *n = new_note(p, note);

	n->value_case = PERFETTO__PROTOS__DEBUG_ANNOTATION__VALUE_UINT_VALUE;
	n->uint_value = value;
}

void packets_note_double(struct packets *p, unsigned note, double value)
{
	Note *n = new_note(p, note);

	n->value_case = PERFETTO__PROTOS__DEBUG_ANNOTATION__VALUE_DOUBLE_VALUE;
	n->double_value = value;
}

void packets_note_text(struct packets *p, unsigned note, const char *value)
{
	Note *n = new_note(p, note);
	struct buf *text = &p->texts[p->n_notes - 1];

	buf_clear(text);
	n->value_case = PERFETTO__PROTOS__DEBUG_ANNOTATION__VALUE_STRING_VALUE;
	n->string_value = safe_text(text, value);
}

/* --- events ---------------------------------------------------------------------------------- */

static void write_event(struct packets *p, struct buf *b, Perfetto__Protos__TrackEvent *event,
			uint64_t track, int64_t at_ns, Perfetto__Protos__InternedData *data)
{
	Packet packet = PERFETTO__PROTOS__TRACE_PACKET__INIT;

	event->has_type = event->has_track_uuid = true;
	event->track_uuid = track;
	packet.has_timestamp = packet.has_sequence_flags = true;
	packet.timestamp = at_ns < 0 ? 0 : (uint64_t)at_ns;
	packet.sequence_flags = NEEDS_STATE;
	packet.track_event = event;
	packet.interned_data = data;
	add_packet(b, &packet);
	p->n_notes = 0;
}

static void write_named_event(struct packets *p, struct buf *b, Perfetto__Protos__TrackEvent *event,
			      uint64_t track, int64_t at_ns, const char *name)
{
	Perfetto__Protos__InternedData data = PERFETTO__PROTOS__INTERNED_DATA__INIT;
	Perfetto__Protos__EventName entry = PERFETTO__PROTOS__EVENT_NAME__INIT, *entries = &entry;
	struct buf safe = { 0 };
	bool fresh;

	if (p->n_names == NAMES_MAX || p->name_bytes > NAMES_MAX_BYTES) {
		forget_names(p);
		write_state(p, b);
	}
	entry.name = safe_text(&safe, name);
	entry.iid = find_name(p, entry.name, &fresh);
	entry.has_iid = true;
	data.n_event_names = 1;
	data.event_names = &entries;
	event->has_name_iid = true;
	event->name_iid = entry.iid;
	write_event(p, b, event, track, at_ns, fresh ? &data : NULL);
	b->failed |= safe.failed || entry.iid == 0;
	buf_deinit(&safe);
}

void packets_event(struct packets *p, struct buf *b, enum packets_type type, uint64_t track,
		   int64_t at_ns, const char *name, uint64_t flow)
{
	Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;

	if (!p->has_state) {
		write_state(p, b);
	}
	event.type = (Perfetto__Protos__TrackEvent__Type)type;
	event.n_debug_annotations = p->n_notes;
	event.debug_annotations = p->note_items;
	event.n_flow_ids = flow != 0;
	event.flow_ids = &flow;
	if (name) {
		write_named_event(p, b, &event, track, at_ns, name);
	} else {
		write_event(p, b, &event, track, at_ns, NULL);
	}
}

void packets_count(struct packets *p, struct buf *b, uint64_t track, int64_t at_ns, double value)
{
	Perfetto__Protos__TrackEvent event = PERFETTO__PROTOS__TRACK_EVENT__INIT;

	if (!p->has_state) {
		write_state(p, b);
	}
	event.type = PERFETTO__PROTOS__TRACK_EVENT__TYPE__TYPE_COUNTER;
	event.has_double_counter_value = true;
	event.double_counter_value = value;
	write_event(p, b, &event, track, at_ns, NULL);
}
