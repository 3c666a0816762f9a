/* SPDX-License-Identifier: Apache-2.0 */

/* Rows. A record refers to its kernel, its innermost range and its set of active ranges by number;
 * each of them is written in the same transaction, just before the first record that needs it, so
 * that no state of the file has a dangling number. Text is bound without a copy: every statement is
 * stepped before the caller's strings go away. */

#include "client/store/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "client/store/meta.h"
#include "client/store/schema.h"
#include "proto/base/array.h"

static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	sqlite3_bind_text(stmt, at, text ? text : "", -1, SQLITE_STATIC);
}

static int step(struct store *s, enum store_statement which, const char *call)
{
	int rc = sqlite3_step(s->stmt[which]);

	sqlite3_reset(s->stmt[which]);
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, call);
}

static int no_memory(struct store *s)
{
	return store_fail(s, SQLITE_NOMEM, "write");
}

/* What is written of the process already. */
static int begin_of(struct store *s, unsigned process, struct written_process **ret)
{
	int r = store_begin(s);

	*ret = r ? NULL : written_process(&s->written, process);
	return r ? r : *ret ? 0 : no_memory(s);
}

/* --- processes ------------------------------------------------------------------------------- */

static int write_device(struct store *s, unsigned process, const struct gpuctr_device *device)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_DEVICE];

	sqlite3_bind_int64(stmt, 1, process);
	sqlite3_bind_int64(stmt, 2, device->index);
	bind_text(stmt, 3, device->uuid);
	bind_text(stmt, 4, device->name);
	bind_text(stmt, 5, device->chip);
	sqlite3_bind_int64(stmt, 6, device->clock_sm_mhz);
	sqlite3_bind_int64(stmt, 7, device->clock_mem_mhz);
	return step(s, STORE_STMT_DEVICE, "write device");
}

int store_write_process(struct store *s, const struct gpuctr_process *process)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_PROCESS];
	int r = store_begin(s);

	if (r) {
		return r;
	}
	sqlite3_bind_int64(stmt, 1, process->process);
	sqlite3_bind_int64(stmt, 2, process->pid);
	bind_text(stmt, 3, process->program);
	bind_text(stmt, 4, process->cupti);
	bind_text(stmt, 5, process->driver);
	bind_text(stmt, 6, process->recorded_from);
	r = step(s, STORE_STMT_PROCESS, "write process");
	for (size_t i = 0; i < process->n_devices && r == 0; i++) {
		r = write_device(s, process->process, &process->devices[i]);
	}
	if (r == 0 && process->recorded_from && *process->recorded_from) {
		r = meta_write_text(s, "recorded_from", process->recorded_from);
	}
	return r;
}

int store_write_claim(struct store *s, unsigned process, const char *claim)
{
	const char *equals = strchr(claim, '=');
	char key[160];
	int r = store_begin(s);

	if (r || !equals) {
		return r;
	}
	snprintf(key, sizeof(key), "process.%u.%.*s", process, (int)(equals - claim), claim);
	return meta_write_text(s, key, equals + 1);
}

int store_write_process_end(struct store *s, const struct gpuctr_process_end *end)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_PROCESS_END];
	const struct gpuctr_totals *totals = &end->totals;
	int column = 3;
	int r = store_begin(s);

	if (r) {
		return r;
	}
	sqlite3_bind_int64(stmt, 1, end->process);
	sqlite3_bind_int64(stmt, 2, end->clean);
#define BIND(name) sqlite3_bind_int64(stmt, column++, store_count(totals->name));
	GPUCTR_TOTALS(BIND)
#undef BIND
	return step(s, STORE_STMT_PROCESS_END, "write process");
}

/* --- definitions ----------------------------------------------------------------------------- */

static int write_kernel(struct store *s, struct written_process *known,
			const struct gpuctr_kernel *kernel)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_KERNEL];

	if (!kernel || written_has(&known->kernels, kernel->id)) {
		return 0;
	}
	if (written_add(&known->kernels, kernel->id) < 0) {
		return no_memory(s);
	}
	sqlite3_bind_int64(stmt, 1, known->process);
	sqlite3_bind_int64(stmt, 2, kernel->id);
	bind_text(stmt, 3, kernel->name);
	bind_text(stmt, 4, kernel->mangled);
	sqlite3_bind_int64(stmt, 5, kernel->static_shared_bytes);
	sqlite3_bind_int64(stmt, 6, kernel->registers);
	return step(s, STORE_STMT_KERNEL, "write kernel");
}

/* SQLite counts characters, of which a continuation byte begins none. */
static int64_t count_name(const struct store *s, const char *message)
{
	size_t n = s->name_length ? s->name_length(message) : strlen(message);
	int64_t characters = 0;

	for (size_t i = 0; i < n; i++) {
		characters += ((unsigned char)message[i] & 0xc0) != 0x80;
	}
	return characters;
}

static int write_one_range(struct store *s, struct written_process *known,
			   const struct gpuctr_range *range)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_RANGE];

	if (written_add(&known->ranges, range->id) < 0) {
		return no_memory(s);
	}
	sqlite3_bind_int64(stmt, 1, known->process);
	sqlite3_bind_int64(stmt, 2, range->id);
	sqlite3_bind_int64(stmt, 3, range->parent ? range->parent->id : 0);
	bind_text(stmt, 4, range->domain);
	bind_text(stmt, 5, range->message);
	bind_text(stmt, 6, range->category);
	sqlite3_bind_int64(stmt, 7, range->color);
	sqlite3_bind_int64(stmt, 8, range->payload_type);
	sqlite3_bind_int64(stmt, 9, (int64_t)range->payload);
	sqlite3_bind_int64(stmt, 10, range->depth);
	sqlite3_bind_int64(stmt, 11, count_name(s, range->message ? range->message : ""));
	return step(s, STORE_STMT_RANGE, "write range");
}

/* Parents first. */
static int write_range(struct store *s, struct written_process *known,
		       const struct gpuctr_range *range)
{
	size_t n = 0;
	int r = 0;

	for (; range && !written_has(&known->ranges, range->id); range = range->parent) {
		if (!array_make_room(&s->chain, sizeof(*s->chain), n, &s->max_chain)) {
			return no_memory(s);
		}
		s->chain[n++] = range;
	}
	while (n > 0 && r == 0) {
		r = write_one_range(s, known, s->chain[--n]);
	}
	return r;
}

static int write_active(struct store *s, struct written_process *known,
			const struct gpuctr_record *record, unsigned *ret_set)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_ACTIVE];
	bool fresh;
	int r = 0;

	if (written_set(&s->written, record->process, record->active, record->n_active, ret_set,
			&fresh) < 0) {
		return no_memory(s);
	}
	for (size_t i = 0; fresh && i < record->n_active && r == 0; i++) {
		r = write_range(s, known, record->active[i]);
		if (r == 0) {
			sqlite3_bind_int64(stmt, 1, record->process);
			sqlite3_bind_int64(stmt, 2, *ret_set);
			sqlite3_bind_int64(stmt, 3, record->active[i]->id);
			r = step(s, STORE_STMT_ACTIVE, "write range");
		}
	}
	return r;
}

/* --- records --------------------------------------------------------------------------------- */

static int64_t record_id(const struct gpuctr_record *record)
{
	return (int64_t)(((uint64_t)record->process << STORE_INDEX_BITS) + record->index);
}

static void bind_launch(sqlite3_stmt *stmt, const struct gpuctr_record *record, unsigned set)
{
	/* Parameters count from 1, columns from 0. */
	sqlite3_bind_int64(stmt, 1 + STORE_COL_ID, record_id(record));
	sqlite3_bind_int64(stmt, 1 + STORE_COL_PROCESS, record->process);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_IDX, (int64_t)record->index);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_KIND, record->kind);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_KERNEL, record->kernel ? record->kernel->id : 0);
	for (int i = 0; i < 3; i++) {
		sqlite3_bind_int64(stmt, 1 + STORE_COL_GRID + i, record->grid[i]);
		sqlite3_bind_int64(stmt, 1 + STORE_COL_BLOCK + i, record->block[i]);
	}
	sqlite3_bind_int64(stmt, 1 + STORE_COL_DYNAMIC_SHARED, record->dynamic_shared_bytes);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_DEVICE, record->device);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_CONTEXT, record->context);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_STREAM, (int64_t)record->stream);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_CORRELATION, record->correlation);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_THREAD, record->thread);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_START_NS, record->start_ns);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_DURATION_NS, record->duration_ns);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_CLOCK, record->clock);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_RANGE, record->range ? record->range->id : 0);
	sqlite3_bind_int64(stmt, 1 + STORE_COL_ACTIVE_SET, set);
}

/* Of a record that was chosen at random. */
static int write_choice(struct store *s, const struct gpuctr_record *record)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_CHOICE];

	sqlite3_bind_int64(stmt, 1, record_id(record));
	sqlite3_bind_int64(stmt, 2, record->stratum);
	sqlite3_bind_double(stmt, 3, record->chance);
	return step(s, STORE_STMT_CHOICE, "write choice");
}

static int write_errors(struct store *s, const struct gpuctr_record *record)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_SAMPLED];

	if (!record->errors || !stmt) {
		return 0;
	}
	sqlite3_bind_int64(stmt, 1, record_id(record));
	sqlite3_bind_int64(stmt, 2, record->alike);
	for (size_t i = 0; i < s->n_columns; i++) {
		sqlite3_bind_double(stmt, 3 + (int)i, record->errors[i]);
	}
	return step(s, STORE_STMT_SAMPLED, "write errors");
}

static int write_row(struct store *s, const struct gpuctr_record *record)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_RECORD];
	struct written_process *known = written_process(&s->written, record->process);
	unsigned set = 0;
	int r;

	if (!known) {
		return no_memory(s);
	}
	r = write_kernel(s, known, record->kernel);
	r = r ? r : write_range(s, known, record->range);
	r = r ? r : write_active(s, known, record, &set);
	if (r) {
		return r;
	}
	bind_launch(stmt, record, set);
	for (size_t i = 0; i < s->n_columns; i++) {
		/* SQLite stores a NaN as NULL, which is what queries expect of "not available". */
		sqlite3_bind_double(stmt, 1 + STORE_COL_METRICS + (int)i, record->values[i]);
	}
	r = step(s, STORE_STMT_RECORD, "write record");
	r = r ? r : write_errors(s, record);
	return r || record->stratum == 0 ? r : write_choice(s, record);
}

int store_write_record(struct store *s, const struct gpuctr_record *record)
{
	int r = store_begin(s);

	if (r == 0 && (record->process > STORE_PROCESS_MAX || record->index > STORE_INDEX_MAX)) {
		r = -EOVERFLOW;
	}
	r = r ? r : write_row(s, record);
	if (r) {
		s->unsaved++;
		return r;
	}
	s->saved++;
	s->pending_records++;
	return store_commit_if_due(s);
}

/* NULL where nothing is known. */
static void bind_known(sqlite3_stmt *stmt, int at, const char *text)
{
	sqlite3_bind_text(stmt, at, *text ? text : NULL, -1, SQLITE_STATIC);
}

static int write_place(struct store *s, const struct store_attribution *what, unsigned *ret_id)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_PLACE];
	bool fresh;

	if (places_find(&s->places, what, ret_id, &fresh) < 0) {
		return no_memory(s);
	}
	if (!fresh) {
		return 0;
	}
	sqlite3_bind_int64(stmt, 1, *ret_id);
	bind_known(stmt, 2, what->op);
	bind_known(stmt, 3, what->sizes);
	bind_known(stmt, 4, what->dir);
	bind_known(stmt, 5, what->layer);
	return step(s, STORE_STMT_PLACE, "write place");
}

int store_write_attribution(struct store *s, const struct gpuctr_record *record,
			    const struct store_attribution *what)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_ATTRIBUTION];
	unsigned place;
	int r = s->error.code;

	if (r || !record->range ||
	    places_is_known(&s->places, record->process, record->range->id, what)) {
		return r;
	}
	r = store_begin(s);
	r = r ? r : write_place(s, what, &place);
	if (r) {
		return r;
	}
	sqlite3_bind_int64(stmt, 1, record->process);
	sqlite3_bind_int64(stmt, 2, record->range->id);
	sqlite3_bind_int64(stmt, 3, place);
	if (what->seq >= 0) {
		sqlite3_bind_int64(stmt, 4, what->seq);
	} else {
		sqlite3_bind_null(stmt, 4);
	}
	return step(s, STORE_STMT_ATTRIBUTION, "write attribution");
}

static void bind_stratum(sqlite3_stmt *stmt, const struct gpuctr_stratum *t)
{
	sqlite3_bind_int64(stmt, 1, t->process);
	sqlite3_bind_int64(stmt, 2, t->id);
	sqlite3_bind_int64(stmt, 3, t->kernel ? t->kernel->id : 0);
	sqlite3_bind_int64(stmt, 4, t->range ? t->range->id : 0);
	for (int i = 0; i < 3; i++) {
		sqlite3_bind_int64(stmt, 5 + i, t->grid[i]);
		sqlite3_bind_int64(stmt, 8 + i, t->block[i]);
	}
	sqlite3_bind_int64(stmt, 11, t->dynamic_shared_bytes);
	sqlite3_bind_int64(stmt, 12, t->device);
	sqlite3_bind_int64(stmt, 13, t->merged);
	sqlite3_bind_int64(stmt, 14, store_count(t->seen));
}

int store_write_stratum(struct store *s, const struct gpuctr_stratum *stratum)
{
	struct written_process *known;
	int r = begin_of(s, stratum->process, &known);

	r = r ? r : write_kernel(s, known, stratum->kernel);
	r = r ? r : write_range(s, known, stratum->range);
	if (r) {
		return r;
	}
	bind_stratum(s->stmt[STORE_STMT_STRATUM], stratum);
	return step(s, STORE_STMT_STRATUM, "write stratum");
}

int store_write_estimate(struct store *s, const struct store_estimate *estimate)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_ESTIMATE];
	const char *texts[] = { estimate->kernel, estimate->metric, estimate->of, estimate->kind };
	int r = store_begin(s);

	if (r) {
		return r;
	}
	for (int i = 0; i < 4; i++) {
		sqlite3_bind_text(stmt, 1 + i, texts[i], -1, SQLITE_STATIC);
	}
	sqlite3_bind_int64(stmt, 5, store_count(estimate->launches));
	sqlite3_bind_int64(stmt, 6, store_count(estimate->measured));
	sqlite3_bind_int64(stmt, 7, store_count(estimate->without_error));
	sqlite3_bind_int64(stmt, 8, store_count(estimate->unknown));
	sqlite3_bind_double(stmt, 9, estimate->value);
	sqlite3_bind_double(stmt, 10, estimate->error);
	return step(s, STORE_STMT_ESTIMATE, "write estimate");
}

int store_write_mark(struct store *s, const struct gpuctr_mark *mark)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_MARK];
	struct written_process *known;
	int r = begin_of(s, mark->process, &known);

	r = r ? r : write_range(s, known, mark->range);
	if (r) {
		return r;
	}
	sqlite3_bind_int64(stmt, 1, mark->process);
	sqlite3_bind_int64(stmt, 2, mark->range ? mark->range->id : 0);
	sqlite3_bind_int64(stmt, 3, mark->thread);
	sqlite3_bind_int64(stmt, 4, mark->time_ns);
	return step(s, STORE_STMT_MARK, "write mark");
}

int store_write_image(struct store *s, const struct gpuctr_image *image)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_IMAGE];
	const uint8_t *data;
	size_t size;
	int r = store_begin(s);

	if (r) {
		return r;
	}
	data = packed_pack(&s->packed, image->data, image->size, &size);
	if (!data) {
		return store_fail(s, SQLITE_NOMEM, "write image");
	}
	sqlite3_bind_int64(stmt, 1, image->process);
	sqlite3_bind_int64(stmt, 2, (int64_t)image->first);
	sqlite3_bind_int64(stmt, 3, image->count);
	sqlite3_bind_int64(stmt, 4, (int64_t)image->size);
	sqlite3_bind_int64(stmt, 5, (int64_t)crc32_z(0, image->data, image->size));
	sqlite3_bind_blob64(stmt, 6, size ? (const void *)data : "", size, SQLITE_STATIC);
	r = step(s, STORE_STMT_IMAGE, "write image");
	if (r) {
		return r;
	}
	s->pending_bytes += image->size;
	return store_commit_if_due(s);
}

int store_write_notice(struct store *s, const struct gpuctr_notice *notice)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_NOTICE];
	int r = store_begin(s);

	if (r) {
		return r;
	}
	sqlite3_bind_int64(stmt, 1, notice->process);
	sqlite3_bind_int64(stmt, 2, notice->error.code);
	bind_text(stmt, 3, notice->error.message);
	bind_text(stmt, 4, notice->error.remedy);
	return step(s, STORE_STMT_NOTICE, "write notice");
}
