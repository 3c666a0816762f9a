/* SPDX-License-Identifier: Apache-2.0 */

/* The table of derived columns, and their expressions as statements of SQLite. A statement has no
 * table: names in the expression become parameters, to which derived_value.c binds the sums of a
 * row. A column that an expression uses is replaced by its own expression, so that all sums are of
 * the same launches. The connection is in memory, and an expression can read no file and call
 * nothing that does. */

#include "client/report/derived.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <sqlite3.h>
#include <string.h>

#include "client/cli/text.h"
#include "proto/base/near.h"

enum { EXPRESSION_BYTES_MAX = 16 * 1024, BLOB_BYTES_MAX = 64 * 1024 };

/* The built-in columns. A column is left out if the measures lack a name in it. */
static const struct row {
	const char *name, *unit, *expression;
	const char *unless; /* the column is left out if this one exists */
	bool of_several;    /* of operations: left out if a single counter counts them */
} rows[] = {
	{ "dram_bandwidth", "byte/second", "bytes / time" },
	{ "dram_read_bandwidth", "byte/second", "dram__bytes_read / time", "dram_bandwidth" },
	{ "dram_write_bandwidth", "byte/second", "dram__bytes_write / time", "dram_bandwidth" },
	{ "of_peak", "percent", "bytes / peak_bytes * 100" },
	{ "flop", "FLOP", "flops", .of_several = true },
	{ "flop_rate", "FLOP/second", "flops / time" },
	{ "of_flop_peak", "percent", "peak_time / flop_time * 100" },
	{ "intensity", "FLOP/byte", "flops / bytes" },
	{ "l1_hit_rate", "percent",
	  "l1tex__t_sectors_lookup_hit / (l1tex__t_sectors_lookup_hit + "
	  "l1tex__t_sectors_lookup_miss) * 100" },
	{ "l2_hit_rate", "percent",
	  "lts__t_sectors_lookup_hit / (lts__t_sectors_lookup_hit + "
	  "lts__t_sectors_lookup_miss) * 100" },
};

static_assert(sizeof(rows) / sizeof(rows[0]) <= DERIVED_BUILT_IN_MAX, "each row has room");

/* --- names ----------------------------------------------------------------------------------- */

/* An expression that is being translated to SQL. */
struct compilation {
	struct derived_columns *columns;
	struct derived *column;
	struct buf sql;
	struct buf *why; /* NULL: no reason is wanted */
};

static bool refuse(struct compilation *c, const char *what, const char *text, size_t n)
{
	CLEAN_BUF struct buf quoted = { 0 };

	if (c->why) {
		buf_add(&quoted, text, n);
		buf_printf(c->why, "column '%s': %s", c->column->name, what);
		text_terminal(c->why, buf_string(&quoted));
		buf_char(c->why, '\'');
	}
	return false;
}

static bool is_word(const char *text, size_t n, const char *word)
{
	return strlen(word) == n && strncmp(text, word, n) == 0;
}

static const struct derived *find_column(const struct derived_columns *c, const char *name,
					 size_t n)
{
	for (size_t i = 0; i < c->n; i++) {
		if (is_word(name, n, c->items[i].name)) {
			return &c->items[i];
		}
	}
	return NULL;
}

const struct derived *derived_named(const struct derived_columns *c, const char *name)
{
	return find_column(c, name, strlen(name));
}

/* A metric's name may go without its ".sum". */
static size_t find_measure(const struct derived_columns *c, const char *name, size_t n)
{
	for (size_t i = 0; i < c->n_measures; i++) {
		const char *measure = c->measures[i].name;

		if (strncmp(measure, name, n) == 0 &&
		    (measure[n] == '\0' || strcmp(measure + n, ".sum") == 0)) {
			return i;
		}
	}
	return SIZE_MAX;
}

/* Appends the parameter of an operand. */
static bool add_operand(struct compilation *c, enum derived_quantity quantity, size_t measure)
{
	struct derived *d = c->column;
	size_t i = 0;

	while (i < d->n_operands &&
	       (d->operands[i].quantity != quantity || d->operands[i].measure != measure)) {
		i++;
	}
	if (i == DERIVED_OPERANDS) {
		return refuse(c, "it has too many names: '", d->expression, strlen(d->expression));
	}
	d->operands[i] = (struct derived_operand){ quantity, measure };
	d->n_operands += i == d->n_operands;
	d->timed |=
		quantity > DERIVED_LAUNCHES || (quantity == DERIVED_SUM && measure == MEASURE_TIME);
	buf_printf(&c->sql, "?%zu", i + 1);
	return true;
}

static const struct derived_word *find_word(const struct derived_columns *c, const char *name,
					    size_t n)
{
	for (size_t i = 0; i < c->n_words; i++) {
		if (is_word(name, n, c->words[i].name)) {
			return &c->words[i];
		}
	}
	return NULL;
}

static bool refuse_name(struct compilation *c, const char *name, size_t n)
{
	const struct derived_columns *all = c->columns;
	struct near near;

	refuse(c, "the captures have no '", name, n);
	near_init(&near, name, n);
	for (size_t i = 0; i < all->n_words; i++) {
		near_offer(&near, all->words[i].name);
	}
	for (size_t i = 0; i < all->n_measures; i++) {
		near_offer(&near, all->measures[i].name);
	}
	for (size_t i = 0; i < all->n; i++) {
		near_offer(&near, all->items[i].name);
	}
	if (c->why && near_best(&near)) {
		buf_printf(c->why, "; did you mean '%s'?", near_best(&near));
	}
	return false;
}

/* --- expressions ----------------------------------------------------------------------------- */

static bool add_expression(struct compilation *c, const char *text);

static bool add_part(struct compilation *c, const char *expression)
{
	bool ok;

	buf_char(&c->sql, '(');
	ok = add_expression(c, expression);
	buf_char(&c->sql, ')');
	return ok;
}

/* Adds a name, or a word of SQL's: a keyword or a function. */
static bool add_word(struct compilation *c, const char *name, size_t n)
{
	size_t measure = find_measure(c->columns, name, n);
	const struct derived_word *word = find_word(c->columns, name, n);
	const struct derived *column = find_column(c->columns, name, n);

	if (measure != SIZE_MAX) {
		return add_operand(c, DERIVED_SUM, measure);
	}
	if (word) {
		c->column->of_flops |= word->of_flops;
		return word->expression ? add_part(c, word->expression)
					: add_operand(c, word->quantity, 0);
	}
	if (column) {
		return add_part(c, column->expression);
	}
	if (name[n + strspn(name + n, " ")] != '(' && !sqlite3_keyword_check(name, (int)n)) {
		return refuse_name(c, name, n);
	}
	buf_add(&c->sql, name, n);
	return true;
}

/* Numbers are real: SQL would divide whole ones without their fraction. */
static size_t add_number(struct compilation *c, const char *text)
{
	size_t n = strspn(text, "0123456789."), power = 0;

	if (n > 0 && (text[n] == 'e' || text[n] == 'E')) {
		power = 1 + strspn(text + n + 1, "+-0123456789");
	}
	buf_add(&c->sql, text, n + power);
	buf_text(&c->sql, power > 0 || memchr(text, '.', n) ? "" : ".0");
	return n + power;
}

static bool add_expression(struct compilation *c, const char *text)
{
	static const char operators[] = " \t+-*/%()<>=!|&~,";

	for (size_t n; *text; text += n) {
		if (isalpha((unsigned char)*text) || *text == '_') {
			for (n = 1;
			     isalnum((unsigned char)text[n]) || text[n] == '_' || text[n] == '.';) {
				n++;
			}
			if (!add_word(c, text, n)) {
				return false;
			}
		} else if (isdigit((unsigned char)*text) || *text == '.') {
			n = add_number(c, text);
		} else if (strchr(operators, *text)) {
			n = 1;
			buf_char(&c->sql, *text);
			/* Two of these in a row, or "/" with a star, would begin a comment. */
			buf_text(&c->sql, *text == '-' || *text == '/' ? " " : "");
		} else {
			return refuse(c, "an expression ends before '", text, strlen(text));
		}
		if (c->sql.n > EXPRESSION_BYTES_MAX) {
			return refuse(c, "it is too long with the columns that it uses: '",
				      c->column->expression, strlen(c->column->expression));
		}
	}
	return true;
}

/* An expression may compute, and nothing else. */
static int authorize(void *userdata, int action, const char *a, const char *b, const char *c,
		     const char *d)
{
	(void)userdata, (void)a, (void)b, (void)c, (void)d;
	return action == SQLITE_SELECT || action == SQLITE_FUNCTION ? SQLITE_OK : SQLITE_DENY;
}

static int open_db(struct derived_columns *c)
{
	if (sqlite3_open(":memory:", &c->db) != SQLITE_OK) {
		return -ENOMEM;
	}
	sqlite3_limit(c->db, SQLITE_LIMIT_LENGTH, BLOB_BYTES_MAX);
	sqlite3_limit(c->db, SQLITE_LIMIT_SQL_LENGTH, 2 * EXPRESSION_BYTES_MAX);
	sqlite3_limit(c->db, SQLITE_LIMIT_ATTACHED, 0);
	sqlite3_db_config(c->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
	sqlite3_db_config(c->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	sqlite3_set_authorizer(c->db, authorize, NULL);
	return 0;
}

static int refuse_sql(struct compilation *c, int rc)
{
	CLEAN_BUF struct buf what = { 0 };

	buf_printf(&what, "%s: '",
		   rc == SQLITE_OK ? "it is more than one expression"
				   : sqlite3_errmsg(c->columns->db));
	refuse(c, buf_string(&what), c->column->expression, strlen(c->column->expression));
	return rc == SQLITE_NOMEM ? -ENOMEM : -EINVAL;
}

static int prepare(struct compilation *c)
{
	struct derived *d = c->column;
	int rc;

	if (c->sql.failed) {
		return -ENOMEM;
	}
	rc = sqlite3_prepare_v3(c->columns->db, c->sql.data, (int)c->sql.n,
				SQLITE_PREPARE_PERSISTENT, &d->statement, NULL);
	if (rc != SQLITE_OK || sqlite3_column_count(d->statement) != 1) {
		rc = refuse_sql(c, rc);
		sqlite3_finalize(d->statement);
		d->statement = NULL;
		return rc;
	}
	return 0;
}

/* Adds the measure's group of turns to those so far. 0: none, SIZE_MAX: several. */
static size_t join(const struct measure *m, size_t group)
{
	return m->turn == 0 || m->turn == group ? group : group == 0 ? m->turn : SIZE_MAX;
}

static bool is_joined(const struct derived_columns *c, const struct derived *d)
{
	size_t group = 0;

	for (size_t i = 0; i < d->n_operands; i++) {
		const struct derived_operand *o = &d->operands[i];

		group = o->quantity == DERIVED_SUM ? join(&c->measures[o->measure], group) : group;
		for (size_t k = 0; o->quantity == DERIVED_FLOP_TIME && k < c->sums->flops.n; k++) {
			group = join(&c->measures[c->sums->flops.terms[k]], group);
		}
	}
	return group == SIZE_MAX;
}

/* Adds the column; c owns its texts. 0, -ENOMEM or -EINVAL. */
static int add(struct derived_columns *c, const struct derived *column, struct buf *why)
{
	struct compilation x = { c, &c->items[c->n], .why = why };
	int r;

	*x.column = *column;
	x.column->measures = c->measures;
	x.column->sums = c->sums;
	buf_text(&x.sql, "SELECT ");
	r = add_expression(&x, column->expression) ? prepare(&x) : -EINVAL;
	r = x.sql.failed ? -ENOMEM : r;
	if (r == 0) {
		x.column->joined = is_joined(c, x.column);
		c->n++;
	}
	buf_deinit(&x.sql);
	return r;
}

/* "dram__bytes_read.sum + dram__bytes_write.sum" */
static const char *sum_text(struct derived_columns *c, const struct sum *s)
{
	CLEAN_BUF struct buf b = { 0 };

	for (size_t i = 0; i < s->n; i++) {
		buf_printf(&b, "%s%s", i > 0 ? " + " : "", c->measures[s->terms[i]].name);
	}
	return b.failed ? NULL : texts_add_string(&c->texts, buf_string(&b));
}

static int add_words(struct derived_columns *c)
{
	const char *bytes = sum_text(c, &c->sums->bytes), *flops = sum_text(c, &c->sums->flops);
	const struct {
		bool there;
		struct derived_word word;
	} all[] = {
		{ true, { "launches", DERIVED_LAUNCHES } },
		{ true, { "peak_bytes", DERIVED_PEAK_BYTES } },
		{ c->sums->both_ways, { "bytes", DERIVED_SUM, bytes } },
		{ c->sums->flops.n > 0, { "flops", DERIVED_SUM, flops, true } },
		{ c->sums->has_peak, { "peak_time", DERIVED_PEAK_TIME, NULL, true } },
		{ c->sums->has_peak, { "flop_time", DERIVED_FLOP_TIME, NULL, true } },
	};

	static_assert(sizeof(all) / sizeof(all[0]) == DERIVED_WORDS, "each word has room");
	for (size_t i = 0; i < DERIVED_WORDS; i++) {
		if (all[i].there) {
			c->words[c->n_words++] = all[i].word;
		}
	}
	return bytes && flops ? 0 : -ENOMEM;
}

int derived_init(struct derived_columns *c, const struct measure *measures, size_t n)
{
	int r;

	*c = (struct derived_columns){ .measures = measures, .n_measures = n };
	c->sums = texts_take(&c->texts, sizeof(*c->sums));
	r = c->sums ? open_db(c) : -ENOMEM;
	if (r == 0) {
		sums_find(measures, n, c->sums);
		r = add_words(c);
	}
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]) && r == 0; i++) {
		const struct row *row = &rows[i];

		if ((row->unless && derived_named(c, row->unless)) ||
		    (row->of_several && c->sums->flops.n < 2)) {
			continue;
		}
		r = add(c,
			&(struct derived){ .name = row->name,
					   .unit = row->unit,
					   .expression = row->expression,
					   .of_counted = row->of_several },
			NULL);
		r = r == -EINVAL ? 0 : r;
	}
	return r;
}

void derived_deinit(struct derived_columns *c)
{
	for (size_t i = 0; i < c->n; i++) {
		sqlite3_finalize(c->items[i].statement);
	}
	sqlite3_close(c->db);
	texts_deinit(&c->texts);
	memset(c, 0, sizeof(*c));
}

/* --- definitions ----------------------------------------------------------------------------- */

static size_t blanks(const char *text)
{
	return strspn(text, " \t");
}

/* Splits "NAME[UNIT]=EXPRESSION". */
static bool split(struct derived_columns *c, const char *text, struct derived *ret)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_";
	static const char word[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
	const char *name = text + blanks(text), *at = name + strspn(name, word), *unit = "";
	size_t n = (size_t)(at - name), n_unit = 0;

	at += blanks(at);
	if (*at == '[') {
		unit = at + 1;
		n_unit = strcspn(unit, "]");
		at = unit + n_unit + (unit[n_unit] == ']');
		at += blanks(at);
	}
	if (n == 0 || !strchr(letters, *name) || *at != '=') {
		return false;
	}
	*ret = (struct derived){ .name = texts_add(&c->texts, name, n),
				 .unit = texts_add(&c->texts, unit, n_unit),
				 .expression =
					 texts_add_string(&c->texts, at + 1 + blanks(at + 1)) };
	return true;
}

static int refuse_definition(const char *definition, const char *what, struct buf *why)
{
	buf_char(why, '\'');
	text_terminal(why, definition);
	buf_printf(why, "': %s", what);
	return -EINVAL;
}

int derived_define(struct derived_columns *c, const char *definition, struct buf *why)
{
	struct derived d;

	if (!split(c, definition, &d)) {
		return refuse_definition(
			definition, "a column is NAME=EXPRESSION or NAME[UNIT]=EXPRESSION", why);
	}
	if (!d.name || !d.unit || !d.expression) {
		return -ENOMEM;
	}
	if (find_measure(c, d.name, strlen(d.name)) != SIZE_MAX || derived_named(c, d.name) ||
	    find_word(c, d.name, strlen(d.name))) {
		return refuse_definition(definition, "a column of this name is there already", why);
	}
	if (c->n == DERIVED_MAX) {
		return refuse_definition(definition, "there are too many columns", why);
	}
	return add(c, &d, why);
}
