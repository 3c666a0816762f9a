/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/unit.h"

#include "client/cli/visible.h"

static const struct gpuctr_gpu gpus[] = { { .uuid = "GPU-aa10-1" },
					  { .uuid = "GPU-aa20-2" },
					  { .uuid = "GPU-bb30-3" },
					  { .uuid = "GPU-cc40-4" } };

/* "02": the indices that are left; "?": only CUDA knows. */
static void expect(const char *list, const char *numbered, const char *unnumbered)
{
	for (int k = 0; k < 2; k++) {
		size_t chosen[64];
		char text[8] = "?";
		int n = visible_choose(list, gpus, ARRAY_SIZE(gpus), k == 0, chosen);

		for (int i = 0; i <= n; i++) {
			text[i] = i < n ? (char)('0' + chosen[i]) : '\0';
		}
		assert_string_equal(text, k == 0 ? numbered : unnumbered);
	}
}

TEST(numbers_are_counted_as_cuda_does)
{
	expect("0", "0", "?");
	expect("2,0", "20", "?");
	expect("3, 1", "31", "?");
	expect("0,1,2,3", "0123", "?");
}

TEST(an_entry_that_is_none_hides_what_follows)
{
	expect("", "", "");
	expect("-1", "", "");
	expect("NoDevFiles", "", "");
	expect("1,4,2", "1", "?");
	expect("1,-1,2", "1", "?");
	expect("1,,2", "1", "?");
	expect("2x,1", "", "?");
	expect("99999999999999999999", "", "?");
	expect("1,2,1", "", "?");
}

TEST(uuids_are_known_by_how_they_begin)
{
	expect("GPU-bb30-3", "2", "2");
	expect("GPU-c,GPU-aa2", "31", "31");
	expect("GPU-aa", "", ""); /* two */
	expect("GPU-", "", "");
	expect("GPU-dd,GPU-bb", "", "");
	expect("GPU-bb,GPU-dd,GPU-cc", "2", "2");
	expect("GPU-bb,GPU-bb30", "", "");
	expect("MIG-GPU-aa10-1/1/0", "?", "?");
	expect("MIG-5b3c", "?", "?");
}
