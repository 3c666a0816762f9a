/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <grp.h>
#include <linux/sched.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/fdpass.h"
#include "proto/wire/limits.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R10: identity is what the kernel said at connect, whatever the peer becomes later, whoever speaks
 * on its socket, and whoever has its pid by then. Only Ann is allowed.
 *
 * An actor is a process that becomes somebody, connects, and hands its connection to the test. Then
 * it may become somebody else, or end, and the test speaks on. */

enum { GROUP = 7777 };

struct actor {
	int uid;	     /* at connect */
	int group;	     /* supplementary at connect; 0: none */
	int later_uid;	     /* after it; 0: the same */
	int later_group;     /* the same */
	int namespaces;	     /* CLONE_NEW... */
	const char *uid_map; /* of the user namespace; NULL: none */
	bool ends;	     /* before anything is said on the connection */
	int heir;	     /* uid of a process that gets its pid then; 0: nobody */
};

struct play {
	struct fixture *f;
	pid_t pid, heir;
	int link; /* its end is the actor's */
	int socket;
};

/* --- in the actor --- */

static void become(int uid, int group)
{
	const gid_t groups[] = { (gid_t)group };

	if (setgroups(group ? 1 : 0, groups) < 0 || setresgid(0, (gid_t)uid, 0) < 0 ||
	    setresuid(0, (uid_t)uid, 0) < 0) {
		_exit(120);
	}
}

/* Its effective uid is what the kernel tells of; root is kept to become somebody else. */
static void become_later(const struct actor *a)
{
	if ((a->later_uid || a->later_group) && setresuid(0, 0, 0) < 0) {
		_exit(121);
	}
	if (a->later_uid || a->later_group) {
		become(a->later_uid ? a->later_uid : a->uid, a->later_group);
	}
}

static int connect_here(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0) {
		_exit(122);
	}
	return fd;
}

static void wait_for_word(int link)
{
	char word;

	if (read(link, &word, 1) != 1) {
		_exit(123);
	}
}

/* A pid namespace begins with the next child. */
static void enter_namespaces(const struct actor *a, int link)
{
	if (a->namespaces == 0) {
		return;
	}
	if (unshare(a->namespaces) < 0) {
		_exit(124);
	}
	if (fdpass_send(link, "n", 1, -1, 0) != 1) { /* the test writes the map */
		_exit(125);
	}
	wait_for_word(link);
	if ((a->namespaces & CLONE_NEWPID) != 0) {
		pid_t pid = fork();
		int status;

		if (pid > 0) {
			waitpid(pid, &status, 0);
			_exit(0);
		}
	}
}

static void act(const struct actor *a, const char *path, int link)
{
	bool needs_root = (a->namespaces & CLONE_NEWUSER) == 0;
	int fd;

	if (needs_root) {
		enter_namespaces(a, link);
	}
	become(a->uid, a->group);
	if (!needs_root) {
		enter_namespaces(a, link);
	}
	fd = connect_here(path);
	if (fdpass_send(link, "c", 1, fd, 0) != 1) {
		_exit(126);
	}
	close(fd);
	become_later(a);
	if (fdpass_send(link, "b", 1, -1, 0) != 1) {
		_exit(127);
	}
	wait_for_word(link);
	_exit(0);
}

/* --- in the test --- */

/* The next word of the actor, with its connection when there is one. */
static char hear(int link, int *ret_fd)
{
	char word = '\0';

	assert_int_equal(fdpass_receive(link, &word, 1, ret_fd, 0), 1);
	return word;
}

static bool write_map(pid_t pid, const char *text)
{
	CLEAN_FD int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/uid_map", (int)pid);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	return fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
}

/* A process of uid with the pid of one that has ended. */
static pid_t inherit_pid(pid_t pid, int uid)
{
	const pid_t wanted[] = { pid };
	struct clone_args c = {
		.exit_signal = SIGCHLD,
		.set_tid = (uintptr_t)wanted,
		.set_tid_size = 1,
	};
	pid_t heir = (pid_t)syscall(SYS_clone3, &c, sizeof(c));

	if (heir == 0) {
		become(uid, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		pause();
		_exit(0);
	}
	assert_int_equal(heir, pid);
	return heir;
}

static void end_process(pid_t *pid)
{
	if (*pid > 0) {
		kill(*pid, SIGKILL);
		waitpid(*pid, NULL, 0);
	}
	*pid = 0;
}

static struct play begin(struct fixture *f, const struct actor *a)
{
	struct play p = { .f = f, .socket = -1 };
	int pair[2], none;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	p.pid = fork();
	if (p.pid == 0) {
		close(pair[0]);
		act(a, f->socket, pair[1]);
	}
	close(pair[1]);
	if (a->namespaces != 0) {
		assert_int_equal(hear(pair[0], &none), 'n');
		if (a->uid_map) {
			assert_true(write_map(p.pid, a->uid_map));
		}
		assert_int_equal(write(pair[0], "g", 1), 1);
	}
	assert_int_equal(hear(pair[0], &p.socket), 'c');
	assert_int_equal(hear(pair[0], &none), 'b');
	if (a->ends) {
		pid_t pid = p.pid;

		assert_int_equal(write(pair[0], "e", 1), 1);
		assert_int_equal(waitpid(p.pid, NULL, 0), p.pid);
		p.pid = 0;
		p.heir = a->heir ? inherit_pid(pid, a->heir) : 0;
	}
	p.link = pair[0];
	return p;
}

static void end(struct play *p)
{
	close(p->link);
	end_process(&p->pid);
	end_process(&p->heir);
}

static bool is_welcomed(struct play *p)
{
	const struct wire_message hello = { .type = WIRE_HELLO,
					    .hello = { PROTO_VERSION, "actor" } };
	struct wire_message m;
	struct arena a;
	bool welcomed;

	arena_init(&a, 1 << 20);
	raw_send(p->socket, &hello, -1); /* who is not let in may have been refused already */
	m = raw_receive(p->socket, &a);
	welcomed = m.type == WIRE_WELCOME;
	if (!welcomed) {
		assert_int_equal(m.type, WIRE_REFUSAL);
		assert_int_equal(m.refusal.code, GPUCTR_E_NOT_ALLOWED);
	}
	arena_deinit(&a);
	close(p->socket);
	return welcomed;
}

/* What a machine must allow for an actor: a chroot, and most containers, allow no namespaces. */
enum need { NOTHING, PIDS, USERS };

static const char *const need_names[] = { "in the daemon's namespaces",
					  "in pid namespaces or with a pid that was another's",
					  "in user namespaces" };

static enum need need_of(const struct actor *a)
{
	return (a->namespaces & CLONE_NEWUSER) != 0		? USERS
	       : (a->namespaces & CLONE_NEWPID) != 0 || a->heir ? PIDS
								: NOTHING;
}

/* As an actor does it: its map is written by root, who may be kept from that alone. */
static bool may_unshare(int uid, int namespaces, const char *uid_map)
{
	int pair[2], status = -1;
	bool mapped = true;
	char word = '\0';
	pid_t pid;

	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	pid = fork();
	if (pid == 0) {
		close(pair[0]);
		become(uid, 0);
		if (unshare(namespaces) < 0 || write(pair[1], "n", 1) != 1) {
			_exit(1);
		}
		wait_for_word(pair[1]);
		_exit(0);
	}
	close(pair[1]);
	if (read(pair[0], &word, 1) == 1) {
		mapped = !uid_map || write_map(pid, uid_map);
		assert_int_equal(write(pair[0], "g", 1), 1);
	}
	close(pair[0]);
	waitpid(pid, &status, 0);
	return status == 0 && mapped;
}

static void skip_unless_met(enum need need)
{
	fixture_need_root();
	if (need == PIDS && !may_unshare(0, CLONE_NEWPID, NULL)) {
		fixture_skip("root may make no pid namespace and choose no pid here");
	}
	if (need == USERS && !may_unshare(USER_ANN, CLONE_NEWUSER | CLONE_NEWPID, "0 1234 1")) {
		fixture_skip("users may make no user namespace here, or root may not map it");
	}
}

static bool decide(struct fixture *f, const struct actor *a)
{
	struct play p = begin(f, a);
	bool welcomed = is_welcomed(&p);

	end(&p);
	return welcomed;
}

/* --- who may introduce themselves --- */

#define ANN_LATER_BOB .uid = USER_ANN, .later_uid = USER_BOB
#define BOB_LATER_ANN .uid = USER_BOB, .later_uid = USER_ANN

static const struct {
	const char *what;
	struct actor actor;
	bool allowed;
} introductions[] = {
	{ "stays", { .uid = USER_ANN }, true },
	{ "stays", { .uid = USER_BOB }, false },
	{ "becomes another", { ANN_LATER_BOB }, true },
	{ "becomes another", { BOB_LATER_ANN }, false },
	{ "ends", { .uid = USER_ANN, .ends = true }, true },
	{ "ends", { .uid = USER_BOB, .ends = true }, false },
	{ "has its pid taken", { .uid = USER_ANN, .ends = true, .heir = USER_BOB }, true },
	{ "has its pid taken", { .uid = USER_BOB, .ends = true, .heir = USER_ANN }, false },
	{ "is in the group", { .uid = USER_BOB, .group = GROUP }, true },
	{ "leaves the group", { ANN_LATER_BOB, .group = GROUP }, true },
	{ "joins the group", { .uid = USER_BOB, .later_group = GROUP }, false },
	{ "has a pid namespace", { .uid = USER_ANN, .namespaces = CLONE_NEWPID }, true },
	{ "has a pid namespace", { .uid = USER_BOB, .namespaces = CLONE_NEWPID }, false },
	{ "is root inside",
	  { .uid = USER_BOB, .namespaces = CLONE_NEWUSER, .uid_map = "0 1235 1" },
	  false },
	{ "is root inside",
	  { .uid = USER_ANN, .namespaces = CLONE_NEWUSER, .uid_map = "0 1234 1" },
	  true },
	{ "has Ann's number inside",
	  { .uid = USER_BOB, .namespaces = CLONE_NEWUSER, .uid_map = "1234 1235 1" },
	  false },
	{ "has Bob's number inside",
	  { .uid = USER_ANN, .namespaces = CLONE_NEWUSER, .uid_map = "1235 1234 1" },
	  true },
	{ "is nobody inside", { .uid = USER_BOB, .namespaces = CLONE_NEWUSER }, false },
	{ "has both namespaces",
	  { .uid = USER_BOB, .namespaces = CLONE_NEWUSER | CLONE_NEWPID, .uid_map = "0 1235 1" },
	  false },
};

static void check_introductions(struct fixture *f, enum need need)
{
	size_t rounds = requirement_amount(50, 2000), decisions = 0;

	skip_unless_met(need);
	fixture_limit(1000);
	fixture_start_strict_daemon(f, "--set", "allow-users=1234", "--set", "allow-groups=7777",
				    NULL);
	for (size_t i = 0; i < rounds; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(introductions); k++) {
			if (need_of(&introductions[k].actor) != need) {
				continue;
			}
			decisions++;
			if (decide(f, &introductions[k].actor) != introductions[k].allowed) {
				fail_msg("uid %d, who %s, is %s", introductions[k].actor.uid,
					 introductions[k].what,
					 introductions[k].allowed ? "refused" : "welcomed");
			}
		}
	}
	requirement_figure("R10",
			   "%zu introductions (kinds: %zu) %s: all decided by the uid at connect",
			   decisions, decisions / rounds, need_names[need]);
}

SYSTEM_TEST(introductions_count_at_connect)
{
	check_introductions(*state, NOTHING);
}

SYSTEM_TEST(introductions_with_other_pids_do)
{
	check_introductions(*state, PIDS);
}

SYSTEM_TEST(introductions_from_user_namespaces_do)
{
	check_introductions(*state, USERS);
}

/* The kernel's word is not overridden by what root puts into a message. */
SYSTEM_TEST(told_credentials_are_not_believed)
{
	const struct wire_message hello = { .type = WIRE_HELLO,
					    .hello = { PROTO_VERSION, "forger" } };
	const struct ucred ann = { getpid(), USER_ANN, USER_ANN };
	union {
		struct cmsghdr header;
		char room[CMSG_SPACE(sizeof(struct ucred))];
	} control = { .header = { CMSG_LEN(sizeof(ann)), SOL_SOCKET, SCM_CREDENTIALS } };
	struct fixture *f = *state;
	struct buffer b = { 0 };
	struct iovec iov;
	struct msghdr m = { .msg_iov = &iov,
			    .msg_iovlen = 1,
			    .msg_control = &control,
			    .msg_controllen = sizeof(control) };
	struct arena scratch;
	int fd;

	fixture_need_root();
	/* With operators everybody is let in, and a hello is read. */
	fixture_start_strict_daemon(f, "--set", "allow-users=1234", "--set",
				    "operator-captures=yes", NULL);
	fd = raw_connect(f, USER_BOB);
	arena_init(&scratch, 1 << 20);
	assert_int_equal(wire_encode(&scratch, &b, &hello), 0);
	iov = (struct iovec){ b.data + b.start, buffer_length(&b) };
	memcpy(CMSG_DATA(&control.header), &ann, sizeof(ann));
	assert_int_equal(sendmsg(fd, &m, 0), iov.iov_len);
	raw_expect_refused(fd, GPUCTR_E_NOT_ALLOWED);
	buffer_deinit(&b);
	arena_deinit(&scratch);
}

/* --- who gets a permission --- */

static const struct {
	const char *what;
	struct actor actor;
	bool granted;
} permissions[] = {
	{ "stays", { .uid = USER_ANN }, true },
	{ "stays", { .uid = USER_BOB }, false },
	{ "becomes another", { ANN_LATER_BOB }, true },
	{ "becomes another", { BOB_LATER_ANN }, false },
	{ "ends", { .uid = USER_ANN, .ends = true }, false }, /* nobody is there to use it */
	{ "ends", { .uid = USER_BOB, .ends = true }, false },
	{ "has its pid taken", { .uid = USER_BOB, .ends = true, .heir = USER_ANN }, false },
	{ "has a pid namespace", { .uid = USER_ANN, .namespaces = CLONE_NEWPID }, true },
	{ "has Ann's number inside",
	  { .uid = USER_BOB, .namespaces = CLONE_NEWUSER, .uid_map = "1234 1235 1" },
	  false },
};

static bool is_granted(struct fixture *f, const struct actor *a, const char *token, uint32_t object,
		       int device)
{
	const struct wire_message m = raw_permission(token, 0xc1d00001, object);
	struct play p = begin(f, a);
	bool granted = raw_ask_on(p.socket, &m, device).granted;

	end(&p);
	return granted;
}

/* Everybody is allowed here; the lease is Ann's. */
static void check_permissions(struct fixture *f, enum need need)
{
	size_t rounds = requirement_amount(50, 2000), decisions = 0;
	const struct gpuctr_capture_options options = recorder_options();
	struct recorder r;
	int device;

	skip_unless_met(need);
	device = raw_control_device();
	fixture_limit(1000);
	fixture_start_daemon(f, NULL);
	recorder_connect(&r, f, USER_ANN);
	recorder_open(&r, &options);
	recorder_until(&r, &r.ready);
	for (size_t i = 0; i < rounds; i++) {
		for (size_t k = 0; k < ARRAY_SIZE(permissions); k++) {
			const struct actor *a = &permissions[k].actor;
			uint32_t object = 0x5c100000 + (uint32_t)decisions;

			if (need_of(a) != need) {
				continue;
			}
			decisions++;
			if (is_granted(f, a, recorder_token(&r), object, device) !=
			    permissions[k].granted) {
				fail_msg("uid %d, who %s: %s", a->uid, permissions[k].what,
					 permissions[k].granted ? "refused" : "granted");
			}
		}
	}
	close(device);
	recorder_close(&r);
	recorder_disconnect(&r);
	expect_no_objects(f); /* each was let go with its process */
	requirement_figure("R10",
			   "%zu requests for permission (kinds: %zu) %s: all decided by the uid at "
			   "connect, none for a process that has ended",
			   decisions, decisions / rounds, need_names[need]);
}

SYSTEM_TEST(permissions_count_at_connect)
{
	check_permissions(*state, NOTHING);
}

SYSTEM_TEST(permissions_with_other_pids_do)
{
	check_permissions(*state, PIDS);
}

SYSTEM_TEST(permissions_from_user_namespaces_do)
{
	check_permissions(*state, USERS);
}
