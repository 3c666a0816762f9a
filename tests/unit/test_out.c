/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "client/cli/out.h"

/* Lines for a reader that takes none for a while. */

enum { PIECE_BYTES = 60 << 20 };

struct reader {
	char folder[32], path[64];
	int fd;
	pthread_t thread;
	struct out_lines lines;
};

static int setup(void **state)
{
	static struct reader r;

	r = (struct reader){ .folder = "/tmp/gpuctr-out.XXXXXX" };
	assert_non_null(mkdtemp(r.folder));
	snprintf(r.path, sizeof(r.path), "%s/pipe", r.folder);
	assert_int_equal(mkfifo(r.path, 0600), 0);
	r.fd = open(r.path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(out_open(r.path, false, &r.lines.out), 0);
	*state = &r;
	return 0;
}

static int teardown(void **state)
{
	struct reader *r = *state;

	unlink(r->path);
	return rmdir(r->folder);
}

static void add(struct out_lines *l, size_t n, uint64_t records)
{
	assert_true(buf_reserve(&l->buf, n));
	memset(l->buf.data + l->buf.n, 'x', n);
	l->buf.n += n;
	l->in_buf += records;
	out_lines_flush(l);
}

/* Until what is written to takes no more. */
static void fill(struct out_lines *l)
{
	add(l, PIECE_BYTES, 1);
	add(l, PIECE_BYTES, 1);
}

static void *read_all(void *userdata)
{
	static char room[1 << 16];
	const struct reader *r = userdata;
	struct pollfd p = { .fd = r->fd, .events = POLLIN };

	do {
		poll(&p, 1, -1);
	} while (read(r->fd, room, sizeof(room)) != 0);
	close(r->fd);
	return NULL;
}

static bool close_read(struct reader *r)
{
	bool whole;

	assert_int_equal(pthread_create(&r->thread, NULL, read_all, r), 0);
	whole = out_lines_close(&r->lines, "records", false);
	pthread_join(r->thread, NULL);
	return whole;
}

TEST_WITH(what_a_slow_reader_takes_at_last_is_whole, setup, teardown)
{
	struct reader *r = *state;

	fill(&r->lines);
	assert_true(close_read(r));
	assert_int_equal(r->lines.unwritten, 0);
}

TEST_WITH(a_record_that_is_refused_counts, setup, teardown)
{
	struct reader *r = *state;

	fill(&r->lines);
	add(&r->lines, PIECE_BYTES, 3);
	assert_int_equal(r->lines.unwritten, 3);
	assert_false(close_read(r));
}

/* The end of a stream, say. */
TEST_WITH(a_line_that_is_no_record_is_missed_too, setup, teardown)
{
	struct reader *r = *state;

	fill(&r->lines);
	add(&r->lines, PIECE_BYTES, 0);
	assert_int_equal(r->lines.unwritten, 0);
	assert_false(close_read(r));
}
