/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/claims.h"
#include "client/cli/expand.h"

/* Names of files with places in them, and what is put there. */

static const char *said[] = { "SLURM_JOB_ID=4711", "SLURM_STEP_ID=2", "SLURM_PROCID=3",
			      "SLURM_NODEID=1", "RANK=13" };

static struct claims of(const char **items, size_t n)
{
	return (struct claims){ .items = items, .n = n };
}

static void expect(const char *pattern, const struct claims *claims, const char *expected)
{
	char *path = expand_pattern(pattern, claims, 99);

	assert_string_equal(path, expected);
	free(path);
}

TEST(each_letter_has_its_value)
{
	struct claims all = of(said, ARRAY_SIZE(said));

	setenv("SLURMD_NODENAME", "n7", 1);
	expect("plain.gpuctr", &all, "plain.gpuctr");
	expect("%h/%j.%J.%n.%t.%r.%p.gpuctr", &all, "n7/4711.4711.2.1.3.13.99.gpuctr");
	expect("100%%.%%j", &all, "100%.%j");
	unsetenv("SLURMD_NODENAME");
}

TEST(one_stands_in_for_the_other)
{
	static const char *torchrun[] = { "RANK=5" }, *task[] = { "SLURM_PROCID=6" },
			  *script[] = { "SLURM_JOB_ID=8", "SLURM_STEP_ID=" },
			  *shell[] = { "SLURM_JOB_ID=8", "SLURM_STEP_ID=4294967290" };
	struct claims c = of(torchrun, 1);

	expect("%t.%r.%j.%J", &c, "5.5.none.none.none");
	c = of(task, 1);
	expect("%t.%r", &c, "6.6");
	c = of(script, 2);
	expect("%J", &c, "8.batch");
	c = of(shell, 2);
	expect("%J", &c, "8.interactive");
}

TEST(a_job_that_is_queued_again_has_other_names)
{
	static const char *first[] = { "SLURM_JOB_ID=8", "SLURM_RESTART_COUNT=0" },
			  *again[] = { "SLURM_JOB_ID=8", "SLURM_RESTART_COUNT=2" };
	struct claims c = of(first, 2);

	expect("%j.%J", &c, "8.8.batch");
	c = of(again, 2);
	expect("%j.%J", &c, "8r2.8r2.batch");
}

TEST(the_nearest_launcher_knows_the_rank)
{
	static const char *mpi[] = { "SLURM_PROCID=1", "OMPI_COMM_WORLD_RANK=4" };
	struct claims c = of(mpi, 2);

	expect("%t.%r", &c, "1.4");
}

/* Without Slurm: of PBS with PALS or mpiexec, of LSF's jsrun, of Kubernetes. */
TEST(other_schedulers_have_ranks)
{
	static const char *pals[] = { "PBS_JOBID=12[5].head", "PALS_RANKID=3" },
			  *hydra[] = { "PBS_JOBID=12.head", "PMI_RANK=4" },
			  *jsrun[] = { "LSB_JOBID=77", "LSB_JOBINDEX=2", "JSM_NAMESPACE_RANK=5" },
			  *alone[] = { "LSB_JOBID=77", "LSB_JOBINDEX=0" },
			  *pmix[] = { "LSB_JOBID=78", "PMIX_RANK=6", "PMI_RANK=0" },
			  *indexed[] = { "GPUCTR_JOB=train", "JOB_COMPLETION_INDEX=7" },
			  *torchrun[] = { "JOB_COMPLETION_INDEX=1", "RANK=9" };
	struct claims c = of(pals, 2);

	expect("%j.%t.%r", &c, "12_5_.head.3.3");
	c = of(hydra, 2);
	expect("%j.%r", &c, "12.head.4");
	c = of(jsrun, 3);
	expect("%j.%r", &c, "77_2_.5");
	c = of(alone, 2);
	expect("%j", &c, "77");
	c = of(pmix, 3);
	expect("%j.%r", &c, "78.6");
	c = of(indexed, 2);
	expect("%j.%r", &c, "train.7");
	c = of(torchrun, 2);
	expect("%j.%r", &c, "none.9");
}

TEST(a_value_names_no_folder)
{
	static const char *hostile[] = { "SLURM_JOB_ID=../../etc/cron.d/x", "SLURM_PROCID=.." };
	struct claims c = of(hostile, 2);

	expect("out/%j/%t", &c, "out/_._.._etc_cron.d_x/_.");
}

TEST(wrong_letters_are_found)
{
	assert_int_equal(expand_wrong("%h%u%j%J%n%t%r%p%%"), 0);
	assert_int_equal(expand_wrong("plain"), 0);
	assert_int_equal(expand_wrong("%%x%x"), 'x');
	assert_int_equal(expand_wrong("%j%"), '%');
	assert_true(expand_has("%j.%p", "p"));
	assert_false(expand_has("%%p.%j", "p"));
	assert_false(expand_has("p%", "p"));
}

TEST(folders_are_made)
{
	char root[] = "/tmp/gpuctr-unit.XXXXXX", path[128];

	assert_non_null(mkdtemp(root));
	snprintf(path, sizeof(path), "%s/a/b/file", root);
	assert_int_equal(expand_make_folders(path), 0);
	assert_int_equal(expand_make_folders(path), 0);
	snprintf(path, sizeof(path), "%s/a/b", root);
	assert_int_equal(rmdir(path), 0);
	snprintf(path, sizeof(path), "%s/a", root);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(root), 0);
	assert_int_equal(expand_make_folders("/proc/none/file"), -ENOENT);
}

TEST(ones_own_are_known)
{
	struct claims c;

	setenv("GPUCTR_JOB", "trainer-0", 1);
	c = claims_of_self();
	assert_string_equal(claims_find(&c, "GPUCTR_JOB"), "trainer-0");
	assert_null(claims_find(&c, "GPUCTR_JO"));
	unsetenv("GPUCTR_JOB");
}
