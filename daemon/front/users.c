/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/users.h"

#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "proto/base/clean.h"
#include "proto/base/clock.h"
#include "proto/base/map.h"
#include "proto/base/utf8.h"
#include "daemon/config/control.h"

/* A list of ten thousand processes may have ten thousand users. So the whole file is read into a
 * table, and read again only if it has changed, which is checked once a second, so a long list does
 * not delay others.
 *
 * Answers of name services are kept for a while, also the answer that a uid has no name. When
 * WANTED_MAX names are wanted already, a further uid waits until its name is next looked up. */

enum {
	NAME_BYTES = 64,
	LEARNT_MAX = 4096,
	WANTED_MAX = 64,
	KNOWN_S = 600, /* validity of a name */
	NOBODY_S = 60, /* validity of the answer that a uid has no name */
	ANSWER_S = 10, /* longest wait for an answer */
};

struct user {
	uid_t uid;
	uint64_t until_ns;     /* end of the validity of a name service's answer */
	char name[NAME_BYTES]; /* "": the uid has no name */
};

struct users {
	struct map of_file, learnt; /* struct user by uid */
	uid_t wanted[WANTED_MAX];   /* the first was asked for, unless asked_by_ns is 0 */
	size_t n_wanted;
	uint64_t asked_by_ns;
	bool looked;
	uint64_t looked_ns;
	struct stat read; /* state of the file from which of_file was read */
};

struct users *users_new(void)
{
	return calloc(1, sizeof(struct users));
}

struct users *users_free(struct users *u)
{
	if (u) {
		map_deinit_items(&u->of_file);
		map_deinit_items(&u->learnt);
		free(u);
	}
	return NULL;
}

static bool has_uid(const void *item, const void *key)
{
	return ((const struct user *)item)->uid == *(const uid_t *)key;
}

static struct user *find(const struct map *names, uid_t uid)
{
	return map_find(names, map_mix(0, uid), has_uid, &uid);
}

/* False: out of memory. A user whose name is not kept is shown as a number. */
static bool keep(struct map *names, uid_t uid, const char *name, uint64_t until_ns)
{
	struct user *user = find(names, uid);

	if (!user) {
		user = calloc(1, sizeof(*user));
		if (!user || map_add(names, map_mix(0, uid), user) < 0) {
			free(user);
			return false;
		}
	}
	user->uid = uid;
	user->until_ns = until_ns;
	snprintf(user->name, sizeof(user->name), "%s", name);
	utf8_repair(user->name);
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
	map_deinit_items(&u->of_file);
	while ((pw = fgetpwent(f)) != NULL) { /* of several names of a uid the first counts */
		if (!find(&u->of_file, pw->pw_uid) &&
		    !keep(&u->of_file, pw->pw_uid, pw->pw_name, 0)) {
			return;
		}
	}
}

/* --- name services --- */

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

/* Also keeps an answer that nobody waits for any more. */
void users_learn(struct users *u, uint64_t now_ns, uid_t uid, const char *name)
{
	if (u->asked_by_ns != 0 && u->wanted[0] == uid) {
		u->asked_by_ns = 0;
		u->n_wanted--;
		memmove(u->wanted, u->wanted + 1, u->n_wanted * sizeof(*u->wanted));
	}
	if (u->learnt.n == LEARNT_MAX && !find(&u->learnt, uid)) {
		map_deinit_items(&u->learnt); /* names that are still needed are asked for again */
	}
	keep(&u->learnt, uid, name, now_ns + (name[0] ? KNOWN_S : NOBODY_S) * CLOCK_NS_PER_S);
}

/* Takes an outdated name until there is a new answer. */
static void name_learnt(struct users *u, uint64_t now_ns, uid_t uid, char *name, size_t size)
{
	const struct user *l = find(&u->learnt, uid);

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
	const struct user *user;

	if (!u->looked || now_ns - u->looked_ns >= CLOCK_NS_PER_S) {
		u->looked = true;
		u->looked_ns = now_ns;
		read_again(u, path);
	}
	user = find(&u->of_file, uid);
	if (user) {
		snprintf(name, size, "%s", user->name);
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
