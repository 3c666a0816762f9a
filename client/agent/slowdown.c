/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent/slowdown.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Only the latest launches count: the first launches of a program also load their modules. */
enum { TIMES = 256, ENOUGH = 64 };

struct times {
	_Atomic uint32_t n;
	_Atomic uint32_t ns[TIMES];
};

static struct times plain, under;
static atomic_bool is_there;

static bool are_enough(const struct times *t)
{
	return atomic_load_explicit(&t->n, memory_order_relaxed) >= ENOUGH;
}

static struct times *present(void)
{
	return atomic_load_explicit(&is_there, memory_order_relaxed) ? &under : &plain;
}

bool slowdown_wants_more(void)
{
	return atomic_load_explicit(&present()->n, memory_order_relaxed) < TIMES;
}

void slowdown_note(uint64_t ns)
{
	struct times *t = present();
	uint32_t i = atomic_fetch_add_explicit(&t->n, 1, memory_order_relaxed);

	atomic_store_explicit(&t->ns[i % TIMES], ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX,
			      memory_order_relaxed);
}

bool slowdown_knows_plain(void)
{
	return atomic_load(&is_there) || are_enough(&plain);
}

void slowdown_begins(void)
{
	atomic_store(&is_there, true);
}

static int compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double lower_quartile(const struct times *t)
{
	uint32_t n = atomic_load(&t->n), v[TIMES];

	n = n < TIMES ? n : TIMES;
	for (uint32_t i = 0; i < n; i++) {
		v[i] = atomic_load_explicit(&t->ns[i], memory_order_relaxed);
	}
	qsort(v, n, sizeof(v[0]), compare);
	return v[n / 4];
}

double slowdown_by_ns(void)
{
	double by;

	if (!are_enough(&plain) || !are_enough(&under)) {
		return 0;
	}
	by = lower_quartile(&under) - lower_quartile(&plain);
	return by > 0 ? by : 0;
}

void slowdown_forget(void)
{
	memset(&plain, 0, sizeof(plain));
	memset(&under, 0, sizeof(under));
	atomic_store(&is_there, false);
}
