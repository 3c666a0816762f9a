/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/front/peer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "proto/base/clock.h"
#include "daemon/base/log.h"
#include "daemon/front/admission.h"
#include "daemon/front/decision.h"
#include "daemon/front/front.h"
#include "daemon/front/proc.h"
#include "daemon/front/users.h"

/* How a peer begins, what it does when its poll wakes it, and when its time is over. */

/* Has an agent's process exited without reading all that was sent to it? That is an error of the
 * socket, which is taken here, though what the agent sent before is still to be read. */
static bool has_left_frames(struct peer *p)
{
	socklen_t n = sizeof(int);
	int error = 0;

	return p->role == PEER_AGENT && !p->close_when_sent &&
	       getsockopt(p->fd, SOL_SOCKET, SO_ERROR, &error, &n) == 0 && error == ECONNRESET;
}

/* libuv has stopped the poll. */
static void on_poll_error(struct peer *p)
{
	p->events = 0;
	if (has_left_frames(p)) {
		peer_mute(p);
		peer_update_poll(p);
	} else {
		peer_close(p);
	}
}

void peer_on_poll(uv_poll_t *h, int status, int events)
{
	struct peer *p = h->data;
	bool drains = (events & UV_WRITABLE) != 0 && p->out.bytes > 0;

	if (status < 0) {
		on_poll_error(p);
		return;
	}
	if ((events & UV_WRITABLE) != 0) {
		peer_flush(p);
	}
	if (p->closing) {
		return;
	}
	if (drains && p->role == PEER_CLIENT && p->out.bytes <= PEER_OUT_LOW_BYTES) {
		peer_resume(p);
		p->front->hooks->on_client_drained(p);
	}
	if (drains) {
		peers_wake(p->front, p->account);
	}
	if ((events & UV_READABLE) != 0 || (p->lists && p->out.bytes == 0)) {
		peer_enqueue(p);
	}
}

/* --- time --- */

static void refuse_silent(struct peer *p)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_TIMEOUT, "Say hello at once after connecting.",
		    "nothing was said for %d s after connecting", PEER_PATIENCE_S);
	peer_refuse_and_close(p, &r);
}

/* Siblings wait for the end of this connection's message. */
static void refuse_stalled(struct peer *p)
{
	struct refusal r;

	account_refuse(p->account, &r);
	log_notice("pid %d (uid %u) holds up its siblings with half a message: closed",
		   (int)p->credentials.pid, (unsigned)p->credentials.uid);
	peer_refuse_and_close(p, &r);
}

/* Holds memory, and nothing has become of it. */
static void refuse_half(struct peer *p)
{
	struct refusal r;

	refusal_set(&r, GPUCTR_E_TIMEOUT, "Connect again, and send messages as a whole.",
		    "the rest of a message did not come");
	log_notice("pid %d (uid %u) has sent half a message and no more: closed",
		   (int)p->credentials.pid, (unsigned)p->credentials.uid);
	peer_refuse_and_close(p, &r);
}

static bool has_deadline(const struct peer *p)
{
	return p->role == PEER_NEW || p->close_when_sent || p->account->reader == p ||
	       p->half_ns != 0;
}

static bool is_half_for_too_long(const struct peer *p, uint64_t now_ns)
{
	const struct quota *all = p->account->bytes.whole;
	uint64_t patience_s = all && all->used > all->max / 2 ? PEER_PATIENCE_S : PEER_HALF_S;

	return p->half_ns != 0 && now_ns >= p->half_ns + patience_s * CLOCK_NS_PER_S;
}

static bool others_wait(const struct peer *p)
{
	list_for_each(l, &p->account->ready) {
		if (l != &p->ready_link) {
			return true;
		}
	}
	return false;
}

static bool is_late(const struct peer *p, uint64_t now_ns)
{
	const struct account *a = p->account;

	if (p->role == PEER_NEW || p->close_when_sent) {
		return now_ns >= p->deadline_ns;
	}
	if (is_half_for_too_long(p, now_ns)) {
		return true;
	}
	return a->reader == p && others_wait(p) &&
	       now_ns >= a->reader_since_ns + PEER_PATIENCE_S * CLOCK_NS_PER_S;
}

static void end_late(struct peer *p)
{
	if (p->close_when_sent) {
		peer_close(p);
	} else if (p->role == PEER_NEW) {
		refuse_silent(p);
	} else if (p->account->reader != p || !others_wait(p)) {
		refuse_half(p);
	} else {
		refuse_stalled(p);
	}
}

/* Finds one peer whose time is over. Ending it may end others, the agents of its capture, so the
 * caller begins at the start of the list again. */
static struct peer *find_late(struct front *f, uint64_t now_ns, bool *ret_deadlines)
{
	*ret_deadlines = false;
	list_for_each(l, &f->peers) {
		struct peer *p = list_entry(l, struct peer, link);

		*ret_deadlines = *ret_deadlines || has_deadline(p) || peer_is_queued(p);
		if (is_late(p, now_ns)) {
			return p;
		}
	}
	return NULL;
}

bool peers_tick(struct front *f, uint64_t now_ns)
{
	bool deadlines;
	struct peer *p;

	list_for_each(l, &f->accounts.all) {
		peers_wake(f, list_entry(l, struct account, link));
	}
	while ((p = find_late(f, now_ns, &deadlines)) != NULL) {
		end_late(p);
	}
	return deadlines;
}

/* Reads the supplementary groups as they were at connect; there may be 65,536 of them. */
static int read_groups(struct peer *p)
{
	socklen_t n = 0;
	int r;

	if (getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, NULL, &n) < 0 && errno != ERANGE) {
		return -EPERM;
	}
	r = n > 0 ? buffer_reserve_exactly(&p->groups, n) : 0;
	if (r < 0) {
		return r;
	}
	if (n > 0 && getsockopt(p->fd, SOL_SOCKET, SO_PEERGROUPS, p->groups.data, &n) < 0) {
		return -EPERM;
	}
	p->credentials.groups = (const gid_t *)(const void *)p->groups.data;
	p->credentials.n_groups = n / sizeof(gid_t);
	return 0;
}

/* Who may act for other users must not be in a container, whose root takes any uid and group. A
 * look into /proc, so only for those to whom it matters. */
static void find_host(struct peer *p)
{
	struct credentials *c = &p->credentials;

	if (!c->of_host && policy_names_operator(&p->front->config.policy, c)) {
		c->of_host = proc_peer_is_of_this_host(p->fd, c->pid);
	}
}

/* Is asked for now, if it has to be, so that it is known when it is shown. */
static void look_up_name(struct peer *p)
{
	char name[64];

	users_name(p->front->users, p->credentials.uid, name, sizeof(name));
	users_ask(p->front->users, p->front->control);
}

void peer_turn_away(struct peer *p, const struct refusal *r)
{
	decision_of_peer(p, r);
	peer_refuse(p, 0, r);
	if (!p->closing) {
		peer_close_when_sent(p);
	}
}

/* Uids are cheap (a container has any number), so users who may do nothing here have no connection:
 * they are refused before a byte of theirs is read. */
/* Users who are not known, of whom there may be as many as one has subordinate uids, leave half of
 * the connections to the others. */
static void admit(struct peer *p)
{
	const struct front *f = p->front;
	struct refusal r;

	if (admission_is_known(f, &p->credentials, &r)) {
		look_up_name(p);
		return;
	}
	if (admission_lets_in(f, &p->credentials, &r)) {
		if (f->n_peers <= f->config.connections_max / 2 + f->processes.n_registered) {
			look_up_name(p);
			return;
		}
		refusal_set(&r, GPUCTR_E_QUOTA, "Try again later.",
			    "the connections that are left are for users who may measure");
	}
	peer_turn_away(p, &r);
}

/* A peer whose groups cannot be read is refused and told why. */
static void refuse_groups(struct peer *p, int why)
{
	struct refusal r;

	if (why == -EDQUOT) {
		account_refuse(p->account, &r);
	} else {
		refusal_set(&r, GPUCTR_E_NOT_ALLOWED, "Try again in a moment.",
			    "your groups could not be read: %s", strerror(-why));
	}
	peer_refuse_and_close(p, &r);
}

int peer_open(struct front *f, int fd, const struct credentials *credentials,
	      struct account *account)
{
	struct peer *p = calloc(1, sizeof(*p));
	int r;

	if (!p) {
		return -ENOMEM;
	}
	p->front = f;
	p->fd = fd;
	p->credentials = *credentials;
	p->role = PEER_NEW;
	p->received_fd = -1;
	p->deadline_ns = clock_now_ns() + PEER_PATIENCE_S * CLOCK_NS_PER_S;
	p->in.quota = p->groups.quota = &account->bytes;
	queue_init(&p->out, &account->bytes);
	list_init(&p->captures);
	list_init(&p->ready_link);
	p->poll.data = p;
	r = uv_poll_init(&f->loop, &p->poll, fd);
	if (r < 0) {
		free(p);
		return r;
	}
	p->account = account_ref(account);
	list_append(&f->peers, &p->link);
	f->n_peers++;
	front_arm_tick(f);
	peer_update_poll(p);
	r = read_groups(p);
	if (r < 0) {
		refuse_groups(p, r);
	} else {
		find_host(p);
		admit(p);
	}
	return 0;
}
