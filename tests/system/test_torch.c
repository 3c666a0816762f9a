/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/system/fixture.h"

#include <limits.h>
#include <stdlib.h>

/* `run --torch`: what the client gives the program, what it refuses, and what it says at the end.
 * torch_option.py tests what Python then does with it. */

static const char print_variables[] =
	"import os, sys; print(os.environ['GPUCTR_TORCH'], os.environ['PYTHONPATH'])";

/* Python leaves memory at its end, which is no finding of ours. */
static struct program *run_python(struct fixture *f, const char *option, const char *text)
{
	bool checked = fixture_check_leaks(false);
	struct program *p =
		fixture_client(f, USER_SELF, "-q", option, "--metrics", "dram__bytes_read.sum",
			       "--", "python3", "-c", text, NULL);

	fixture_check_leaks(checked);
	return p;
}

static void expect_variables(struct program *client, const char *what, const char *behind)
{
	CLEAN_FREE char *full = realpath(TEST_AGENT, NULL);
	char text[2 * PATH_MAX];

	assert_non_null(full);
	*strrchr(full, '/') = '\0';
	snprintf(text, sizeof(text), "%s %s/python%s\n", what, full, behind);
	expect_exit(client, 0);
	expect_output(client, text);
}

SYSTEM_TEST(pythonpath_is_kept)
{
	struct fixture *f = *state;

	fixture_start_daemon(f, NULL);
	unsetenv("PYTHONPATH");
	expect_variables(run_python(f, "--torch", print_variables), "operators", "");
	setenv("PYTHONPATH", "/no/such:/folders", 1);
	expect_variables(run_python(f, "--torch=modules", print_variables), "modules",
			 ":/no/such:/folders");
	unsetenv("PYTHONPATH");
}

SYSTEM_TEST(torch_takes_modules_alone)
{
	struct fixture *f = *state;
	struct program *p = fixture_client(f, USER_ANN, "--torch=layers", "--", "true", NULL);

	expect_exit(p, 125);
	expect_message(p, "--torch: 'layers' is not modules");
	p = fixture_client(f, USER_ANN, "--torch-modules", "--", "true", NULL);
	expect_exit(p, 125);
	expect_message(p, "'--torch-modules' is gone: --torch=modules does that");
}

SYSTEM_TEST(the_program_has_operators)
{
	static const char program[] = "import torch, sys\n"
				      "torch.cuda._lazy_init()\n"
				      "torch.op('relu')\n"
				      "print(', '.join(torch.log))\n"
				      "sys.exit(3)\n";
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	setenv("PYTHONPATH", TEST_TORCH, 1);
	client = run_python(f, "--torch", program);
	unsetenv("PYTHONPATH");
	expect_exit(client, 3);
	expect_output(client, "cuda, enable NVTX shapes, marker relu\n");
}

/* An agent alone, as it was brought somewhere before there was the folder. */
SYSTEM_TEST(a_missing_file_is_refused_first)
{
	struct fixture *f = *state;
	struct program *client;
	char agent[PATH_MAX];

	snprintf(agent, sizeof(agent), "%s", fixture_path(f, "libgpuctr-agent.so"));
	client = fixture_client(f, USER_SELF, "--torch", "--agent", agent, "--", FAKEAPP, NULL);
	expect_exit(client, 125);
	expect_message(client, "python/sitecustomize.py cannot be read");
	expect_message(client, "Install gpuctr-agent");
}

static struct program *run_fakeapp(struct fixture *f, const char *option, const char *ranges)
{
	return fixture_client(f, USER_SELF, "--metrics", "dram__bytes_read.sum", option, "--",
			      FAKEAPP, "--kernels", "4", "--nvtx", ranges, NULL);
}

SYSTEM_TEST(operators_are_missed_where_none_came)
{
	static const char text[] = "--torch: no operator of PyTorch was seen";
	struct fixture *f = *state;
	struct program *client;

	fixture_start_daemon(f, NULL);
	client = run_fakeapp(f, "--torch", "--outer");
	expect_exit(client, 0);
	expect_message(client, text);
	client = run_fakeapp(f, "--torch", "--operators");
	expect_exit(client, 0);
	expect_no_message(client, text);
	client = run_fakeapp(f, "--quiet", "--outer");
	expect_exit(client, 0);
	expect_no_message(client, text);
}
