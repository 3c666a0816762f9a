/* SPDX-License-Identifier: Apache-2.0 */

/* Files that others must not reach while they are made. Each lies in a folder of its own, of mode
 * 0700, and its name contains the folder's random letters. So even if somebody with write access to
 * the outer folder exchanges the folder for a link, the name leads to no other file.
 *
 * A reader applies a journal to a copy of the capture, so that reading changes nothing, and files
 * of other users can be read as well. Capture and journal are copied through checked descriptors,
 * and not by their names. */

#include "client/store/private.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/store/internal.h"
#include "client/store/vfs.h"

enum { RANDOM_LETTERS = 6, PIECE_BYTES = 256 * 1024 };

/* --- folders --------------------------------------------------------------------------------- */

char *store_private_make(const char *prefix)
{
	char *made = NULL, *path = NULL;
	int n = asprintf(&made, "%sXXXXXX", prefix);

	if (n < 0) {
		errno = ENOMEM;
		return NULL;
	}
	if (!mkdtemp(made)) {
		n = errno;
		free(made);
		errno = n;
		return NULL;
	}
	if (asprintf(&path, "%s/%s.gpuctr", made, made + n - RANDOM_LETTERS) < 0) {
		rmdir(made);
		path = NULL;
		errno = ENOMEM;
	}
	free(made);
	return path;
}

char *store_private_temporary(void)
{
	const char *folder = getenv("TMPDIR");
	char prefix[PATH_MAX], *path;

	if (folder && *folder) {
		snprintf(prefix, sizeof(prefix), "%s/gpuctr-", folder);
		return store_private_make(prefix);
	}
	path = store_private_make("/var/tmp/gpuctr-");
	return path ? path : store_private_make("/tmp/gpuctr-");
}

char *store_private_remove(char *path)
{
	char journal[PATH_MAX];

	if (!path) {
		return NULL;
	}
	unlink(path);
	if (snprintf(journal, sizeof(journal), "%s-journal", path) < (int)sizeof(journal)) {
		unlink(journal);
	}
	*strrchr(path, '/') = '\0';
	rmdir(path);
	free(path);
	return NULL;
}

/* --- copies ---------------------------------------------------------------------------------- */

static int tell(struct store_error *error, const char *path, int err)
{
	return store_error_set(
		error, STORE_E_UNFINISHED,
		"Set TMPDIR to a folder with room for a copy of the file.",
		"%s: its writer was killed in the middle of a commit, and no copy can "
		"be made to complete it: %s.",
		path, strerror(err));
}

static int write_whole(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, data, n);

		if (done < 0 && errno != EINTR) {
			return -errno;
		}
		data += done > 0 ? done : 0;
		n -= done > 0 ? (size_t)done : 0;
	}
	return 0;
}

int store_private_copy_data(int from, int to)
{
	char *data = malloc(PIECE_BYTES);
	ssize_t n = -1;
	int r = 0;

	if (!data) {
		return -ENOMEM;
	}
	while (r == 0 && (n = read(from, data, PIECE_BYTES)) != 0) {
		if (n > 0) {
			r = write_whole(to, data, (size_t)n);
		} else if (errno != EINTR) {
			r = -errno;
		}
	}
	free(data);
	return r;
}

static int copy_file(int from, const char *path)
{
	int to = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	int r;

	if (to < 0) {
		return -errno;
	}
	r = store_private_copy_data(from, to);
	return close(to) < 0 && r == 0 ? -errno : r;
}

struct pair {
	int database, journal;
	struct stat database_stat, journal_stat;
};

static int open_pair(const char *path, const char *journal, struct pair *p)
{
	p->database = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	p->journal = open(journal, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
	if (p->database < 0 || fstat(p->database, &p->database_stat) < 0 || p->journal < 0 ||
	    fstat(p->journal, &p->journal_stat) < 0) {
		return -errno;
	}
	return S_ISREG(p->database_stat.st_mode) &&
			       store_vfs_is_journal_of(&p->journal_stat, &p->database_stat)
		       ? 0
		       : -ENOENT;
}

static bool is_changed(int fd, const struct stat *was)
{
	struct stat now;

	return fstat(fd, &now) < 0 || now.st_nlink == 0 || now.st_size != was->st_size ||
	       now.st_mtim.tv_sec != was->st_mtim.tv_sec ||
	       now.st_mtim.tv_nsec != was->st_mtim.tv_nsec;
}

static int copy_pair(const char *path, const char *copy)
{
	char journal[PATH_MAX], journal_copy[PATH_MAX];
	struct pair p = { -1, -1, { 0 }, { 0 } };
	int r;

	if (snprintf(journal, sizeof(journal), "%s-journal", path) >= (int)sizeof(journal) ||
	    snprintf(journal_copy, sizeof(journal_copy), "%s-journal", copy) >=
		    (int)sizeof(journal_copy)) {
		return -ENAMETOOLONG;
	}
	r = open_pair(path, journal, &p);
	r = r ? r : copy_file(p.journal, journal_copy);
	r = r ? r : copy_file(p.database, copy);
	if (r == 0 &&
	    (is_changed(p.journal, &p.journal_stat) || is_changed(p.database, &p.database_stat))) {
		r = -EBUSY;
	}
	if (p.database >= 0) {
		close(p.database);
	}
	if (p.journal >= 0) {
		close(p.journal);
	}
	return r;
}

int store_private_copy(const char *path, const char *name, struct store_error *error, char **ret)
{
	char *copy = store_private_temporary();
	int r;

	if (!copy) {
		return tell(error, name, errno);
	}
	r = copy_pair(path, copy);
	if (r < 0) {
		store_private_remove(copy);
		/* The writer has completed the file, or is still writing. */
		return r == -ENOENT || r == -EBUSY
			       ? store_error_set(error, STORE_E_BUSY, "Read it again.",
						 "%s was changed while it was read.", name)
			       : tell(error, name, -r);
	}
	*ret = copy;
	return 0;
}
