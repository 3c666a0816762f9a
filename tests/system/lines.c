/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/lines.h"

#include "tests/system/fixture.h"

static void add(struct lines_list *list, char *line)
{
	if ((list->n & (list->n - 1)) == 0) { /* as many as there is room for */
		list->v = realloc(list->v, (list->n ? 2 * list->n : 1) * sizeof(*list->v));
	}
	list->v[list->n++] = line;
}

bool line_is(const char *line, const char *type)
{
	char head[64];

	snprintf(head, sizeof(head), "{\"type\":\"%s\",", type);
	return strncmp(line, head, strlen(head)) == 0;
}

static bool same_type(const char *a, const char *b)
{
	size_t n = strcspn(a, ",");

	return strncmp(a, b, n + 1) == 0;
}

static struct lines_list *list_for(struct lines *l, const char *line)
{
	for (size_t i = 0; i < l->n_types; i++) {
		if (same_type(l->of_type[i].v[0], line)) {
			return &l->of_type[i];
		}
	}
	assert_true(l->n_types < LINES_TYPES_MAX);
	return &l->of_type[l->n_types++];
}

void lines_load(struct lines *l, const char *path)
{
	size_t length;

	*l = (struct lines){ .text = read_file(path) };
	length = strlen(l->text);
	if (length == 0 || l->text[length - 1] != '\n') {
		fail_msg("%s does not end with a whole line", path);
	}
	for (char *p = l->text; *p; p = strchr(p, '\0') + 1) {
		*strchr(p, '\n') = '\0';
		if (p[0] != '{' || p[strlen(p) - 1] != '}') {
			fail_msg("not an object: %s", p);
		}
		add(&l->all, p);
		add(list_for(l, p), p);
	}
}

void lines_deinit(struct lines *l)
{
	for (size_t i = 0; i < l->n_types; i++) {
		free(l->of_type[i].v);
	}
	free(l->all.v);
	free(l->text);
}

static const struct lines_list *list_of(const struct lines *l, const char *type)
{
	static const struct lines_list none;

	for (size_t i = 0; i < l->n_types; i++) {
		if (line_is(l->of_type[i].v[0], type)) {
			return &l->of_type[i];
		}
	}
	return &none;
}

size_t lines_count(const struct lines *l, const char *type)
{
	return list_of(l, type)->n;
}

const char *lines_at(const struct lines *l, const char *type, size_t i)
{
	const struct lines_list *list = list_of(l, type);

	if (i >= list->n) {
		fail_msg("too few lines of type %s", type);
	}
	return list->v[i];
}

static const char *find(const char *line, const char *key)
{
	char quoted[128];
	const char *at;

	snprintf(quoted, sizeof(quoted), "\"%s\":", key);
	at = strstr(line, quoted);
	if (!at) {
		fail_msg("no %s in %s", key, line);
	}
	return at + strlen(quoted);
}

double line_number(const char *line, const char *key)
{
	const char *at = find(line, key);
	char *end;
	double value = strtod(at, &end);

	if (end == at) {
		fail_msg("%s is no number in %s", key, line);
	}
	return value;
}

double line_number_at(const char *line, const char *key, size_t i)
{
	const char *at = find(line, key);

	assert_int_equal(*at, '[');
	for (at++; i > 0; i--) {
		at = strpbrk(at, ",]");
		assert_int_equal(*at, ',');
		at++;
	}
	return strtod(at, NULL);
}

void line_text(const char *line, const char *key, char *ret, size_t size)
{
	const char *at = find(line, key);
	size_t n = strcspn(at + 1, "\"");

	assert_int_equal(*at, '"');
	assert_true(n < size);
	memcpy(ret, at + 1, n);
	ret[n] = '\0';
}

void line_value(const char *line, const char *key, char *ret, size_t size)
{
	const char *at = find(line, key);
	size_t n;

	switch (*at) {
	case '"':
		n = strcspn(++at, "\"");
		break;
	case '[':
		n = strcspn(++at, "]");
		break;
	case '{':
		n = strcspn(at, "}") + 1;
		break;
	default:
		n = strncmp(at, "null", 4) == 0 ? 0 : strcspn(at, ",]}");
	}
	assert_true(n < size);
	memcpy(ret, at, n);
	ret[n] = '\0';
}

void line_ranges(const char *line, const char *key, char *ret, size_t size)
{
	const char *at = find(line, key), *end = strchr(at, ']'), *next;
	static char message[20000];

	ret[0] = '\0';
	while ((next = strstr(at, "\"message\":")) != NULL && next < end) {
		line_text(at, "message", message, sizeof(message));
		snprintf(ret + strlen(ret), size - strlen(ret), "%s%s", ret[0] ? "/" : "", message);
		at = next + 1;
	}
}

struct program *lines_measure(struct fixture *f, struct lines *ret, const char *const *options,
			      const char *const *program, int status)
{
	const char *argv[48] = { CLIENT, stream_to(fixture_path(f, "records")), "-f" };
	struct program *client;
	size_t n = 3;

	while (*options) {
		argv[n++] = *options++;
	}
	argv[n++] = "--";
	while (*program) {
		argv[n++] = *program++;
	}
	assert_true(n < ARRAY_SIZE(argv));
	client = fixture_runv(f, USER_ANN, argv);
	expect_exit(client, status);
	lines_load(ret, fixture_path(f, "records"));
	return client;
}

uint64_t lines_total(const struct lines *l, const char *key)
{
	return (uint64_t)line_number(lines_at(l, "totals", 0), key);
}

double line_threads(const char *line)
{
	double threads = 1;

	for (size_t i = 0; i < 3; i++) {
		threads *= line_number_at(line, "grid", i) * line_number_at(line, "block", i);
	}
	return threads;
}
