/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/granter/leases.h"

#include <errno.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "proto/base/clean.h"

void callers_init(struct callers *s)
{
	list_init(&s->watched);
	list_init(&s->unused);
	for (size_t i = 0; i < ARRAY_SIZE(s->all); i++) {
		list_append(&s->unused, &s->all[i].link);
	}
}

static bool has_ended(const struct caller *p)
{
	struct pollfd fd = { p->pidfd, POLLIN, 0 };

	return poll(&fd, 1, 0) != 0;
}

/* The caller with this pid. The kernel reuses a pid only after its process has ended, and the pidfd
 * shows that end. */
static struct caller *find(struct callers *s, uint32_t pid)
{
	list_for_each(i, &s->watched) {
		struct caller *p = list_entry(i, struct caller, link);

		if (p->pid == pid && !has_ended(p)) {
			return p;
		}
	}
	return NULL;
}

static int watch(struct callers *s, uint32_t pid, struct caller **ret)
{
	struct caller *p = list_entry(s->unused.next, struct caller, link);
	int pidfd;

	if (list_is_empty(&s->unused)) {
		return -ENOSPC;
	}
	pidfd = (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
	if (pidfd < 0) {
		return -errno;
	}
	list_remove(&p->link);
	list_append(&s->watched, &p->link);
	p->pid = pid;
	p->pidfd = pidfd;
	p->objects = 0;
	*ret = p;
	return 0;
}

int caller_add(struct callers *s, uint32_t pid, struct caller **ret)
{
	struct caller *p = find(s, pid);
	int r = p ? 0 : watch(s, pid, &p);

	if (r == 0) {
		p->objects++;
		*ret = p;
	}
	return r;
}

void caller_release(struct callers *s, struct caller *p)
{
	if (!p || --p->objects > 0) {
		return;
	}
	close(p->pidfd);
	list_remove(&p->link);
	list_append(&s->unused, &p->link);
}
