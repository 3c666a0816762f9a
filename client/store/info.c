/* SPDX-License-Identifier: Apache-2.0 */

/* What a capture file says about the capture as a whole and about its processes: read once, when
 * the file is opened, into the reader's pool. Keys of meta that we do not know are left alone: a
 * later version may add some without a new format. */

#include "client/store/reader_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/store/schema.h"

/* SQLite has at most 2,000 columns a table. */
enum { MAX_METRIC_COLUMNS = 1900, MAX_DEVICES = 4096, MAX_META = 1 << 16, MAX_CLAIMS = 256 };

/* --- the capture -------------------------------------------------------- */

static void take_meta(struct row *row, size_t i_row, void *userdata)
{
	struct store_info *info = userdata;
	const char *key = (const char *)sqlite3_column_text(row->stmt, 0);
	const struct {
		const char *key;
		const char **text;
	} texts[] = {
		{ "version", &info->version },
		{ "command", &info->command },
		{ "host", &info->host },
		{ "user", &info->user },
		{ "driver", &info->driver },
		{ "recorded_from", &info->recorded_from },
		{ "end_message", &info->end_message },
		{ "chip", &info->plan.chip },
	};
	const struct {
		const char *key;
		uint64_t *value;
	} totals[] = {
#define ROW(name) { #name, &info->totals.name },
		GPUCTR_TOTALS(ROW)
#undef ROW
	};

	(void)i_row;
	for (size_t i = 0; key && i < sizeof(texts) / sizeof(texts[0]); i++) {
		if (strcmp(key, texts[i].key) == 0) {
			*texts[i].text = row_text(row, 1);
			return;
		}
	}
	for (size_t i = 0; key && i < sizeof(totals) / sizeof(totals[0]); i++) {
		if (strcmp(key, totals[i].key) == 0) {
			*totals[i].value = row_u63(row, 1);
			return;
		}
	}
	if (key && strcmp(key, "created_ns") == 0) {
		info->created_ns = row_i64(row, 1);
	} else if (key && strcmp(key, "complete") == 0) {
		info->complete = row_int(row, 1, 0, 1) != 0;
	} else if (key && strcmp(key, "passes") == 0) {
		info->plan.passes = row_u32(row, 1);
	} else if (key && strcmp(key, "groups") == 0) {
		info->plan.groups = row_u32(row, 1);
	} else if (key && strcmp(key, "budget_ppm") == 0) {
		info->budget_ppm = row_u32(row, 1);
	} else if (key && strcmp(key, "seed") == 0) {
		info->seed = strtoull(row_text(row, 1), NULL, 10);
	} else if (key && strcmp(key, "end_code") == 0) {
		info->end_code = (int)row_int(row, 1, 0, INT32_MAX);
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

static int read_plan(struct store_reader *r)
{
	struct gpuctr_plan *plan = &r->info.plan;
	struct gpuctr_column *columns;
	const char **metrics;
	int result = reader_count(r, "column_def", MAX_METRIC_COLUMNS, &plan->n_columns);

	result = result ? result
			: reader_count(r, "metric_def", MAX_METRIC_COLUMNS, &plan->n_metrics);
	if (result) {
		return result;
	}
	columns = store_pool_take(&r->pool, plan->n_columns, sizeof(*columns));
	metrics = store_pool_take(&r->pool, plan->n_metrics, sizeof(*metrics));
	if (!columns || !metrics) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	plan->columns = columns;
	plan->metrics = metrics;
	result = reader_rows(r, "column_def",
			     "SELECT idx, name, unit, pass_group FROM column_def ORDER BY idx",
			     plan->n_columns, take_column, columns);
	return result ? result
		      : reader_rows(r, "metric_def",
				    "SELECT idx, name FROM metric_def ORDER BY idx",
				    plan->n_metrics, take_metric, metrics);
}

/* Keys are "argv.N", "gpu.N.uuid" and so on; what stands between the dots is not trusted. */
#define NUMBER_IN_KEY(from) "CAST(substr(key, " from ") AS INTEGER)"

static void take_argument(struct row *row, size_t i, void *userdata)
{
	const char **argv = userdata;

	argv[i] = row_text(row, 0);
}

static int read_arguments(struct store_reader *r)
{
	static const char table[] = "meta WHERE key > 'argv.' AND key < 'argv/'";
	const char **argv;
	char sql[192];
	size_t n;
	int result = reader_count(r, table, MAX_META, &n);

	if (result || n == 0) {
		return result;
	}
	argv = store_pool_take(&r->pool, n + 1, sizeof(*argv));
	if (!argv) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	r->info.argv = argv;
	snprintf(sql, sizeof(sql), "SELECT value FROM %s ORDER BY " NUMBER_IN_KEY("6"), table);
	return reader_rows(r, "meta", sql, n, take_argument, argv);
}

static void take_gpu(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_gpu *gpu = (struct gpuctr_gpu *)userdata + i;

	gpu->index = row_u32(row, 0);
	gpu->uuid = row_text(row, 1);
	gpu->name = row_text(row, 2);
	gpu->chip = row_text(row, 3);
}

static int read_gpus(struct store_reader *r)
{
	static const char table[] = "meta AS m WHERE m.key GLOB 'gpu.[0-9]*.uuid'";
	struct gpuctr_gpu *gpus;
	char sql[512];
	size_t n;
	int result = reader_count(r, table, MAX_DEVICES, &n);

	if (result || n == 0) {
		return result;
	}
	gpus = store_pool_take(&r->pool, n, sizeof(*gpus));
	if (!gpus) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	r->info.gpus = gpus;
	r->info.n_gpus = n;
	snprintf(sql, sizeof(sql),
		 "SELECT " NUMBER_IN_KEY("5") ", value, ifnull((SELECT value FROM meta"
					      " WHERE key = replace(m.key, '.uuid', '.name')), "
					      "''), ifnull((SELECT value"
					      " FROM meta WHERE key = replace(m.key, '.uuid', "
					      "'.chip')), '') FROM %s ORDER BY 1",
		 table);
	return reader_rows(r, "meta", sql, n, take_gpu, gpus);
}

int info_read_capture(struct store_reader *r)
{
	int result = read_meta(r);

	result = result ? result : read_arguments(r);
	result = result ? result : read_gpus(r);
	return result ? result : read_plan(r);
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
	row_totals(row, 8, &p->totals);
}

static void take_device(struct row *row, size_t i, void *userdata)
{
	struct gpuctr_device *device = (struct gpuctr_device *)userdata + i;

	device->index = row_u32(row, 0);
	device->uuid = row_text(row, 1);
	device->name = row_text(row, 2);
	device->chip = row_text(row, 3);
	device->clock_sm_mhz = row_u32(row, 4);
	device->clock_mem_mhz = row_u32(row, 5);
}

static int read_devices(struct store_reader *r, struct store_process *p)
{
	unsigned process = p->process.process;
	struct gpuctr_device *devices;
	char table[64], sql[192];
	int result;

	snprintf(table, sizeof(table), "device WHERE process = %u", process);
	result = reader_count(r, table, MAX_DEVICES, &p->process.n_devices);
	if (result) {
		return result;
	}
	devices = store_pool_take(&r->pool, p->process.n_devices, sizeof(*devices));
	if (!devices) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	p->process.devices = devices;
	snprintf(sql, sizeof(sql),
		 "SELECT idx, uuid, name, chip, clock_sm_mhz, clock_mem_mhz FROM %s"
		 " ORDER BY idx",
		 table);
	return reader_rows(r, "device", sql, p->process.n_devices, take_device, devices);
}

/* "NAME=value", as a live process has them. */
static void take_claim(struct row *row, size_t i, void *userdata)
{
	const char **claims = userdata;

	claims[i] = row_text(row, 0);
}

/* Keys of a process are "process.N.NAME". */
static int read_claims(struct store_reader *r, struct store_process *p)
{
	unsigned process = p->process.process;
	const char **claims;
	char table[96], sql[192];
	int result;

	snprintf(table, sizeof(table), "meta WHERE key > 'process.%u.' AND key < 'process.%u/'",
		 process, process);
	result = reader_count(r, table, MAX_CLAIMS, &p->process.n_claims);
	if (result) {
		return result;
	}
	claims = store_pool_take(&r->pool, p->process.n_claims, sizeof(*claims));
	if (!claims) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	p->process.claims = claims;
	snprintf(sql, sizeof(sql),
		 "SELECT substr(key, instr(substr(key, 9), '.') + 9) || '=' || value FROM %s"
		 " ORDER BY key",
		 table);
	return reader_rows(r, "meta", sql, p->process.n_claims, take_claim, claims);
}

static void take_counts(struct row *row, size_t i, void *userdata)
{
	struct store_process *p = userdata;

	(void)i;
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

int info_read_processes(struct store_reader *r)
{
	size_t n;
	char sql[256];
	int result = reader_count(r, "process", STORE_PROCESS_MAX, &n);

	if (result) {
		return result;
	}
	r->processes = store_pool_take(&r->pool, n, sizeof(*r->processes));
	if (!r->processes) {
		return reader_fail(r, SQLITE_NOMEM, "read");
	}
	r->info.processes = r->processes;
	r->info.n_processes = n;
	snprintf(sql, sizeof(sql),
		 "SELECT id, pid, program, cupti, driver, recorded_from, ended, clean, seen,"
		 " measured, filtered, capturing, unready, failed, dropped, lost, %s FROM process"
		 " ORDER BY id",
		 r->format < 3 ? "0" : "unchosen");
	result = reader_rows(r, "process", sql, n, take_process, r->processes);
	for (size_t i = 0; i < n && result == 0; i++) {
		result = read_devices(r, &r->processes[i]);
		result = result ? result : read_claims(r, &r->processes[i]);
	}
	return result;
}

int store_count_rows(struct store_reader *r)
{
	int result = 0;

	for (size_t i = 0; i < r->info.n_processes && result == 0; i++) {
		result = read_counts(r, &r->processes[i]);
	}
	return result;
}
