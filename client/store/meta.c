/* SPDX-License-Identifier: Apache-2.0 */

/* Writes what a capture file says about the capture as a whole. All keys exist from the start, so a
 * file can still be marked when the disk is full, and every file has the same keys. */

#include "client/store/meta.h"

#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "client/store/schema.h"
#include "proto/base/clock.h"

static int step(struct store *s, sqlite3_stmt *stmt, const char *call)
{
	int rc = sqlite3_step(stmt);

	sqlite3_reset(stmt);
	return rc == SQLITE_DONE ? 0 : store_fail(s, rc, call);
}

static int write_int(struct store *s, const char *key, int64_t value)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_META];

	sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_int64(stmt, 2, value);
	return step(s, stmt, "write meta");
}

int meta_write_text(struct store *s, const char *key, const char *value)
{
	sqlite3_stmt *stmt = s->stmt[STORE_STMT_META];

	sqlite3_bind_text(stmt, 1, key, -1, SQLITE_STATIC);
	sqlite3_bind_text(stmt, 2, value ? value : "", -1, SQLITE_STATIC);
	return step(s, stmt, "write meta");
}

static int write_totals(struct store *s, const struct gpuctr_totals *totals)
{
	const struct {
		const char *key;
		uint64_t value;
	} rows[] = {
#define ROW(name) { #name, totals->name },
		GPUCTR_TOTALS(ROW)
#undef ROW
	};
	int r = 0;

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && r == 0; i++) {
		r = write_int(s, rows[i].key, store_count(rows[i].value));
	}
	return r;
}

/* Frees sql. */
static int insert(struct store *s, char *sql)
{
	int rc = sql ? sqlite3_exec(s->db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;

	sqlite3_free(sql);
	return rc == SQLITE_OK ? 0 : store_fail(s, rc, "write columns");
}

static int write_columns(struct store *s, const struct gpuctr_plan *plan)
{
	int r = 0;

	for (size_t i = 0; i < plan->n_columns && r == 0; i++) {
		const struct gpuctr_column *c = &plan->columns[i];

		r = insert(s, sqlite3_mprintf("INSERT INTO column_def VALUES(%d, %Q, %Q, %u)",
					      (int)i, c->name, c->unit ? c->unit : "", c->group));
	}
	for (size_t i = 0; i < plan->n_metrics && r == 0; i++) {
		r = insert(s, sqlite3_mprintf("INSERT INTO metric_def VALUES(%d, %Q)", (int)i,
					      plan->metrics[i]));
	}
	return r;
}

static bool is_plain(const char *word)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "%+,-./:=@_";

	return *word && word[strspn(word, plain)] == '\0';
}

static void append_quoted(sqlite3_str *text, const char *word)
{
	sqlite3_str_appendchar(text, 1, '\'');
	for (; *word; word++) {
		if (*word == '\'') {
			sqlite3_str_appendall(text, "'\\''");
		} else {
			sqlite3_str_appendchar(text, 1, *word);
		}
	}
	sqlite3_str_appendchar(text, 1, '\'');
}

char *meta_quote_command(const char *const *argv)
{
	sqlite3_str *text = sqlite3_str_new(NULL);

	for (size_t i = 0; argv && argv[i]; i++) {
		if (i > 0) {
			sqlite3_str_appendchar(text, 1, ' ');
		}
		if (is_plain(argv[i])) {
			sqlite3_str_appendall(text, argv[i]);
		} else {
			append_quoted(text, argv[i]);
		}
	}
	if (!argv || !argv[0]) {
		sqlite3_str_appendall(text, "");
	}
	return sqlite3_str_finish(text);
}

/* "term.0": column, metric and weight. A later attribution of the samples needs these. */
static int write_terms(struct store *s, const struct gpuctr_plan *plan)
{
	char key[32], value[64];
	int r = 0;

	for (size_t i = 0; i < plan->n_terms && r == 0; i++) {
		const struct gpuctr_term *t = &plan->terms[i];

		snprintf(key, sizeof(key), "term.%zu", i);
		snprintf(value, sizeof(value), "%u %u %.17g", t->column, t->metric, t->weight);
		r = meta_write_text(s, key, value);
	}
	return r;
}

/* Writes "argv.0", "argv.1", ... for programs; the quoted command is for people. */
static int write_arguments(struct store *s, const char *const *argv)
{
	char key[32];
	int r = 0;

	for (unsigned i = 0; argv && argv[i] && r == 0; i++) {
		snprintf(key, sizeof(key), "argv.%u", i);
		r = meta_write_text(s, key, argv[i]);
	}
	return r;
}

/* Writes "gpu.INDEX.uuid", ... for the leased GPUs, whether a process used them or not. */
static int write_gpus(struct store *s, const struct store_options *options)
{
	int r = 0;

	for (size_t i = 0; i < options->n_gpus && r == 0; i++) {
		const struct gpuctr_gpu *gpu = &options->gpus[i];
		const struct {
			const char *name, *value;
		} rows[] = { { "uuid", gpu->uuid }, { "name", gpu->name }, { "chip", gpu->chip } };

		for (size_t k = 0; k < sizeof(rows) / sizeof(rows[0]) && r == 0; k++) {
			char key[32];

			snprintf(key, sizeof(key), "gpu.%u.%s", gpu->index, rows[k].name);
			r = meta_write_text(s, key, rows[k].value);
		}
	}
	return r;
}

static int write_origin(struct store *s, const struct store_options *options)
{
	char host[256] = "";
	/* The name service may hang, and a temporary file needs no user's name. */
	const struct passwd *user = s->is_temporary ? NULL : getpwuid(geteuid());
	char *command = meta_quote_command(options->command);
	int r;

	gethostname(host, sizeof(host) - 1);
	r = write_int(s, "created_ns", (int64_t)clock_wall_ns());
	r = r ? r : meta_write_text(s, "command", command);
	r = r ? r : write_arguments(s, options->command);
	r = r ? r : meta_write_text(s, "host", host);
	r = r ? r : meta_write_text(s, "user", user ? user->pw_name : "");
	sqlite3_free(command);
	return r;
}

int meta_write_head(struct store *s, const struct store_options *options)
{
	static const struct gpuctr_totals none;
	const struct gpuctr_plan *plan = options->plan;
	int r;

	r = meta_write_text(s, "format", STORE_FORMAT_NAME);
	r = r ? r : meta_write_text(s, "version", options->version);
	r = r ? r : write_origin(s, options);
	r = r ? r : meta_write_text(s, "chip", plan->chip);
	r = r ? r : meta_write_text(s, "driver", options->driver);
	r = r ? r : write_gpus(s, options);
	r = r ? r : write_int(s, "passes", plan->passes);
	r = r ? r : write_int(s, "groups", plan->groups);
	r = r || !options->sampled ? r : write_int(s, "sampled", 1);
	r = r || !s->keeps_samples ? r : write_int(s, "samples", 1);
	r = r || !options->graphs ? r : write_int(s, "graphs", 1);
	r = r || !s->keeps_samples ? r : write_terms(s, plan);
	r = r ? r : meta_write_text(s, "recorded_from", "");
	r = r ? r : write_int(s, "complete", 0);
	r = r ? r : write_int(s, "end_code", 0);
	r = r ? r : meta_write_text(s, "end_message", "");
	r = r ? r : write_totals(s, &none);
	return r ? r : write_columns(s, plan);
}

int meta_write_unsampled(struct store *s, const char *text, uint64_t sample_ns)
{
	int r = write_int(s, "sample_ns", store_count(sample_ns));

	return r ? r : meta_write_text(s, "unsampled", text);
}

int meta_write_end(struct store *s, const struct gpuctr_end *end)
{
	int r = write_totals(s, &end->totals);

	r = r ? r : write_int(s, "end_code", end->error.code);
	r = r ? r : meta_write_text(s, "end_message", end->error.code ? end->error.message : "");
	return r ? r : write_int(s, "complete", end->error.code == GPUCTR_OK);
}
