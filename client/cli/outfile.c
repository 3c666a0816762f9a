/* SPDX-License-Identifier: Apache-2.0 */

/* The temporary file lies beside the final one, because rename() needs the same file system. */

#include "client/cli/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/out.h"
#include "client/cli/say.h"
#include "proto/base/clean.h"

static bool are_one(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

static bool stat_folder(const char *path, struct stat *ret)
{
	const char *slash = strrchr(path, '/');
	CLEAN_FREE char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");

	return folder && stat(folder, ret) == 0;
}

static const char *last_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

bool outfile_is_same(const char *a, const char *b)
{
	struct stat of_a, of_b;
	bool is_a = stat(a, &of_a) == 0, is_b = stat(b, &of_b) == 0;

	if (is_a || is_b) {
		return is_a && is_b && S_ISREG(of_a.st_mode) && are_one(&of_a, &of_b);
	}
	return strcmp(last_name(a), last_name(b)) == 0 && stat_folder(a, &of_a) &&
	       stat_folder(b, &of_b) && are_one(&of_a, &of_b);
}

bool outfile_spares(const char *option, const char *path, const char *input)
{
	struct stat out, in;

	if (strcmp(path, "-") == 0 || stat(path, &out) < 0 || !S_ISREG(out.st_mode) ||
	    (strcmp(input, "-") == 0 ? fstat(STDIN_FILENO, &in) : stat(input, &in)) < 0 ||
	    !are_one(&out, &in)) {
		return true;
	}
	say_usage(
		"%s %s: this is the file that is read, and writing would replace it; give another "
		"name",
		option, path);
	return false;
}

bool outfile_is_plain(const char *option, const char *path)
{
	size_t n = strlen(path);
	bool is_gz = n > 3 && strcmp(path + n - 3, ".gz") == 0;

	if (is_gz) {
		say_usage("%s %s: outputs are not compressed; leave it out, and a pipe does it: "
			  "| gzip >%s",
			  option, path, path);
	}
	return !is_gz;
}

const char *outfile_why(int r)
{
	return r == -EEXIST  ? "the file is there; -f replaces it"
	       : r == -ELOOP ? "this is a link, and -f replaces files only; name the file itself, "
			       "or remove the link"
			     : strerror(-r);
}

const char *outfile_remedy(int r)
{
	return r == -EBADF ? "Leave standard output open, or send it to a file."
			   : "Write it to where there is room for it.";
}

static int open_temporary(struct outfile *out)
{
	mode_t mask = umask(0);

	umask(mask);
	if (asprintf(&out->temporary, "%s.XXXXXX", out->path) < 0) {
		out->temporary = NULL;
		return -ENOMEM;
	}
	out->fd = mkostemp(out->temporary, O_CLOEXEC);
	if (out->fd < 0) {
		int r = -errno;

		free(out->temporary);
		out->temporary = NULL;
		return r;
	}
	return fchmod(out->fd, 0666 & ~mask) < 0 ? -errno : 0;
}

int outfile_open(struct outfile *out, const char *path, bool force)
{
	int r = out_check(path, force);

	*out = (struct outfile){ .fd = -1, .path = path, .force = force };
	signal(SIGPIPE, SIG_IGN);
	if (r < 0) {
		return r;
	}
	if (strcmp(path, "-") == 0) {
		out->fd = STDOUT_FILENO;
		return 0;
	}
	if (out_is_device(path)) {
		out->fd = out_open_device(path);
		return out->fd < 0 ? out->fd : 0;
	}
	return open_temporary(out);
}

int outfile_write(struct outfile *out, struct buf *b)
{
	size_t n = 0;

	if (b->failed) {
		return -ENOMEM;
	}
	while (n < b->n && !out->unread) {
		ssize_t done = write(out->fd, b->data + n, b->n - n);

		if (done >= 0) {
			n += (size_t)done;
		} else if (errno == EPIPE) {
			out->unread = true;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	buf_clear(b);
	return 0;
}

/* Not all file systems support RENAME_NOREPLACE; most can link. */
static int publish(const char *from, const char *to, bool force)
{
	if (force) {
		return rename(from, to) < 0 ? -errno : 0;
	}
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) {
		return 0;
	}
	if (errno != EINVAL && errno != ENOSYS) {
		return -errno;
	}
	if (link(from, to) < 0) {
		return -errno;
	}
	unlink(from);
	return 0;
}

int outfile_finish(struct outfile *out)
{
	int r;

	if (out->fd == STDOUT_FILENO) {
		return 0;
	}
	if (close(out->fd) < 0) {
		out->fd = -1;
		return -errno;
	}
	out->fd = -1;
	r = out->temporary ? publish(out->temporary, out->path, out->force) : 0;
	if (r == 0) {
		free(out->temporary);
		out->temporary = NULL;
	}
	return r;
}

void outfile_close(struct outfile *out)
{
	if (out->fd >= 0 && out->fd != STDOUT_FILENO) {
		close(out->fd);
	}
	if (out->temporary) {
		unlink(out->temporary);
		free(out->temporary);
	}
	*out = (struct outfile){ .fd = -1 };
}
