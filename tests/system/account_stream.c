/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/account.h"

#include "tests/system/fixture.h"
#include "tests/system/lines.h"

/* Streams of gpuctr-client: JSON lines and CSV. */

/* --- JSON lines --- */

static void read_json_devices(struct account *a, const char *line)
{
	char list[ACCOUNT_TEXT_MAX], uuid[64], name[64];

	line_value(line, "devices", list, sizeof(list));
	a->n_devices = 0;
	for (const char *at = list; (at = strchr(at, '{')) != NULL; at++) {
		line_text(at, "uuid", uuid, sizeof(uuid));
		line_text(at, "name", name, sizeof(name));
		account_add_device(
			a, &(struct gpuctr_device){
				   .index = (unsigned)line_number(at, "index"),
				   .uuid = uuid,
				   .name = name,
				   .clock_sm_mhz = (unsigned)line_number(at, "clock_sm_mhz"),
				   .clock_mem_mhz = (unsigned)line_number(at, "clock_mem_mhz"),
			   });
	}
}

static void read_json_launch(struct account *a, const char *line)
{
	static const char *const keys[N_FIELDS] = {
		[FIELD_STACK] = "nvtx", [FIELD_ACTIVE] = "ranges", [FIELD_PAYLOAD] = "payload"
	};
	account_launch *l = account_new_launch(a, (unsigned)line_number(line, "index"));

	for (int i = 0; i < N_FIELDS; i++) {
		bool is_dim = i >= FIELD_GRID && i < FIELD_DYNAMIC_SHARED;
		const char *key = keys[i] ? keys[i] : account_fields[i];

		if (is_dim) {
			bool of_block = i >= FIELD_BLOCK;
			int first = of_block ? FIELD_BLOCK : FIELD_GRID;

			account_set((*l)[i], "%.0f",
				    line_number_at(line, of_block ? "block" : "grid",
						   (size_t)(i - first)));
		} else if (i != FIELD_NVTX && i != FIELD_RANGES && key) {
			line_value(line, key, (*l)[i], ACCOUNT_TEXT_MAX);
		}
	}
}

static void read_json_mark(struct account *a, const char *line)
{
	struct account_mark *m = account_new_mark(a);
	char payload[32];

	line_value(line, "thread", m->thread, sizeof(m->thread));
	line_value(line, "time_ns", m->time_ns, sizeof(m->time_ns));
	line_value(line, "mark", m->own, sizeof(m->own));
	line_value(line, "payload", payload, sizeof(payload));
	snprintf(m->own + strlen(m->own), sizeof(m->own) - strlen(m->own), " %s", payload);
}

struct account *account_of_jsonl(const char *path)
{
	struct account *a = calloc(1, sizeof(*a));
	struct lines l;

	lines_load(&l, path);
	for (size_t i = 0; i < l.all.n; i++) {
		if (line_is(l.all.v[i], "kernel")) {
			read_json_launch(a, l.all.v[i]);
		} else if (line_is(l.all.v[i], "mark")) {
			read_json_mark(a, l.all.v[i]);
		} else if (line_is(l.all.v[i], "process")) {
			read_json_devices(a, l.all.v[i]);
		}
	}
	lines_deinit(&l);
	return a;
}

/* --- CSV --- */

/* The field at *at without its quotes; *at goes behind the comma or the end of the line. */
static void next_csv(const char **at, char *field)
{
	const char *p = *at;
	bool quoted = *p == '"';
	size_t n = 0;

	for (p += quoted; *p && (quoted || !strchr(",\r", *p)); p++) {
		if (quoted && *p == '"' && *++p != '"') {
			break;
		}
		assert_true(n < ACCOUNT_TEXT_MAX - 1);
		field[n++] = *p;
	}
	field[n] = '\0';
	assert_true(*p == ',' || *p == '\r');
	*at = *p == ',' ? p + 1 : p + strlen("\r\n");
}

struct account *account_of_csv(const char *path)
{
	struct account *a = calloc(1, sizeof(*a));
	CLEAN_FREE char *text = read_file(path);
	const char *at = text;
	char heads[64][ACCOUNT_TEXT_MAX], field[ACCOUNT_TEXT_MAX];
	size_t n_heads = 0;

	while (n_heads == 0 || at[-1] != '\n') {
		assert_true(n_heads < ARRAY_SIZE(heads));
		next_csv(&at, heads[n_heads++]);
	}
	while (*at) {
		account_launch *l = account_new_launch(a, 0);

		for (size_t i = 0; i < n_heads; i++) {
			enum field f = account_field_named(heads[i]);

			next_csv(&at, f < N_FIELDS ? (*l)[f] : field);
			if (strcmp(heads[i], "index") == 0) {
				a->indexes[a->n_launches - 1] = (unsigned)atoi(field);
			}
		}
		assert_true(at[-1] == '\n');
	}
	return a;
}
