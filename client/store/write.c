/* SPDX-License-Identifier: Apache-2.0 */

/* Writes rows. A record refers to a launch, and this to kernel, site, place and active ranges, by
 * number. Each of these is written in the same transaction, before the first record that needs it,
 * so that the file never has a dangling number. Text is bound without a copy, because every
 * statement is stepped before the caller's strings go away. */

#include "client/store/internal.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "client/store/meta.h"
#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/clean.h"
#include "proto/base/numbers.h"

static void bind_text(sqlite3_stmt *stmt, int at, const char *text)
{
	sqlite3_bind_text(stmt, at, text ? text : "", -1, SQLITE_STATIC);
}

static void bind_all(sqlite3_stmt *stmt, int at, const int64_t *values, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		sqlite3_bind_int64(stmt, at + (int)i, values[i]);
	}
}

/* Binds numbers to consecutive parameters. */
#define BIND(stmt, at, ...)                                  \
	bind_all(stmt, at, (const int64_t[]){ __VA_ARGS__ }, \
		 ARRAY_SIZE(((const int64_t[]){ __VA_ARGS__ })))

/* Runs a statement, in a new transaction if none is open. */
static int step(struct store *s, enum store_statement which, const char *call)
{
	int r = store_begin(s), rc;

	if (r) {
		return r;
	}
	rc = sqlite3_step(s->stmt[which]);
	sqlite3_reset(s->stmt[which]);
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, call);
}

static int no_memory(struct store *s)
{
	return store_fail(s, SQLITE_NOMEM, "write");
}

/* Begins a transaction. *ret: what the file already has of the process. */
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

	BIND(stmt, 1, process, device->index);
	bind_text(stmt, 3, device->uuid);
	bind_text(stmt, 4, device->name);
	bind_text(stmt, 5, device->chip);
	BIND(stmt, 6, device->clock_sm_mhz, device->clock_mem_mhz);
	return step(s, STORE_STMT_DEVICE, "write device");
}

int store_write_process(struct store *s, const struct gpuctr_process *process)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_PROCESS];
	int r;

	BIND(stmt, 1, process->process, process->pid);
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

int store_write_unknown(struct store *s, const struct store_unknown *unknown)
{
	char key[32], value[128];
	int r = store_begin(s);

	snprintf(key, sizeof(key), "unknown.%u", s->unknown++);
	snprintf(value, sizeof(value), "%lld %lld %s", (long long)unknown->start_ns,
		 (long long)unknown->end_ns, unknown->gpu);
	return r ? r : meta_write_text(s, key, value);
}

int store_write_process_end(struct store *s, const struct gpuctr_process_end *end)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_PROCESS_END];
	const struct gpuctr_totals *totals = &end->totals;

#define COUNT(name) , store_count(totals->name)
	BIND(stmt, 1, end->process, end->clean GPUCTR_TOTALS(COUNT));
#undef COUNT
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
	BIND(stmt, 1, known->process, kernel->id);
	bind_text(stmt, 3, kernel->name);
	bind_text(stmt, 4, kernel->mangled);
	BIND(stmt, 5, kernel->static_shared_bytes, kernel->registers);
	return step(s, STORE_STMT_KERNEL, "write kernel");
}

static int write_one_site(struct store *s, struct written_process *known,
			  const struct gpuctr_site *site)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_SITE];

	if (written_add(&known->sites, site->id) < 0) {
		return no_memory(s);
	}
	BIND(stmt, 1, known->process, site->id, site->parent ? site->parent->id : 0);
	bind_text(stmt, 4, site->domain);
	bind_text(stmt, 5, site->name);
	bind_text(stmt, 6, site->sizes);
	bind_text(stmt, 7, site->category);
	BIND(stmt, 8, site->color, site->kind, site->numbered, site->depth);
	return step(s, STORE_STMT_SITE, "write site");
}

/* Writes a site and the sites around it, unless the file has them. Parents come first. */
static int write_site(struct store *s, struct written_process *known,
		      const struct gpuctr_site *site)
{
	size_t n = 0;
	int r = 0;

	for (; site && !written_has(&known->sites, site->id); site = site->parent) {
		if (!array_make_room(&s->chain, sizeof(*s->chain), n, &s->max_chain)) {
			return no_memory(s);
		}
		s->chain[n++] = site;
	}
	while (n > 0 && r == 0) {
		r = write_one_site(s, known, s->chain[--n]);
	}
	return r;
}

/* Binds a text, or NULL if it is not known. */
static void bind_known(sqlite3_stmt *stmt, int at, const char *text)
{
	sqlite3_bind_text(stmt, at, *text ? text : NULL, -1, SQLITE_STATIC);
}

static int write_place(struct store *s, const struct store_attribution *what, unsigned *ret)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_PLACE];
	/* Equal texts are one pointer. */
	const int64_t of[] = { (intptr_t)what->op, (intptr_t)what->sizes, (intptr_t)what->dir,
			       (intptr_t)what->layer };
	bool fresh;

	if (!*what->op && !*what->sizes && !*what->dir && !*what->layer) {
		return 0;
	}
	if (written_row(&s->written.places, of, ARRAY_SIZE(of), ret, &fresh) < 0) {
		return no_memory(s);
	}
	if (!fresh) {
		return 0;
	}
	sqlite3_bind_int64(stmt, 1, *ret);
	bind_known(stmt, 2, what->op);
	bind_known(stmt, 3, what->sizes);
	bind_known(stmt, 4, what->dir);
	bind_known(stmt, 5, what->layer);
	return step(s, STORE_STMT_PLACE, "write place");
}

static int write_active(struct store *s, struct written_process *known,
			const struct gpuctr_record *record, unsigned *ret_set)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_ACTIVE];
	bool fresh = false;
	int r = 0;

	for (size_t i = 0; i < record->n_active; i++) {
		if (!array_make_room(&s->set, sizeof(*s->set), i + 1, &s->max_set)) {
			return no_memory(s);
		}
		s->set[0] = record->process;
		s->set[i + 1] = record->active[i]->id;
	}
	if (record->n_active > 0 &&
	    written_row(&s->written.sets, s->set, record->n_active + 1, ret_set, &fresh) < 0) {
		return no_memory(s);
	}
	for (size_t i = 0; fresh && i < record->n_active && r == 0; i++) {
		r = write_site(s, known, record->active[i]);
		if (r == 0) {
			BIND(stmt, 1, record->process, *ret_set, record->active[i]->id);
			r = step(s, STORE_STMT_ACTIVE, "write set");
		}
	}
	return r;
}

/* --- records --------------------------------------------------------------------------------- */

static int64_t record_id(const struct gpuctr_record *record)
{
	return (int64_t)(((uint64_t)record->process << STORE_INDEX_BITS) + record->index);
}

/* Binds the numbers of an occurrence, of a record or a mark. */
static int bind_numbers(struct store *s, sqlite3_stmt *stmt, int at, const struct gpuctr_site *site,
			const struct gpuctr_occurrence *occurrence)
{
	size_t n = site ? site->n_numbers : 0, used = 0;
	int64_t before = 0;

	while (s->max_numbers < n * NUMBER_BYTES_MAX) {
		if (!array_make_room(&s->numbers, 1, s->max_numbers, &s->max_numbers)) {
			return no_memory(s);
		}
	}
	for (size_t i = 0; i < n; i++) {
		used += numbers_encode(s->numbers + used, s->max_numbers - used, before,
				       occurrence->numbers[i]);
		before = occurrence->numbers[i];
	}
	sqlite3_bind_blob64(stmt, at, n > 0 ? s->numbers : NULL, used, SQLITE_STATIC);
	return 0;
}

static void bind_number(sqlite3_stmt *stmt, int at, int64_t number)
{
	if (number < 0) {
		sqlite3_bind_null(stmt, at);
	} else {
		sqlite3_bind_int64(stmt, at, number);
	}
}

static int write_launch(struct store *s, const struct gpuctr_record *record, unsigned set,
			unsigned place, unsigned layer_site, unsigned *ret)
{
	int64_t values[STORE_LAUNCH_COLUMNS] = {
		[STORE_LAUNCH_PROCESS] = record->process,
		[STORE_LAUNCH_KIND] = record->kind,
		[STORE_LAUNCH_KERNEL] = record->kernel ? record->kernel->id : 0,
		[STORE_LAUNCH_GRID] = record->grid[0],
		record->grid[1],
		record->grid[2],
		[STORE_LAUNCH_BLOCK] = record->block[0],
		record->block[1],
		record->block[2],
		[STORE_LAUNCH_DYNAMIC_SHARED] = record->dynamic_shared_bytes,
		[STORE_LAUNCH_DEVICE] = record->device,
		[STORE_LAUNCH_CONTEXT] = record->context,
		[STORE_LAUNCH_STREAM] = (int64_t)record->stream,
		[STORE_LAUNCH_THREAD] = record->thread,
		[STORE_LAUNCH_SITE] = record->site ? record->site->id : 0,
		[STORE_LAUNCH_ACTIVE_SET] = set,
		[STORE_LAUNCH_PLACE] = place,
		[STORE_LAUNCH_LAYER_SITE] = layer_site,
	};
	bool fresh;

	if (written_row(&s->written.launches, values, STORE_LAUNCH_COLUMNS, ret, &fresh) < 0) {
		return no_memory(s);
	}
	values[STORE_LAUNCH_ID] = *ret;
	if (!fresh) {
		return 0;
	}
	bind_all(s->stmt[STORE_STMT_LAUNCH], 1, values, STORE_LAUNCH_COLUMNS);
	return step(s, STORE_STMT_LAUNCH, "write launch");
}

static void bind_record(sqlite3_stmt *stmt, const struct gpuctr_record *record, unsigned launch,
			const struct store_attribution *what)
{
	const int64_t values[STORE_COL_STEP] = {
		[STORE_COL_ID] = record_id(record),
		[STORE_COL_PROCESS] = record->process,
		[STORE_COL_IDX] = (int64_t)record->index,
		[STORE_COL_LAUNCH] = launch,
		[STORE_COL_CORRELATION] = record->correlation,
		[STORE_COL_START_NS] = record->start_ns,
		[STORE_COL_DURATION_NS] = record->duration_ns,
		[STORE_COL_CLOCK] = record->clock,
		[STORE_COL_OPENED] = record->opened,
		[STORE_COL_PAYLOAD_TYPE] = record->at.payload_type,
		[STORE_COL_PAYLOAD] = (int64_t)record->at.payload,
	};

	/* Parameters count from 1, columns from 0. */
	bind_all(stmt, 1, values, STORE_COL_STEP);
	bind_number(stmt, 1 + STORE_COL_STEP, what ? what->step : -1);
	bind_number(stmt, 1 + STORE_COL_SEQ, what ? what->seq : -1);
}

static int write_errors(struct store *s, const struct gpuctr_record *record)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_SAMPLED];

	if (!record->errors || !stmt) {
		return 0;
	}
	BIND(stmt, 1, record_id(record), record->alike);
	for (size_t i = 0; i < s->n_columns; i++) {
		sqlite3_bind_double(stmt, 3 + (int)i, record->errors[i]);
	}
	return step(s, STORE_STMT_SAMPLED, "write errors");
}

static int write_graph(struct store *s, const struct gpuctr_record *record)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_GRAPH_KERNEL];

	if (record->kind != GPUCTR_LAUNCH_GRAPH_KERNEL || !stmt) {
		return 0;
	}
	BIND(stmt, 1, record_id(record), record->graph, (int64_t)record->graph_node);
	return step(s, STORE_STMT_GRAPH_KERNEL, "write graph");
}

/* SQLite stores a NaN as NULL, which is what queries expect of "not available". */
static void bind_values(const struct store *s, sqlite3_stmt *stmt, int at,
			const struct gpuctr_record *record)
{
	for (size_t i = 0; i < s->n_columns; i++) {
		sqlite3_bind_double(stmt, at + (int)i, record->values ? record->values[i] : NAN);
	}
}

static int write_row(struct store *s, const struct gpuctr_record *record,
		     const struct store_attribution *what)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_RECORD];
	struct written_process *known = written_process(&s->written, record->process);
	unsigned set = 0, place = 0, launch = 0;
	int r;

	if (!known) {
		return no_memory(s);
	}
	r = write_kernel(s, known, record->kernel);
	r = r ? r : write_site(s, known, record->site);
	r = r ? r : write_active(s, known, record, &set);
	r = r || !what ? r : write_place(s, what, &place);
	r = r ? r : write_launch(s, record, set, place, what ? what->layer_site : 0, &launch);
	r = r ? r : bind_numbers(s, stmt, 1 + STORE_COL_NUMBERS, record->site, &record->at);
	if (r) {
		return r;
	}
	bind_record(stmt, record, launch, what);
	bind_values(s, stmt, 1 + STORE_COL_METRICS, record);
	r = step(s, STORE_STMT_RECORD, "write record");
	r = r ? r : write_errors(s, record);
	return r ? r : write_graph(s, record);
}

int store_write_record(struct store *s, const struct gpuctr_record *record,
		       const struct store_attribution *what)
{
	int r = store_begin(s);

	if (r == 0 && (record->process > STORE_PROCESS_MAX || record->index > STORE_INDEX_MAX)) {
		r = -EOVERFLOW;
	}
	r = r ? r : write_row(s, record, what);
	if (r) {
		s->unsaved++;
		return r;
	}
	s->saved++;
	s->pending_records++;
	return store_commit_if_due(s);
}

int store_write_values(struct store *s, const struct gpuctr_record *record)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_VALUES];
	int r = store_begin(s);

	if (r || !stmt) {
		return r;
	}
	bind_values(s, stmt, 2, record);
	BIND(stmt, 1, record_id(record));
	r = step(s, STORE_STMT_VALUES, "write values");
	r = r ? r : write_errors(s, record);
	s->pending_values += r == 0;
	return r ? r : store_commit_if_due(s);
}

int store_write_unsampled(struct store *s, const char *text, uint64_t sample_ns)
{
	int r = store_begin(s);

	return r ? r : meta_write_unsampled(s, text, sample_ns);
}

int store_write_mark(struct store *s, const struct gpuctr_mark *mark)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_MARK];
	struct written_process *known;
	int r = begin_of(s, mark->process, &known);

	r = r ? r : write_site(s, known, mark->site);
	r = r ? r : bind_numbers(s, stmt, 7, mark->site, &mark->at);
	if (r) {
		return r;
	}
	BIND(stmt, 1, mark->process, mark->site ? mark->site->id : 0, mark->thread, mark->time_ns,
	     mark->at.payload_type, (int64_t)mark->at.payload);
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
	BIND(stmt, 1, image->process, (int64_t)image->first, image->count, (int64_t)image->size,
	     (int64_t)crc32_z(0, image->data, image->size));
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

	BIND(stmt, 1, notice->process, notice->error.code);
	bind_text(stmt, 3, notice->error.message);
	bind_text(stmt, 4, notice->error.remedy);
	return step(s, STORE_STMT_NOTICE, "write notice");
}
