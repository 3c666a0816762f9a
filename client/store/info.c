/* SPDX-License-Identifier: Apache-2.0 */

/* Reads, when the file is opened, what it says about the capture as a whole and about processes,
 * into the reader's pool. Unknown keys of meta are ignored, so a later version may add keys without
 * a new format. */

#include "client/store/reader_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/schema.h"
#include "proto/base/array.h"
#include "proto/base/clean.h"

/* SQLite allows at most 2,000 columns in a table. */
enum {
	MAX_METRIC_COLUMNS = 1900,
	MAX_DEVICES = 4096, /* most devices of a process */
	MAX_ALL_DEVICES = 1 << 24,
	MAX_META = 1 << 22, /* each process may have several claims about its job */
	MAX_CLAIMS = 256,
	MAX_NOTICES = 1 << 24
};

/* --- the capture -------------------------------------------------------- */

enum meta_kind { META_TEXT, META_BOOL, META_U32, META_U63, META_I64, META_CODE };

/* Keys of meta, and the members that take their values. */
static const struct meta_member {
	const char *key;
	enum meta_kind kind;
	size_t at; /* offset in struct store_info */
} members[] = {
#define MEMBER(kind, key, member)                                     \
	{                                                             \
		key, META_##kind, offsetof(struct store_info, member) \
	}
#define TOTAL(name) MEMBER(U63, #name, totals.name),
	MEMBER(TEXT, "version", version),
	MEMBER(TEXT, "command", command),
	MEMBER(TEXT, "host", host),
	MEMBER(TEXT, "user", user),
	MEMBER(TEXT, "driver", driver),
	MEMBER(TEXT, "recorded_from", recorded_from),
	MEMBER(TEXT, "end_message", end_message),
	MEMBER(TEXT, "unsampled", unsampled),
	MEMBER(TEXT, "chip", plan.chip),
	MEMBER(I64, "created_ns", created_ns),
	MEMBER(BOOL, "complete", complete),
	MEMBER(U32, "passes", plan.passes),
	MEMBER(U32, "groups", plan.groups),
	MEMBER(BOOL, "sampled", sampled),
	MEMBER(BOOL, "samples", has_samples),
	MEMBER(BOOL, "graphs", graphs),
	MEMBER(U63, "sample_ns", sample_ns),
	MEMBER(CODE, "end_code", end_code),
	GPUCTR_TOTALS(TOTAL)
#undef TOTAL
#undef MEMBER
};

static void take_value(struct row *row, enum meta_kind kind, void *to)
{
	switch (kind) {
	case META_TEXT:
		*(const char **)to = row_text(row, 1);
		break;
	case META_BOOL:
		*(bool *)to = row_int(row, 1, 0, 1) != 0;
		break;
	case META_U32:
		*(uint32_t *)to = row_u32(row, 1);
		break;
	case META_U63:
		*(uint64_t *)to = row_u63(row, 1);
		break;
	case META_I64:
		*(int64_t *)to = row_i64(row, 1);
		break;
	case META_CODE:
		*(int *)to = (int)row_int(row, 1, 0, INT32_MAX);
		break;
	}
}

static void take_meta(struct row *row, size_t i_row, void *info)
{
	const char *key = (const char *)sqlite3_column_text(row->stmt, 0);

	for (size_t i = 0; key && i < ARRAY_SIZE(members); i++) {
		if (strcmp(key, members[i].key) == 0) {
			take_value(row, members[i].kind, (char *)info + members[i].at);
			return;
		}
	}
}

static int read_meta(struct store_reader *r)
{
	size_t n;
	int result = reader_count(r, "meta", MAX_META, &n);

	r->info = (struct store_info){ .path = r->path,
				       .version = "",
				       .command = "",
				       .host = "",
				       .user = "",
				       .driver = "",
				       .recorded_from = "",
				       .unsampled = "",
				       .end_message = "" };
	r->info.plan.chip = "";
	return result ? result
		      : reader_rows(r, "meta", "SELECT key, value FROM meta", n, take_meta,
				    &r->info);
}

static void take_column(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_column *columns = userdata;

	row_int(row, 0, (int64_t)i, (int64_t)i);
	columns[i].name = row_text(row, 1);
	columns[i].unit = row_text(row, 2);
	columns[i].group = row_u32(row, 3);
}

static void take_metric(struct row *row, size_t i, void *userdata)
{
	const char **metrics = userdata;

	row_int(row, 0, (int64_t)i, (int64_t)i);
	metrics[i] = row_text(row, 1);
}

static const struct reader_list columns = {
	"idx, name, unit, pass_group", "column_def", "idx", MAX_METRIC_COLUMNS,
	sizeof(struct gpuctr_column),  take_column
};
static const struct reader_list metrics = { "idx, name",	"metric_def",	      "idx",
					    MAX_METRIC_COLUMNS, sizeof(const char *), take_metric };

/* Keys are "argv.N", "gpu.N.uuid" and so on; what stands between the dots is not trusted. */
#define NUMBER_IN_KEY(from) "CAST(substr(key, " from ") AS INTEGER)"

static void take_term(struct row *row, size_t i, void *items)
{
	const struct gpuctr_plan *plan = &row->reader->info.plan;
	struct gpuctr_term *t = (struct gpuctr_term *)items + i;
	size_t n;
	const char *text = row_borrow_text(row, 0, &n);

	if (sscanf(text, "%u %u %lf", &t->column, &t->metric, &t->weight) != 3 ||
	    t->column >= plan->n_columns || t->metric >= plan->n_metrics || !isfinite(t->weight)) {
		*t = (struct gpuctr_term){ 0 };
		row->error = row->error ? row->error
					: reader_corrupt(row->reader, "meta", "a term is none");
	}
}

/* Terms that columns are computed from, in a file that keeps its samples. */
static const struct reader_list terms = { "value",
					  "meta WHERE key > 'term.' AND key < 'term/'",
					  NUMBER_IN_KEY("6"),
					  MAX_META,
					  sizeof(struct gpuctr_term),
					  take_term };

static void take_unknown(struct row *row, size_t i, void *items)
{
	struct store_unknown *u = (struct store_unknown *)items + i;
	const char *text = row_text(row, 0);
	long long start, end;
	int n = 0;

	u->gpu = "";
	if (sscanf(text, "%lld %lld %n", &start, &end, &n) != 2 || start < 0 || end < 0) {
		row->error = row->error ? row->error
					: reader_corrupt(row->reader, "meta", "a time is none");
		return;
	}
	*u = (struct store_unknown){ text + n, start, end };
}

static const struct reader_list unknown = { "value",
					    "meta WHERE key > 'unknown.' AND key < 'unknown/'",
					    NUMBER_IN_KEY("9"),
					    MAX_META,
					    sizeof(struct store_unknown),
					    take_unknown };

/* Leaves out intervals that end before they begin, which some files have. */
static int read_unknown(struct store_reader *r)
{
	struct store_info *info = &r->info;
	struct store_unknown *kept;
	size_t n, n_kept = 0;
	int result = reader_list(r, &unknown, &info->unknown, &n);

	kept = (struct store_unknown *)(uintptr_t)info->unknown;
	for (size_t i = 0; result == 0 && i < n; i++) {
		if (kept[i].start_ns < kept[i].end_ns) {
			kept[n_kept++] = kept[i];
		}
	}
	info->n_unknown = n_kept;
	return result;
}

static void take_argument(struct row *row, size_t i, void *userdata)
{
	const char **argv = userdata;

	argv[i] = row_text(row, 0);
}

static const struct reader_list arguments = { "value",
					      "meta WHERE key > 'argv.' AND key < 'argv/'",
					      NUMBER_IN_KEY("6"),
					      MAX_META,
					      sizeof(const char *),
					      take_argument };

static void take_gpu(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_gpu *gpu = (struct gpuctr_gpu *)userdata + i;

	gpu->index = row_u32(row, 0);
	gpu->uuid = row_text(row, 1);
	gpu->name = row_text(row, 2);
	gpu->chip = row_text(row, 3);
}

#define OTHER_KEY(name) \
	"ifnull((SELECT value FROM meta WHERE key = replace(m.key, '.uuid', '" name "')), '')"
static const struct reader_list gpus = { NUMBER_IN_KEY("5") ", value, " OTHER_KEY(
						 ".name") ", " OTHER_KEY(".chip"),
					 "meta AS m WHERE m.key GLOB 'gpu.[0-9]*.uuid'",
					 "1",
					 MAX_DEVICES,
					 sizeof(struct gpuctr_gpu),
					 take_gpu };

int info_read_capture(struct store_reader *r)
{
	struct store_info *info = &r->info;
	struct gpuctr_plan *plan = &info->plan;
	size_t n;
	int result = read_meta(r);

	result = result ? result : reader_list(r, &arguments, &info->argv, &n);
	result = result ? result : reader_list(r, &gpus, &info->gpus, &info->n_gpus);
	result = result ? result : reader_list(r, &columns, &plan->columns, &plan->n_columns);
	result = result ? result : reader_list(r, &metrics, &plan->metrics, &plan->n_metrics);
	result = result ? result : reader_list(r, &terms, &plan->terms, &plan->n_terms);
	return result ? result : read_unknown(r);
}

/* --- processes ------------------------------------------------------------------------------- */

static void take_process(struct row *row, size_t i, void *userdata)
{
	struct store_process *p = (struct store_process *)userdata + i;

	p->process.process = (unsigned)row_int(row, 0, 0, STORE_PROCESS_MAX);
	p->process.pid = row_u32(row, 1);
	p->process.program = row_text(row, 2);
	p->process.cupti = row_text(row, 3);
	p->process.driver = row_text(row, 4);
	p->process.recorded_from = row_text(row, 5);
	p->ended = row_int(row, 6, 0, 1) != 0;
	p->clean = row_int(row, 7, 0, 1) != 0;
	p->has_records = row_int(row, 8, 0, 1) != 0;
	p->has_marks = row_int(row, 9, 0, 1) != 0;
	row_totals(row, 10, &p->totals);
}

struct store_process *info_find_process(const struct store_reader *r, int64_t id)
{
	size_t low = ARRAY_FIND_INDEX(r->processes, r->info.n_processes, process.process, id);

	return low < r->info.n_processes && r->processes[low].process.process == id
		       ? &r->processes[low]
		       : NULL;
}

static void take_device(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_device *device = (struct gpuctr_device *)userdata + i;
	struct store_process *p = info_find_process(row->reader, row_i64(row, 0));

	device->index = row_u32(row, 1);
	device->uuid = row_text(row, 2);
	device->name = row_text(row, 3);
	device->chip = row_text(row, 4);
	device->clock_sm_mhz = row_u32(row, 5);
	device->clock_mem_mhz = row_u32(row, 6);
	if (!p) {
		return;
	}
	p->process.devices = p->process.n_devices ? p->process.devices : device;
	if (++p->process.n_devices > MAX_DEVICES && row->error == 0) {
		row->error = reader_corrupt(row->reader, row->table, "a process has too many");
	}
}

/* The devices of all processes. Devices of one process are consecutive rows. */
static const struct reader_list devices = {
	"process, idx, uuid, name, chip, clock_sm_mhz, clock_mem_mhz",
	"device",
	"process, idx",
	MAX_ALL_DEVICES,
	sizeof(struct gpuctr_device),
	take_device
};

/* Parses "process.N.NAME". NULL: another key, or the file has no process N. */
static struct store_process *process_of_key(const struct store_reader *r, const char *key)
{
	const char *digits = key + strlen("process.");
	size_t n = strspn(digits, "0123456789");

	if (n == 0 || n > 9 || (digits[0] == '0' && n > 1) || digits[n] != '.') {
		return NULL;
	}
	return info_find_process(r, strtol(digits, NULL, 10));
}

/* Takes a claim "NAME=value", as a live process reports it. */
static void take_claim(struct row *row, size_t i, void *userdata)
{
	const char **claims = userdata;
	size_t length;
	struct store_process *p = process_of_key(row->reader, row_borrow_text(row, 0, &length));

	if (!p || row->error) {
		return;
	}
	claims[i] = row_text(row, 1);
	p->process.claims = p->process.n_claims ? p->process.claims : &claims[i];
	if (++p->process.n_claims > MAX_CLAIMS && row->error == 0) {
		row->error =
			reader_corrupt(row->reader, row->table, "a process has too many claims");
	}
}

/* The claims of all processes. In the order of keys, claims of one process are consecutive rows. */
static const struct reader_list claims = {
	"key, substr(key, instr(substr(key, 9), '.') + 9) || '=' || value",
	"meta WHERE key > 'process.' AND key < 'process/'",
	"key",
	MAX_META,
	sizeof(const char *),
	take_claim
};

static void take_counts(struct row *row, size_t i, void *userdata)
{
	struct store_process *p = userdata;

	p->records = row_u63(row, 0);
	p->first = row_u63(row, 1);
	p->last = row_u63(row, 2);
	p->images = row_u63(row, 3);
}

static int read_counts(struct store_reader *r, struct store_process *p)
{
	uint64_t low = (uint64_t)p->process.process << STORE_INDEX_BITS;
	char sql[256];

	snprintf(sql, sizeof(sql),
		 "SELECT count(*), ifnull(min(idx), 0), ifnull(max(idx), 0),"
		 " (SELECT count(*) FROM image WHERE process = %u) FROM record"
		 " WHERE id BETWEEN %llu AND %llu",
		 p->process.process, (unsigned long long)low,
		 (unsigned long long)(low + STORE_INDEX_MAX));
	return reader_rows(r, "record", sql, 1, take_counts, p);
}

_Static_assert(STORE_INDEX_BITS == 40, "as the query has it");

/* A capture may have tens of thousands of processes, if a program starts others. Most of these have
 * no records or marks, and has_records and has_marks spare callers a cursor for them. */
int info_read_processes(struct store_reader *r)
{
	static const struct reader_list list = {
		"id, pid, program, cupti, driver, recorded_from, ended, clean,"
		" EXISTS (SELECT 1 FROM record WHERE record.id BETWEEN process.id << 40"
		" AND (process.id + 1 << 40) - 1),"
		" id IN (SELECT process FROM mark),"
		" seen, measured, filtered, capturing, unready, failed, dropped, lost",
		"process",
		"id",
		STORE_PROCESS_MAX,
		sizeof(struct store_process),
		take_process
	};
	const void *items;
	size_t n;
	int result = reader_list(r, &list, &r->processes, &n);

	if (result) {
		return result;
	}
	r->kernels = arena_zalloc_array(&r->arena, n, sizeof(*r->kernels));
	r->sites = arena_zalloc_array(&r->arena, n, sizeof(*r->sites));
	if (!r->kernels || !r->sites) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	r->info.processes = r->processes;
	r->info.n_processes = n;
	result = reader_list(r, &devices, &items, &n);
	return result ? result : reader_list(r, &claims, &items, &n);
}

/* --- notices --------------------------------------------------------------------------------- */

static void take_notice(struct row *row, size_t i, void *items)
{
	struct gpuctr_notice *notice = (struct gpuctr_notice *)items + i;

	notice->process = row_u32(row, 0);
	notice->error.code = (int)row_int(row, 1, INT32_MIN, INT32_MAX);
	notice->error.message = row_text(row, 2);
	notice->error.remedy = row_text(row, 3);
}

int store_notices(struct store_reader *r, const struct gpuctr_notice **ret, size_t *ret_n)
{
	static const struct reader_list list = {
		"process, code, message, remedy", "notice",   "rowid", MAX_NOTICES,
		sizeof(struct gpuctr_notice),	  take_notice
	};

	return reader_list(r, &list, ret, ret_n);
}

/* --- the end --------------------------------------------------------------------------------- */

const char *const store_lacks[STORE_LACKS] = {
	[STORE_LACKS_NOTHING] = "nothing is missing",
	[STORE_IS_WRITTEN] = "still being written",
	[STORE_WAS_CUT] = "cut short",
	[STORE_MAY_BE_CUT] = "still being written, or cut short",
	[STORE_ENDED_EARLY] = "ended with an error",
};

enum store_lack store_lack(const struct store_info *info)
{
	bool ended = info->n_processes > 0;

	for (size_t i = 0; i < info->n_processes; i++) {
		ended &= info->processes[i].ended;
	}
	return info->complete		     ? STORE_LACKS_NOTHING
	       : info->end_code != GPUCTR_OK ? STORE_ENDED_EARLY
	       : info->is_written	     ? STORE_IS_WRITTEN
	       : ended			     ? STORE_MAY_BE_CUT
					     : STORE_WAS_CUT;
}

/* --- rows ------------------------------------------------------------------------------------ */

int store_count_rows(struct store_reader *r)
{
	int result = 0;

	for (size_t i = 0; i < r->info.n_processes && result == 0; i++) {
		result = read_counts(r, &r->processes[i]);
	}
	return result;
}

static void take_first(struct row *row, size_t i, void *first_ns)
{
	*(int64_t *)first_ns = row_int(row, 0, 0, INT64_MAX);
}

int store_find_first(struct store_reader *r)
{
	return reader_rows(r, "record",
			   "SELECT ifnull(min(start_ns), 0) FROM record WHERE start_ns > 0", 1,
			   take_first, &r->info.first_ns);
}
