/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/footprint.h"

#include <sys/wait.h>
#include <unistd.h>

/* A worker may be replaced just now, so a look that fails is taken again. */

enum { THE_TEST = FOOTPRINT_PROCESSES - 1 };

static const char *const names[FOOTPRINT_PROCESSES] = { "gpucountd", "front",	"granter",
							"gpu",	     "planner", "the test" };

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
static const bool compares_memory = false;
#else
static const bool compares_memory = true;
#endif

static void look(struct fixture *f, struct footprint *ret)
{
	for (size_t i = 0; i < FOOTPRINT_PROCESSES; i++) {
		pid_t pid = i == 0	   ? f->daemon->pid
			    : i < THE_TEST ? fixture_worker(f, names[i])
					   : getpid();

		ret->of[i].descriptors = process_descriptors(pid);
		ret->of[i].children = process_children(pid);
		ret->of[i].resident_kib = process_resident_kib(pid);
	}
}

static bool equals(const struct footprint *a, const struct footprint *b)
{
	bool equal = true;

	for (size_t i = 0; i < FOOTPRINT_PROCESSES; i++) {
		equal = equal && a->of[i].descriptors == b->of[i].descriptors &&
			a->of[i].children == b->of[i].children;
	}
	return equal;
}

/* What just ended may still be closing. */
void footprint_take(struct fixture *f, struct footprint *ret)
{
	struct footprint last;

	look(f, ret);
	for (int calm = 0; calm < 5;) {
		last = *ret;
		sleep_ms(10);
		look(f, ret);
		calm = equals(&last, ret) ? calm + 1 : 0;
	}
}

/* The first thing that is more than before, or NULL. */
static const char *find_growth(const struct footprint *before, const struct footprint *now,
			       size_t *ret)
{
	for (size_t i = 0; i < FOOTPRINT_PROCESSES; i++) {
		*ret = i;
		if (now->of[i].descriptors > before->of[i].descriptors) {
			return "descriptors";
		}
		if (now->of[i].children > before->of[i].children) {
			return "children";
		}
		if (compares_memory && i != THE_TEST &&
		    now->of[i].resident_kib > before->of[i].resident_kib + FOOTPRINT_GROWTH_KIB) {
			return "memory";
		}
	}
	return NULL;
}

static long worst_growth_kib(const struct footprint *before, const struct footprint *now)
{
	long worst = 0;

	for (size_t i = 0; i < THE_TEST; i++) {
		long growth = now->of[i].resident_kib - before->of[i].resident_kib;

		worst = growth > worst ? growth : worst;
	}
	return worst;
}

static char *read_children(pid_t parent)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)parent, (int)parent);
	return read_file(path);
}

static bool is_started_here(const struct fixture *f, pid_t pid)
{
	for (size_t i = 0; i < f->n_programs; i++) {
		if (f->programs[i].pid == pid) {
			return true;
		}
	}
	return pid == f->daemon->pid;
}

/* Children of a worker or daemon that was killed are the test's, and may end late. */
static void bury_orphans(const struct fixture *f)
{
	CLEAN_FREE char *pids = read_children(getpid());

	for (char *p = pids; *p;) {
		pid_t pid = (pid_t)strtol(p, &p, 10);

		if (!is_started_here(f, pid)) {
			waitpid(pid, NULL, WNOHANG);
		}
		p += strspn(p, " ");
	}
}

/* Who is there too many? */
static void show_children(pid_t parent)
{
	char path[64];
	CLEAN_FREE char *pids = read_children(parent);

	for (char *p = pids; *p;) {
		CLEAN_FREE char *text = NULL;

		snprintf(path, sizeof(path), "/proc/%ld/stat", strtol(p, &p, 10));
		text = read_file(path);
		print_message("child: %.40s\n", text);
		p += strspn(p, " ");
	}
}

long expect_no_leak(struct fixture *f, const struct footprint *before)
{
	uint64_t by = now_ms() + PATIENCE_MS;
	struct footprint now;
	const char *what;
	size_t i;

	for (;;) {
		bury_orphans(f);
		look(f, &now);
		what = find_growth(before, &now, &i);
		if (!what || now_ms() >= by) {
			break;
		}
		sleep_ms(10);
	}
	if (what) {
		show_children(i == THE_TEST ? getpid() : f->daemon->pid);
		fail_msg("%s has more %s: %zu descriptors, %zu children, %ld KiB; before %zu, "
			 "%zu, %ld",
			 names[i], what, now.of[i].descriptors, now.of[i].children,
			 now.of[i].resident_kib, before->of[i].descriptors, before->of[i].children,
			 before->of[i].resident_kib);
	}
	expect_no_owner(f);
	expect_no_objects(f);
	return worst_growth_kib(before, &now);
}
