/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/requirements/requirement.h"
#include "tests/system/raw.h"
#include "tests/system/recorder.h"

/* R4: only the control device's descriptor is used. Everything else that a user can send is refused
 * before any ioctl, and the granter goes on at once: also when closing it takes seconds. */

enum { KINDS_MAX = 40, LINGER_S = 3, PROMPT_MS = 500, ROOT_HANDLE = 0xc1d00001 };

struct kinds {
	int fds[KINDS_MAX];
	const char *names[KINDS_MAX];
	size_t n;
};

static void add(struct kinds *k, const char *name, int fd)
{
	if (fd < 0) {
		print_message("%s: not to be had here\n", name);
		return;
	}
	assert_true(k->n < KINDS_MAX);
	k->names[k->n] = name;
	k->fds[k->n++] = fd;
}

static void add_files(struct kinds *k, struct fixture *f, int device)
{
	static const char *const devices[] = { "/dev/null",    "/dev/zero",    "/dev/full",
					       "/dev/urandom", "/dev/tty",     "/dev/ptmx",
					       "/dev/fuse",    "/dev/nvidia0", "/dev/loop0" };
	char path[64];

	for (size_t i = 0; i < ARRAY_SIZE(devices); i++) {
		add(k, devices[i], open(devices[i], O_RDWR | O_NOCTTY | O_CLOEXEC));
	}
	snprintf(path, sizeof(path), "/proc/self/fd/%d", device);
	add(k, "O_PATH of the control device", open(path, O_PATH | O_CLOEXEC));
	add(k, "file", open(fixture_path(f, "file"), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
	add(k, "folder", open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	add(k, "proc", open("/proc/self/status", O_RDONLY | O_CLOEXEC));
	add(k, "own executable", open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
	add(k, "name space", open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC));
	assert_int_equal(mkfifo(fixture_path(f, "fifo"), 0666), 0);
	add(k, "fifo", open(fixture_path(f, "fifo"), O_RDWR | O_CLOEXEC));
}

static void add_memory(struct kinds *k)
{
	int sealed = memfd_create("sealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	add(k, "memfd", memfd_create("memory", MFD_CLOEXEC));
	assert_int_equal(ftruncate(sealed, 4096), 0);
	assert_int_equal(fcntl(sealed, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_WRITE), 0);
	add(k, "sealed memfd", sealed);
}

static void add_sockets(struct kinds *k)
{
	static const int types[] = { SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET };
	int pair[2];

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		assert_int_equal(socketpair(AF_UNIX, types[i] | SOCK_CLOEXEC, 0, pair), 0);
		add(k, "socket pair", pair[0]);
		add(k, "socket pair's other end", pair[1]);
	}
	add(k, "TCP socket", socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
	add(k, "UDP socket", socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
	add(k, "netlink socket", socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, 0));
	assert_int_equal(pipe2(pair, O_CLOEXEC), 0);
	add(k, "pipe to read", pair[0]);
	add(k, "pipe to write", pair[1]);
}

static void add_events(struct kinds *k)
{
	sigset_t none;

	sigemptyset(&none);
	add(k, "epoll", epoll_create1(EPOLL_CLOEXEC));
	add(k, "eventfd", eventfd(0, EFD_CLOEXEC));
	add(k, "timer", timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC));
	add(k, "signals", signalfd(-1, &none, SFD_CLOEXEC));
	add(k, "inotify", inotify_init1(IN_CLOEXEC));
	add(k, "pidfd", (int)syscall(SYS_pidfd_open, getpid(), 0));
}

/* A TCP socket with bytes that nobody takes: the last close() of it lasts LINGER_S. */
static int open_lingering(void)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger linger = { 1, LINGER_S };
	socklen_t size = sizeof(a);
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	static char bytes[1 << 20];

	assert_int_equal(bind(listener, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&a, &size), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	while (send(fd, bytes, sizeof(bytes), MSG_DONTWAIT) > 0) {
	}
	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
	return fd; /* the listener stays: it is the one who does not read */
}

struct scene {
	struct recorder r;
	int device;
	uint32_t next_object;
	bool patient; /* asks so often that it has to wait for a place */
};

static void begin(struct scene *s, struct fixture *f)
{
	const struct gpuctr_capture_options options = recorder_options();

	*s = (struct scene){ .device = raw_control_device() };
	fixture_start_daemon(f, NULL);
	recorder_connect(&s->r, f, USER_ANN);
	recorder_open(&s->r, &options);
	recorder_until(&s->r, &s->r.ready);
}

static void end(struct scene *s, struct fixture *f)
{
	close(s->device);
	recorder_close(&s->r);
	recorder_disconnect(&s->r);
	assert_int_equal(fixture_counter(f, "foreign"), 0);
	assert_int_equal(fixture_counter(f, "malformed"), 0);
	expect_service(f, PATIENCE_MS);
}

static struct raw_answer ask_with(struct scene *s, struct fixture *f, int fd, uint64_t *ret_ns)
{
	const struct wire_message m =
		raw_permission(recorder_token(&s->r), ROOT_HANDLE, 0x5c100000 + s->next_object++);
	uint64_t begin = clock_now_ns();
	struct raw_answer a = (s->patient ? raw_ask_patiently : raw_ask)(f, USER_ANN, &m, fd);

	*ret_ns = clock_now_ns() - begin;
	return a;
}

SYSTEM_TEST(other_descriptors_are_refused)
{
	size_t rounds = requirement_amount(300, 30000), tries = 0;
	struct fixture *f = *state;
	struct kinds kinds = { 0 };
	uint64_t ns, slowest = 0, granted;
	struct scene s;

	begin(&s, f);
	s.patient = true;
	add_files(&kinds, f, s.device);
	add_memory(&kinds);
	add_sockets(&kinds);
	add_events(&kinds);
	assert_true(ask_with(&s, f, s.device, &ns).granted);
	granted = fixture_counter(f, "allocs");
	for (size_t i = 0; i < rounds; i++) {
		for (size_t k = 0; k < kinds.n; k++, tries++) {
			if (ask_with(&s, f, kinds.fds[k], &ns).granted) {
				fail_msg("granted on a %s", kinds.names[k]);
			}
			slowest = ns > slowest ? ns : slowest;
		}
		assert_int_equal(ask_with(&s, f, -1, &ns).code, GPUCTR_E_PROTOCOL);
	}
	assert_int_equal(fixture_counter(f, "allocs"), granted); /* none got there */
	assert_true(ask_with(&s, f, s.device, &ns).granted);
	for (size_t k = 0; k < kinds.n; k++) {
		close(kinds.fds[k]);
	}
	end(&s, f);
	requirement_figure("R4",
			   "%zu tries with %zu kinds of descriptors: all refused, 0 ioctls, "
			   "slowest answer %.1f ms",
			   tries, kinds.n, (double)slowest / 1e6);
}

/* The granter, which hears nothing now, is not asked about any of them. */
SYSTEM_TEST(only_the_device_goes_to_the_granter)
{
	struct fixture *f = *state;
	struct scene s;
	int null = open("/dev/null", O_RDWR | O_CLOEXEC), lingering = open_lingering();
	uint64_t ns, slowest;
	pid_t granter;

	begin(&s, f);
	granter = fixture_worker(f, "granter");
	assert_int_equal(kill(granter, SIGSTOP), 0);
	assert_int_equal(ask_with(&s, f, null, &slowest).code, GPUCTR_E_NOT_ALLOWED);
	assert_int_equal(ask_with(&s, f, lingering, &ns).code, GPUCTR_E_NOT_ALLOWED);
	slowest = ns > slowest ? ns : slowest;
	assert_int_equal(kill(granter, SIGCONT), 0);
	if (requirement_times_hold()) {
		assert_true(slowest < PROMPT_MS * CLOCK_NS_PER_MS);
	}
	assert_true(ask_with(&s, f, s.device, &ns).granted);
	close(null);
	close(lingering);
	end(&s, f);
}
