/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <sys/stat.h>

/* What the stream and exports say, against the capture file (outputs.py); and the files themselves.
 */

#define METRICS "dram__bytes_read.sum,dram__bytes_write.sum"
#define SCRIPT TEST_SOURCE "/tests/system/outputs.py"

static void export_to(struct fixture *f, const char *format, const char *path)
{
	expect_exit(fixture_client(f, USER_ANN, "export", fixture_path(f, "run.gpuctr"), "--to",
				   format, "-f", "-o", path, NULL),
		    0);
}

/* Two processes, with kernels, graphs and NVTX ranges. */
static void compare_outputs(struct fixture *f, const char *how)
{
	const char *stream = fixture_path(f, "stream.jsonl");
	const char *csv = fixture_path(f, "export.csv"), *jsonl = fixture_path(f, "export.jsonl");

	expect_exit(fixture_client(f, USER_ANN, how, "-f", "-o", fixture_path(f, "run.gpuctr"),
				   stream_to(stream), "--", FAKEAPP, "--kernels", "40",
				   "--children", "1", "--nvtx", "--operators", "--graph",
				   "--graph-launches", "5", "--grids", "13", "--blocks", "6000",
				   "--sleep-us", "400", NULL),
		    0);
	export_to(f, "csv", csv);
	export_to(f, "jsonl", jsonl);
	expect_exit(fixture_run(f, USER_SELF, "/usr/bin/python3", SCRIPT,
				fixture_path(f, "run.gpuctr"), stream, csv, jsonl, NULL),
		    0);
}

SAMPLING_TEST(columns_hold_what_their_names_say)
{
	static const char *const ways[] = { "--metrics=" METRICS ",sm__inst_executed.sum",
					    "--mode=trace", "--mode=sample" };
	struct fixture *f = *state;

	fixture_need_no_thread_sanitizer(FOREIGN_PROGRAMS);
	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(ways); i++) {
		compare_outputs(f, ways[i]);
	}
}

static void expect_mode(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	if ((st.st_mode & 0777) != mode) {
		fail_msg("%s has mode %o, not %o", path, (unsigned)st.st_mode & 0777,
			 (unsigned)mode);
	}
}

/* As of any program: what the umask leaves, for files that are new and that are replaced. */
SYSTEM_TEST(files_have_the_mode_that_the_umask_leaves)
{
	static const struct {
		const char *umask;
		mode_t mode;
	} cases[] = { { "0077", 0600 }, { "0022", 0644 }, { "0007", 0660 }, { "0022", 0644 } };
	static const char script[] =
		"set -e; umask $1; cd $2; c=$3; "
		"$c --metrics=" METRICS " -q -f -o run.gpuctr --stream=run.jsonl "
		"-- $4 --nvtx; "
		"$c -q -f -o rank%r.gpuctr -- $4; "
		"for t in csv jsonl chrome folded pyprof; do "
		"$c export run.gpuctr --to $t -f -o export.$t; done; "
		"$c export run.gpuctr --to csv > redirected.csv; "
		"$c report run.gpuctr -f --html page.html";
	static const char *const files[] = { "run.gpuctr",    "run.jsonl",     "ranknone.gpuctr",
					     "export.csv",    "export.jsonl",  "export.chrome",
					     "export.folded", "export.pyprof", "redirected.csv",
					     "page.html" };
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct program *p = fixture_run(f, USER_ANN, "/bin/sh", "-c", script, "sh",
						cases[i].umask, f->folder, CLIENT, FAKEAPP, NULL);

		expect_exit(p, 0);
		for (size_t k = 0; k < ARRAY_SIZE(files); k++) {
			bool is_capture = strstr(files[k], ".gpuctr") != NULL;

			/* SQLite lets others read at most. The shell writes into what is there. */
			if (i == 0 || strcmp(files[k], "redirected.csv") != 0) {
				expect_mode(fixture_path(f, files[k]),
					    cases[i].mode & (is_capture ? 0644 : 0666));
			}
		}
	}
}
