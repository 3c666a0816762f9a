/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/lines.h"

#include "tests/system/fixture.h"

void lines_load(struct lines *l, const char *path)
{
	size_t length, room = 0;

	*l = (struct lines){ .text = read_file(path) };
	length = strlen(l->text);
	if (length == 0 || l->text[length - 1] != '\n') {
		fail_msg("%s does not end with a whole line", path);
	}
	for (char *p = l->text; *p; p = strchr(p, '\0') + 1) {
		if (l->n == room) {
			room = room ? 2 * room : 1024;
			l->v = realloc(l->v, room * sizeof(*l->v));
		}
		l->v[l->n++] = p;
		*strchr(p, '\n') = '\0';
		if (p[0] != '{' || p[strlen(p) - 1] != '}') {
			fail_msg("not an object: %s", p);
		}
	}
}

void lines_deinit(struct lines *l)
{
	free(l->text);
	free(l->v);
}

bool line_is(const char *line, const char *type)
{
	char head[64];

	snprintf(head, sizeof(head), "{\"type\":\"%s\",", type);
	return strncmp(line, head, strlen(head)) == 0;
}

size_t lines_count(const struct lines *l, const char *type)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++) {
		n += line_is(l->v[i], type);
	}
	return n;
}

const char *lines_at(const struct lines *l, const char *type, size_t i)
{
	for (size_t k = 0; k < l->n; k++) {
		if (line_is(l->v[k], type) && i-- == 0) {
			return l->v[k];
		}
	}
	fail_msg("too few lines of type %s", type);
	return NULL;
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
