/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "daemon/gpu/device.h"

/* Two GPUs; NVML tells of the first that process 4711 computes there, and of the second nothing. */

static unsigned asked;

static int find(const char *uuid, void **ret)
{
	*ret = strcmp(uuid, "GPU-0") == 0 ? &asked : NULL;
	return 0;
}

static int processes(void *device, unsigned *count, struct vendor_nvml_process *ret)
{
	asked++;
	if (!device) {
		return 999;
	}
	*count = 1;
	ret[0] = (struct vendor_nvml_process){ .pid = 4711 };
	return 0;
}

static void only_gpus_of_the_mask_are_asked_about(void **state)
{
	static struct device_list l = {
		.nvml = { .device_by_uuid = find, .compute_processes = processes },
		.devices = { { .uuid = "GPU-0" }, { .uuid = "GPU-1" } },
		.n = 2,
	};
	uint32_t gpus[4], pids[4];
	size_t n;

	(void)state;
	asked = 0;
	assert_true(device_list_tenants(&l, 1, gpus, pids, ARRAY_SIZE(gpus), &n));
	assert_int_equal(asked, 1);
	assert_int_equal(n, 1);
	assert_int_equal(gpus[0], 0);
	assert_int_equal(pids[0], 4711);
	assert_false(device_list_tenants(&l, 2, gpus, pids, ARRAY_SIZE(gpus), &n));
	assert_int_equal(n, 0);
	assert_false(device_list_tenants(&l, 3, gpus, pids, ARRAY_SIZE(gpus), &n));
	assert_false(device_list_tenants(&l, 1, gpus, pids, 0, &n)); /* no room: not known */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_gpus_of_the_mask_are_asked_about),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
