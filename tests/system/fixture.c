/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <linux/capability.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "tests/system/keeper.h"

/* The test adopts what its programs leave behind, so all of them have ended when it ends. If the
 * test is killed, its keeper (keeper.c) ends them. */

enum { TEST_LIMIT_S = 3 * PATIENCE_MS / 1000, ARGUMENTS_MAX = 64, DESCRIPTORS = 16384 };

uint64_t now_ms(void)
{
	return clock_now_ns() / CLOCK_NS_PER_MS;
}

void sleep_ms(unsigned ms)
{
	poll(NULL, 0, (int)ms);
}

/* --- limits --- */

/* Also called in a signal handler: read() and kill() only. */
static size_t kill_children(void)
{
	char path[64], text[4096];
	size_t n = 0;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	length = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0) {
		close(fd);
	}
	text[length > 0 ? length : 0] = '\0';
	for (char *p = text; *p;) {
		pid_t pid = (pid_t)strtol(p, &p, 10);

		if (pid > 0) {
			kill(pid, SIGKILL);
			n++;
		}
		while (*p == ' ') {
			p++;
		}
	}
	return n;
}

/* Children of children become ours when their parents die, so this goes on until there are none. */
static void end_children(void)
{
	for (int round = 0; round < 100 && kill_children() > 0; round++) {
		while (waitpid(-1, NULL, WNOHANG) > 0) {
		}
		sleep_ms(5);
	}
}

static void on_limit(int signo)
{
	static const char text[] = "the test took longer than its limit\n";

	(void)signo;
	if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
		_exit(123);
	}
	end_children();
	_exit(124);
}

static pid_t test_pid;

/* A daemon that has left root is not ended by the kernel when the test dies. One that is stopped
 * does not react to the signal either, which the whole group may have got. */
static void on_interrupt(int signo)
{
	if (getpid() == test_pid) {
		end_children();
	}
	signal(signo, SIG_DFL);
	raise(signo);
}

static void catch_signals(void)
{
	static const int interrupts[] = { SIGINT, SIGTERM, SIGHUP };

	test_pid = getpid();
	signal(SIGPIPE, SIG_IGN);
	signal(SIGALRM, on_limit);
	for (size_t i = 0; i < ARRAY_SIZE(interrupts); i++) {
		signal(interrupts[i], on_interrupt);
	}
}

/* --- setup --- */

bool fixture_check_leaks(bool on)
{
	static bool is_on;
	bool before = is_on;
	char text[160];

	is_on = on;

	snprintf(text, sizeof(text),
		 "verify_asan_link_order=0:detect_leaks=%d:handle_segv=0:handle_abort=0:"
		 "handle_sigbus=0:handle_sigfpe=0",
		 on);
	setenv("ASAN_OPTIONS", text, 1);
	return before;
}

static void set_environment(const struct fixture *f)
{
	setenv("GPUCTR_FAKE_DIR", f->folder, 1);
	setenv("GPUCTR_SOCKET", f->socket, 1);
	setenv("GPUCTR_AGENT", TEST_AGENT, 1);
	setenv("GPUCTR_SAMPLER", "/nowhere/gpuctr-sampler", 1); /* an installed one is not meant */
	setenv("LD_LIBRARY_PATH", TEST_FAKE_LIBRARIES, 1);
	setenv("GPUCTR_FAKE_LOG_KIB", "1024", 1);
	setenv("PYTHONDONTWRITEBYTECODE", "1", 1); /* into the source tree */
	fixture_check_leaks(true);
	setenv("UBSAN_OPTIONS", "print_stacktrace=1", 1);
	/* A program with the thread sanitizer waits at its end for races that may still show; this
	 * makes it wait for no more than a second. */
	setenv("TSAN_OPTIONS",
	       "atexit_sleep_ms=50:die_after_fork=0:handle_segv=0:handle_abort=0:handle_sigbus=0:"
	       "handle_sigfpe=0",
	       1);
	if (!fixture_has_capability(CAP_PERFMON)) {
		setenv("GPUCTR_FAKE_RESTRICTED", "0", 1);
	}
}

/* Clears the knobs of the fakes that the previous test has set, whatever they are called. */
static void clear_fakes(void)
{
	static const char prefix[] = "GPUCTR_FAKE_";

	for (char **e = environ; *e;) {
		char name[64];

		if (strncmp(*e, prefix, strlen(prefix)) != 0) {
			e++;
			continue;
		}
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*e, "="), *e);
		unsetenv(name);
		e = environ;
	}
}

static void clear_environment(void)
{
	static const char *const names[] = { "CUDA_VISIBLE_DEVICES", "GPUCTR_TOKEN",
					     "NOTIFY_SOCKET", "CUDA_INJECTION64_PATH",
					     "NVTX_INJECTION64_PATH" };

	clear_fakes();
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		unsetenv(names[i]);
	}
}

/* A login's soft limit of 1024 is too low for tests of many connections. */
static void raise_descriptor_limit(void)
{
	struct rlimit l;

	if (getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur < DESCRIPTORS) {
		l.rlim_cur = l.rlim_max < DESCRIPTORS ? l.rlim_max : DESCRIPTORS;
		setrlimit(RLIMIT_NOFILE, &l);
	}
}

int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	snprintf(f->folder, sizeof(f->folder), "/tmp/gpuctr-test.XXXXXX");
	/* All users may write there, but nobody may move what is another's, as in any folder with a
	 * socket. */
	if (!mkdtemp(f->folder) || chmod(f->folder, 01777) < 0) {
		free(f);
		return -1;
	}
	snprintf(f->socket, sizeof(f->socket), "%s/socket", f->folder);
	raise_descriptor_limit();
	keeper_start();
	keeper_note(KEEPER_FIXTURE, f->folder);
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	catch_signals();
	alarm(TEST_LIMIT_S);
	umask(0);
	clear_environment();
	set_environment(f);
	*state = f;
	return 0;
}

int fixture_setup_sampling(void **state)
{
	int r = fixture_setup(state);

	setenv("GPUCTR_SAMPLER", TEST_SAMPLER, 1);
	return r;
}

/* --- processes --- */

/* What is inheritable outlives a change of user, and some containers give root a lot of it. */
static int drop_capabilities(void)
{
	struct __user_cap_header_struct header = { _LINUX_CAPABILITY_VERSION_3, 0 };
	const struct __user_cap_data_struct none[2] = { { 0 } };

	return (int)syscall(SYS_capset, &header, none);
}

static void become(int uid)
{
	if (uid == USER_SELF || geteuid() != 0) {
		return;
	}
	if (setgroups(0, NULL) < 0 || setresgid((gid_t)uid, (gid_t)uid, (gid_t)uid) < 0 ||
	    setresuid((uid_t)uid, (uid_t)uid, (uid_t)uid) < 0 || drop_capabilities() < 0) {
		_exit(120);
	}
}

const char *fixture_user(int uid, const char *text)
{
	static char name[64];
	unsigned shown = uid == USER_SELF || geteuid() != 0 ? geteuid() : (unsigned)uid;

	const struct passwd *pw = getpwuid(shown);

	if (pw) {
		snprintf(name, sizeof(name), "%s%s", pw->pw_name, text);
	} else {
		snprintf(name, sizeof(name), "uid %u%s", shown, text);
	}
	return name;
}

static void redirect(const char *path, int to)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0666);

	if (fd < 0 || dup2(fd, to) < 0) {
		_exit(121);
	}
	close(fd);
}

static void exec_program(const struct fixture *f, const struct program *p, int uid,
			 const char *const *argv)
{
	char preload[2 * PATH_MAX];

	redirect("/dev/null", STDIN_FILENO);
	redirect(p->out, STDOUT_FILENO);
	redirect(p->err, STDERR_FILENO);
	become(uid);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGPIPE, SIG_DFL);
	snprintf(preload, sizeof(preload), "%s %s", f->preloads_failures ? TEST_FAKE_FAIL : "",
		 TEST_FAKE_DRIVER);
	setenv("LD_PRELOAD", preload, 1);
	execv(argv[0], (char *const *)(uintptr_t)argv);
	_exit(122);
}

struct program *fixture_runv(struct fixture *f, int uid, const char *const *argv)
{
	size_t n = f->n_programs++;
	struct program *p = &f->programs[n];
	char folder[sizeof(f->folder)];

	assert_true(n < PROGRAMS_MAX);
	memcpy(folder, f->folder, sizeof(folder));
	snprintf(p->out, sizeof(p->out), "%s/%zu.out", folder, n);
	snprintf(p->err, sizeof(p->err), "%s/%zu.err", folder, n);
	close(open(p->out, O_WRONLY | O_CREAT, 0666));
	close(open(p->err, O_WRONLY | O_CREAT, 0666));
	p->pid = fork();
	if (p->pid == 0) {
		exec_program(f, p, uid, argv);
	}
	assert_true(p->pid > 0);
	return p;
}

/* Appends the strings of ap to argv, which has n already. */
static void collect(const char **argv, size_t n, va_list ap)
{
	do {
		assert_true(n < ARGUMENTS_MAX);
		argv[n] = va_arg(ap, const char *);
	} while (argv[n++]);
}

struct program *fixture_run(struct fixture *f, int uid, const char *path, ...)
{
	const char *argv[ARGUMENTS_MAX] = { path };
	va_list ap;

	va_start(ap, path);
	collect(argv, 1, ap);
	va_end(ap);
	return fixture_runv(f, uid, argv);
}

struct program *fixture_client(struct fixture *f, int uid, ...)
{
	const char *argv[ARGUMENTS_MAX] = { CLIENT };
	va_list ap;

	va_start(ap, uid);
	collect(argv, 1, ap);
	va_end(ap);
	return fixture_runv(f, uid, argv);
}

static void wait_for_daemon(struct fixture *f, struct program *daemon)
{
	f->daemon = daemon;
	expect_text_soon(f->daemon->err, "listening on");
	expect_text_soon(f->daemon->err, " GPUs, driver ");
}

void fixture_start_daemon(struct fixture *f, ...)
{
	const char *argv[ARGUMENTS_MAX] = { TEST_DAEMON, "-s",
					    f->socket,	 "-v",
					    "--set",	 "allow-users=*",
					    "--set",	 "captures-per-minute=10000000",
					    "--set",	 "permissions-per-minute=10000000",
					    "--set",	 "questions-per-minute=10000000" };
	va_list ap;

	va_start(ap, f);
	collect(argv, 12, ap);
	va_end(ap);
	wait_for_daemon(f, fixture_runv(f, USER_SELF, argv));
}

void fixture_start_strict_daemon(struct fixture *f, ...)
{
	const char *argv[ARGUMENTS_MAX] = { TEST_DAEMON, "-s", f->socket, "-v" };
	va_list ap;

	va_start(ap, f);
	collect(argv, 4, ap);
	va_end(ap);
	wait_for_daemon(f, fixture_runv(f, USER_SELF, argv));
}

int fixture_open_socket_at(const char *path)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 1024), 0);
	return fd;
}

int fixture_open_socket(struct fixture *f)
{
	return fixture_open_socket_at(f->socket);
}

/* Starts a shell that becomes the program, with the pid that it has told. It knows descriptors of
 * one digit only, and none of those that are passed may be where another is to be. */
struct program *fixture_activate(struct fixture *f, int uid, const int *sockets, size_t n,
				 const char *path, ...)
{
	char script[128];
	const char *argv[ARGUMENTS_MAX] = { "/bin/sh", "-c", script, path };
	int passed[3], at;
	struct program *p;
	va_list ap;

	assert_true(n <= ARRAY_SIZE(passed));
	at = snprintf(script, sizeof(script),
		      "export LISTEN_FDS=%zu LISTEN_PID=$$; exec \"$0\" \"$@\"", n);
	for (size_t i = 0; i < n; i++) {
		passed[i] = fcntl(sockets[i], F_DUPFD, 3 + (int)n);
		assert_true(passed[i] >= 3 && passed[i] <= 9);
		at += snprintf(script + at, sizeof(script) - (size_t)at, " %zu<&%d", 3 + i,
			       passed[i]);
	}
	va_start(ap, path);
	collect(argv, 4, ap);
	va_end(ap);
	p = fixture_runv(f, uid, argv);
	for (size_t i = 0; i < n; i++) {
		close(passed[i]);
	}
	return p;
}

struct program *fixture_activate_daemon(struct fixture *f, int socket, const char *setting)
{
	return fixture_activate(f, USER_SELF, &socket, 1, TEST_DAEMON, "-v", "--set", setting,
				NULL);
}

void fixture_start_activated_daemon(struct fixture *f, int socket)
{
	wait_for_daemon(f, fixture_activate_daemon(f, socket, "allow-users=*"));
}

void program_wait(struct program *p)
{
	uint64_t by = now_ms() + PATIENCE_MS;

	while (p->pid > 0) {
		pid_t pid = waitpid(p->pid, &p->status, WNOHANG);

		if (pid == p->pid) {
			p->pid = 0;
		} else if (now_ms() >= by) {
			fail_msg("pid %d does not end", (int)p->pid);
		} else {
			sleep_ms(2);
		}
	}
}

void program_kill(struct program *p, int signo)
{
	assert_true(p->pid > 0);
	assert_int_equal(kill(p->pid, signo), 0);
}

bool program_is_running(struct program *p)
{
	if (p->pid > 0 && waitpid(p->pid, &p->status, WNOHANG) == p->pid) {
		p->pid = 0;
	}
	return p->pid > 0;
}

void fixture_wait_for_orphans(struct fixture *f, void (*on_orphan)(pid_t pid, int status))
{
	uint64_t by = now_ms() + PATIENCE_MS;
	int status;

	for (;;) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		if (pid < 0 || pid == f->daemon->pid) {
			fail_msg("the daemon has ended");
		}
		if (pid > 0 && on_orphan) {
			on_orphan(pid, status);
		}
		if (pid == 0 && process_children(getpid()) == 1) {
			return;
		}
		assert_true(now_ms() < by);
		sleep_ms(1);
	}
}

void fixture_stop_daemon(struct fixture *f)
{
	struct program *daemon = f->daemon;

	f->daemon = NULL;
	program_kill(daemon, SIGTERM);
	expect_exit(daemon, 0);
}

void fixture_kill_daemon(struct fixture *f)
{
	program_kill(f->daemon, SIGKILL);
	program_wait(f->daemon);
	f->daemon = NULL;
}

pid_t process_child(pid_t parent, const char *name)
{
	char path[64], comm[32] = "";
	CLEAN_FREE char *children = NULL;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	children = read_file(path);
	for (char *p = children; p && *p;) {
		pid_t pid = (pid_t)strtol(p, &p, 10);
		CLEAN_FREE char *text = NULL;

		while (*p == ' ') {
			p++;
		}
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		text = read_file(path);
		snprintf(comm, sizeof(comm), "%s\n", name ? name : "");
		if (pid > 0 && (!name || (text && strcmp(text, comm) == 0))) {
			return pid;
		}
	}
	return 0;
}

static pid_t wait_child(pid_t parent, const char *name)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	pid_t pid;

	while ((pid = process_child(parent, name)) == 0) {
		if (now_ms() >= by) {
			fail_msg("pid %d has no child %s", (int)parent, name ? name : "");
		}
		sleep_ms(2);
	}
	return pid;
}

pid_t fixture_worker(const struct fixture *f, const char *name)
{
	return wait_child(f->daemon->pid, name);
}

pid_t fixture_child(const struct program *p)
{
	return wait_child(p->pid, NULL);
}

size_t process_descriptors(pid_t pid)
{
	char path[64];
	size_t n = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	while (d && readdir(d)) {
		n++;
	}
	if (d) {
		closedir(d);
	}
	return n < 2 ? 0
		     : n - 2 -
			       (pid ==
				getpid()); /* without ".", ".." and the descriptor of d itself */
}

long process_resident_kib(pid_t pid)
{
	char path[64];
	CLEAN_FREE char *text = NULL;
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	text = read_file(path);
	line = strstr(text, "RssAnon:");
	return line ? strtol(line + strlen("RssAnon:"), NULL, 10) : 0;
}

size_t process_children(pid_t pid)
{
	char path[64];
	CLEAN_FREE char *text = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)pid, (int)pid);
	text = read_file(path);
	for (const char *p = text; (p = strchr(p, ' ')) != NULL; p++) {
		n++;
	}
	return n;
}

bool process_is_asleep(pid_t pid)
{
	long switches[2] = { -1, -2 };

	for (int i = 0; i < 2; i++) {
		char path[64];
		CLEAN_FREE char *text = NULL;
		const char *line;

		snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
		text = read_file(path);
		line = strstr(text, "\nvoluntary_ctxt_switches:");
		if (!strstr(text, "State:\tS") || !line) {
			return false;
		}
		switches[i] = strtol(strchr(line, ':') + 1, NULL, 10);
		sleep_ms(5);
	}
	return switches[0] == switches[1];
}

void fixture_limit(unsigned seconds)
{
	alarm(seconds > TEST_LIMIT_S ? seconds : TEST_LIMIT_S);
}

/* --- expectations --- */

/* The last 8 KB; print_error() itself cuts off behind 1,023 characters. */
static void show_file(const char *name, const char *path)
{
	enum { SHOWN = 8000, AT_ONCE = 1000 };
	CLEAN_FREE char *text = read_file(path);
	size_t n = strlen(text);

	print_error("--- %s\n", name);
	for (size_t i = n > SHOWN ? n - SHOWN : 0; i < n; i += AT_ONCE) {
		print_error("%.*s", AT_ONCE, text + i);
	}
	print_error("\n---\n");
}

static void show(const struct program *p)
{
	show_file("stdout", p->out);
	show_file("stderr", p->err);
}

void expect_exit(struct program *p, int status)
{
	program_wait(p);
	if (!WIFEXITED(p->status) || WEXITSTATUS(p->status) != status) {
		show(p);
		fail_msg("ended by %s %d instead of status %d",
			 WIFEXITED(p->status) ? "status" : "signal",
			 WIFEXITED(p->status) ? WEXITSTATUS(p->status) : WTERMSIG(p->status),
			 status);
	}
}

void expect_signal(struct program *p, int signo)
{
	program_wait(p);
	if (!WIFSIGNALED(p->status) || WTERMSIG(p->status) != signo) {
		show(p);
		fail_msg("not ended by signal %d (%x)", signo, (unsigned)p->status);
	}
}

void expect_output(struct program *p, const char *text)
{
	CLEAN_FREE char *out = read_file(p->out);

	assert_string_equal(out, text);
}

void expect_in_output(struct program *p, const char *text)
{
	if (count_text(p->out, text) == 0) {
		show(p);
		fail_msg("stdout is without '%s'", text);
	}
}

void expect_message(struct program *p, const char *text)
{
	if (count_message(p->err, text) == 0) {
		show(p);
		fail_msg("stderr is without '%s'", text);
	}
}

uint64_t message_number(struct program *p, const char *words)
{
	CLEAN_FREE char *text = read_file(p->err);
	const char *end = strstr(text, words), *at = end;
	uint64_t n = 0;

	while (at && at > text && (at[-1] == ',' || (at[-1] >= '0' && at[-1] <= '9'))) {
		at--;
	}
	for (; at && at < end; at++) {
		n = *at == ',' ? n : 10 * n + (uint64_t)(*at - '0');
	}
	return n;
}

void expect_no_message(struct program *p, const char *text)
{
	if (count_message(p->err, text) != 0) {
		show(p);
		fail_msg("stderr says '%s'", text);
	}
}

void expect_running(struct program *p)
{
	if (waitpid(p->pid, &p->status, WNOHANG) != 0) {
		p->pid = 0;
		show(p);
		fail_msg("has ended already (%x)", (unsigned)p->status);
	}
}

unsigned fixture_time(unsigned ms)
{
	return getenv("GPUCTR_TEST_FULL") ? ms : PATIENCE_MS;
}

static struct program *ask_for_service(struct fixture *f)
{
	struct program *p = fixture_client(f, USER_BOB, "--metrics", "dram__bytes_read.sum", "--",
					   FAKEAPP, "--kernels", "5", NULL);

	program_wait(p);
	return p;
}

static bool has_served(const struct program *p)
{
	return WIFEXITED(p->status) && WEXITSTATUS(p->status) == 0 &&
	       count_text(p->err, "5 measured") == 1;
}

static void fail_service(struct fixture *f, struct program *p, unsigned within_ms)
{
	show(p);
	show(f->daemon);
	fail_msg("no service within %u ms", within_ms);
}

void expect_service(struct fixture *f, unsigned within_ms)
{
	uint64_t begin = now_ms();
	struct program *p = ask_for_service(f);

	if (!has_served(p) || now_ms() - begin >= fixture_time(within_ms)) {
		fail_service(f, p, within_ms);
	}
}

void expect_service_soon(struct fixture *f, unsigned within_ms)
{
	uint64_t begin = now_ms();
	struct program *p;

	while (!has_served(p = ask_for_service(f))) {
		if (!WIFEXITED(p->status) || now_ms() - begin >= fixture_time(within_ms)) {
			fail_service(f, p, within_ms);
		}
		print_message("no service yet:\n");
		show(p);
		fixture_forget_programs(f, f->n_programs - 1);
		sleep_ms(20);
	}
}

/* --- end --- */

static int check_reports(const struct fixture *f, size_t first)
{
	static const char *const reports[] = { "AddressSanitizer", "LeakSanitizer",
					       "ThreadSanitizer",
					       "runtime error:", "cannot be encoded" };
	/* the last report also appears when memory is out */
	size_t n_reports = ARRAY_SIZE(reports) - (f->preloads_failures ? 1 : 0);
	int bad = 0;

	for (size_t i = first; i < f->n_programs; i++) {
		for (size_t k = 0; k < n_reports; k++) {
			if (count_text(f->programs[i].err, reports[k]) > 0) {
				show(&f->programs[i]);
				bad = -1;
			}
		}
	}
	return bad;
}

void fixture_forget_programs(struct fixture *f, size_t first)
{
	assert_int_equal(check_reports(f, first), 0);
	for (size_t i = first; i < f->n_programs; i++) {
		assert_int_equal(f->programs[i].pid, 0);
		unlink(f->programs[i].out);
		unlink(f->programs[i].err);
	}
	f->n_programs = first;
}

static int check_violations(const struct fixture *f)
{
	CLEAN_FREE char *text = read_file(fixture_path(f, "violations.log"));

	if (text[0] != '\0' && !f->violations_expected) {
		print_error("violations of CUPTI's rules:\n%.2000s\n", text);
		return -1;
	}
	return 0;
}

/* A profiler that is left enabled keeps the GPU's counters from others for as long as the program
 * lives, and its hooks in the driver make all threads' launches slow for as long.
 * tests/fake/README.md says what else may be left when a process ends. */
static int check_left(const struct fixture *f)
{
	CLEAN_FREE char *text = read_file(fixture_path(f, "left.log"));

	if ((strstr(text, " profilers ") || strstr(text, " hooks ") ||
	     strstr(text, " samplers ")) &&
	    !f->violations_expected && !f->preloads_failures) {
		print_error("left by programs at their end:\n%.2000s\n", text);
		return -1;
	}
	return 0;
}

/* A daemon that is told to end does so, with status 0, and leaves nothing behind. */
static int check_daemon(struct fixture *f)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	struct program *d = f->daemon;

	if (!d || d->pid == 0) {
		return 0;
	}
	kill(d->pid, SIGTERM);
	while (waitpid(d->pid, &d->status, WNOHANG) == 0) {
		if (now_ms() >= by) {
			print_error("the daemon does not stop\n");
			return -1;
		}
		sleep_ms(2);
	}
	d->pid = 0;
	if (d->status != 0) {
		show(d);
		print_error("the daemon ended with %x\n", (unsigned)d->status);
		return -1;
	}
	return 0;
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	int r = check_daemon(f);

	end_children();
	r = check_reports(f, 0) < 0 || check_violations(f) < 0 || check_left(f) < 0 ? -1 : r;
	if (getenv("GPUCTR_TEST_KEEP")) {
		print_message("kept: %s\n", f->folder);
	} else {
		remove_folder(f->folder);
	}
	keeper_note(KEEPER_FIXTURE, NULL);
	alarm(0);
	free(f);
	return r;
}
