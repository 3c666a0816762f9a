/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/fd_reaper_box.h"

#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "proto/base/fdpass.h"
#include "daemon/broker/account.h"
#include "daemon/front/fd_reaper.h"
#include "tests/fuzz/fuzz.h"

/* Instead of daemon/front/fd_reaper.c, without threads. While closes are held nothing is closed but
 * connections that are kicked, as in earnest. Since the front runs on the thread of the test, each
 * close(2) that it makes itself goes through here, and none of them may be one that blocks: of what
 * a user has attached, or of a connection with something in it. */

#define EXPORT __attribute__((visibility("default")))

enum { ROOM = 2048 };

static struct {
	bool active, holding;
	int attachment;
	struct stat attachment_is;
	fd_reaper_done done;
	void *userdata;
	struct closing waiting[ROOM];
	size_t n_waiting;
} box;

static void really_close(int fd)
{
	syscall(SYS_close, fd);
}

bool fd_reaper_box_is_attachment(int fd)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == box.attachment_is.st_dev &&
	       st.st_ino == box.attachment_is.st_ino;
}

/* Users' connections have a name, the listener's; those to other processes of the daemon have none.
 */
static bool is_connection_with_more(int fd)
{
	struct sockaddr_un a;
	socklen_t n = sizeof(a);
	int unread = 0;

	return getsockname(fd, (struct sockaddr *)&a, &n) == 0 && a.sun_family == AF_UNIX &&
	       n > sizeof(a.sun_family) && ioctl(fd, FIONREAD, &unread) == 0 && unread > 0;
}

EXPORT int close(int fd)
{
	if (box.active && fd_reaper_box_is_attachment(fd)) {
		fuzz_fail("the front closes what a user has sent");
	}
	if (box.active && is_connection_with_more(fd)) {
		fuzz_fail("the front closes a connection with something in it");
	}
	return (int)syscall(SYS_close, fd);
}

/* --- instead of the threads --- */

static void finish(size_t i)
{
	const struct closing c = box.waiting[i];

	really_close(c.fd);
	box.waiting[i] = box.waiting[--box.n_waiting];
	if (box.active) {
		box.done(&c, box.userdata);
	}
}

static void check_charges(uid_t uid)
{
	size_t received = 0;

	for (size_t i = 0; i < box.n_waiting; i++) {
		received += box.waiting[i].kind == CLOSING_RECEIVED && box.waiting[i].uid == uid;
	}
	fuzz_check(received < ACCOUNT_RECEIVED_MAX + FDPASS_MAX);
}

int fd_reaper_start(void)
{
	return 0;
}

size_t fd_reaper_room(void)
{
	return ROOM;
}

void fd_reaper_close(const struct closing *c, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		fuzz_check(c[i].fd >= 0 && box.n_waiting < ROOM);
		box.waiting[box.n_waiting++] = c[i];
		check_charges(c[i].uid);
	}
}

int fd_reaper_init(uv_loop_t *loop, fd_reaper_done done, void *userdata)
{
	box.done = done;
	box.userdata = userdata;
	return 0;
}

size_t fd_reaper_count(void)
{
	return box.active ? box.n_waiting : 0;
}

/* --- the box --- */

void fd_reaper_box_begin(void)
{
	memset(&box, 0, sizeof(box));
	box.attachment = memfd_create("attachment", MFD_CLOEXEC);
	fuzz_check(fstat(box.attachment, &box.attachment_is) == 0);
	box.active = true;
}

void fd_reaper_box_end(void)
{
	box.active = false;
	while (box.n_waiting > 0) {
		finish(0);
	}
	really_close(box.attachment);
}

int fd_reaper_box_attachment(void)
{
	return box.attachment;
}

void fd_reaper_box_hold(bool hold)
{
	box.holding = hold;
}

void fd_reaper_box_turn(void)
{
	for (size_t i = box.n_waiting; i-- > 0;) {
		if (!box.holding || box.waiting[i].kind == CLOSING_CONNECTION) {
			finish(i);
		}
	}
}

void fd_reaper_box_close(int fd)
{
	really_close(fd);
}
