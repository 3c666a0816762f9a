/* SPDX-License-Identifier: Apache-2.0 */
/* The daemon's workers end by _exit(), of which LeakSanitizer does not know, so the check for leaks
 * is made here before. A child that was forked by a program with threads is not checked: another
 * thread may have held the sanitizer's locks, which gcc 12's sanitizer does not take before a fork,
 * and the check would never end. Without that sanitizer this changes nothing. */

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

void __lsan_do_leak_check(void) __attribute__((weak));

static pid_t first_pid;

__attribute__((constructor)) static void on_load(void)
{
	first_pid = getpid();
}

static int is_worker(void)
{
	static const char *const workers[] = { "front", "granter", "gpu", "planner" };
	char name[16] = "";

	prctl(PR_GET_NAME, name);
	for (size_t i = 0; i < sizeof(workers) / sizeof(workers[0]); i++) {
		if (strcmp(name, workers[i]) == 0) {
			return 1;
		}
	}
	return 0;
}

/* The sanitizer calls this. */
EXPORT int __lsan_is_turned_off(void);
EXPORT int __lsan_is_turned_off(void)
{
	return getpid() != first_pid && !is_worker();
}

EXPORT __attribute__((noreturn)) void _exit(int status)
{
	if (__lsan_do_leak_check && is_worker()) {
		__lsan_do_leak_check();
	}
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}
