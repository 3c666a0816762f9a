/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Launches, marks and devices as text: what fakefields says that it did, or what one output tells
 * of it. Each reader brings its output into the same form, so that two accounts can be compared
 * field by field. */

#include <gpuctr/gpuctr.h>

#include <stddef.h>

#include "tests/fake/fields.h"

enum { ACCOUNT_TEXT_MAX = 1024, ACCOUNT_LAUNCHES_MAX = 16, ACCOUNT_OTHERS_MAX = 4 };

typedef char account_launch[N_FIELDS][ACCOUNT_TEXT_MAX];

struct account {
	account_launch launches[ACCOUNT_LAUNCHES_MAX];
	unsigned indexes[ACCOUNT_LAUNCHES_MAX];
	size_t n_launches;
	unsigned pid; /* of the process that came last */
	struct account_mark {
		char thread[16], time_ns[24], until_ns[24];
		char stack[ACCOUNT_TEXT_MAX]; /* the mark is the last one; "": not told */
		char own[ACCOUNT_TEXT_MAX];
	} marks[ACCOUNT_OTHERS_MAX];
	size_t n_marks;
	char devices[ACCOUNT_OTHERS_MAX][256]; /* INDEX UUID NAME SM MEMORY, behind tabs */
	size_t n_devices;
};

/* As outputs call them; those of metrics are the metrics' own. */
extern const char *const account_fields[N_FIELDS];

/* Free with free(). The program's account has also what follows from the rules of the fakes. */
struct account *account_of_program(const char *path);
struct account *account_of_jsonl(const char *path);
struct account *account_of_csv(const char *path);
struct account *account_of_capture(const char *path);

/* What a client of the library hears. Devices are kept from the process that came last. */
void account_add_process(struct account *a, const struct gpuctr_process *process);
void account_add_record(struct account *a, const struct gpuctr_record *record);
void account_add_mark(struct account *a, const struct gpuctr_mark *mark);

/* --- for readers --- */

/* The next one, empty. */
account_launch *account_new_launch(struct account *a, unsigned index);
struct account_mark *account_new_mark(struct account *a);

void account_add_device(struct account *a, const struct gpuctr_device *d);
void account_set(char *field, const char *format, ...) __attribute__((format(printf, 2, 3)));
void account_set_nvtx(account_launch *l, const struct gpuctr_site *range,
		      const struct gpuctr_occurrence *at, const struct gpuctr_site *const *active,
		      size_t n_active);

/* The field that an output has under this name, or N_FIELDS. */
enum field account_field_named(const char *name);
const char *account_kind(int kind); /* enum gpuctr_launch_kind */
