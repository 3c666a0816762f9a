/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/users.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/array.h"
#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/utf8.h"

/* A list of ten thousand processes may have ten thousand users. So the whole file is read into a
 * table, and read again only if it has changed, which is checked once a second: a long list holds
 * up nobody. */

enum { NAME_BYTES = 64 };

struct entry {
	uid_t uid;
	uint32_t line; /* of several with one number the first counts */
	char name[NAME_BYTES];
};

struct users {
	struct entry *v; /* by uid */
	size_t n, room;
	bool looked;
	uint64_t looked_ns;
	struct stat read; /* the file that v is from */
};

struct users *users_new(void)
{
	return calloc(1, sizeof(struct users));
}

struct users *users_free(struct users *u)
{
	if (u) {
		free(u->v);
		free(u);
	}
	return NULL;
}

static int compare(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->uid != y->uid) {
		return x->uid < y->uid ? -1 : 1;
	}
	return x->line < y->line ? -1 : x->line > y->line;
}

/* False: out of memory. A user who is not in the table is shown as a number. */
static bool add(struct users *u, const struct passwd *pw)
{
	if (!array_make_room(&u->v, sizeof(*u->v), u->n, &u->room)) {
		return false;
	}
	u->v[u->n] = (struct entry){ .uid = pw->pw_uid, .line = (uint32_t)u->n };
	snprintf(u->v[u->n].name, NAME_BYTES, "%s", pw->pw_name);
	utf8_repair(u->v[u->n].name);
	u->n++;
	return true;
}

static bool is_as_read(const struct users *u, const struct stat *st)
{
	return u->read.st_ino == st->st_ino && u->read.st_dev == st->st_dev &&
	       u->read.st_size == st->st_size && u->read.st_mtim.tv_sec == st->st_mtim.tv_sec &&
	       u->read.st_mtim.tv_nsec == st->st_mtim.tv_nsec;
}

static void read_again(struct users *u, const char *path)
{
	CLEAN_FILE FILE *f = fopen(path, "re");
	const struct passwd *pw;
	struct stat st;

	if (!f || fstat(fileno(f), &st) < 0 || is_as_read(u, &st)) {
		return;
	}
	u->read = st;
	u->n = 0;
	while ((pw = fgetpwent(f)) != NULL && add(u, pw)) {
	}
	if (u->n > 0) {
		qsort(u->v, u->n, sizeof(*u->v), compare);
	}
}

/* The first entry that is not below uid. */
static size_t find(const struct users *u, uid_t uid)
{
	return ARRAY_FIND_INDEX(u->v, u->n, uid, uid);
}

void users_name_in(struct users *u, const char *path, uint64_t now_ns, uid_t uid, char *name,
		   size_t size)
{
	size_t i;

	if (!u->looked || now_ns - u->looked_ns >= CLOCK_NS_PER_S) {
		u->looked = true;
		u->looked_ns = now_ns;
		read_again(u, path);
	}
	i = find(u, uid);
	if (i < u->n && u->v[i].uid == uid) {
		snprintf(name, size, "%s", u->v[i].name);
	} else {
		snprintf(name, size, "uid %u", (unsigned)uid);
	}
}

void users_name(struct users *u, uid_t uid, char *name, size_t size)
{
	users_name_in(u, "/etc/passwd", clock_now_ns(), uid, name, size);
}
