/* SPDX-License-Identifier: Apache-2.0 */

/* Slurm's side: the options of srun, sbatch and salloc, and the hooks around a task.
 *
 * Slurm loads this file into srun, sbatch, slurmd and slurmstepd. In srun and sbatch it takes
 * options. In slurmstepd it acts: before a task executes its program, it sets variables in the
 * task's environment, as the task's user; after the last task, it waits for the last records. It
 * never makes a job fail: it reports failures on the task's stderr, and the task runs unmeasured.
 *
 * A step that a measured script starts has inherited the script's token. On the script's node the
 * step takes part in the script's capture; on other nodes that capture is unknown, and the step
 * opens its own. The variable GPUCTR_SLURM_NODE names the script's node. */

#include <stdint.h> /* the next header needs it and does not include it */

#include <slurm/slurm.h>
#include <slurm/spank.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "client/slurm/follower.h"
#include "client/slurm/settings.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT extern const char plugin_name[], plugin_type[];
EXPORT extern const unsigned int plugin_version, spank_plugin_version;
const char plugin_name[] = "gpuctr";
const char plugin_type[] = "spank";
const unsigned int plugin_version = SLURM_VERSION_NUMBER;
const unsigned int spank_plugin_version = 1;

EXPORT spank_f slurm_spank_init, slurm_spank_user_init, slurm_spank_task_init,
	slurm_spank_task_exit, slurm_spank_exit;

static struct settings settings;
static struct follower *follower; /* captures of this step; NULL: none */
static uint32_t tasks_ended;

/* --- options --------------------------------------------------------------------------------- */

static int on_option(int value, const char *argument, int remote);

static struct spank_option options[] = {
	{ (char *)"gpuctr", (char *)"METRICS|standby|off",
	  (char *)"measure GPU kernels from the start, or let them be captured later", 1,
	  SETTINGS_GPUCTR, on_option },
	{ (char *)"gpuctr-output", (char *)"PATTERN",
	  (char *)"capture files: %h host %j job %J job.step %n node %t task %p pid", 1,
	  SETTINGS_OUTPUT, on_option },
	{ (char *)"gpuctr-filter", (char *)"NAME|regex:RE", (char *)"only these kernels", 1,
	  SETTINGS_FILTER, on_option },
	{ (char *)"gpuctr-wait", (char *)"SECONDS",
	  (char *)"for the GPUs, before a task runs unmeasured (default: 60)", 1, SETTINGS_WAIT,
	  on_option },
	SPANK_OPTIONS_TABLE_END,
};

/* Reports a wrong value on the submitting command line, and refuses it. */
static int on_option(int value, const char *argument, int remote)
{
	const char *wrong = settings_take_option(&settings, (enum settings_option)value, argument);

	if (wrong && !remote) {
		slurm_error("--%s: '%s' %s", options[value].name, argument ? argument : "", wrong);
	}
	return wrong ? -1 : 0;
}

int slurm_spank_init(spank_t spank, int ac, char **av)
{
	spank_context_t context = spank_context();

	if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE) {
		return 0;
	}
	settings_init(&settings);
	for (int i = 0; i < ac; i++) {
		const char *wrong = settings_take_word(&settings, av[i]);

		if (wrong) {
			slurm_error("gpuctr: plugstack.conf: '%s' %s", av[i], wrong);
		}
	}
	for (size_t i = 0; options[i].name; i++) {
		spank_option_register(spank, &options[i]);
	}
	return 0;
}

/* --- a task ---------------------------------------------------------------------------------- */

/* Prints to the task's standard error, which is this process's own between fork and exec. */
__attribute__((format(printf, 1, 2))) static void tell(const char *format, ...)
{
	char line[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof(line), format, args);
	va_end(args);
	dprintf(STDERR_FILENO, "gpuctr: %s\n", line);
}

/* The value of a variable; "": it is not set. */
static const char *get(spank_t spank, const char *name, char *value, size_t size)
{
	if (spank_getenv(spank, name, value, (int)size) != ESPANK_SUCCESS) {
		value[0] = '\0';
	}
	return value;
}

static bool is_of_other_node(spank_t spank)
{
	char of[256], here[256];

	get(spank, "GPUCTR_SLURM_NODE", of, sizeof(of));
	get(spank, "SLURMD_NODENAME", here, sizeof(here));
	return of[0] && strcmp(of, here) != 0;
}

/* May this plugin set its variables? It replaces its own, but not those of another tool or capture,
 * and reports this. */
static bool may_set(spank_t spank)
{
	char value[4096];
	const char *slash;

	if (*get(spank, "GPUCTR_TOKEN", value, sizeof(value))) {
		if (!is_of_other_node(spank)) {
			if (!*get(spank, "GPUCTR_SLURM_NODE", value, sizeof(value))) {
				tell("this task is part of another capture (GPUCTR_TOKEN is set); "
				     "--gpuctr leaves it alone");
			}
			return false;
		}
		spank_unsetenv(spank, "GPUCTR_TOKEN");
	}
	get(spank, "CUDA_INJECTION64_PATH", value, sizeof(value));
	slash = strrchr(value, '/');
	if (value[0] && strcmp(slash ? slash + 1 : value, "libgpuctr-agent.so") != 0) {
		tell("CUDA_INJECTION64_PATH names another tool (%.200s) and stays: this task is "
		     "not measured",
		     value);
		return false;
	}
	return true;
}

static void stand_by(spank_t spank)
{
	if (access(settings.agent, R_OK) < 0) {
		tell("the agent %s cannot be read (%s): this task cannot be captured; install "
		     "gpuctr-agent on the node, or name it in plugstack.conf with agent=",
		     settings.agent, strerror(errno));
		return;
	}
	spank_setenv(spank, "CUDA_INJECTION64_PATH", settings.agent, 1);
	spank_setenv(spank, "NVTX_INJECTION64_PATH", settings.agent, 1);
	spank_setenv(spank, "GPUCTR_SOCKET", settings.socket, 1);
	spank_setenv(spank, "GPUCTR_STANDBY", "1", 1);
}

static void set_variables(spank_t spank, const char *variables)
{
	char node[256];

	for (; *variables; variables += strlen(variables) + 1) {
		const char *equals = strchr(variables, '=');
		char name[64];

		if (equals && (size_t)(equals - variables) < sizeof(name)) {
			snprintf(name, sizeof(name), "%.*s", (int)(equals - variables), variables);
			spank_setenv(spank, name, equals + 1, 1);
		}
	}
	spank_setenv(spank, "GPUCTR_SLURM_NODE", get(spank, "SLURMD_NODENAME", node, sizeof(node)),
		     1);
	spank_unsetenv(spank, "GPUCTR_STANDBY");
}

static void say_unmeasured(spank_t spank, enum follower_result result, int error)
{
	char node[256];

	get(spank, "SLURMD_NODENAME", node, sizeof(node));
	if (result == FOLLOWER_LATE) {
		tell("the GPUs of %s were not ours within %u s (--gpuctr-wait): its tasks run "
		     "unmeasured",
		     node, settings.wait_s);
	} else if (result == FOLLOWER_FAILED) {
		tell("%s cannot be started on %s (%s): its tasks run unmeasured", settings.client,
		     node, strerror(error));
	} else {
		tell("the tasks of %s run unmeasured, for the reason above", node);
	}
}

static void measure(spank_t spank)
{
	struct follower_task task = { .settings = &settings };
	enum follower_result result;
	const char *variables;
	char gpus[1024];
	int argc;
	bool first;

	if (!follower || spank_get_item(spank, S_JOB_ARGV, &argc, &task.argv) != ESPANK_SUCCESS ||
	    spank_get_item(spank, S_JOB_ENV, &task.environment) != ESPANK_SUCCESS) {
		tell("Slurm tells nothing of this task: it is not measured");
		return;
	}
	/* SLURM_STEP_GPUS has the node's numbers; CUDA_VISIBLE_DEVICES may count from 0. */
	task.gpus = get(spank, "SLURM_STEP_GPUS", gpus, sizeof(gpus));
	if (!gpus[0]) {
		get(spank, "SLURM_JOB_GPUS", gpus, sizeof(gpus));
	}
	result = follower_join(follower, &task, &variables, &first);
	if (result == FOLLOWER_JOINED) {
		set_variables(spank, variables);
	} else if (first || result == FOLLOWER_LATE) {
		say_unmeasured(spank, result, errno);
	}
}

/* Is this a step that runs a program of the user? Slurm's own steps do not. */
static bool is_real_step(spank_t spank)
{
	uint32_t step = 0;

	return spank_remote(spank) == 1 &&
	       spank_get_item(spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS &&
	       step != SLURM_EXTERN_CONT;
}

/* --- hooks ----------------------------------------------------------------------------------- */

int slurm_spank_user_init(spank_t spank, int ac, char **av)
{
	if (is_real_step(spank) && settings.mode == SETTINGS_MEASURE) {
		follower = follower_open();
	}
	return 0;
}

int slurm_spank_task_init(spank_t spank, int ac, char **av)
{
	if (!is_real_step(spank)) {
		return 0;
	}
	if (settings.with_socket) { /* for a client that somebody starts in a step */
		spank_setenv(spank, "GPUCTR_SOCKET", settings.socket, 0);
	}
	if (settings.mode == SETTINGS_OFF || !may_set(spank)) {
		return 0;
	}
	if (settings.mode == SETTINGS_STANDBY) {
		stand_by(spank);
	} else {
		measure(spank);
	}
	return 0;
}

static void finish(void)
{
	if (!follower_close(follower, settings.drain_s)) {
		slurm_spank_log(
			"gpuctr: the last records had not come %u s after the last task; what "
			"the file has not got is lost",
			settings.drain_s);
	}
	follower = NULL;
}

int slurm_spank_task_exit(spank_t spank, int ac, char **av)
{
	uint32_t tasks = 0;

	if (follower && spank_get_item(spank, S_JOB_LOCAL_TASK_COUNT, &tasks) == ESPANK_SUCCESS &&
	    ++tasks_ended >= tasks) {
		finish();
	}
	return 0;
}

int slurm_spank_exit(spank_t spank, int ac, char **av)
{
	if (spank_remote(spank) == 1 && follower) {
		finish();
	}
	return 0;
}
