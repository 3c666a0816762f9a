/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "client/agent/capture.h"
#include "client/agent/functions.h"

/* The kernels that a thread remembers: one that it remembers is not looked at again. */

static struct capture c = { .number = 1 };
static size_t n_looked; /* how often a name was compared with the filter */

/* --- instead of the rest of the agent --- */

bool filter_selects(struct filter *f, const char *mangled)
{
	(void)f;
	n_looked++;
	return strcmp(mangled, "other") != 0;
}

bool guard_name_is_collective(const char *name)
{
	return strncmp(name, "nccl", 4) == 0;
}

uint32_t intern_function(struct intern *in, const char *name, uint32_t static_shared_bytes,
			 uint32_t registers)
{
	(void)in;
	(void)name;
	(void)static_shared_bytes;
	(void)registers;
	return 1;
}

/* --- the tests --- */

/* The driver's handles are addresses, as far apart as what they point to is long. */
static CUfunction handle_of(size_t i, size_t apart)
{
	return (CUfunction)(0x55d0c0de4010 + i * apart);
}

static struct function *find(size_t i, size_t apart)
{
	char name[32];

	snprintf(name, sizeof(name), "kernel%zu", i);
	return functions_find(&c, handle_of(i, apart), 1, name);
}

/* How many of n kernels, launched in turns, are looked at again. */
static size_t count_forgotten(size_t n, size_t apart)
{
	for (size_t i = 0; i < n; i++) {
		assert_non_null(find(i, apart));
	}
	n_looked = 0;
	for (size_t i = 0; i < n; i++) {
		assert_non_null(find(i, apart));
	}
	return n_looked;
}

struct row {
	size_t n, apart;
	size_t most; /* forgotten */
	size_t forgotten;
};

static void *count_in_a_thread(void *argument)
{
	struct row *row = argument;

	row->forgotten = count_forgotten(row->n, row->apart);
	return NULL;
}

/* A program has hundreds, and no two of them may throw each other out at every launch. */
TEST(a_thread_remembers_its_kernels)
{
	struct row rows[] = {
		{ 8, 4096 * 128, 0 }, { 64, 16, 0 },   { 512, 16, 0 },
		{ 512, 48, 0 },	      { 512, 336, 0 }, { 1024, 16, 16 },
	};
	pthread_t thread;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_int_equal(pthread_create(&thread, NULL, count_in_a_thread, &rows[i]), 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		print_message("%zu kernels, %zu bytes apart: %zu forgotten\n", rows[i].n,
			      rows[i].apart, rows[i].forgotten);
		assert_true(rows[i].forgotten <= rows[i].most);
	}
}

/* A module that was unloaded left its handles to another one. */
TEST(a_handle_may_become_another_kernels)
{
	struct function *f = functions_find(&c, handle_of(0, 16), 1, "ncclKernel");

	assert_true(f->collective && f->selected);
	f->is_loaded = true;
	f = functions_find(&c, handle_of(0, 16), 1, "other");
	assert_string_equal(f->name, "other");
	assert_false(f->collective || f->selected || f->is_loaded);
	assert_ptr_not_equal(functions_find(&c, handle_of(0, 16), 2, "other"), f);
}

/* What a filter said, and what was proved, holds for one capture. */
TEST(another_capture_looks_again)
{
	struct function *f = find(7, 16);

	f->proofs = 3;
	n_looked = 0;
	assert_ptr_equal(find(7, 16), f);
	assert_int_equal(n_looked, 0);
	c.number++;
	assert_ptr_equal(find(7, 16), f);
	assert_int_equal(n_looked, 1);
	assert_int_equal(f->proofs, 0);
}
