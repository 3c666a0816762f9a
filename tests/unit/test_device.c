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

TEST(only_gpus_of_the_mask_are_asked_about)
{
	static struct device_list l = {
		.nvml = { .device_by_uuid = find, .compute_processes = processes },
		.devices = { { .uuid = "GPU-0" }, { .uuid = "GPU-1" } },
		.n = 2,
	};
	uint32_t gpus[4], pids[4];
	size_t n;

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

/* So many on each; a place behind the room says whether it was written to. */
static unsigned n_on[3];

static int find_counter(const char *uuid, void **ret)
{
	*ret = &n_on[uuid[4] - '0'];
	return 0;
}

static int count_processes(void *device, unsigned *count, struct vendor_nvml_process *ret)
{
	unsigned n = *(unsigned *)device;

	assert_true(n <= *count);
	*count = n;
	for (unsigned i = 0; i < n; i++) {
		ret[i] = (struct vendor_nvml_process){ .pid = 100 + i };
	}
	return 0;
}

/* What each GPU has fits by itself, and not beside what the others have. Then nothing is known, or
 * who came last would be left out; and nothing is written behind the list's end. */
TEST(tenants_of_all_gpus_share_the_room)
{
	enum { ROOM = 10, GUARD = 0xabcdef };
	static struct device_list l = {
		.nvml = { .device_by_uuid = find_counter, .compute_processes = count_processes },
		.devices = { { .uuid = "GPU-0" }, { .uuid = "GPU-1" }, { .uuid = "GPU-2" } },
		.n = 3,
	};
	size_t n;

	for (n_on[0] = 0; n_on[0] <= ROOM; n_on[0]++) {
		for (n_on[1] = 0; n_on[1] <= ROOM; n_on[1]++) {
			for (n_on[2] = 0; n_on[2] <= ROOM; n_on[2]++) {
				uint32_t gpus[3 * ROOM], pids[3 * ROOM];
				unsigned sum = n_on[0] + n_on[1] + n_on[2];

				gpus[ROOM] = pids[ROOM] = GUARD;
				assert_int_equal(device_list_tenants(&l, 7, gpus, pids, ROOM, &n),
						 sum <= ROOM);
				assert_true(sum > ROOM || n == sum);
				assert_int_equal(gpus[ROOM], GUARD);
				assert_int_equal(pids[ROOM], GUARD);
			}
		}
	}
}
