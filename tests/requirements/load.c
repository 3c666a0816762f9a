/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/requirements/load.h"

#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/wire/limits.h"
#include "tests/system/raw.h"

/* --- processes --- */

enum { DECOY_CONNECTIONS_MAX = 128 };

static pid_t start_child(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		signal(SIGALRM, SIG_DFL);
	}
	return pid;
}

static void become(int uid)
{
	if (geteuid() == 0 &&
	    (setgroups(0, NULL) < 0 || setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) < 0 ||
	     setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) < 0)) {
		_exit(120);
	}
}

static int listen_at(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(strlen(path) < sizeof(a.sun_path));
	strcpy(a.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	return fd;
}

/* Reads what comes, and closes whoever has said something or has nothing more to say. */
static void run_decoy(int listener)
{
	static char data[256 * 1024];
	struct pollfd fds[DECOY_CONNECTIONS_MAX] = { { listener, POLLIN, 0 } };
	nfds_t n = 1;

	for (;;) {
		fds[0].events = n < DECOY_CONNECTIONS_MAX ? POLLIN : 0;
		poll(fds, n, -1);
		for (nfds_t i = n; i-- > 1;) {
			if (fds[i].revents &&
			    recv(fds[i].fd, data, sizeof(data), MSG_DONTWAIT) != -2) {
				close(fds[i].fd);
				fds[i] = fds[--n];
			}
		}
		if (fds[0].revents) {
			fds[n++] = (struct pollfd){ accept(listener, NULL, NULL), POLLIN, 0 };
		}
	}
}

/* Rounds are spread over time: this one begins when its time has come. */
static void wait_for_turn(const struct load_shared *s, uint64_t *next_ns, size_t n)
{
	uint64_t rate = atomic_load(&s->per_second), now = clock_now_ns();

	if (rate == 0) {
		return;
	}
	if (*next_ns < now - (now < CLOCK_NS_PER_S ? 0 : CLOCK_NS_PER_S)) {
		*next_ns = now;
	}
	*next_ns += CLOCK_NS_PER_S * n / rate;
	if (*next_ns > now) {
		const struct timespec t = { 0, (long)(*next_ns - now) };

		nanosleep(&t, NULL);
	}
}

static void run_worker(struct load *l, const char *socket, unsigned worker, load_work work)
{
	struct load_shared *s = l->shared;
	uint64_t next_ns = 0, round = 0;

	for (;;) {
		bool at_decoy = atomic_load(&s->at_decoy);
		unsigned n;

		if (atomic_load(&s->resting)) {
			atomic_fetch_add(&s->at_rest, 1);
			while (atomic_load(&s->resting)) {
				poll(NULL, 0, 1);
			}
			continue;
		}
		wait_for_turn(s, &next_ns, l->n);
		n = work(at_decoy ? l->decoy : socket, worker, round++);
		if (!at_decoy) {
			atomic_fetch_add(&s->messages, n);
			atomic_fetch_add(&s->rounds, 1);
		}
	}
}

void load_start(struct load *l, struct fixture *f, size_t n, int first_uid, load_work work)
{
	int listener;

	*l = (struct load){ .n = n };
	assert_true(n <= LOAD_PROCESSES_MAX);
	l->shared = mmap(NULL, sizeof(*l->shared), PROT_READ | PROT_WRITE,
			 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(l->shared, MAP_FAILED);
	atomic_store(&l->shared->resting, true);
	snprintf(l->decoy, sizeof(l->decoy), "%s.decoy", f->socket);
	listener = listen_at(l->decoy);
	l->decoy_pid = start_child();
	if (l->decoy_pid == 0) {
		run_decoy(listener);
	}
	close(listener);
	for (size_t i = 0; i < n; i++) {
		l->pids[i] = start_child();
		if (l->pids[i] == 0) {
			become(first_uid + (int)i);
			run_worker(l, f->socket, (unsigned)i, work);
		}
	}
	while (atomic_load(&l->shared->at_rest) < n) {
		sleep_ms(1);
	}
}

static void aim(struct load *l, bool at_decoy)
{
	atomic_store(&l->shared->at_decoy, at_decoy);
	atomic_store(&l->shared->at_rest, 0);
	atomic_store(&l->shared->resting, false);
}

void load_at_daemon(struct load *l)
{
	aim(l, false);
}

void load_at_decoy(struct load *l)
{
	aim(l, true);
}

void load_rest(struct load *l)
{
	atomic_store(&l->shared->resting, true);
	wait_until(atomic_load(&l->shared->at_rest) >= l->n);
}

void load_stop(struct load *l)
{
	for (size_t i = 0; i < l->n; i++) {
		kill(l->pids[i], SIGKILL);
		waitpid(l->pids[i], NULL, 0);
	}
	kill(l->decoy_pid, SIGKILL);
	waitpid(l->decoy_pid, NULL, 0);
	munmap(l->shared, sizeof(*l->shared));
}

static bool same_descriptors(const struct footprint *a, const struct footprint *b)
{
	for (size_t i = 0; i < FOOTPRINT_PROCESSES; i++) {
		if (a->of[i].descriptors != b->of[i].descriptors) {
			return false;
		}
	}
	return true;
}

void load_take_footprint(struct fixture *f, struct footprint *ret)
{
	struct footprint before;

	expect_no_objects(f);
	footprint_take(f, ret);
	do {
		before = *ret;
		sleep_ms(300);
		footprint_take(f, ret);
	} while (!same_descriptors(&before, ret));
}

/* --- latency --- */

void latencies_add(struct latencies *l, uint64_t ns)
{
	if (l->n == l->room) {
		l->room = l->room ? 2 * l->room : 4096;
		l->ns = realloc(l->ns, l->room * sizeof(*l->ns));
		assert_non_null(l->ns);
	}
	l->ns[l->n++] = ns;
}

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

double latencies_us(struct latencies *l, double percentile)
{
	if (l->n == 0) {
		return 0;
	}
	qsort(l->ns, l->n, sizeof(*l->ns), compare);
	return (double)l->ns[(size_t)((double)(l->n - 1) * percentile / 100)] / 1000;
}

void latencies_close_window(struct latencies *window, struct latencies *all, struct latencies *p99s)
{
	if (window->n > 0) {
		latencies_add(p99s, (uint64_t)(1000 * latencies_us(window, 99)));
	}
	for (size_t i = 0; i < window->n; i++) {
		latencies_add(all, window->ns[i]);
	}
	window->n = 0;
}

void latencies_deinit(struct latencies *l)
{
	free(l->ns);
	*l = (struct latencies){ 0 };
}

void load_ask(int socket, struct latencies *l, unsigned ms)
{
	const struct wire_message ask = { .type = WIRE_STATUS_REQUEST, .status_request = { 1 } };
	uint64_t by = now_ms() + ms;
	struct arena a;

	arena_init(&a, LIMIT_UNPACKED_BYTES);
	do {
		uint64_t began = clock_now_ns();

		assert_true(raw_send(socket, &ask, -1));
		assert_int_equal(raw_receive(socket, &a).type, WIRE_STATUS_REPLY);
		latencies_add(l, clock_now_ns() - began);
		sleep_ms(ms > 0);
	} while (now_ms() < by);
	arena_deinit(&a);
}
