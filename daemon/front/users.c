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
#include "daemon/config/control.h"

/* A list of ten thousand processes may have ten thousand users. So the whole file is read into a
 * table, and read again only if it has changed, which is checked once a second: a long list holds
 * up nobody.
 *
 * Answers of name services are kept for a while, as is that there is none. What is wanted while
 * many names are wanted already is wanted again when it is next looked up. */

enum {
	NAME_BYTES = 64,
	LEARNT_MAX = 4096,
	WANTED_MAX = 64,
	KNOWN_S = 600, /* how long an answer holds */
	NOBODY_S = 60, /* ... that there is none */
	ANSWER_S = 10, /* how long one is waited for */
};

struct entry {
	uid_t uid;
	uint32_t line; /* of several with one number the first counts */
	char name[NAME_BYTES];
};

struct learnt {
	uid_t uid;
	uint64_t until_ns;
	char name[NAME_BYTES]; /* "": there is none */
};

struct users {
	struct entry *v; /* by uid */
	size_t n, room;
	struct learnt *learnt; /* by uid */
	size_t n_learnt, learnt_room;
	uid_t wanted[WANTED_MAX]; /* the first one is asked for, unless asked_by_ns is 0 */
	size_t n_wanted;
	uint64_t asked_by_ns;
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
		free(u->learnt);
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

/* --- name services --- */

static struct learnt *find_learnt(const struct users *u, uid_t uid)
{
	size_t i = ARRAY_FIND_INDEX(u->learnt, u->n_learnt, uid, uid);

	return i < u->n_learnt && u->learnt[i].uid == uid ? &u->learnt[i] : NULL;
}

static void want(struct users *u, uid_t uid)
{
	for (size_t i = 0; i < u->n_wanted; i++) {
		if (u->wanted[i] == uid) {
			return;
		}
	}
	if (u->n_wanted < WANTED_MAX) {
		u->wanted[u->n_wanted++] = uid;
	}
}

bool users_want(struct users *u, uint64_t now_ns, uid_t *ret)
{
	if (u->asked_by_ns != 0 && now_ns >= u->asked_by_ns) {
		users_learn(u, now_ns, u->wanted[0], "");
	}
	if (u->n_wanted == 0 || u->asked_by_ns != 0) {
		return false;
	}
	u->asked_by_ns = now_ns + ANSWER_S * CLOCK_NS_PER_S;
	*ret = u->wanted[0];
	return true;
}

/* A place for what is learnt of uid, which had none; NULL: out of memory. */
static struct learnt *make_place(struct users *u, uid_t uid)
{
	size_t i;

	if (u->n_learnt == LEARNT_MAX) {
		u->n_learnt = 0; /* who is still looked up is asked for again */
	}
	if (!array_make_room(&u->learnt, sizeof(*u->learnt), u->n_learnt, &u->learnt_room)) {
		return NULL;
	}
	i = ARRAY_FIND_INDEX(u->learnt, u->n_learnt, uid, uid);
	memmove(&u->learnt[i + 1], &u->learnt[i], (u->n_learnt - i) * sizeof(*u->learnt));
	u->n_learnt++;
	u->learnt[i].uid = uid;
	return &u->learnt[i];
}

/* An answer that nobody waits for any more is as good as another. */
void users_learn(struct users *u, uint64_t now_ns, uid_t uid, const char *name)
{
	struct learnt *l = find_learnt(u, uid);

	if (u->asked_by_ns != 0 && u->wanted[0] == uid) {
		u->asked_by_ns = 0;
		u->n_wanted--;
		memmove(u->wanted, u->wanted + 1, u->n_wanted * sizeof(*u->wanted));
	}
	l = l ? l : make_place(u, uid);
	if (l) {
		l->until_ns = now_ns + (name[0] ? KNOWN_S : NOBODY_S) * CLOCK_NS_PER_S;
		snprintf(l->name, sizeof(l->name), "%s", name);
		utf8_repair(l->name);
	}
}

/* What was learnt before is shown until there is a new answer. */
static void name_learnt(struct users *u, uint64_t now_ns, uid_t uid, char *name, size_t size)
{
	const struct learnt *l = find_learnt(u, uid);

	if (!l || now_ns >= l->until_ns) {
		want(u, uid);
	}
	if (l && l->name[0] != '\0') {
		snprintf(name, size, "%s", l->name);
	} else {
		snprintf(name, size, "uid %u", (unsigned)uid);
	}
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
		name_learnt(u, now_ns, uid, name, size);
	}
}

void users_name(struct users *u, uid_t uid, char *name, size_t size)
{
	users_name_in(u, "/etc/passwd", clock_now_ns(), uid, name, size);
}

void users_ask(struct users *u, int control)
{
	struct control_message m = { .op = CONTROL_WHO };
	uint64_t now_ns = clock_now_ns();

	if (users_want(u, now_ns, &m.user.uid) && control_send_message(control, &m, -1) < 0) {
		users_learn(u, now_ns, m.user.uid, "");
	}
}
