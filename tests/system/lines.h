/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* JSON lines as the client writes them, read just far enough for tests. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fixture;

struct lines_list {
	char **v; /* one JSON object each */
	size_t n;
};

enum { LINES_TYPES_MAX = 16 };

struct lines {
	char *text;
	struct lines_list all, of_type[LINES_TYPES_MAX];
	size_t n_types;
};

/* Fails the test when the last line is not whole. */
void lines_load(struct lines *l, const char *path);
void lines_deinit(struct lines *l);

bool line_is(const char *line, const char *type);

/* Line number i of this type; fails the test when there is none. Takes no search: some ask for each
 * of ten thousand. */
const char *lines_at(const struct lines *l, const char *type, size_t i);
size_t lines_count(const struct lines *l, const char *type);

/* The value behind "key":, the first one in the line. Fails the test when there is none. */
double line_number(const char *line, const char *key);
double line_number_at(const char *line, const char *key, size_t i); /* of an array */
void line_text(const char *line, const char *key, char *ret, size_t size);

/* The value as it stands there: a string without its quotes, an array
 * (of no arrays) without its brackets, null as "". */
void line_value(const char *line, const char *key, char *ret, size_t size);

/* The messages of an array of ranges ("nvtx" or "ranges"), outermost first, joined by '/'. */
void line_ranges(const char *line, const char *key, char *ret, size_t size);

/* --- of a measured program --- */

#define ARGUMENTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Ann measures the program, with these options of the client; it ends with this status. ret has its
 * records; the caller frees them. */
struct program *lines_measure(struct fixture *f, struct lines *ret, const char *const *options,
			      const char *const *program, int status);

/* A number of the totals at the end. */
uint64_t lines_total(const struct lines *l, const char *key);

/* Of a launch. */
double line_threads(const char *line);
