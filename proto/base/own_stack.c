/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/own_stack.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

/* A stack is a mapping with an inaccessible page in front. One stack of ordinary size is kept for
 * the next call of any thread; a thread that finds it in use makes its own. In the child of a fork
 * it is free, or in use for ever by a thread that the child does not have: then the child makes
 * another one. */

enum { KEPT_BYTES = 2 * OWN_STACK_BYTES - 65536 }; /* too few for a huge page of 2 MiB */

struct call {
	void (*f)(void *argument);
	void *argument;
};

static _Atomic(void *) kept;

/* makecontext() passes numbers of the size of int. */
static void begin(unsigned high, unsigned low)
{
	const struct call *call = (const struct call *)((uintptr_t)high << 32 | low);

	call->f(call->argument);
}

static void *make(size_t bytes)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE);
	char *p = mmap(NULL, guard + bytes, PROT_NONE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);

	if (p == MAP_FAILED) {
		return NULL;
	}
	if (mprotect(p + guard, bytes, PROT_READ | PROT_WRITE) != 0) {
		munmap(p, guard + bytes);
		return NULL;
	}
	return p + guard;
}

static void discard(void *stack, size_t bytes)
{
	size_t guard = (size_t)sysconf(_SC_PAGESIZE);

	munmap((char *)stack - guard, guard + bytes);
}

static void *take(size_t bytes)
{
	void *stack = bytes == KEPT_BYTES ? atomic_exchange(&kept, NULL) : NULL;

	return stack ? stack : make(bytes);
}

static void give_back(void *stack, size_t bytes)
{
	void *none = NULL;

	if (bytes != KEPT_BYTES || !atomic_compare_exchange_strong(&kept, &none, stack)) {
		discard(stack, bytes);
	}
}

/* Fills set with all signals except those that the code itself may raise, which would end the
 * program if they were blocked. */
static void block_signals(sigset_t *set)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP, SIGABRT, SIGSYS };

	sigfillset(set);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++) {
		sigdelset(set, own[i]);
	}
}

/* Lies at the stack's upper end, because one context takes a KiB. */
struct contexts {
	_Alignas(64) ucontext_t thread;
	ucontext_t own;
	struct call call;
};

static bool run(char *stack, size_t bytes, const struct call *call)
{
	struct contexts *c = (struct contexts *)(stack + bytes) - 1;

	c->call = *call;
	if (getcontext(&c->own) != 0) {
		return false;
	}
	c->own.uc_stack.ss_sp = stack;
	c->own.uc_stack.ss_size = bytes - sizeof(*c);
	c->own.uc_link = &c->thread;
	block_signals(&c->own.uc_sigmask);
	makecontext(&c->own, (void (*)(void))begin, 2, (unsigned)((uintptr_t)&c->call >> 32),
		    (unsigned)(uintptr_t)&c->call);
	return swapcontext(&c->thread, &c->own) == 0;
}

bool own_stack_run(size_t bytes, void (*f)(void *argument), void *argument)
{
	const struct call call = { f, argument };
	void *stack;
	bool done;

	bytes = (bytes + 2 * sizeof(struct contexts)) & ~(size_t)63;
	bytes = bytes <= KEPT_BYTES ? KEPT_BYTES : bytes;
	stack = bytes <= OWN_STACK_MAX_BYTES ? take(bytes) : NULL;
	if (!stack) {
		return false;
	}
	done = run(stack, bytes, &call);
	give_back(stack, bytes);
	return done;
}
