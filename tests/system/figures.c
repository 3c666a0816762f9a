/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/figures.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/system/lines.h"
#include "tests/system/fixture.h"

enum { FEW = 300 };

struct figures figures_of_metric(const char *path, const char *metric, double of_thread)
{
	struct figures f = { 0 };
	struct lines l;
	char null[100];

	snprintf(null, sizeof(null), "\"%s\":null", metric);
	lines_load(&l, path);
	for (size_t i = 0; i < lines_count(&l, "kernel"); i++) {
		const char *line = lines_at(&l, "kernel", i);
		double truth, value;

		assert_non_null(strstr(line, "\"sampled\":true"));
		if (!strstr(line, null)) {
			truth = of_thread * line_number_at(line, "grid", 0) *
				line_number_at(line, "block", 0);
			value = line_number(line, metric);
			f.known++;
			f.within += fabs(value - truth) <=
				    3 * line_number(strstr(line, "\"errors\":"), metric);
			f.told += value;
			f.true_sum += truth;
		}
	}
	lines_deinit(&l);
	return f;
}

struct figures figures_of(const char *path)
{
	return figures_of_metric(path, "dram__bytes_read.sum", 16);
}

void figures_expect(const struct figures *f, size_t percent_within, double part)
{
	double off = f->known > 0 ? f->told / f->true_sum - 1 : 0;

	print_message("%zu kernels have values, %zu within three errors; total %+.3f %%\n",
		      f->known, f->within, 100 * off);
	assert_true(f->within >= f->known * percent_within / 100);
	assert_true(f->known < FEW || fabs(off) < part);
}

void figures_expect_again(struct fixture *f, const char *path)
{
	static const char *const options[] = { NULL, "--attribute" };
	char *texts[ARRAY_SIZE(options)];

	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		struct program *p = fixture_client(f, USER_ANN, "report", path, "--by",
						   "kernel,shape", "--json", options[i], NULL);

		expect_exit(p, 0);
		texts[i] = read_file(p->out);
	}
	assert_non_null(strstr(texts[0], "\"error\""));
	assert_string_equal(texts[1], texts[0]);
	free(texts[0]);
	free(texts[1]);
}
