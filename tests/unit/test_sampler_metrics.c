/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cupti.h"

#include "client/sampler/metrics.h"
#include "client/sampler/stream.h"

/* What CUPTI can sample on a GH100, with its own host library. */

static struct host host;

static int configure(const char *const *metrics, size_t n, struct refusal *r)
{
	struct host_config config = { 0 };
	int code = metrics_configure(&host, metrics, n, &config, r);

	assert_true(code != 0 || config.passes == 1);
	host_config_deinit(&config);
	return code;
}

TEST(one_pass_is_taken)
{
	static const char *const metrics[] = { "dram__bytes_read.sum", "dram__bytes_write.sum",
					       "sm__inst_executed.sum", "sm__cycles_active.avg" };
	struct refusal r;

	assert_int_equal(configure(metrics, 1, &r), 0);
	assert_int_equal(configure(metrics, 2, &r), 0);
	assert_int_equal(configure(metrics, 4, &r), 0);
}

TEST(what_needs_another_pass_is_named)
{
	static const char *const metrics[] = { "dram__bytes_read.sum", "dram__bytes_write.sum",
					       "sm__inst_executed_pipe_tensor.sum" };
	struct refusal r;

	assert_int_equal(configure(metrics, 3, &r), SAMPLER_PASSES);
	assert_non_null(
		strstr(r.message, "need 2: sm__inst_executed_pipe_tensor.sum does not fit"));
}

TEST(what_cannot_be_sampled_is_named)
{
	static const char *const metrics[] = {
		"dram__bytes_read.sum", "lts__t_sectors_op_read.sum",
		"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum", "nonsense.sum"
	};
	struct refusal r;

	assert_int_equal(configure(metrics, 4, &r), SAMPLER_METRICS);
	assert_null(strstr(r.message, "dram__bytes_read"));
	assert_non_null(strstr(r.message, "lts__t_sectors_op_read.sum"));
	assert_non_null(strstr(r.message, "smsp__sass"));
	assert_non_null(strstr(r.message, "nonsense.sum on GH100"));
}

/* Metrics of the SMs are apart from others, and each set is of one pass. */
TEST(what_needs_several_passes_is_split)
{
	static const char *const metrics[] = {
		"dram__bytes_read.sum",
		"sm__inst_executed.sum",
		"sm__pipe_tensor_cycles_active.sum",
		"dram__bytes_write.sum",
		"l1tex__t_bytes.sum",
		"lts__t_sectors.sum",
	};
	static const uint8_t wanted[] = { 0, 1, 1, 0, 2, 0 };
	static struct metrics_set sets[SAMPLER_SETS_MAX];
	uint8_t numbers[ARRAY_SIZE(metrics)];
	struct refusal r;
	size_t n;

	assert_int_equal(
		metrics_split(&host, metrics, ARRAY_SIZE(metrics), true, sets, &n, numbers, &r), 0);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(sets[i].config.passes, 1);
		host_config_deinit(&sets[i].config);
	}
	assert_int_equal(n, 3);
	assert_memory_equal(numbers, wanted, sizeof(wanted));
	assert_int_equal(metrics_split(&host, metrics, 2, false, sets, &n, numbers, &r), 0);
	assert_int_equal(n, 1);
	host_config_deinit(&sets[0].config);
}

TEST(what_no_set_can_have_is_refused)
{
	static const char *const tensor[] = { "sm__inst_executed_pipe_tensor.sum" };
	static const char *const unknown[] = { "dram__bytes_read.sum", "lts__t_sectors_op_read.sum",
					       "nonsense.sum" };
	static struct metrics_set sets[SAMPLER_SETS_MAX];
	uint8_t numbers[3];
	struct refusal r;
	size_t n;

	assert_int_equal(metrics_split(&host, unknown, 3, true, sets, &n, numbers, &r),
			 SAMPLER_METRICS);
	assert_non_null(strstr(r.message, "lts__t_sectors_op_read.sum, nonsense.sum on GH100"));
	assert_int_equal(metrics_split(&host, tensor, 1, true, sets, &n, numbers, &r),
			 SAMPLER_PASSES);
	assert_non_null(strstr(r.message, "needs 2 passes by itself"));
}

int main(void)
{
	struct refusal r;
	int result = cupti_open();

	if (result != 0) {
		return result;
	}
	if (host_init_sampling(&host, &cupti, "GH100", &r) != 0) {
		fprintf(stderr, "%s\n", r.message);
		return 1;
	}
	result = unit_run();
	host_deinit(&host);
	return result;
}
