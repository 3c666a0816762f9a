/* SPDX-License-Identifier: Apache-2.0 */

/* A thread writes the records, because the loop must not wait for a reader: it reads from the
 * daemon and watches the program. O_NONBLOCK is no alternative: the program shares standard output,
 * and would see the flag. The loop fills one buffer while the thread writes another; then they
 * swap. When the buffer of the loop is full (LIMIT_BYTES), out_write() waits for STALL_SECONDS
 * once; after that it refuses bytes, which the caller counts and reports, until half of the buffer
 * is free again. Once the loop is over, out_write() waits as long as the reader takes. */

#include "client/cli/out.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "client/cli/say.h"

#define LIMIT_BYTES ((size_t)64 << 20)

enum { STALL_SECONDS = 1 };

enum out_state {
	OUT_OPEN,
	OUT_CLOSED, /* nobody reads: a closed pipe */
	OUT_FAILED,
};

struct out {
	int fd;
	bool is_stdout;
	bool stalled; /* used only by the thread of the loop */
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t filled, drained;
	struct buf filling; /* under lock */
	bool ending;
	enum out_state state;
	int error;
};

static int write_all(int fd, const char *data, size_t n)
{
	while (n > 0) {
		ssize_t done = write(fd, data, n);

		if (done >= 0) {
			data += done;
			n -= (size_t)done;
		} else if (errno == EAGAIN) {
			/* Somebody else has made the descriptor non-blocking. */
			nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static void fail(struct out *out, int error)
{
	out->state = error == -EPIPE ? OUT_CLOSED : OUT_FAILED;
	out->error = error;
}

static void *write_filled(void *userdata)
{
	struct out *out = userdata;
	CLEAN_BUF struct buf writing = { 0 };

	pthread_mutex_lock(&out->lock);
	while (out->filling.n > 0 || !out->ending) {
		struct buf swap = out->filling;
		int r;

		if (swap.n == 0) {
			pthread_cond_wait(&out->filled, &out->lock);
			continue;
		}
		out->filling = writing;
		writing = swap;
		pthread_cond_signal(&out->drained);
		pthread_mutex_unlock(&out->lock);
		r = out->state == OUT_OPEN ? write_all(out->fd, writing.data, writing.n) : 0;
		buf_clear(&writing);
		pthread_mutex_lock(&out->lock);
		if (r < 0) {
			fail(out, r);
			pthread_cond_signal(&out->drained);
		}
	}
	pthread_mutex_unlock(&out->lock);
	return NULL;
}

static int check_folder_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	char *folder = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	int r = !folder ? -ENOMEM : access(folder, W_OK | X_OK) < 0 ? -errno : 0;

	free(folder);
	return r;
}

bool out_is_device(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
}

/* Refuses to replace a file without force; pipes and devices exist to be written to. */
int out_check(const char *path, bool force)
{
	struct stat st;

	if (strcmp(path, "-") == 0 || out_is_device(path)) {
		return 0;
	}
	if (lstat(path, &st) < 0) {
		return errno == ENOENT ? check_folder_of(path) : -errno;
	}
	if (S_ISLNK(st.st_mode)) {
		return stat(path, &st) == 0 && S_ISDIR(st.st_mode) ? -EISDIR : -ELOOP;
	}
	return S_ISDIR(st.st_mode) ? -EISDIR : force ? 0 : -EEXIST;
}

int out_open_device(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || S_ISREG(st.st_mode))) {
		close(fd);
		return -EEXIST;
	}
	return fd < 0 ? -errno : fd;
}

/* Opens a file that we may write to but not remove: another user shares it. Refuses a file with
 * a second name, because the user may not mean that one. */
static int open_shared(const char *path)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NOFOLLOW);
	struct stat st;

	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_nlink != 1 ||
	    ftruncate(fd, 0) < 0) {
		close(fd);
		return -EPERM;
	}
	return fd;
}

/* Creates a new file if possible, so that nothing is written to a file that another process puts
 * there meanwhile. */
static int open_file(const char *path, bool force)
{
	int r = out_check(path, force);
	int fd;

	if (r < 0) {
		return r;
	}
	if (out_is_device(path)) {
		return out_open_device(path);
	}
	if (force && unlink(path) < 0 && errno != ENOENT) {
		return errno == EPERM || errno == EACCES ? open_shared(path) : -errno;
	}
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0666);
	return fd < 0 ? -errno : fd;
}

/* Timed waits use CLOCK_MONOTONIC, which nobody sets. */
static void init_conditions(struct out *out)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&out->filled, NULL);
	pthread_cond_init(&out->drained, &attributes);
	pthread_condattr_destroy(&attributes);
}

int out_open(const char *path, bool force, struct out **ret)
{
	struct out *out = calloc(1, sizeof(*out));
	int r;

	if (!out) {
		return -ENOMEM;
	}
	out->is_stdout = strcmp(path, "-") == 0;
	out->fd = out->is_stdout ? STDOUT_FILENO : open_file(path, force);
	if (out->fd < 0) {
		r = out->fd;
		free(out);
		return r;
	}
	pthread_mutex_init(&out->lock, NULL);
	init_conditions(out);
	r = pthread_create(&out->thread, NULL, write_filled, out);
	if (r != 0) {
		free(out);
		return -r;
	}
	*ret = out;
	return 0;
}

/* False: the reader is gone, or the disk full. */
static bool wait_for_room(struct out *out, size_t n)
{
	while (out->state == OUT_OPEN && out->filling.n > 0 && out->filling.n + n > LIMIT_BYTES) {
		pthread_cond_wait(&out->drained, &out->lock);
	}
	return out->state == OUT_OPEN;
}

/* Is there room? Waits for room once, for STALL_SECONDS. */
static bool has_room(struct out *out, size_t n)
{
	struct timespec until;

	if (out->stalled && out->filling.n <= LIMIT_BYTES / 2) {
		out->stalled = false;
	}
	if (out->stalled || out->filling.n + n <= LIMIT_BYTES) {
		return !out->stalled;
	}
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += STALL_SECONDS;
	while (out->state == OUT_OPEN && out->filling.n + n > LIMIT_BYTES) {
		if (pthread_cond_timedwait(&out->drained, &out->lock, &until) != 0) {
			out->stalled = true;
			return false;
		}
	}
	return true;
}

/* Takes all bytes or none. False: none, because the reader is gone or too slow, or the disk full.
 */
static bool out_write(struct out *out, const char *data, size_t n, bool waits)
{
	bool taken;

	pthread_mutex_lock(&out->lock);
	taken = out->state == OUT_OPEN && (waits ? wait_for_room(out, n) : has_room(out, n)) &&
		buf_reserve(&out->filling, n);
	if (taken) {
		buf_add(&out->filling, data, n);
		pthread_cond_signal(&out->filled);
	}
	pthread_mutex_unlock(&out->lock);
	return taken;
}

/* Waits until all is written and closes. */
static enum out_state out_close(struct out *out, int *ret_errno)
{
	enum out_state state;

	pthread_mutex_lock(&out->lock);
	out->ending = true;
	pthread_cond_signal(&out->filled);
	pthread_mutex_unlock(&out->lock);
	pthread_join(out->thread, NULL);
	/* Network file systems report a full disk only at close(). */
	if (!out->is_stdout && close(out->fd) < 0 && out->state == OUT_OPEN) {
		fail(out, -errno);
	}
	state = out->state;
	*ret_errno = out->error;
	pthread_mutex_destroy(&out->lock);
	pthread_cond_destroy(&out->filled);
	pthread_cond_destroy(&out->drained);
	buf_deinit(&out->filling);
	free(out);
	return state;
}

/* --- lines ----------------------------------------------------------------------------------- */

void out_lines_flush(struct out_lines *l)
{
	struct buf *b = &l->buf;

	if (b->failed || (b->n > 0 && !out_write(l->out, b->data, b->n, l->waits))) {
		l->unwritten += l->in_buf;
		l->refused = true;
	}
	b->failed = false;
	l->in_buf = 0;
	buf_clear(b);
}

static void say_failed(int error, const char *what, bool kept)
{
	char remedy[192];

	snprintf(remedy, sizeof(remedy),
		 kept		   ? "The %s from there on are not in --stream; the capture file "
				     "of -o is written apart from it."
		 : error == -EBADF ? "Standard output is closed, and the %s are lost: leave it "
				     "open, or keep them with -o FILE."
				   : "The %s from there on are lost: let --stream be where there "
				     "is room.",
		 what);
	say_warning("stream-failed", strerror(-error), remedy);
}

/* unwritten: number of records; 0: only other lines, such as the head or the end, are missing. */
static void say_slow(uint64_t unwritten, const char *what)
{
	CLEAN_BUF struct buf b = { 0 };

	if (unwritten > 0) {
		buf_u64(&b, unwritten);
		buf_char(&b, ' ');
	} else {
		buf_text(&b, "lines other than ");
	}
	buf_printf(&b, "%s are not in the stream: its reader was too slow", what);
	say_warning("stream-slow", buf_string(&b), "Let --stream be a file, or its reader faster.");
}

bool out_lines_close(struct out_lines *l, const char *what, bool kept)
{
	enum out_state state;
	bool cut = false;
	int error;

	if (l->out) {
		out_lines_flush(l);
		state = out_close(l->out, &error);
		l->out = NULL;
		cut = state == OUT_FAILED || (state == OUT_OPEN && l->refused);
		if (state == OUT_FAILED) {
			say_failed(error, what, kept);
		} else if (cut) {
			say_slow(l->unwritten, what);
		}
	}
	buf_deinit(&l->buf);
	return !cut;
}
