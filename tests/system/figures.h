/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Values from samples, against what the fakes' kernels do: so much for each thread
 * (tests/fake/README.md). */

#include <stddef.h>

struct fixture;

struct figures {
	size_t known, within; /* of three told errors */
	double told, true_sum;
};

/* Of a stream of records, whose kernels must all be labelled as sampled. */
struct figures figures_of_metric(const char *path, const char *metric, double of_thread);

/* The same of the bytes read. */
struct figures figures_of(const char *path);

/* Whatever the machine left of them is right: so many are within three errors, and together they
 * are off by less than a part, which little alone need not be. Tells them. */
void figures_expect(const struct figures *f, size_t percent_within, double part);

/* What the file keeps of samples gives the same values as stand in its records. */
void figures_expect_again(struct fixture *f, const char *path);
